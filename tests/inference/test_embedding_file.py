"""Embeddings on disk have the rows of the input, bad ones in place, and are what the model computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from egt.errors import ConfigError, DataError, GraphError
from egt.graph import Graph
from egt.inference import answering
from egt.inference import backends as memory
from egt.inference.embedding_file import embed_to_file
from egt.inference.predictor import Predictor
from tests.inference.test_predictor import chain, make

SIZES = (5, 2, 9, 1)
GRAPHS = [chain(size) for size in SIZES]


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_graph_embeddings_are_what_the_head_reads(tmp_path: Path) -> None:
    model = Predictor(make())
    written = embed_to_file(model, [GRAPHS], tmp_path / "x.parquet")
    assert (written.rows, written.errors) == (4, 0)
    found = rows(tmp_path / "x.parquet")
    assert [row["id"] for row in found] == [f"chain {size}" for size in SIZES]
    for row, embedding in zip(found, model.encode(GRAPHS), strict=True):
        assert embedding is not None
        np.testing.assert_allclose(row["embedding"], embedding.readout[0], rtol=1e-4, atol=1e-6)
    embed_to_file(model, [GRAPHS], tmp_path / "x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), [row["embedding"] for row in found])


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_nodes_and_pairs_of_any_layer(layer: int, tmp_path: Path) -> None:
    model = Predictor(make())
    expected = model.encode(GRAPHS, layer=layer)
    embed_to_file(model, [GRAPHS], tmp_path / "n.parquet", level="node", layer=layer)
    nodes = rows(tmp_path / "n.parquet")
    assert [row["node"] for row in nodes] == [k for size in SIZES for k in range(size)]
    joined = np.concatenate([each.nodes for each in expected if each is not None])
    np.testing.assert_allclose([row["embedding"] for row in nodes], joined, rtol=1e-4, atol=1e-5)
    embed_to_file(model, [GRAPHS], tmp_path / "p.parquet", level="pair", layer=layer)
    pairs = rows(tmp_path / "p.parquet")
    assert len(pairs) == sum(size**2 for size in SIZES)
    assert expected[0] is not None
    first = [row for row in pairs if row["graph"] == "chain 5"]
    np.testing.assert_array_equal([[row["source"], row["target"]] for row in first], expected[0].pair_index.T)
    np.testing.assert_allclose([row["embedding"] for row in first], expected[0].pairs, rtol=1e-4, atol=1e-5)


def test_every_layer_changes_the_nodes() -> None:
    model = Predictor(make())
    layers = [model.encode(GRAPHS[:1], layer=layer)[0] for layer in (0, 1, 2)]
    last = model.encode(GRAPHS[:1])[0]
    assert last is not None
    nodes = [each.nodes for each in layers if each is not None]
    np.testing.assert_array_equal(nodes[2], last.nodes)
    assert not np.allclose(nodes[0], nodes[1])
    assert not np.allclose(nodes[1], nodes[2])


def test_a_model_of_nodes_has_the_mean_of_its_nodes_for_a_graph(tmp_path: Path) -> None:
    model = Predictor(make("node"))
    embed_to_file(model, [GRAPHS], tmp_path / "x.npy")
    means = [each.nodes.mean(axis=0) for each in model.encode(GRAPHS) if each is not None]
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), means, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("level", ["graph", "node", "pair"])
def test_a_graph_that_does_not_fit_keeps_its_place(level: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_nine(config: object, num_nodes: int, device: object) -> str:
        return "too many nodes" if num_nodes == 9 else ""

    monkeypatch.setattr(answering, "too_large", refuse_nine)
    assert memory.too_large is not refuse_nine
    model = Predictor(make())
    written = embed_to_file(model, [GRAPHS], tmp_path / "x.parquet", level=level)
    assert (written.rows, written.errors) == (4, 1)
    found = rows(tmp_path / "x.parquet")
    [bad] = [row for row in found if row["error"]]
    assert bad["id" if level == "graph" else "graph"] == "chain 9"
    assert bad["error"] == "too many nodes"
    assert bad["embedding"] is None
    assert [row["embedding"] is None for row in found].count(True) == 1
    embed_to_file(model, [GRAPHS], tmp_path / "x.npy", level=level)
    array = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(np.isnan(array).all(axis=1), [row["embedding"] is None for row in found])


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("x.csv", {}, "parquet"),
        ("x.npy", {"neighbors": 2}, "parquet"),
        ("x.parquet", {"neighbors": -1}, "at least 1"),
        ("x.parquet", {"layer": 3}, "layer"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(
    name: str, more: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((DataError, ConfigError), match=message):
        embed_to_file(Predictor(make()), [GRAPHS], tmp_path / name, **more)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_text("kept")
    wrong = Graph.undirected(num_nodes=1, edge_index=np.zeros((2, 0)))
    with pytest.raises(GraphError):
        embed_to_file(Predictor(make()), [GRAPHS, [wrong]], tmp_path / "x.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]
    assert (tmp_path / "x.npy").read_text() == "kept"
