from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from egt.data.encodings.encoding import Preparation, Sample, ShortestPaths, merged
from egt.errors import ConfigError, GraphError
from egt.graph import FeatureSchema, Graph
from egt.parts.inputs import Degrees


def test_many_graphs_are_prepared_as_each_alone_and_a_misfit_gives_its_reason() -> None:
    preparation = Preparation(FeatureSchema(), (Degrees(), ShortestPaths(3)))
    chain = Graph.undirected(num_nodes=3, edge_index=[[0, 1], [1, 2]])
    misfit = Graph(num_nodes=1, edge_index=np.zeros((2, 0), int), node_values=[[1.0]], id="misfit")
    single = Graph(num_nodes=1, edge_index=np.zeros((2, 0), int))
    first, second, third = preparation.each([chain, misfit, single])
    assert isinstance(second, GraphError)
    with pytest.raises(GraphError, match=r"'misfit'.*node_values"):
        preparation(misfit)
    for sample, graph in ((first, chain), (third, single)):
        alone = preparation(graph)
        assert isinstance(sample, Sample)
        assert sample.graph is graph
        assert sample.pair["distance"].tolist() == alone.pair["distance"].tolist()
        assert set(sample.node) | set(sample.pair) == {encoding.name for encoding in preparation.encodings}
    assert isinstance(first, Sample)
    assert first.pair["distance"].tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


def test_inputs_share_an_encoding_that_serves_all_of_them() -> None:
    assert merged([ShortestPaths(3), Degrees(4), ShortestPaths(16), Degrees(4)]) == (ShortestPaths(16), Degrees(4))
    with pytest.raises(ConfigError, match="'degree'"):
        merged([Degrees(4), Degrees(5)])


def test_where_many_at_once_fail_each_is_asked_alone() -> None:
    @dataclass(frozen=True)
    class Picky:
        name: ClassVar[str] = "picky"
        level: ClassVar[Literal["node"]] = "node"
        stored: ClassVar[bool] = True

        def __call__(self, graph: Graph) -> NDArray[np.float32]:
            return self.each([graph])[0]

        def each(self, graphs: Sequence[Graph]) -> list[NDArray[np.float32]]:
            if any(graph.num_nodes == 2 for graph in graphs):
                raise GraphError("not of two nodes")
            return [np.full(graph.num_nodes, len(graphs), np.float32) for graph in graphs]

    def prepared(*sizes: int) -> list[Sample | Exception]:
        graphs = [Graph(num_nodes=size, edge_index=np.zeros((2, 0), np.int64)) for size in sizes]
        return Preparation(FeatureSchema(), [Picky()]).each(graphs)

    assert [sample.node["picky"].tolist() for sample in prepared(1, 3)] == [[2.0], [2.0] * 3]
    first, second, third = prepared(1, 2, 3)
    assert str(second) == "not of two nodes"
    assert [sample.node["picky"].tolist() for sample in (first, third)] == [[1.0], [1.0] * 3]
