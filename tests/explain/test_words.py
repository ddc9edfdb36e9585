"""What an analysis says in words: near layers and far ones are called so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from egt.explain.analysis import analyze
from egt.explain.analysis_page import summary
from tests.explain.by_hand import attention, chain


def test_layers_are_grouped_by_how_far_they_look() -> None:
    size = 12
    near = np.eye(size) * 0.5 + np.eye(size, k=1) * 0.5
    near[-1] = np.eye(size)[-1]
    even = np.full((size, size), 1 / size)
    said = summary(analyze([attention(chain(size), [[near], [near], [even]])]))
    assert said[0].startswith("Layers 1-2 look at the node itself and its neighbors (100% within 1 hop, 0.5 hops")
    assert said[1].startswith("Layer 3 spreads over the graph")
    assert "even attention would have 4.0" in said[1]
    assert "The model has no gates." in said
    assert said[-1] == "The edge channel is the same after every layer."


def test_a_large_change_is_told_in_times() -> None:
    found = attention(chain(3), [[np.eye(3)]])
    for factor, said in ((23.05, "22 times"), (3.5, "2.5 times"), (1.25, "25% of")):
        grown = replace(found, edges=np.stack([found.edges[0], factor * found.edges[0]]))
        assert (
            summary(analyze([grown]))[-1]
            == f"The edge channel changes most in layer 1, by {said} its length before it."
        )


def test_weight_to_virtual_nodes_is_told_apart() -> None:
    S = np.full((1, 1, 3, 3), 1 / 3)
    S[0, 0, 1:] = [0.8, 0.1, 0.1]
    said = summary(analyze([attention(chain(2), S, num_virtual=1)]))
    assert said[1] == "80% of the weight goes to virtual nodes, most in layer 1 (80%)."
