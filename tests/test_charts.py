"""Charts are valid SVG that show what they are given."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from egt.charts import edges_to_draw, graph_drawing, line_chart, molecule_drawing, round_numbers, spring_positions
from egt.graph import Graph
from egt.pages import figure, page, table

SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_has_a_point_per_finite_value() -> None:
    root = ElementTree.fromstring(line_chart({"a <b>": [3.0, 1.0, math.nan, 2.0], "c": [2.0]}, "epoch", "loss"))
    first, second = root.findall(f"{SVG}polyline")
    points = [tuple(map(float, point.split(","))) for point in first.attrib["points"].split()]
    assert len(points) == 3
    assert points[0][1] < points[2][1] < points[1][1]  # larger values are higher up, where y is smaller
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert len(second.attrib["points"].split()) == 1


def test_a_flat_line_and_no_value_at_all() -> None:
    ElementTree.fromstring(line_chart({"a": [1.0, 1.0]}, "x", "y"))
    ElementTree.fromstring(line_chart({"a": []}, "x", "y"))


def test_axes_have_round_numbers_whatever_they_span() -> None:
    rng = np.random.default_rng(0)
    for low, span in zip(
        rng.normal(size=50) * 10.0 ** rng.integers(-4, 6, 50), 10 ** rng.uniform(-4, 6, 50), strict=True
    ):
        limits = (float(low), float(low + span))
        found = round_numbers(limits)
        assert 3 <= len(found) <= 8
        assert limits[0] - 1e-6 * span <= found[0] < found[-1] <= limits[1] + 1e-6 * span
        step = (found[-1] - found[0]) / (len(found) - 1)
        assert f"{step:.0e}"[0] in "125"
        assert found[0] / step == pytest.approx(round(found[0] / step), abs=0.01)


def test_a_molecule_is_drawn_with_its_stereo_centers() -> None:
    flat, chiral = (molecule_drawing(smiles, 200, 150) for smiles in ("CC(N)C(=O)O", "C[C@H](N)C(=O)O"))
    for each in (flat, chiral):
        ElementTree.fromstring(each)
    assert chiral.count("<path") > flat.count("<path")  # the lines of a wedge


def test_a_graph_shows_its_nodes_edges_and_marks() -> None:
    graph = Graph.undirected(num_nodes=4, edge_index=[[0, 1, 2], [1, 2, 3]])
    root = ElementTree.fromstring(graph_drawing(graph, [0.0, 0.9, 0.8, 0.2], marked=[False, True, False, False]))
    assert len(root.findall(f"{SVG}circle")) == 4
    assert [line.attrib["class"] for line in root.findall(f"{SVG}line")].count("edge hot") == 1
    assert [circle.attrib["stroke-width"] for circle in root.findall(f"{SVG}circle")].count("3") == 1


def test_an_edge_is_drawn_whatever_its_direction_and_in_a_file_of_its_own() -> None:
    graph = Graph(num_nodes=3, edge_index=[[2, 1, 0, 1], [0, 0, 1, 1]])  # down, both ways, a loop
    assert edges_to_draw(graph) == [(0, 1), (0, 2)]
    lines = ElementTree.fromstring(graph_drawing(graph, [0.0, -1.0, 1.0], [False] * 3)).findall(f"{SVG}line")
    assert len(lines) == 2
    assert all("stroke" in line.attrib for line in lines)  # no style of a page reaches the file
    assert edges_to_draw(Graph(num_nodes=1, edge_index=[[], []])) == []


def test_neighbors_are_closer_than_strangers() -> None:
    ends = np.arange(9)
    graph = Graph.undirected(num_nodes=10, edge_index=np.stack([ends, ends + 1]))
    places = spring_positions(graph)
    assert places.min() >= 0
    assert places.max() <= 1
    neighbors = np.linalg.norm(places[1:] - places[:-1], axis=1).mean()
    strangers = np.linalg.norm(places[5:] - places[:-5], axis=1).mean()
    assert neighbors < strangers


def test_a_page_escapes_what_it_is_told() -> None:
    content = page("a < b", "lead", [("one & two", figure("<svg/>", "<caption>") + table(["x"], [["<cell>"]]))])
    assert "a &lt; b" in content
    assert "one &amp; two" in content
    assert "&lt;caption&gt;" in content
    assert "&lt;cell&gt;" in content
