"""Pre-training on custom data, and fine-tuning from it, through the front door."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

import egt
from egt.api import Run
from egt.config.defaults import for_pretraining
from egt.errors import ConfigError

SMILES = ["CCO", "CCN", "c1ccccc1O", "CC(=O)O", "CCCl", "C1CCCC1", "CC#N", "OCCO", "c1ccncc1", "CCS"]
TINY = {
    "model.num_layers": 2,
    "model.node_width": 8,
    "model.edge_width": 4,
    "model.num_heads": 2,
    "data.batch_size": 4,
    "trainer.max_epochs": 2,
    "trainer.backend": "plain",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretraining")
    (folder / "unlabeled.csv").write_text("\n".join(["smiles", *SMILES]) + "\n")
    rows = [f"{smiles},{len(smiles) + 0.5}" for smiles in SMILES]
    (folder / "labeled.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    return folder


@pytest.fixture(scope="module")
def pretrained(folder: Path) -> Run:
    settings = {**TINY, "pretrain": "hidden"}
    return egt.train(folder / "unlabeled.csv", task="pretrain", set=settings, out=folder / "first", progress=False)


def test_smiles_alone_are_enough(pretrained: Run) -> None:
    config = pretrained.artifact.config
    assert config.task.kind == "pretrain"
    assert config.data.custom is not None
    assert config.data.custom.targets == ()
    assert {"feature_accuracy", "distance_accuracy"} <= set(pretrained.artifact.metrics["val"])
    assert all(row["val_loss"] > 0 for row in pretrained.history)


def test_validation_hides_the_same_each_time(pretrained: Run) -> None:
    first, second = (row["val_num_labels"] for row in pretrained.history)
    assert first == second > 0


def test_a_run_with_a_target_starts_from_it(folder: Path, pretrained: Run, caplog: pytest.LogCaptureFixture) -> None:
    frozen = {"trainer.max_epochs": 1, "optimizer.lr": 1e-12, "trainer.backend": "plain"}
    with caplog.at_level(logging.WARNING, "egt.training.finetune"):
        run = egt.train(
            folder / "labeled.csv", "y", start=folder / "first", set=frozen, out=folder / "second", progress=False
        )
    assert not [record for record in caplog.records if record.name == "egt.training.finetune"]
    before, after = pretrained.artifact.model.state_dict(), run.artifact.model.state_dict()
    learned = [name for name in after if not name.startswith(("head.", "readout.norm"))]
    assert {"readout.nodes", "embed.node_terms.0.categories.table.weight", "layers.1.qkv.weight"} <= set(learned)
    for name in learned:
        assert torch.allclose(after[name], before[name], atol=1e-6), name
    [answer] = run.predict(["CCO"])
    assert answer.values is not None
    assert answer.values.shape == (1, 1)


def test_a_pretrained_model_does_not_answer(pretrained: Run) -> None:
    with pytest.raises(ConfigError, match="--from RUN"):
        pretrained.predict(["CCO"])
    [embedding] = pretrained.model.encode(["CCO"])
    assert embedding is not None
    assert embedding.nodes.shape == (3, 8)
    assert embedding.readout.shape == (3, 8)


def test_a_target_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--target"):
        egt.train(folder / "labeled.csv", "y", task="pretrain")


def test_labels_are_no_features(tmp_path: Path) -> None:
    """What looks like a label of nodes is not hidden and told: it may be the target of the run that follows."""
    row = '{"edges": [[0, 1], [1, 2]], "nodes": {"color": ["a", "b", "a"], "label": [0, 1, 1]}}'
    (tmp_path / "graphs.jsonl").write_text("\n".join([row] * 10))
    config = egt.api.configured(tmp_path / "graphs.jsonl", task="pretrain")
    schema = config.data.custom
    assert schema is not None
    assert config.task == for_pretraining(config, schema).task
    kinds = {feature.name: feature.kind for feature in schema.node_features}
    assert kinds == {"color": "categorical", "label": "ignored"}
    assert config.task.model_dump()["node_categories"] == (2,)
