"""Graphs that are farther from training than validation graphs are get a warning, the others none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egt
from egt.errors import DataError
from egt.inference.ensemble import Ensemble
from egt.inference.neighbors import training_rows
from egt.inference.novelty import novelty_of
from egt.inference.predictor import Predictor
from tests.cli.runs import TINY, blocks, write_csv
from tests.inference.test_ensemble import TASKS, ensemble

FAMILIAR = ["C" * length + end for length in range(1, 11) for end in ("O", "N", "CO")]
STRANGE = "FC(F)(F)S(=O)(=O)c1ccc2c(c1)C(=O)c1ccccc1C2=O"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    place = tmp_path_factory.mktemp("novelty")
    data = write_csv(place / "t.csv", [{"smiles": text, "y": len(text)} for text in dict.fromkeys(FAMILIAR)])
    settings = (*TINY, "split.fractions=[0.6, 0.2, 0.2]")
    model = egt.train(data, "y", set=settings, out=place / "run", progress=False).model
    model.warn_if_unlike()
    return model


def test_a_strange_molecule_is_warned_of_and_a_training_molecule_is_not(model: Predictor) -> None:
    known, strange, bad = model.predict([FAMILIAR[0], STRANGE, "nonsense"])
    assert "unlike training" not in known.warning
    assert "unlike training: the nearest training graph (" in strange.warning
    assert "not in the training molecules" in strange.warning  # other warnings stay
    assert strange.values is not None
    assert bad.warning == ""


def test_almost_all_validation_graphs_are_like_training(model: Predictor) -> None:
    warned = [answer for answer in model.predict_split("val") if "unlike" in answer.warning]
    assert not warned  # of six, none is beyond the farthest
    novelty = novelty_of(model)
    rows = [
        each.readout[0] for each in model.encode([a.smiles for a in model.predict_split("val")]) if each is not None
    ]
    distances = training_rows(model).nearest(np.stack(rows), 1)[1]
    assert novelty.limit == pytest.approx(float(distances.max()), rel=1e-3)


def test_only_whole_graphs_and_one_training_split_can_be_compared(tmp_path: Path) -> None:
    data = blocks(tmp_path / "blocks")
    nodes = egt.train(data, "label", set=(*TINY, "trainer.max_epochs=1"), out=tmp_path / "run", progress=False).model
    with pytest.raises(DataError, match="only whole graphs"):
        nodes.warn_if_unlike()
    folds: Ensemble = ensemble(TASKS[0], kind="folds")
    with pytest.raises(DataError, match="another train split"):
        folds.warn_if_unlike()
