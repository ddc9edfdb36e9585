from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import from_pyg, open_custom
from egt.errors import DataError

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric.data")


def data(**fields: Any) -> Any:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return geometric.Data(edge_index=edges, num_nodes=3, **fields)


def many() -> list[Any]:
    return [
        data(
            x=torch.tensor([[1.0 + k], [2.0], [3.5]]),
            edge_attr=torch.tensor([0, 0, k % 2, k % 2]),
            y=torch.tensor([k % 2]),
        )
        for k in range(10)
    ]


def test_from_pyg_takes_features_as_they_are() -> None:
    graph = from_pyg(
        data(x=torch.tensor([[0.5], [1.5], [2.5]]), edge_attr=torch.tensor([[3], [3], [1], [1]]), y=torch.tensor([2.0]))
    )
    assert graph.node_values.tolist() == [[0.5], [1.5], [2.5]]
    assert graph.edge_categories.tolist() == [[3], [3], [1], [1]]
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [2.0]


def test_the_level_of_y_is_told_from_its_rows() -> None:
    node, edge = from_pyg(data(y=torch.tensor([0, 1, 2]))), from_pyg(data(y=torch.ones(4)))
    assert node.node_targets is not None
    assert node.node_targets.tolist() == [[0], [1], [2]]
    assert edge.edge_targets is not None
    assert edge.edge_targets.shape == (4, 1)


def test_a_list_of_data_is_a_source() -> None:
    source = open_custom(many())
    schema = source.schema
    assert (schema.level, schema.kind, schema.classes) == ("graph", "binary", ("0", "1"))
    assert schema.node_features[0].kind == "continuous"
    assert schema.edge_features[0].vocabulary == ("0", "1")
    graph = source.read(source.records("all")[3]).graph
    assert graph is not None
    assert graph.num_edges == 4, "edges are listed in both directions already"
    assert graph.edge_categories.tolist() == [[0], [0], [1], [1]]


@pytest.mark.parametrize(("split", "train"), [(None, [0]), ("split.0", [0]), ("split.1", [2])])
def test_one_of_several_masks_is_the_split_and_the_others_are_no_features(split: str | None, train: list[int]) -> None:
    masks = {f"{name}_mask": torch.eye(3)[:, [k, 2 - k]].bool() for k, name in enumerate(("train", "val", "test"))}
    source = open_custom(data(x=torch.eye(3), y=torch.tensor([0, 1, 1]), **masks), split=split)
    assert source.schema.split.column == (split or "split.0")
    assert [feature.name for feature in source.schema.node_features] == ["x"]
    inside = source.rows_in("train", 0)
    assert inside is not None
    assert np.flatnonzero(inside).tolist() == train


def test_masks_of_one_graph_are_its_split() -> None:
    masks = {
        f"{name}_mask": torch.tensor(mask)
        for name, mask in (
            ("train", [True, False, False]),
            ("val", [False, True, False]),
            ("test", [False, False, True]),
        )
    }
    source = open_custom(data(x=torch.eye(3), y=torch.tensor([0, 1, 1]), **masks))
    assert source.schema.split.kind == "column"
    graph = source.read(source.records("val")[0]).graph
    assert graph is not None
    np.testing.assert_equal(graph.node_targets, [[np.nan], [1.0], [np.nan]])


@pytest.mark.parametrize("save", ["dataset", "dicts"])
def test_saved_tensors_are_read(tmp_path: Path, save: str) -> None:
    path = tmp_path / "data.pt"
    if save == "dataset":
        geometric.InMemoryDataset.save(many(), str(path))
    else:
        torch.save([item.to_dict() for item in many()], path)
    source, given = open_custom(path), open_custom(many())
    for record, expected in zip(source.records("all"), given.records("all"), strict=True):
        graph, other = source.read(record).graph, given.read(expected).graph
        assert graph is not None
        assert other is not None
        np.testing.assert_array_equal(graph.node_values, other.node_values)
        np.testing.assert_array_equal(graph.graph_targets, other.graph_targets)


def test_a_file_with_objects_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.pt"
    torch.save(many(), path)
    with pytest.raises(DataError, match="to_dict"):
        open_custom(path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x80\x02K\x01."])
def test_a_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.pt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"data\.pt"):
        open_custom(path)


def test_a_batch_is_the_graphs_in_it() -> None:
    source = open_custom(geometric.Batch.from_data_list(many()))
    assert len(source.records("all")) == 10
    assert source.schema.targets == ("y",)


def test_a_graph_without_y_has_no_label() -> None:
    graphs = [data(y=torch.tensor([0.5 * k]) if k % 2 else None) for k in range(10)]
    source = open_custom(graphs)
    assert source.schema.level == "graph"
    labels = [source.read(record).graph for record in source.records("all")]
    targets = [
        float(graph.graph_targets[0]) for graph in labels if graph is not None and graph.graph_targets is not None
    ]
    np.testing.assert_equal(targets, [0.5 * k if k % 2 else np.nan for k in range(10)])
    nodes = open_custom([data(y=torch.tensor([0, 1, 0]) if k else None) for k in range(10)])
    assert nodes.schema.level == "node"
    assert all(not nodes.read(record).error for record in nodes.records("all"))


def test_tensors_that_numpy_does_not_know() -> None:
    x = torch.tensor([[0.5, 0.0], [1.5, 0.0], [2.5, 1.0]])
    plain = from_pyg(data(x=x))
    assert from_pyg(data(x=x.to_sparse())).node_values.tolist() == plain.node_values.tolist()
    assert from_pyg(data(x=x.bfloat16())).node_values.tolist() == plain.node_values.tolist()


def test_names_as_y_are_refused() -> None:
    with pytest.raises(DataError, match="'a'"):
        open_custom([data(y=name) for name in "abab"])


EDGES = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    "content",
    [
        {"edge_index": EDGES, "x": torch.ones(2, 1), "to_data_list": torch.ones(1)},
        {"edge_index": torch.tensor([0, 1]), "x": torch.ones(2, 1), "y": torch.ones(2)},
        {"edge_index": EDGES, "x": torch.ones(2, 1).to(torch.float8_e4m3fn)},
        {"edge_index": EDGES, "x": torch.tensor(1.0)},
        {"edge_index": EDGES, "x": torch.ones(2, 1, dtype=torch.complex64)},
        {"edge_index": EDGES, "num_nodes": 10**12},
        ({"edge_index": EDGES}, {}),
        ["text"],
        7,
    ],
)
def test_tensors_that_make_no_graph_are_refused(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "data.pt")
    with pytest.raises(DataError):
        open_custom(tmp_path / "data.pt", level="link")


def test_what_is_refused_is_told_in_one_plain_line(tmp_path: Path) -> None:
    torch.save({"x": Path("a")}, tmp_path / "data.pt")
    with pytest.raises(DataError, match="pathlib") as told:
        open_custom(tmp_path / "data.pt")
    assert "\x1b" not in str(told.value)
    assert "\n" not in str(told.value)
