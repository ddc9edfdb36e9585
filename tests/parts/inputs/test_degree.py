from __future__ import annotations

import numpy as np

from egt.data.encodings.encoding import Encoding
from egt.graph import Graph
from egt.parts.inputs import Degrees


def test_counts_by_hand() -> None:
    graph = Graph(num_nodes=4, edge_index=[[0, 0, 0, 1], [1, 2, 0, 2]])
    np.testing.assert_array_equal(Degrees(8)(graph), [[3, 1], [1, 1], [0, 2], [0, 0]])
    np.testing.assert_array_equal(Degrees(2)(graph), [[2, 1], [1, 1], [0, 2], [0, 0]])
    np.testing.assert_array_equal(Degrees(8)(Graph(num_nodes=2, edge_index=[[], []])), np.zeros((2, 2)))


def test_result_and_settings() -> None:
    encoding: Encoding = Degrees()
    assert (encoding.name, encoding.level, encoding.stored) == ("degree", "node", False)
    assert encoding(Graph(num_nodes=1, edge_index=[[], []])).dtype == np.int64
