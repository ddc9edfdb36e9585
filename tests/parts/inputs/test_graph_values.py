"""Numbers of whole graphs through a model: every layout, a trained artifact, new data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import egt
import egt.api
from egt.assemble import build_model
from egt.config.run_data import preparation
from egt.data.batching.batch import collate
from egt.errors import DataError
from egt.training.finetune import with_model_of
from tests.caches import fresh_cache
from tests.cli.runs import TINY
from tests.graphs import lively, random_graph, tiny_config

QUICK = {setting.split("=")[0]: int(setting.split("=")[1]) for setting in TINY}
INPUTS = [{"kind": "node_categories", "sizes": [5]}, {"kind": "node_values", "num_values": 2}]


def heated(heat: float) -> Any:
    return replace(random_graph(np.random.default_rng(0)), graph_values=[heat, 1.0])


def test_layouts_agree_and_the_values_matter() -> None:
    config = tiny_config(node_inputs=[*INPUTS, {"kind": "graph_values", "num_values": 2}])
    model = lively(build_model(config)).eval()
    samples = [preparation(config)(heated(heat)) for heat in (0.0, 1.0)]
    packed, padded = (model(collate(samples, layout)) for layout in ("packed", "padded"))
    torch.testing.assert_close(packed, padded)
    assert (packed[0] - packed[1]).abs().max() > 1e-3, "the graphs differ in their values only"


def table(rows: int = 24) -> pd.DataFrame:
    heat = np.linspace(10, 90, rows)
    smiles = ["C" * (1 + k % 5) + "O" for k in range(rows)]
    return pd.DataFrame({"smiles": smiles, "heat": heat, "pH": 7.0 + heat % 3, "rate": heat / 10})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> egt.Run:
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EGT_CACHE_DIR", fresh_cache(folder))
        return egt.train(table(), features=["heat", "pH"], set=QUICK, out=folder / "run", progress=False)


def answers(run: egt.Run, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    return np.concatenate([row.values for row in egt.load(run.path).predict(frame)])


def test_the_artifact_keeps_what_it_reads(run: egt.Run) -> None:
    config = egt.load(run.path).config
    assert config.model.node_inputs[-1].kind == "graph_values"
    assert config.data.custom is not None
    assert [feature.name for feature in config.data.custom.graph_features] == ["heat", "pH"]


def test_prediction_reads_the_columns(run: egt.Run) -> None:
    new = pd.DataFrame({"smiles": ["CCO", "CCO"], "pH": [7.0, 7.0], "heat": [10.0, 90.0]})
    cold, hot = answers(run, new)
    assert cold != hot
    with pytest.raises(DataError, match="heat, pH"):
        egt.load(run.path).predict(["CCO"])
    assert egt.load(run.path).evaluate(table())["num_labels"] == 24


def test_a_missing_value_is_predicted_as_the_mean(run: egt.Run) -> None:
    custom = egt.load(run.path).config.data.custom
    assert custom is not None
    mean = custom.graph_features[0].mean[0]
    new = pd.DataFrame({"smiles": ["CCO", "CCO"], "pH": [7.0, 7.0], "heat": [np.nan, mean]})
    found = egt.load(run.path).predict(new)
    assert "feature 'heat' is missing" in found[0].warning
    np.testing.assert_allclose(found[0].values, found[1].values, atol=1e-6)


def test_a_stopped_run_goes_on_to_the_same_weights(run: egt.Run, tmp_path: Path) -> None:
    out, few = tmp_path / "run", QUICK | {"trainer.max_epochs": 1}
    egt.train(table(), features=["heat", "pH"], set=few, out=out, progress=False)
    again = egt.train(
        table(), set={"trainer.max_epochs": QUICK["trainer.max_epochs"]}, out=out, resume=True, progress=False
    )
    np.testing.assert_array_equal(answers(again, table()), answers(run, table()))


def test_weights_of_features_move_by_name(run: egt.Run, tmp_path: Path) -> None:
    frame = table().assign(light=1.0)
    settings = QUICK | {"optimizer.lr": 1e-9, "schedule.min_lr": 1e-9}
    tuned = egt.train(
        frame, "rate", features=["light", "heat"], set=settings, start=run.path, out=tmp_path / "t", progress=False
    )
    old, new = (each.artifact.model.state_dict() for each in (run, tuned))
    [name] = [key for key in old if key.startswith("embed.node_terms.2.") and key.endswith("weight")]
    torch.testing.assert_close(new[name][:, 1], old[name][:, 0])
    plain = with_model_of(egt.api.configured(frame, "rate", set=QUICK), run.artifact.config)
    assert all(term.kind != "graph_values" for term in plain.model.node_inputs)
