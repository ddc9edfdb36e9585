"""Ensembles and cross-validation: ordinary runs as one, resumable, with one artifact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
import torch

import egt
from egt.api import Run
from egt.data.schema import Fold
from egt.errors import ConfigError
from egt.inference.artifact import load_artifact, load_ensemble
from egt.inference.predictor import Predictor
from egt.training.callbacks import Callback
from egt.training.state import State
from tests.cli.runs import SMILES, TINY, blocks, molecules, write_csv

QUICK = (*TINY, "model.num_layers=1", "trainer.max_epochs=1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ensemble")


@pytest.fixture(scope="module")
def table(place: Path) -> Path:
    smiles = [*SMILES, *("C" * k + "O" for k in range(3, 13))]
    return write_csv(place / "t.csv", [{"smiles": text, "y": 10.3 * len(text)} for text in smiles])


@pytest.fixture(scope="module")
def seeds(table: Path, place: Path) -> Run:
    return egt.train(table, "y", set=QUICK, out=place / "seeds", ensemble=2, progress=False)


@pytest.fixture(scope="module")
def folds(table: Path, place: Path) -> Run:
    return egt.train(table, "y", set=QUICK, out=place / "folds", folds=3, progress=False)


def test_members_are_runs_that_differ_in_their_seed(seeds: Run, place: Path) -> None:
    configs = [member.artifact.config for member in seeds.members]
    assert [config.seed for config in configs] == [0, 1]
    assert configs[0].data == configs[1].data
    assert [member.path for member in seeds.members] == [place / "seeds" / f"member{k}" / "artifact" for k in range(2)]
    first, second = (member.artifact.model.state_dict() for member in seeds.members)
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_metrics_are_those_of_the_mean_beside_those_of_the_members(seeds: Run) -> None:
    values = np.mean([values_of(Predictor(each.artifact).predict_split("test")) for each in seeds.members], axis=0)
    found = egt.load(seeds.path).predict_split("test")
    truth = np.concatenate([answer.truth for answer in found if answer.truth is not None])
    assert seeds.artifact.metrics["test"]["mae"] == pytest.approx(np.abs(values - truth).mean(), rel=1e-5)
    assert egt.load(seeds.path).evaluate("test") == pytest.approx(seeds.artifact.metrics["test"])
    each = [member.artifact.metrics["test"]["mae"] for member in seeds.members]
    assert seeds.artifact.data["member_metrics"]["test"]["mae"] == {"mean": fmean(each), "std": stdev(each)}


def values_of(found: egt.Predictions) -> Any:
    return np.concatenate([answer.values for answer in found if answer.values is not None])


def test_the_run_predicts_with_a_deviation_and_an_interval(seeds: Run) -> None:
    row, bad = seeds.model.predict(["CCO", "nonsense"], interval=0.5).table()
    assert row["y_low"] < row["y"] < row["y_high"]
    assert row["y_std"] > 0
    assert bad["error"]
    assert seeds.predict(["CCO"])[0].bounds is None
    calibration = load_ensemble(seeds.path).calibration
    assert calibration is not None
    assert calibration.scores[0][0].count == 3  # the validation rows


class StopAt(Callback):
    """Fails in the run of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_epoch(self, state: State, row: Mapping[str, float]) -> None:
        """See `Callback`."""
        if state.config.seed == self.seed:
            raise RuntimeError("power failure")


def test_a_run_that_was_stopped_goes_on_to_the_same_end(table: Path, tmp_path: Path, seeds: Run) -> None:
    with pytest.raises(RuntimeError, match="failure"):
        egt.train(table, "y", set=QUICK, out=tmp_path / "run", ensemble=2, progress=False, callbacks=[StopAt(1)])
    assert (tmp_path / "run" / "member0" / "artifact").is_dir()
    assert not (tmp_path / "run" / "artifact").exists()
    weights = (tmp_path / "run" / "member0" / "artifact" / "weights.safetensors").read_bytes()
    with pytest.raises(ConfigError, match="--resume"):
        egt.train(table, "y", set=QUICK, out=tmp_path / "run", ensemble=2, progress=False)
    with pytest.raises(ConfigError, match="--resume"):
        egt.train(table, "y", set=QUICK, out=tmp_path / "run", progress=False)
    with pytest.raises(ConfigError, match="--ensemble"):
        egt.train(table, "y", set=QUICK, out=tmp_path / "run", ensemble=3, progress=False, resume=True)
    again = egt.train(tmp_path / "run", resume=True, progress=False)  # the folder tells the rest
    assert (tmp_path / "run" / "member0" / "artifact" / "weights.safetensors").read_bytes() == weights
    assert again.artifact.metrics == seeds.artifact.metrics
    assert len(again.members) == 2


def test_every_row_is_tested_once_by_a_model_that_has_not_seen_it(folds: Run) -> None:
    tested: list[str] = []
    for number, member in enumerate(folds.members):
        model = Predictor(member.artifact)
        rows = {split: {answer.id for answer in model.predict_split(split)} for split in ("train", "val", "test")}
        assert not rows["train"] & rows["test"]
        assert not rows["val"] & rows["test"]
        assert {split: len(ids) for split, ids in rows.items()} == {"train": 10, "val": 10, "test": 10}
        schema = member.artifact.config.data.custom
        assert schema is not None
        assert schema.split.fold == Fold(number=number, of=3)
        tested += rows["test"]
    assert len(tested) == len({*tested}) == 30


def test_folds_are_scored_and_calibrated_on_the_rows_each_has_left_out(folds: Run) -> None:
    errors = []
    for member in folds.members:
        found = Predictor(member.artifact).predict_split("test")
        errors += [float(abs(a.values - a.truth)[0, 0]) for a in found if a.values is not None and a.truth is not None]
    each = [member.artifact.metrics["test"]["mae"] for member in folds.members]
    assert folds.artifact.metrics["test"]["mae"] == pytest.approx(fmean(each))
    assert folds.artifact.metrics["test"]["num_labels"] == 30
    kept = load_ensemble(folds.path)
    assert kept.calibration is not None
    assert kept.calibration.folds == 3
    np.testing.assert_allclose(kept.calibration.scores[0][0].ranked, sorted(errors), rtol=1e-4)
    assert kept.data["coverage"]["targets"]["y"]["num_labels"] == 30
    assert 0.7 <= kept.data["coverage"]["targets"]["y"]["coverage"] <= 1


def test_nodes_of_one_graph_are_calibrated_as_such(tmp_path: Path) -> None:
    data = blocks(tmp_path / "blocks", num_nodes=40, masks=False)
    run = egt.train(data, "label", set=QUICK, out=tmp_path / "run", progress=False)
    kept = load_artifact(run.path)
    assert kept.calibration is not None
    assert kept.calibration.transductive
    assert kept.data["coverage"]["transductive"]
    row = egt.load(run.path).predict(data, interval=0.6).table()[0]
    assert set(row["label_set"].split("|")) <= {"a", "b", ""}
    content = json.loads((run.path / "calibration.json").read_text())
    assert sum(group["count"] for group in content["targets"][0]["groups"]) == 4  # a tenth of the nodes


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    data = molecules(tmp_path / "t.csv", y=range(20), split=["train"] * 12 + ["val"] * 4 + ["test"] * 4)
    for options, reason in (
        ({"ensemble": 1}, "--ensemble 1: at least 2"),
        ({"folds": 2}, "--folds 2: at least 3"),
        ({"folds": 3, "ensemble": 3}, "exclude each other"),
        ({"folds": 3}, "split=random"),
    ):
        with pytest.raises(ConfigError, match=reason):
            egt.train(data, "y", set=QUICK, out=tmp_path / "run", progress=False, **options)
    with pytest.raises(ConfigError, match="use --ensemble"):
        egt.train("zinc-100k", out=tmp_path / "run", folds=3)
    with pytest.raises(ConfigError, match="--folds"):
        egt.train(data, "y", set=[*QUICK, "split=random"], out=tmp_path / "run", folds=30, progress=False)
    single = write_csv(tmp_path / "single.csv", [{"smiles": "CCO", "y": 1}])
    with pytest.raises(ConfigError, match="--folds"):
        egt.train(single, "y", set=QUICK, out=tmp_path / "run", folds=3, progress=False)
    with pytest.raises(ConfigError, match="training"):
        egt.train(unreadable(tmp_path), "y", set=QUICK, out=tmp_path / "run", ensemble=2, progress=False)
    assert not (tmp_path / "run").exists()


def unreadable(folder: Path) -> Path:
    """Molecules of which those for training cannot be read."""
    rows = [{"smiles": "C1CC", "y": k, "split": "train"} for k in range(3)]
    return write_csv(
        folder / "bad.csv", [*rows, *({"smiles": "CCO", "y": 1, "split": name} for name in ("val", "test"))]
    )
