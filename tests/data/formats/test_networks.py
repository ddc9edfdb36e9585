from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import from_networkx, open_custom
from egt.errors import DataError, GraphError

nx = pytest.importorskip("networkx")


def triangle(kind: Any = nx.Graph, **attributes: Any) -> Any:
    graph = kind(**attributes)
    graph.add_node("a", element="C", charge=0.5, y=1.0)
    graph.add_node("b", element="O", charge=1.5)
    graph.add_node("c", element="C", charge=2.5, y=0.0)
    graph.add_edge("a", "b", weight=2.0, bond="single")
    graph.add_edge("b", "c", weight=3.0, bond="double")
    return graph


def test_from_networkx_takes_what_is_named() -> None:
    graph = from_networkx(
        triangle(energy=4.0),
        node_categories={"element": ["C", "N", "O"]},
        node_values=["charge"],
        edge_categories={"bond": ["single", "double"]},
        weight="weight",
        graph_targets=["energy"],
        node_targets=["y"],
    )
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert graph.node_categories.tolist() == [[0], [2], [0]]
    assert graph.node_values.tolist() == [[0.5], [1.5], [2.5]]
    assert graph.edge_categories.tolist() == [[0], [1], [0], [1]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2, 3, 2, 3]
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [4.0]
    np.testing.assert_equal(graph.node_targets, [[1.0], [np.nan], [0.0]])


def test_a_directed_multigraph_keeps_directions_and_sums_weights() -> None:
    graph = triangle(nx.MultiDiGraph)
    graph.add_edge("a", "b", weight=10.0, bond="double")
    read = from_networkx(graph, edge_categories={"bond": ["single", "double"]}, weight="weight")
    assert read.edge_index.tolist() == [[0, 1], [1, 2]]
    assert read.edge_weight is not None
    assert read.edge_weight.tolist() == [12.0, 3.0]
    assert read.edge_categories.tolist() == [[0], [1]], "the first of the parallel edges gives the features"


def test_from_networkx_says_what_is_missing() -> None:
    with pytest.raises(DataError, match="'mass'"):
        from_networkx(triangle(), node_values=["mass"])
    with pytest.raises(DataError, match="'mass'"):
        from_networkx(triangle(), graph_targets=["mass"])
    with pytest.raises(DataError, match="'O'"):
        from_networkx(triangle(), node_categories={"element": ["C"]})
    with pytest.raises(DataError, match="text"):
        from_networkx(triangle(), node_values=["element"])
    with pytest.raises(GraphError, match="finite"):
        from_networkx(triangle(), node_values=["y"])
    with pytest.raises(DataError, match="nodes"):
        from_networkx(nx.Graph())


def test_graphs_in_a_list_open_as_a_source() -> None:
    graphs = [triangle(energy=float(k) + 0.5) for k in range(10)]
    with pytest.raises(DataError, match="levels"):
        open_custom(graphs)
    schema = open_custom(graphs, level="graph").schema
    assert (schema.kind, schema.targets) == ("regression", ("energy",))
    assert schema.directed is False
    assert schema.weight == "weight"
    assert [feature.name for feature in schema.edge_features] == ["weight", "bond"]


def test_graphml_files_and_a_bad_one(tmp_path: Path) -> None:
    for k in range(4):
        nx.write_graphml(triangle(nx.DiGraph, energy=k + 0.5), tmp_path / f"g{k}.graphml")
    (tmp_path / "g9.graphml").write_text("<graphml><broken")
    source = open_custom(tmp_path, target="energy")
    readings = [source.read(record) for record in source.records("all")]
    assert [reading.id for reading in readings] == ["g0", "g1", "g2", "g3", "g9"]
    assert "g9: not a GraphML file" in readings[4].error
    graph = readings[2].graph
    assert graph is not None
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [2.5]
    assert source.schema.directed is True


def test_a_graphml_file_with_several_graphs_gives_all_of_them(tmp_path: Path) -> None:
    key = '<key id="k" for="node" attr.name="label" attr.type="string"/>'
    graph = '<graph edgedefault="undirected">{}<edge source="a" target="b"/></graph>'
    nodes = '<node id="a"><data key="k">q</data></node><node id="b"><data key="k">r</data></node>'
    space = 'xmlns="http://graphml.graphdrawing.org/xmlns"'
    path = tmp_path / "three.graphml"
    path.write_text(f"<graphml {space}>{key}{graph.format(nodes) * 3}</graphml>")
    source = open_custom(path)
    assert [source.read(record).id for record in source.records("all")] == ["three/0", "three/1", "three/2"]
    path.write_text(f"<graphml>{key}{graph.format(nodes)}</graphml>")  # a header that NetworkX completes
    assert len(open_custom(path).records("all")) == 1


def test_a_graphml_file_without_nodes_is_named(tmp_path: Path) -> None:
    nx.write_graphml(triangle(), tmp_path / "good.graphml")
    nx.write_graphml(nx.Graph(), tmp_path / "void.graphml")
    source = open_custom(tmp_path, level="link")
    assert [source.read(record).error for record in source.records("all")] == ["", "void: the graph has no nodes"]


@pytest.mark.parametrize("number", [np.float64, np.int64, np.float32])
def test_graph_attributes_may_be_of_numpy(number: Any) -> None:
    graphs = [triangle(y=number(k)) for k in range(6)]
    assert open_custom(graphs, level="graph", target="y", overrides={"kind": "regression"}).schema.targets == ("y",)
    graphs = [triangle(y=np.array([k, 0.5])) for k in range(6)]
    assert open_custom(graphs, level="graph", target="y.*").schema.targets == ("y.0", "y.1")


def test_pairs_are_asked_about_by_the_names_of_their_nodes() -> None:
    asked = triangle(queries=[("c", "a"), ("a", "b")])
    for data in (asked, [asked]):  # a single graph with texts for nodes is no list of SMILES
        source = open_custom(data, target=None, level="link")
        [raw] = source._raw.graphs
        assert raw is not None
        assert raw.queries is not None
        assert raw.queries.tolist() == [[2, 0], [0, 1]]
        assert "queries" not in source._raw.table
    with pytest.raises(DataError, match="queries"):
        open_custom([triangle(queries=[("c", "nobody")])], level="link")
