from __future__ import annotations

import numpy as np
import pytest

from egt.encodings.distances import ShortestPaths
from egt.encodings.encoding import Preparation, Sample, merged
from egt.errors import ConfigError, GraphError
from egt.graph import FeatureSchema, Graph
from egt.inputs.degree import Degrees


def test_many_graphs_are_prepared_as_each_alone_and_a_misfit_gives_its_reason() -> None:
    preparation = Preparation(FeatureSchema(), (Degrees(), ShortestPaths(3)))
    chain = Graph.undirected(num_nodes=3, edge_index=[[0, 1], [1, 2]])
    misfit = Graph(num_nodes=1, edge_index=np.zeros((2, 0), int), node_values=[[1.0]], id="misfit")
    single = Graph(num_nodes=1, edge_index=np.zeros((2, 0), int))
    first, second, third = preparation.each([chain, misfit, single])
    assert isinstance(second, GraphError)
    with pytest.raises(GraphError, match="'misfit': node_values has 1 columns"):
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
    with pytest.raises(ConfigError, match="two inputs ask for the encoding 'degree' with different settings"):
        merged([Degrees(4), Degrees(5)])
