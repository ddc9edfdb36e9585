from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.columns import RawData
from egt.data.custom import read_raw
from egt.data.formats.jsonl import read_jsonl
from egt.errors import DataError


def read(tmp_path: Path, *lines: dict[str, Any] | str) -> RawData:
    path = tmp_path / "g.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return read_jsonl(path)


def test_columns_and_rows_say_the_same(tmp_path: Path) -> None:
    raw = read(
        tmp_path,
        {
            "nodes": {"element": ["C", "O", None], "pos": [[0, 1], [2, 3], None]},
            "edges": {"source": [0, 1], "target": [1, 2], "weight": [2.5, None]},
        },
        {
            "nodes": [{"element": "C", "pos": [0, 1]}, {"element": "O", "pos": [2, 3]}, {}],
            "edges": [{"source": 0, "target": 1, "weight": 2.5}, {"source": 1, "target": 2}],
        },
    )
    for graph in raw.graphs:
        assert graph is not None
        assert graph.num_nodes == 3
        assert graph.edges.tolist() == [[0, 1], [1, 2]]
        assert graph.nodes["element"].tolist() == ["C", "O", None]
        np.testing.assert_equal(graph.nodes["pos"], [[0, 1], [2, 3], [np.nan, np.nan]])
        np.testing.assert_equal(graph.edge_columns["weight"], [2.5, np.nan])


def test_edges_may_name_nodes_by_id(tmp_path: Path) -> None:
    raw = read(tmp_path, {"nodes": {"id": ["a", "b", 7]}, "edges": [["b", "a"], [7, "b"]]})
    (graph,) = raw.graphs
    assert graph is not None
    assert graph.edges.tolist() == [[1, 2], [0, 1]]
    assert not graph.nodes, "the id names nodes, it is no feature"


def test_targets_of_all_levels_are_declared(tmp_path: Path) -> None:
    raw = read(
        tmp_path,
        {
            "id": "first",
            "split": "train",
            "num_nodes": 2,
            "edges": [[0, 1]],
            "targets": {"energy": 1.5, "dipole": [1, 2, None]},
            "node_targets": {"role": ["x", None]},
            "edge_targets": {"used": [True]},
        },
    )
    assert raw.declared == {
        "graph": ("energy", "dipole.0", "dipole.1", "dipole.2"),
        "node": ("role",),
        "edge": ("used",),
    }
    assert raw.table["id"].tolist() == ["first"]
    np.testing.assert_equal(raw.table["dipole.2"], [np.nan])
    assert raw.graphs[0] is not None
    assert raw.graphs[0].edge_columns["used"].tolist() == [1.0]


def test_masks_become_a_split_column(tmp_path: Path) -> None:
    nodes = {"train_mask": [True, False, False], "val_mask": [False, True, False]}
    (graph,) = read(tmp_path, {"nodes": nodes, "edges": []}).graphs
    assert graph is not None
    assert {name: column.tolist() for name, column in graph.nodes.items()} == {"split": ["train", "val", None]}


def test_masks_of_several_splits_become_a_column_each(tmp_path: Path) -> None:
    nodes = {"train_mask": [[1, 0], [0, 1]], "val_mask": [[0, 1], [0, 0]], "test_mask": [0, 1]}
    (graph,) = read(tmp_path, {"nodes": nodes, "edges": []}).graphs
    assert graph is not None
    columns = {name: column.tolist() for name, column in graph.nodes.items()}
    assert columns == {"split.0": ["train", "test"], "split.1": ["val", "test"]}
    wide = {**nodes, "val_mask": [[0, 1, 0], [0, 0, 0]]}
    assert "val_mask must be one column" in read(tmp_path, {"nodes": wide, "edges": []}).problems[0]


GOOD: dict[str, Any] = {"num_nodes": 2, "edges": [[0, 1]]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"nodes": ' * 5000, "not JSON"),
        ({"vertices": 3}, "unknown keys .*vertices"),
        ({"edges": [[0, 1]]}, "give nodes, or num_nodes"),
        ({**GOOD, "num_nodes": 10**13}, "a graph has 1 to"),
        ({"num_nodes": 2}, "edges is missing; a graph without any has"),
        ({"num_nodes": 2, "edges": {"a": [1]}}, "source and target"),
        (json.dumps({**GOOD, "id": "\ud800"}), "half of a surrogate pair"),
        ({**GOOD, "edges": [[0, 1, 2]]}, "pairs"),
        ({**GOOD, "edges": [[0, 1.5]]}, "by their numbers"),
        ({**GOOD, "nodes": {"a": [1]}}, "nodes has 1 rows"),
        ({**GOOD, "nodes": {"a": [1, {}]}}, "allowed are numbers"),
        ({**GOOD, "nodes": {"a": [[1], [1, 2]]}}, "lengths"),
        ({**GOOD, "nodes": {"a": [1, 10**400]}}, "too large"),
        ({**GOOD, "nodes": {"id": ["a", "a"]}}, "same id"),
        ({**GOOD, "nodes": {"id": ["a", "b"]}, "edges": [["a", "c"]]}, "no node has this id"),
        ({**GOOD, "node_targets": {"y": [1]}}, "1 values for 2 rows"),
        ({**GOOD, "nodes": {"y": [1, 2]}, "node_targets": {"y": [1, 2]}}, "both a feature"),
        ({**GOOD, "targets": 3}, "must be an object"),
        ({**GOOD, "directed": "no"}, "true or false"),
        ({**GOOD, "id": [1]}, "texts or numbers"),
    ],
)
def test_a_bad_line_is_a_bad_row_with_its_number(tmp_path: Path, line: dict[str, Any] | str, message: str) -> None:
    raw = read(tmp_path, GOOD, "", line, GOOD)
    assert [graph is None for graph in raw.graphs] == [False, True, False]
    with pytest.raises(DataError, match=rf"g.jsonl.*{message}"):
        raise DataError(raw.problems[1])


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text("\n \n")
    with pytest.raises(DataError, match=r"g\.jsonl"):
        read_raw(tmp_path / "g.jsonl")


def test_a_target_is_not_called_like_the_id_of_its_graph(tmp_path: Path) -> None:
    raw = read(tmp_path, {"id": "a", "num_nodes": 1, "edges": [], "targets": {"id": 3.5}})
    assert "'id'" in raw.problems[0]
