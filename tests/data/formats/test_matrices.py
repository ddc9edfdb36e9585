"""Matrices and positions from every format: they come to the graph as they stand in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.columns import matrix_of
from egt.data.custom import from_pyg, open_custom
from egt.data.custom_source import CustomSource
from egt.errors import DataError
from egt.graph import Graph

MATRIX = np.array([[0.0, 1.5, np.nan], [1.5, 0.0, -2.0], [3.0, -2.0, 0.0]])
PLACES = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])


def graphs_in(source: CustomSource) -> list[Graph]:
    readings = source.read_all(source.records("all"))
    return [reading.graph for reading in readings if reading.graph is not None]


def unscaled(graph: Graph, source: CustomSource) -> Any:
    """The matrices of a graph in the units of the file."""
    assert graph.pair_values is not None
    [feature] = [each for each in source.schema.pair_features if each.kind == "continuous"]
    return graph.pair_values * np.array(feature.std) + np.array(feature.mean)


def test_a_folder_of_matrices(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_text(
        "file,group,split\na.csv,1,train\nb.npy,0,train\nc.npz,1,val\nlost.npy,0,train\nflat.npy,0,train\n"
        "pickled.npy,0,train\n../up.npy,1,train\n"
    )
    (tmp_path / "a.csv").write_text("0,1.5,\n1.5,0,-2\n3,-2,0\n")
    np.save(tmp_path / "b.npy", MATRIX)
    np.savez(tmp_path / "c.npz", matrix=MATRIX, region=["x", "y", "x"], pos=PLACES, edges=[[0, 1], [1, 2]])
    np.save(tmp_path / "flat.npy", np.zeros(9))
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    source = open_custom(tmp_path, target="group")
    assert [feature.name for feature in source.schema.pair_features] == ["matrix"]
    assert source.schema.place == (3,)
    readings = source.read_all(source.records("all"))
    assert [bool(reading.error) for reading in readings] == [False] * 3 + [True] * 4
    assert [reading.id for reading in readings][:3] == ["a", "b", "c"]
    graphs = graphs_in(source)
    for graph in graphs:
        np.testing.assert_allclose(unscaled(graph, source)[:, :, 0], MATRIX, atol=1e-6)
    assert graphs[2].num_edges == 4
    np.testing.assert_array_equal(graphs[2].positions, PLACES)
    assert np.isnan(graphs[0].positions).all()


def test_a_folder_without_a_column_of_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_text("subject,group\na,1\n")
    with pytest.raises(DataError, match="file"):
        open_custom(tmp_path)


def test_jsonl(tmp_path: Path) -> None:
    line = {
        "nodes": {"kind": ["a", "b", "a"], "pos": PLACES.tolist()},
        "edges": [[0, 1]],
        "pairs": {
            "time": [[None if x != x else x for x in row] for row in MATRIX.tolist()],
            "road": [["main", None, "side"], ["side", "main", "main"], ["main", "main", "side"]],
        },
        "targets": {"y": 1.0},
    }
    bad = {**line, "pairs": {"time": [[1.0, 2.0]]}}
    path = tmp_path / "graphs.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in (line, line, bad)))
    source = open_custom(path)
    assert [reading.error != "" for reading in source.read_all(source.records("all"))] == [False, False, True]
    graph = graphs_in(source)[0]
    np.testing.assert_allclose(unscaled(graph, source)[:, :, 0], MATRIX, atol=1e-6)
    assert graph.pair_categories is not None
    assert graph.pair_categories[:, :, 0].tolist() == [[0, -1, 1], [1, 0, 0], [0, 0, 1]]
    assert [feature.name for feature in source.schema.node_features] == ["kind"], "in space, no place is a feature"
    np.testing.assert_allclose(graph.positions, PLACES)


def test_the_user_says_what_is_a_position(tmp_path: Path) -> None:
    line = {
        "nodes": {"x": [0.0, 1.0], "y": [2.0, 3.0], "pos": [[0, 1], [2, 3]]},
        "edges": [[0, 1]],
        "targets": {"t": 1},
    }
    path = tmp_path / "graphs.jsonl"
    path.write_text("\n".join([json.dumps(line)] * 3))
    assert open_custom(path).schema.positions == ("pos",)
    assert open_custom(path, overrides={"positions": ""}).schema.place == ()
    source = open_custom(path, overrides={"positions": ["x", "y"]})
    assert graphs_in(source)[0].positions.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    for wrong in ("x", ["x", "pos"], "z"):
        with pytest.raises(DataError, match=r"positions|'z'"):
            open_custom(path, overrides={"positions": wrong})


def test_graphs_come_back_as_they_are() -> None:
    graph = Graph(
        num_nodes=3,
        edge_index=[[0], [1]],
        pair_values=np.stack([MATRIX, MATRIX.T], -1),
        pair_categories=[[[0, 1], [-1, 0], [1, 1]]] * 3,
        positions=np.stack([PLACES, PLACES + 1], 1),
        graph_targets=[1.0],
    )
    source = open_custom([graph, graph, graph])
    assert source.schema.features().positions == (2, 3)
    found = graphs_in(source)[0]
    np.testing.assert_array_equal(found.positions, graph.positions)
    np.testing.assert_array_equal(found.pair_categories, graph.pair_categories)
    np.testing.assert_allclose(unscaled(found, source), graph.pair_values, atol=1e-6)


def test_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    graphs = []
    for k in range(3):
        graph = networkx.path_graph(3, create_using=networkx.Graph)
        graph.graph |= {"time": MATRIX, "y": float(k)}
        networkx.set_node_attributes(graph, dict(enumerate(map(tuple, PLACES.tolist()))), "pos")
        graphs.append(graph)
    source = open_custom(graphs, target="y")
    graph = graphs_in(source)[0]
    np.testing.assert_allclose(unscaled(graph, source)[:, :, 0], MATRIX, atol=1e-6)
    np.testing.assert_allclose(graph.positions, PLACES)


def test_pyg() -> None:
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    edges = torch.tensor([[0, 1], [1, 0]])

    def make(n: int) -> Any:
        return data.Data(
            x=torch.eye(n), edge_index=edges, pos=torch.rand(n, 3), time=torch.rand(n, n), y=torch.tensor([1.0])
        )

    datas = [make(n) for n in (3, 3, 3)]
    source = open_custom(datas)
    assert [feature.name for feature in source.schema.pair_features] == ["time"]
    assert [feature.name for feature in source.schema.node_features] == ["x"]
    np.testing.assert_allclose(unscaled(graphs_in(source)[1], source)[:, :, 0], datas[1].time.numpy(), atol=1e-6)
    np.testing.assert_array_equal(from_pyg(datas[0]).positions, datas[0].pos.numpy())


@pytest.mark.parametrize("given", [[[1.0, 2.0]], [[1.0, 2.0], [3.0]], [[{}, 1], [1, 1]], 3.0])
def test_what_is_no_matrix_is_refused(given: Any) -> None:
    with pytest.raises(DataError, match="time"):
        matrix_of(given, 2, "time")


def test_a_matrix_of_nothing_and_one_with_a_broken_head_are_bad_rows(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_text(
        "file,y\na.npy,1\nb.npy,0\nc.npy,1\nb\0.npy,1\n" + "b" * 300 + ".npy,1\nu.npy,1\n"
    )
    np.save(tmp_path / "u.npy", np.full((2, 2), 2**31, np.uint32).view("U1"))
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3"
    (tmp_path / "c.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes([len(head), 0]) + head)
    np.save(tmp_path / "a.npy", np.zeros((0, 0)))
    np.save(tmp_path / "b.npy", np.zeros((2, 2)))
    source = open_custom(tmp_path, target="y")
    errors = [reading.error for reading in source.read_all(source.records("all"))]
    assert "no nodes" in errors[0]
    assert not errors[1]
    assert "cannot be read as plain arrays" in errors[2]
    assert "no such file" in errors[3]
    assert "no such file" in errors[4]
    assert "cannot be read as plain arrays" in errors[5]
