"""Targets of pairs: matrices of numbers and classes, distances of positions, divided graphs, answers as matrices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egt
from egt.config.defaults import infer_run
from egt.data.custom import open_custom
from egt.data.custom_source import CustomSource
from egt.errors import DataError
from egt.graph import Graph
from egt.parts.readouts import PerEdge


def write(path: Path, *matrices: Any, **more: Any) -> Path:
    lines = [
        {"num_nodes": len(rows), "edges": [[0, 1]], "pair_targets": {"time": rows}, "id": f"g{k}", **more}
        for k, rows in enumerate(matrices)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def graphs_in(source: CustomSource, split: str = "all") -> list[Graph]:
    readings = source.read_all(source.records(split))
    assert not [reading.error for reading in readings if reading.error]
    return [reading.graph for reading in readings if reading.graph is not None]


def asked(graph: Graph) -> dict[tuple[int, int], float]:
    """The targets of the pairs of a graph, those that are scored."""
    assert graph.query_index is not None
    assert graph.edge_targets is not None
    pairs = zip(graph.query_index.T.tolist(), graph.edge_targets[:, 0].tolist(), strict=True)
    return {(i, j): value for (i, j), value in pairs if value == value}


SYMMETRIC = [[0, 1.5, None], [1.5, 0, 2.5], [3.5, 2.5, 0]]
ONE_WAY = [[0, 1.5, 7.25], [2.5, 0, 2.5], [3.5, None, 0]]


def test_a_symmetric_matrix_asks_each_pair_once_and_takes_the_entry_that_is_there(tmp_path: Path) -> None:
    source = open_custom(write(tmp_path / "a.jsonl", SYMMETRIC, SYMMETRIC))
    schema = source.schema
    assert (schema.level, schema.kind, schema.targets) == ("pair", "regression", ("time",))
    assert (schema.symmetric, schema.self_pairs) == (True, False)
    assert schema.features().num_pair_values == 0
    assert asked(graphs_in(source)[0]) == {(0, 1): 1.5, (0, 2): 3.5, (1, 2): 2.5}
    readout = infer_run(source, "a.jsonl", "a").model.readout
    assert isinstance(readout, PerEdge)
    assert readout.symmetric


def test_a_matrix_with_directions_asks_both(tmp_path: Path) -> None:
    source = open_custom(write(tmp_path / "a.jsonl", SYMMETRIC, ONE_WAY))
    assert not source.schema.symmetric
    assert asked(graphs_in(source)[1]) == {(0, 1): 1.5, (0, 2): 7.25, (1, 0): 2.5, (1, 2): 2.5, (2, 0): 3.5}


def test_a_diagonal_that_says_something_is_asked(tmp_path: Path) -> None:
    rows = [[5.5, 1.5], [1.5, 0.25]]
    source = open_custom(write(tmp_path / "a.jsonl", rows, rows))
    assert asked(graphs_in(source)[0]) == {(0, 0): 5.5, (0, 1): 1.5, (1, 1): 0.25}


def test_classes_of_pairs_and_listed_pairs(tmp_path: Path) -> None:
    rows = [[None, "near", "far"], ["near", None, "far"], ["far", "near", None]]
    source = open_custom(write(tmp_path / "a.jsonl", rows, rows, queries=[[2, 1], [0, 1]]))
    assert (source.schema.kind, source.schema.classes) == ("binary", ("far", "near"))
    assert asked(graphs_in(source)[0]) == {(2, 1): 1.0, (0, 1): 1.0}


def test_new_graphs_ask_about_all_pairs(tmp_path: Path) -> None:
    schema = open_custom(write(tmp_path / "a.jsonl", SYMMETRIC, SYMMETRIC)).schema
    (tmp_path / "new.jsonl").write_text(json.dumps({"num_nodes": 4, "edges": [[0, 1]]}))
    source = open_custom(tmp_path / "new.jsonl", schema=schema)
    [graph] = graphs_in(source)
    assert graph.query_index is not None
    assert graph.query_index.shape == (2, 6)
    assert graph.edge_targets is None
    assert source.missing_targets() == ["time"]


@pytest.mark.parametrize("matrix", ["symmetric", "one way"])
def test_one_graph_is_divided_by_its_pairs(tmp_path: Path, matrix: str) -> None:
    times = np.random.default_rng(0).random((12, 12)).round(3)
    times = times + times.T if matrix == "symmetric" else times
    np.fill_diagonal(times, 0)
    source = open_custom(write(tmp_path / "a.jsonl", times.tolist()))
    found = [asked(graphs_in(source, split)[0]) for split in ("train", "val", "test")]
    pairs = [set(each) for each in found]
    assert sum(map(len, pairs)) == len(set.union(*pairs)) == (66 if matrix == "symmetric" else 132)
    assert all(pairs)
    assert all(times[i, j] == pytest.approx(value) for each in found for (i, j), value in each.items())
    rows = source.rows_in("test", 0)
    graph = graphs_in(source, "test")[0]
    assert rows is not None
    assert graph.query_index is not None
    assert {tuple(pair) for pair in graph.query_index[:, rows].T.tolist()} == pairs[2]


def test_a_folder_of_matrices_with_one_of_them_as_target(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_text("file\na.npz\nb.npz\n")
    for name in "ab":
        seen = np.random.default_rng(0).random((3, 3))
        np.savez(tmp_path / f"{name}.npz", seen=seen, wanted=seen + seen.T)
    source = open_custom(tmp_path, target="wanted")
    assert source.schema.level == "pair"
    assert source.schema.features().num_pair_values == 1
    with pytest.raises(DataError, match="columns"):
        open_custom(tmp_path, level="pair")


def test_distances_of_positions_are_a_target_and_no_input(tmp_path: Path) -> None:
    places = np.random.default_rng(0).normal(size=(4, 3))
    line = {"nodes": {"pos": places.tolist(), "kind": ["a", "b", "a", "b"]}, "edges": [[0, 1]]}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line))
    source = open_custom(tmp_path / "a.jsonl", level="pair")
    assert source.schema.targets == ("distance",)
    assert source.schema.features().positions == ()
    assert [feature.name for feature in source.schema.node_features] == ["kind"]
    graph = graphs_in(source)[0]
    assert graph.positions is None
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    assert asked(graph) == {(i, j): pytest.approx(apart[i, j], abs=1e-6) for i in range(4) for j in range(i + 1, 4)}
    assert source.missing_targets() == []


def test_distances_of_molecules(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smiles\nCCO\nCCN\nCC=O\n*CCC*\n")
    source = open_custom(tmp_path / "a.csv", level="pair", overrides={"conformers": 2})
    assert (source.schema.targets, source.schema.positions, source.schema.place) == (("distance",), ("rdkit",), (2, 3))
    first, *_, unplaced = graphs_in(source)
    assert asked(first)[(0, 1)] == pytest.approx(1.5, abs=0.1)
    assert asked(unplaced) == {}
    new = open_custom(["CCO"], schema=source.schema)
    [graph] = graphs_in(new)
    assert graph.edge_targets is None
    assert new.missing_targets() == ["distance"]
    with pytest.raises(DataError, match="distance"):
        open_custom(tmp_path / "a.csv", level="pair", target="smiles")


def test_matrices_are_predicted_and_written(tmp_path: Path) -> None:
    times = np.random.default_rng(0).random((8, 5, 5)).round(3)
    times = times + times.swapaxes(1, 2)
    times[:, range(5), range(5)] = 0
    path = write(tmp_path / "a.jsonl", *times.tolist())
    settings = {"trainer.max_epochs": 1, "trainer.baseline": False}
    egt.train(path, set=settings, out=tmp_path / "run", progress=False)
    model = egt.load(tmp_path / "run")
    found = model.predict(path)
    assert found.columns[:4] == ["graph", "source", "target", "time"]
    found.to_npz(tmp_path / "out.npz")
    rows = {(row["source"], row["target"]): row["time"] for row in found.table() if row["graph"] == "g3"}
    with np.load(tmp_path / "out.npz", allow_pickle=False) as written:
        assert written.files == [f"g{k}" for k in range(8)]
        matrix = written["g3"]
    assert np.isnan(matrix.diagonal()).all()
    assert all(matrix[i, j] == matrix[j, i] == np.float32(value) for (i, j), value in rows.items())
    assert len(rows) == 10
    assert set(model.evaluate(path)) >= {"mae", "rmse"}
