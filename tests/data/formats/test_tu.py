from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from egt.data.columns import RawData
from egt.data.formats.tu import TU, read_tu
from egt.errors import DataError

FILES = {
    "A": "1, 2\n2, 1\n4, 5\n5, 4\n4, 3\n3, 4\n",
    "graph_indicator": "1\n1\n2\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "0\n3\n0\n0\n3\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n",
    "edge_labels": "7\n7\n8\n8\n9\n9\n",
}


def read(tmp_path: Path, **files: str) -> RawData:
    for name, text in files.items():
        (tmp_path / f"DS_{name}.txt").write_text(text)
    assert TU.fits(tmp_path)
    return read_tu(tmp_path)


def test_all_files(tmp_path: Path) -> None:
    raw = read(tmp_path, **FILES)
    assert raw.declared == {"graph": ("graph_label",)}
    assert raw.table["graph_label"].tolist() == ["-1", "1"]
    first, second = raw.graphs
    assert first is not None
    assert second is not None
    assert (first.num_nodes, second.num_nodes) == (2, 3)
    assert second.edges.tolist() == [[1, 2, 1, 0], [2, 1, 0, 1]]
    assert second.nodes["node_label"].tolist() == ["0", "0", "3"]
    assert second.nodes["node_attribute"].tolist() == [[2.5, 3], [3.5, 4], [4.5, 5]]
    assert second.edge_columns["edge_label"].tolist() == ["8", "8", "9", "9"]


def test_gzipped_files(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / f"DS_{name}.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert read_tu(tmp_path).num_rows == 2


def test_without_labels_graph_attributes_are_the_targets(tmp_path: Path) -> None:
    files = {name: FILES[name] for name in ("A", "graph_indicator")}
    raw = read(tmp_path, **files, graph_attributes="0.5, 1\n0.25, 2\n")
    assert raw.declared == {"graph": ("graph_attribute.0", "graph_attribute.1")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": "1, x\n"}, "string . ?x. to float"),
        ({"A": "1, 2, 3\n"}, "numbers"),
        ({"A": "1, 6\n"}, r"1..5"),
        ({"A": "1, 2\n2, 3\n", "edge_labels": "7\n7\n"}, "graphs"),
        ({"graph_indicator": "1\n1\n2\n1\n2\n"}, "decrease"),
        ({"graph_indicator": "1\n1\n2\n3\n3\n"}, "graph"),
        ({"node_labels": "1\n"}, "node_label"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, **{**FILES, **changes})


def test_a_graph_number_far_above_the_number_of_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1,020"):
        read(tmp_path, A="", graph_indicator="1\n1000000000\n")


def test_a_split_of_the_graphs(tmp_path: Path) -> None:
    raw = read(tmp_path, **FILES, graph_splits="train\r\ntest\r\n")
    assert raw.table["split"].tolist() == ["train", "test"]
    assert raw.declared == {"graph": ("graph_label",)}
    assert raw.digest != read(tmp_path, graph_splits="test\ntrain\n").digest
    with pytest.raises(DataError, match=r"DS_graph_splits\.txt"):
        read(tmp_path, graph_splits="train\n")
