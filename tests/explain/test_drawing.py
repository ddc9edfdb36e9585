"""A graph with its important nodes: what raises the prediction is orange, what lowers it blue."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np

from egt.explain.explanation import Explanation, explain
from egt.explain.explanation_page import drawing
from tests.explain.synthetic import tree, untrained

CIRCLE = "{http://www.w3.org/2000/svg}circle"


def explanation(values: list[float]) -> Explanation:
    """An explanation of a graph of eight nodes, whose gradients are known."""
    found = explain(untrained(), [tree(0, size=8)], draws=2)
    gradients = replace(found.importance["gradients"], nodes=np.array(values))
    return replace(found, importance={**found.importance, "gradients": gradients})


def test_the_sign_is_a_color_and_masked_nodes_have_a_ring() -> None:
    found = explanation([4.0, -2.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    circles = ElementTree.fromstring(drawing(found, "gradients")).findall(CIRCLE)
    assert circles[0].attrib["fill"] == "rgb(214,92,28)"
    assert circles[1].attrib["fill"] == "rgb(140,167,206)"  # half the way to blue
    assert circles[2].attrib["fill"] == "rgb(228,232,238)"
    assert [k for k, circle in enumerate(circles) if circle.attrib["stroke-width"] == "3"] == [0, 3]
