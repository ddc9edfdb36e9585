"""A graph in pieces: the numbers of the whole where nothing is left out, answers for all nodes, an exact resume."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from egt.api import Run, configured, train
from egt.errors import ConfigError, RunStopped
from egt.inference.predictor import load
from egt.training.callbacks import Callback
from egt.training.plan import known_sizes, plan

SMALL = {
    "model.num_layers": 2,
    "model.node_width": 16,
    "model.num_heads": 2,
    "model.scope": "neighbors",
    "data.layout": "edge_list",
    "trainer.max_epochs": 2,
    "trainer.trackers": [],
}
WHOLE = {"roots": 1000, "neighbors": ["all"] * 30}
DRAWN = {"roots": 7, "evaluation_roots": 8, "neighbors": [3, 2]}


def _write(path: Path) -> Path:
    """A ring of 60 nodes with chords; half of it is of one class."""
    random = np.random.default_rng(0)
    ring = np.stack([np.arange(60), (np.arange(60) + 1) % 60])
    chords = random.integers(60, size=(2, 60))
    both = np.concatenate([ring, chords[:, chords[0] != chords[1]]], axis=1)
    edges = np.unique(np.sort(both, axis=0), axis=1)
    graph: dict[str, Any] = {
        "nodes": {"x": random.normal(size=(60, 3)).round(3).tolist(), "split": ["train", "train", "val", "test"] * 15},
        "node_targets": {"half": [f"h{int(k < 30)}" for k in range(60)]},
        "edges": edges.T.tolist(),
        "directed": False,
    }
    path.write_text(json.dumps(graph))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pieces")


@pytest.fixture(scope="module")
def data(folder: Path) -> Path:
    return _write(folder / "ring.jsonl")


def _train(data: Path, out: Path, *, task: Any = None, **settings: Any) -> Run:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return train(data, None if task else "half", task=task, set={**SMALL, **named}, out=out, progress=False)


@pytest.fixture(scope="module")
def whole(data: Path, folder: Path) -> Run:
    return _train(data, folder / "whole")


@pytest.fixture(scope="module")
def drawn(data: Path, folder: Path) -> Run:
    return _train(data, folder / "drawn", data__pieces=DRAWN)


def _losses(run: Run) -> list[float]:
    return [row[name] for row in run.history for name in ("train_loss", "val_loss")]


def _weights(run: Run) -> dict[str, torch.Tensor]:
    return dict(run.artifact.model.state_dict())


def _values(run: Run | Any, data: Path) -> Any:
    return run.predict(data)[0].values


def test_a_sample_of_everything_gives_the_numbers_of_the_whole_graph(whole: Run, data: Path, folder: Path) -> None:
    run = _train(data, folder / "everything", data__pieces=WHOLE)
    assert _losses(run) == _losses(whole)  # dropout included
    assert run.artifact.metrics == whole.artifact.metrics
    for name, value in _weights(whole).items():
        assert torch.equal(value, _weights(run)[name]), name
    assert np.array_equal(_values(run, data), _values(whole, data))


def test_all_neighbors_of_as_many_hops_as_layers_give_the_answers_of_the_whole_graph(whole: Run, data: Path) -> None:
    def answers(hops: int) -> Any:
        pieces = json.dumps({"evaluation_roots": 5, "neighbors": ["all"] * hops})
        return _values(load(whole.path, set=[f"data.pieces={pieces}"]), data)

    np.testing.assert_allclose(answers(2), _values(whole, data), atol=1e-6)
    assert np.abs(answers(1) - _values(whole, data)).max() > 1e-4  # a neighbor's neighbor is missed


def test_drawn_pieces_are_trained_evaluated_and_predicted(drawn: Run, data: Path) -> None:
    assert drawn.history[0]["step"] == 5  # 30 labeled nodes, 7 at a time
    found = drawn.artifact.metrics["test"]
    assert (found["num_labels"], found["num_graphs"]) == (15, 1)
    assert load(drawn.path).evaluate("test") == found
    values = _values(drawn, data)
    assert values.shape == (60, 1)
    assert np.isfinite(values).all()
    assert np.array_equal(values, _values(load(drawn.path), data))


def test_the_calibration_stands_on_the_labels(drawn: Run) -> None:
    calibration = drawn.artifact.calibration
    assert calibration is not None
    assert calibration.transductive
    assert drawn.artifact.data["coverage"]["targets"]["half"]["num_labels"] == 15


def test_predictions_are_written_for_every_node(drawn: Run, data: Path, folder: Path) -> None:
    drawn.predict(data).to_csv(folder / "out.csv")
    with (folder / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["node"] for row in rows] == [str(k) for k in range(60)]
    assert {row["half"] for row in rows} <= {"h0", "h1"}


class _Stop(Callback):
    def on_step(self, state: Any, step: Any) -> None:
        if state.progress.step == 7:  # in the middle of the second epoch
            state.checkpoint()
            raise RunStopped("enough")


def test_a_stopped_run_goes_on_with_the_same_pieces(drawn: Run, data: Path, folder: Path) -> None:
    settings = {**SMALL, "data.pieces": DRAWN}
    with pytest.raises(RunStopped):
        train(data, "half", set=settings, out=folder / "stopped", callbacks=[_Stop()], progress=False)
    run = train(data, "half", set=settings, out=folder / "stopped", resume=True, progress=False)
    for name, value in _weights(drawn).items():
        assert torch.equal(value, _weights(run)[name]), name


def test_links_in_pieces_are_those_of_the_whole_graph(data: Path, folder: Path) -> None:
    dropouts = ("attention_dropout", "node_dropout", "node_ffn_dropout")
    one = {"trainer__max_epochs": 1, **{f"model__{name}": 0.0 for name in dropouts}}
    whole = _train(data, folder / "links", task="link", **one)
    all_at_once = _train(data, folder / "links_everything", task="link", data__pieces=WHOLE, **one)
    assert _losses(all_at_once) == pytest.approx(_losses(whole), rel=1e-5)  # a piece lacks what hidden edges cut off
    pieces = json.dumps({"evaluation_roots": 4, "neighbors": ["all", "all"]})
    few = load(whole.path, set=[f"data.pieces={pieces}"])
    expected, found = (each.predict_split("test")[0] for each in (load(whole.path), few))
    assert expected.values is not None
    assert found.values is not None
    assert np.array_equal(expected.pairs, found.pairs)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)


def test_the_plan_knows_the_pieces(data: Path) -> None:
    found = plan(configured(data, "half", set={**SMALL, "data.pieces": DRAWN}))
    assert (found.steps_per_epoch, found.num_graphs, found.largest_nodes) == (5, 5, 60)
    small = plan(configured(data, "half", set={**SMALL, "data.pieces": {"roots": 4, "neighbors": [2]}}))
    assert small.largest_nodes == 12


def test_the_plan_knows_what_is_only_evaluated(data: Path) -> None:
    few, many = (
        known_sizes(configured(data, "half", set={**SMALL, "data.pieces": {**DRAWN, "evaluation_roots": roots}}))
        for roots in (2, 1_000)
    )
    assert 0 < max(few.evaluated.values()) < max(many.evaluated.values())
    assert many.process_bytes >= few.process_bytes > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data.layout": "packed"}, r"data.pieces.*data.layout"),
        ({"data.pieces": {"neighbors": []}}, "data.pieces.neighbors"),
        ({"data.pieces": {"neighbors": [0]}}, "data.pieces.neighbors"),
    ],
)
def test_settings_that_make_no_sense_are_refused(data: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(data, "half", set={**SMALL, "data.pieces": DRAWN, **settings})


def test_targets_of_whole_graphs_are_refused(folder: Path) -> None:
    path = folder / "graphs.jsonl"
    path.write_text("\n".join(json.dumps({"num_nodes": 2, "edges": [[0, 1]], "targets": {"y": k}}) for k in range(20)))
    with pytest.raises(ConfigError, match=r"data\.pieces"):
        configured(path, "y", set={"model.scope": "neighbors", "data.layout": "edge_list", "data.pieces": {}})


def _communities(path: Path, **columns: Any) -> Path:
    """Two communities of 60 nodes with numbers that say nothing; a fifth of the labels is known."""
    random = np.random.default_rng(0)
    i = random.integers(120, size=500)
    j = np.where(
        random.random(500) < 0.9, 60 * (i // 60) + random.integers(60, size=500), random.integers(120, size=500)
    )
    edges = np.unique(np.sort(np.stack([i, j])[:, i != j], axis=0), axis=1)
    graph: dict[str, Any] = {
        "nodes": {
            "x": random.normal(size=120).round(3).tolist(),
            "split": ["train", "val", "test", "test", "test"] * 24,
        },
        "node_targets": {"half": [f"h{k // 60}" for k in range(120)]},
        "edges": edges.T.tolist(),
        "directed": False,
    }
    path.write_text(json.dumps({**graph, **columns}))
    return path


def test_labels_of_neighbors_answer_where_features_say_nothing(tmp_path: Path) -> None:
    data, told = _communities(tmp_path / "two.jsonl"), [{"kind": "known_labels", "num_classes": 2}]
    settings = {
        **SMALL,
        "data.pieces": {"roots": 8, "neighbors": [5, 5]},
        "trainer.max_epochs": 20,
        "optimizer.lr": 0.01,
    }
    found = {}
    for name, inputs in (("alone", []), ("told", told)):
        own = [{"kind": "node_values", "num_values": 1}]
        run = train(
            data, "half", set={**settings, "model.node_inputs": own + inputs}, out=tmp_path / name, progress=False
        )
        found[name] = run.artifact.metrics["test"]["accuracy"]
    assert found["told"] >= 0.9 > 0.7 > found["alone"]
    assert load(run.path).evaluate("test") == run.artifact.metrics["test"]
    other = ["h0"] * 120  # labels that are not those of training nodes are not read
    other[::5] = [f"h{k // 60}" for k in range(0, 120, 5)]
    assert np.array_equal(
        _values(run, data), _values(run, _communities(tmp_path / "o.jsonl", node_targets={"half": other}))
    )
    assert "keep the target column" in run.predict(_communities(tmp_path / "none.jsonl", node_targets={}))[0].error
    with pytest.raises(ConfigError, match=r"set data\.pieces"):
        train(data, "half", set={**SMALL, "model.node_inputs": told}, out=tmp_path / "whole", progress=False)
