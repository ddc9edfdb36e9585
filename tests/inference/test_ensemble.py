"""An ensemble answers with the mean of its models and the deviation between them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from egt.assemble import build_model
from egt.errors import ArtifactError, DataError
from egt.graph import Graph
from egt.inference.artifact import Artifact, EnsembleArtifact, Kind
from egt.inference.predictor import Predictor
from egt.inference.uncertainty import Calibration
from egt.parts.tasks.classification import Binary, Multiclass
from egt.parts.tasks.regression import Regression
from egt.parts.tasks.task import TaskPart
from tests.inference.test_predictor import chain, make

GRAPHS = [chain(size) for size in (5, 2, 9)]
TASKS = (Regression(names=("y",)), Binary(names=("y",)), Multiclass(names=("y",), num_classes=3))


def members(task: TaskPart, level: str = "graph", count: int = 3) -> tuple[Artifact, ...]:
    """Models with random weights."""
    made = []
    for seed in range(count):
        plain = make(level, task)
        torch.manual_seed(seed)
        made.append(Artifact(plain.config, build_model(plain.config).eval()))
    return tuple(made)


def ensemble(
    task: TaskPart, level: str = "graph", kind: Kind = "seeds", calibration: Calibration | None = None
) -> Predictor:
    return Predictor(EnsembleArtifact(kind, members(task, level), calibration=calibration))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_answers_are_the_mean_and_the_deviation(task: TaskPart, level: str) -> None:
    each = [Predictor(member).predict(GRAPHS) for member in members(task, level)]
    for answer, *alone in zip(ensemble(task, level).predict(GRAPHS), *each, strict=True):
        values = np.stack([one.values for one in alone if one.values is not None])
        np.testing.assert_allclose(answer.values, values.mean(0), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(answer.std, values.std(0, ddof=1), rtol=1e-3, atol=1e-7)
        assert values.std(0).min() > 0
        assert (answer.pairs is None) == (level != "edge")


def test_the_table_has_a_deviation_for_each_target() -> None:
    numbers, yes, classes = (ensemble(task).predict(GRAPHS) for task in TASKS)
    for found in (numbers, yes, classes):
        assert "y_std" in found.columns
        assert [*found.table()[0]].count("y_std") == 1
    answer = classes[0]
    assert answer.values is not None
    assert answer.std is not None
    assert classes.table()[0]["y_std"] == pytest.approx(answer.std[0, answer.values[0].argmax()])


def test_metrics_are_those_of_the_averaged_answers() -> None:
    model = ensemble(TASKS[0])
    values = [answer.values for answer in model.predict(GRAPHS)]
    labeled = [
        Graph.undirected(
            num_nodes=graph.num_nodes,
            edge_index=graph.edge_index[:, : graph.num_edges // 2],
            node_values=graph.node_values,
            graph_targets=[float(value[0, 0]) + 0.5],
        )
        for graph, value in zip(GRAPHS, values, strict=True)
        if value is not None
    ]
    found = model.evaluation(labeled)
    assert found.metrics["mae"] == pytest.approx(0.5, rel=1e-5)
    assert found.loss == pytest.approx(0.5, rel=1e-5)
    assert found.metrics["num_graphs"] == 3


@pytest.mark.parametrize("task", TASKS[1:])
def test_probabilities_at_a_temperature_are_flatter_and_sets_do_not_change(task: TaskPart) -> None:
    probabilities = task.class_probabilities(np.full((4, task.num_outputs), 1 / 3))
    assert probabilities is not None
    calibration = Calibration("set", Calibration.of_classes(probabilities, np.zeros((4, 1))).scores, (2.0,))
    plain = ensemble(task, calibration=calibration)
    warm = Predictor(plain.artifact, calibrated=True)
    for before, after in zip(plain.predict(GRAPHS, interval=0.5), warm.predict(GRAPHS, interval=0.5), strict=True):
        assert before.values is not None
        assert after.values is not None
        p, q = (task.class_probabilities(values) for values in (before.values, after.values))
        assert p is not None
        assert q is not None
        np.testing.assert_allclose(q, np.sqrt(p) / np.sqrt(p).sum(2, keepdims=True), rtol=1e-4)
        np.testing.assert_array_equal(before.bounds, after.bounds)


def test_intervals_are_around_the_mean() -> None:
    calibration = Calibration.of_numbers(np.zeros((3, 1)), np.array([[0.5], [1.0], [2.0]]))
    found = ensemble(TASKS[0], calibration=calibration).predict(GRAPHS, interval=0.5)
    row = found.table()[0]
    assert (row["y_low"], row["y_high"]) == (
        pytest.approx(row["y"] - 1, rel=1e-5),
        pytest.approx(row["y"] + 1, rel=1e-5),
    )
    assert found[1:].columns == found.columns


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ArtifactError, match="calibration"):
        ensemble(TASKS[0]).predict(GRAPHS, interval=0.9)
    numbers = Calibration.of_numbers(np.zeros((1, 1)), np.zeros((1, 1)))
    with pytest.raises(DataError, match="predicts"):
        Predictor(EnsembleArtifact("seeds", members(TASKS[0]), calibration=numbers), calibrated=True)
    for ask in (
        lambda: ensemble(TASKS[0], kind="folds").evaluate("test"),
        lambda: ensemble(TASKS[0], kind="folds").predict_split("test"),
    ):
        with pytest.raises(DataError, match="model"):
            ask()


def test_embeddings_are_those_of_the_first_model() -> None:
    for found, first in zip(
        ensemble(TASKS[0]).encode(GRAPHS), Predictor(members(TASKS[0])[0]).encode(GRAPHS), strict=True
    ):
        assert found is not None
        assert first is not None
        np.testing.assert_array_equal(found.readout, first.readout)
