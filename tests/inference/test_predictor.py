"""A predictor answers in the order of its input, in the user's unit, alike in any batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import egt
from egt.assemble import build_model
from egt.config.run import DataConfig, ModelConfig, RunConfig, TrainerConfig
from egt.data.custom import CustomSchema, Feature
from egt.errors import ArtifactError, DataError
from egt.graph import Graph
from egt.inference import backends as memory
from egt.inference import predictor
from egt.inference.artifact import Artifact, find_artifact, save_artifact
from egt.inference.backends import execution
from egt.inference.predictor import Predictor
from egt.parts.inputs import Distance, NodeValues
from egt.parts.readouts import PerEdge, PerNode, VirtualNodes
from egt.parts.tasks.classification import Multiclass
from egt.parts.tasks.regression import Regression
from egt.parts.tasks.task import TaskPart


def make(level: str = "graph", task: TaskPart | None = None, scale: dict[str, list[float]] | None = None) -> Artifact:
    """An untrained model that reads one number per node."""
    readouts = {"graph": VirtualNodes(num_virtual=2), "node": PerNode(), "edge": PerEdge()}
    schema = CustomSchema(
        format="jsonl",
        level=level,
        kind="regression",
        targets=("y",),
        node_features=(Feature(name="x", kind="continuous"),),
    )
    config = RunConfig(
        name="tiny",
        data=DataConfig(source="nowhere.jsonl", batch_size=4, custom=schema),
        model=ModelConfig(
            num_layers=2,
            node_width=8,
            edge_width=4,
            num_heads=2,
            node_inputs=(NodeValues(num_values=1),),
            pair_inputs=(Distance(max_hops=4),),
            readout=readouts[level],
        ),
        task=task or Regression(names=("y",)),
        trainer=TrainerConfig(max_epochs=1),
    )
    torch.manual_seed(0)
    return Artifact(config, build_model(config).eval(), data={"scale": scale})


def chain(size: int, value: float = 1.0) -> Graph:
    ends = np.arange(size - 1)
    return Graph.undirected(
        num_nodes=size, edge_index=np.stack([ends, ends + 1]), node_values=np.full((size, 1), value), id=f"chain {size}"
    )


SIZES = (5, 2, 9, 1, 3, 7, 4)


def test_answers_are_in_the_order_of_the_input_and_do_not_depend_on_their_company() -> None:
    model = Predictor(make())
    together = model.predict([chain(size) for size in SIZES])
    assert [answer.id for answer in together] == [f"chain {size}" for size in SIZES]
    assert [answer.row for answer in together] == list(range(len(SIZES)))
    for size, answer in zip(SIZES, together, strict=True):
        alone = model.predict([chain(size)])[0]
        assert answer.values is not None
        np.testing.assert_allclose(answer.values, alone.values, rtol=1e-4, atol=1e-6)
    assert len({float(answer.values[0, 0]) for answer in together if answer.values is not None}) == len(SIZES)


def test_one_row_per_node_or_directed_edge() -> None:
    nodes = Predictor(make("node")).predict([chain(size) for size in SIZES])
    assert [answer.values.shape for answer in nodes if answer.values is not None] == [(size, 1) for size in SIZES]
    edges = Predictor(make("edge")).predict([chain(3), chain(4)])
    assert [answer.values.shape for answer in edges if answer.values is not None] == [(4, 1), (6, 1)]
    pairs = edges[0].pairs
    assert pairs is not None
    assert sorted(map(tuple, pairs.T.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_values_come_back_in_the_unit_of_the_target() -> None:
    plain = Predictor(make()).predict([chain(4)])[0].values
    scaled = Predictor(make(scale={"mean": [100.0], "std": [10.0]})).predict([chain(4)])[0].values
    assert plain is not None
    assert scaled is not None
    np.testing.assert_allclose(scaled, 100 + 10 * plain, rtol=1e-6)


def test_classes_are_probabilities() -> None:
    values = Predictor(make("node", Multiclass(names=("y",), num_classes=3))).predict([chain(6)])[0].values
    assert values is not None
    np.testing.assert_allclose(values.sum(1), 1, rtol=1e-5)


def test_metrics_on_given_graphs() -> None:
    model = Predictor(make())
    graphs = [chain(size) for size in SIZES]
    answers = np.array([answer.values[0, 0] for answer in model.predict(graphs) if answer.values is not None])
    labeled = [
        Graph.undirected(
            num_nodes=g.num_nodes,
            edge_index=g.edge_index[:, : g.num_edges // 2],
            node_values=g.node_values,
            graph_targets=[float(answer) + 0.5],
        )
        for g, answer in zip(graphs, answers, strict=True)
    ]
    metrics = model.evaluate(labeled)
    assert metrics["mae"] == pytest.approx(0.5, rel=1e-4)
    assert metrics["num_graphs"] == metrics["num_labels"] == len(SIZES)
    with pytest.raises(DataError, match="no graph_targets"):
        model.evaluate(graphs)


def test_a_graph_that_does_not_fit_into_memory_is_a_row_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Predictor(make())
    there = memory.prediction_bytes(model.config, 6, execution(model.config, training=False))
    monkeypatch.setattr(memory, "available_memory", lambda device: there)
    first, large, last = model.predict([chain(5), chain(9), chain(2)])
    assert first.values is not None
    assert last.values is not None
    assert large.values is None
    assert "9 nodes" in large.error


def test_wrong_inputs_are_said() -> None:
    model = Predictor(make())
    with pytest.raises(DataError, match="empty"):
        model.predict([])
    with pytest.raises(DataError, match="molecules"):
        model.predict(["CCO"])
    with pytest.raises(DataError):
        model.evaluate("test")


def test_loading_from_an_artifact_or_its_run_folder(tmp_path: Path) -> None:
    artifact = make(scale={"mean": [3.0], "std": [2.0]})
    save_artifact(artifact, tmp_path / "run" / "artifact")
    expected = Predictor(artifact).predict([chain(4)])[0].values
    for path in (tmp_path / "run", tmp_path / "run" / "artifact"):
        found = egt.load(path).predict([chain(4)])[0].values
        np.testing.assert_array_equal(found, expected)


def test_what_is_no_artifact_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="artifact"):
        find_artifact(tmp_path / "absent")
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ArtifactError):
        find_artifact(tmp_path)


def test_predicting_does_not_import_training() -> None:
    code = f"import sys, {predictor.__name__}; assert not [name for name in sys.modules if 'egt.training' in name]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_graph_that_does_not_fit_into_memory_is_neither_embedded_nor_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Predictor(make())
    monkeypatch.setattr(memory, "available_memory", lambda device: 100_000)
    assert [found is None for found in model.encode([chain(3), chain(300)])] == [False, True]
    with pytest.raises(DataError, match="90,000"):
        model.evaluate([chain(3), chain(300)])


def test_data_that_cannot_be_evaluated_says_why(tmp_path: Path) -> None:
    fixtures = Path(__file__).resolve().parents[1] / "fixtures/v0_1"
    with pytest.raises(DataError, match="links"):
        egt.load(fixtures / "links/artifact").evaluate(fixtures / "links/new")
    model = egt.load(fixtures / "molecules/artifact")
    rows = f"smiles,{','.join(model.config.task.names)}\nC1CC,{','.join('1' for _ in model.config.task.names)}\n"
    (tmp_path / "bad.csv").write_text(rows)
    with pytest.raises(DataError, match="C1CC"):
        model.evaluate(tmp_path / "bad.csv")
