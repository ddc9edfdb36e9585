"""Repeated molecules are found by what they are, in whatever spelling, and told with what to do."""

from __future__ import annotations

import numpy as np
import pytest

from egt.sources.custom import repeats as module
from egt.sources.custom.repeats import repeats

pytest.importorskip("rdkit")
SMILES = ["CCO", "OCC", "CCN", "CCN", "CCC", ""]
CODES = np.array([0, 2, 0, 0, 1, 0], np.int8)
NONE = np.full((6, 1), np.nan)


def test_a_molecule_in_two_splits_is_found_in_another_spelling() -> None:
    [warning] = repeats([SMILES], NONE, CODES, classes=False)
    assert warning.startswith("1 molecules are in several splits (CCO: train and test)")
    assert "--set split=scaffold" in warning
    assert repeats([SMILES], NONE, np.zeros(6, np.int8), classes=False) == []


def test_different_classes_conflict_and_numbers_may_scatter() -> None:
    labels = np.array([[1.0], [0.0], [0.0], [0.0], [1.0], [np.nan]])
    [warning] = repeats([SMILES], labels, None, classes=True)
    assert warning == "1 molecules occur more than once with different labels (as CCO)"
    close = np.array([[1.0], [1.1], [3.0], [9.0], [5.0], [np.nan]])
    [warning] = repeats([SMILES], close, None, classes=False)
    assert "1 molecules occur more than once with labels that differ by more than" in warning
    assert warning.endswith("(as CCN)")


def test_many_rows_are_compared_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COMPARED", 3)
    assert repeats([SMILES], NONE, CODES, classes=False) == []
