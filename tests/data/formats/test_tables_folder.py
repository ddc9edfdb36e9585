from __future__ import annotations

from pathlib import Path

import pytest

from egt.data.columns import RawData
from egt.data.formats.tables_folder import TablesFolder, read_folder
from egt.errors import DataError

TWO = {
    "graphs": "graph,split,y\ng1,train,0.5\ng2,test,\n",
    "nodes": "graph,node,element\ng2,x,C\ng1,a,C\ng1,b,O\ng2,y,N\ng1,c,C\n",
    "edges": "graph,source,target,weight\ng1,a,b,1\ng2,y,x,2\ng1,b,c,3\n",
}


def read(tmp_path: Path, **tables: str) -> RawData:
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text)
    assert TablesFolder.fits(tmp_path)
    return read_folder(tmp_path)


def test_rows_find_their_graph_in_any_order(tmp_path: Path) -> None:
    raw = read(tmp_path, **TWO)
    first, second = raw.graphs
    assert first is not None
    assert second is not None
    assert first.nodes["element"].tolist() == ["C", "O", "C"]
    assert first.edges.tolist() == [[0, 1], [1, 2]]
    assert first.edge_columns["weight"].tolist() == [1, 3]
    assert second.edges.tolist() == [[1], [0]]
    assert raw.table["id"].tolist() == ["g1", "g2"]
    assert raw.table["split"].tolist() == ["train", "test"]


def test_one_graph_without_graph_and_node_columns(tmp_path: Path) -> None:
    raw = read(tmp_path, nodes="x,y\n1,0\n2,1\n3,1\n", edges="src,dst\n0,2\n", queries="source,target\n1,2\n")
    (graph,) = raw.graphs
    assert graph is not None
    assert graph.num_nodes == 3
    assert graph.edges.tolist() == [[0], [2]]
    assert graph.queries is not None
    assert graph.queries.tolist() == [[1], [2]]


def test_an_edge_to_an_unknown_node_spoils_its_graph_only(tmp_path: Path) -> None:
    raw = read(tmp_path, **{**TWO, "edges": TWO["edges"] + "g1,a,z,1\n"})
    assert [graph is None for graph in raw.graphs] == [True, False]
    assert "edges line 5 names node 'z'" in raw.problems[0]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({**TWO, "edges": "source,target\na,b\n"}, "column"),
        ({**TWO, "graphs": "name\ng1\n"}, "column"),
        ({**TWO, "graphs": "graph\ng1\ng1\n"}, "twice"),
        ({**TWO, "graphs": "graph\ng1\n"}, "'g2'"),
        ({**TWO, "nodes": TWO["nodes"] + "g1\n"}, r"nodes.csv"),
    ],
)
def test_tables_that_do_not_fit_together(tmp_path: Path, tables: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, **tables)


def test_a_graph_without_nodes_and_one_with_repeated_names(tmp_path: Path) -> None:
    graphs = TWO["graphs"] + "g3,train,1\n"
    raw = read(tmp_path, **{**TWO, "graphs": graphs, "nodes": TWO["nodes"] + "g2,x,C\n"})
    assert "same name" in raw.problems[1]
    assert "no nodes" in raw.problems[2]


def test_names_are_kept_to_the_last_digit(tmp_path: Path) -> None:
    nodes = "node,x\n01,1\n1,2\n90071992547409931,3\n90071992547409932,4\n"
    raw = read(tmp_path, nodes=nodes, edges="source,target\n01,1\n90071992547409931,90071992547409932\n")
    graph = raw.graphs[0]
    assert graph is not None
    assert graph.edges.tolist() == [[0, 2], [1, 3]]


def test_a_graph_may_have_no_edges(tmp_path: Path) -> None:
    graph = read(tmp_path, nodes="x\n1\n2\n", edges="source,target\n").graphs[0]
    assert graph is not None
    assert graph.edges.shape == (2, 0)
    assert read(tmp_path, nodes="graph,x\n", edges="graph,source,target\n", graphs="graph,y\n").num_rows == 0
    (tmp_path / "graphs.csv").unlink()
    assert "it has no nodes" in read(tmp_path, nodes="x\n", edges="source,target\n").problems[0]


def test_structural_columns_may_be_written_in_capitals(tmp_path: Path) -> None:
    raw = read(tmp_path, nodes="Node,X\na,1\nb,2\n", edges="Source,TARGET,Kind\na,b,s\n")
    graph = raw.graphs[0]
    assert graph is not None
    assert graph.edges.tolist() == [[0], [1]]
    assert list(graph.nodes) == ["X"]
    assert list(graph.edge_columns) == ["Kind"]


def test_masks_as_spreadsheets_and_pandas_write_them(tmp_path: Path) -> None:
    nodes = "x,train_mask,val_mask,test_mask\n1,True,False,False\n2,FALSE,TRUE,FALSE\n3,false,false,true\n"
    graph = read(tmp_path, nodes=nodes, edges="source,target\n0,1\n").graphs[0]
    assert graph is not None
    assert graph.nodes["split"].tolist() == ["train", "val", "test"]


def test_a_label_called_target_is_no_end_of_an_edge(tmp_path: Path) -> None:
    raw = read(tmp_path, nodes="node\n0\n1\n2\n", edges="src,dst,target\n0,2,1\n1,2,0\n")
    (graph,) = raw.graphs
    assert graph is not None
    assert graph.edges.tolist() == [[0, 1], [2, 2]]
    assert graph.edge_columns["target"].tolist() == [1, 0]
