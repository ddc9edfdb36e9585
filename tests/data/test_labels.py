"""Labels that deserve a second look before training are told, and others are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egt.data.columns import column_of_values
from egt.data.custom import open_custom
from egt.data.labels import label_doubts
from tests.cli.runs import SMILES, write_csv


@pytest.mark.parametrize("placeholder", [-9999, -999, 999, 99999, -99])
def test_numbers_for_missing_labels_are_told(placeholder: float) -> None:
    [found] = label_doubts("y", np.array([1.5, placeholder, 2.5, 3.0, placeholder]), ())
    assert found.startswith(f"2 labels of 'y' read {placeholder}")


def test_both_ends_may_have_placeholders() -> None:
    assert len(label_doubts("y", np.array([1.5, -999, 2.5, 3.0, 999]), ())) == 2


@pytest.mark.parametrize("labels", [[95.0, 97, 98, 99], [-99.0, -80, -60], [1.0, 2, 3], [999.0, 999, 999], []])
def test_labels_that_are_like_the_others_are_not(labels: list[float]) -> None:
    assert label_doubts("y", np.array(labels), ()) == []


def test_labels_over_many_powers_of_ten_are_told() -> None:
    potency = 10.0 ** np.linspace(-1, 5, 50)
    [found] = label_doubts("IC50 (nM)", potency, ())
    assert "log10 of 'IC50 (nM)'" in found
    assert label_doubts("pIC50", np.log10(potency), ()) == []
    assert label_doubts("y", np.append(np.linspace(1, 30, 99), 1e6), ()) == []  # one outlier is no spread


def test_classes_that_differ_in_capitals_are_told() -> None:
    column = column_of_values(["Active", "active", "inactive", "not  tested", "Not tested", "active"], "t")
    classes = ["Active", "Not tested", "active", "inactive", "not  tested"]
    found = label_doubts("outcome", column, classes)
    assert len(found) == 2
    assert "'Active' (1), 'active' (2)" in found[0]
    assert label_doubts("outcome", column, ["Active", "inactive"]) == []


def test_doubts_stand_among_the_warnings_before_training(tmp_path: Path) -> None:
    rows = [{"smiles": text, "y": -9999 if k == 3 else k / 7} for k, text in enumerate(SMILES)]
    assert any("-9999" in warning for warning in open_custom(write_csv(tmp_path / "t.csv", rows)).warnings())
