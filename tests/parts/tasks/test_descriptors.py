"""The task of pre-training on descriptors: scale, limit, the share that is asked, and a whole run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

import egt
from egt.data.batching.batch import collate
from egt.data.encodings.encoding import Sample
from egt.errors import ConfigError
from egt.graph import Graph
from egt.nn.randomness import graph_keys
from egt.parts.tasks.descriptors import Descriptors

TASK = Descriptors(names=("a", "b"), mean=(1.0, -2.0), std=(2.0, 0.5))


def test_the_loss_is_the_squared_error_in_deviations_and_misses_count_nowhere() -> None:
    prediction = torch.tensor([[0.5, 3.0], [1.0, 1.0]])
    target = torch.tensor([[3.0, math.nan], [1.0, -1.0]])  # standardized: 1, nothing; 0, 2
    assert TASK.loss_sum(prediction, target).item() == pytest.approx(0.25 + 1 + 1)


def test_a_descriptor_beyond_six_deviations_counts_as_six() -> None:
    assert TASK.standardized(torch.tensor([[1000.0, -1000.0]])).tolist() == [[6.0, -6.0]]
    scores = TASK.scores()
    scores.update(torch.tensor([[6.0, -6.0]]), torch.tensor([[1000.0, -1000.0]]))
    assert scores.compute()["rmse"] == 0


def test_answers_are_in_the_unit_of_the_descriptors() -> None:
    outputs = torch.tensor([[1.0, -1.0]])
    decoded = TASK.decode(outputs)
    assert decoded.tolist() == [[3.0, -2.5]]
    np.testing.assert_allclose(TASK.encode(decoded.numpy()), outputs)


def test_training_asks_for_a_share_of_the_descriptors_and_evaluation_for_all() -> None:
    task = Descriptors(names=tuple(map(str, range(200))), mean=(0.0,) * 200, std=(1.0,) * 200, share=0.15)
    graph = Graph(num_nodes=1, edge_index=np.zeros((2, 0)), graph_targets=np.ones(200))
    batch = collate([Sample(graph, {}, {})] * 50, "packed")
    training = replace(batch, random_keys=graph_keys(0, 0, batch.graph_ids))
    asked = ~task.targets(task.posed(training), "graph").isnan()
    assert asked.float().mean().item() == pytest.approx(0.15, abs=0.02)
    assert asked.any(0).all()
    assert not task.targets(task.posed(batch), "graph").isnan().any()
    later = replace(batch, random_keys=graph_keys(0, 1, batch.graph_ids))
    assert not torch.equal(asked, ~task.targets(task.posed(later), "graph").isnan())


def test_names_means_and_deviations_are_as_many() -> None:
    with pytest.raises(ValidationError):
        Descriptors(names=("a", "b"), mean=(1.0,), std=(1.0, 1.0))


@pytest.fixture(scope="module")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("rdkit")
    path = tmp_path_factory.mktemp("data") / "molecules.csv"
    path.write_text("smiles\n" + "".join(f"C{'C' * k}{end}\n" for k in range(12) for end in ("O", "N", "c1ccccc1")))
    return path


SMALL = {"model.num_layers": 1, "model.node_width": 16, "model.edge_width": 8, "trainer.max_epochs": 2}


def test_molecules_without_targets_learn_descriptors_and_others_start_from_them(
    molecules: Path, tmp_path: Path
) -> None:
    run = egt.train(molecules, task="pretrain", set=SMALL, out=tmp_path / "pre", progress=False)
    assert run.config.task.kind == "descriptors"
    assert run.artifact.metrics["test"]["rmse"] < 2
    row = run.predict(["CCO"]).table()[0]
    assert row["MolWt"] > 0
    table = tmp_path / "table.csv"
    table.write_text("smiles,y\n" + "".join(f"C{'C' * k}O,{k}\n" for k in range(20)))
    settings = {"trainer.max_epochs": 1, "trainer.baseline": False}
    tuned = egt.train(table, "y", start=tmp_path / "pre", set=settings, out=tmp_path / "tuned", progress=False)
    card = json.loads((tmp_path / "tuned" / "artifact" / "card.json").read_text())
    assert card["metrics"]["test"]["num_graphs"] == 2
    old, new = run.artifact.model.state_dict(), tuned.artifact.model.state_dict()
    assert all(old[name].shape == new[name].shape for name in old if "head" not in name)


def test_what_is_hidden_can_be_learned_of_molecules_too(molecules: Path) -> None:
    run = egt.api.configured(molecules, task="pretrain", set={"pretrain": "hidden"})
    assert run.task.kind == "pretrain"


def test_what_is_learned_is_a_setting_of_pretraining_alone(molecules: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("smiles,y\nCCO,1\nCCN,2\nCCC,3\n")
    with pytest.raises(ConfigError, match="pretrain"):
        egt.api.configured(molecules, task="pretrain", set={"pretrain": "everything"})
    with pytest.raises(ConfigError, match="pretrain"):
        egt.api.configured(table, "y", set={"pretrain": "hidden"})
