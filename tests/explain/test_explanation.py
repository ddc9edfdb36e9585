"""An explanation finds the nodes that are known to matter, and says when it should not be believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egt.cli.output import print_table
from egt.errors import ConfigError, DataError
from egt.explain.explanation import Explanation, explain
from egt.explain.explanation_page import score_table, top_rows, write_explanation
from tests.explain import colors
from tests.explain.synthetic import marked, trained, tree, untrained

SEEDS = range(1000, 1006)


@pytest.fixture(scope="module")
def explanations() -> list[Explanation]:
    """Of trees that the model never saw."""
    return [explain(trained(), [tree(seed)], draws=50) for seed in SEEDS]


@pytest.mark.parametrize("method", ["gradients", "rollout"])
def test_precision_at_k_is_high(method: str, explanations: list[Explanation]) -> None:
    """Of the k nodes that a method ranks first, where k are marked, how many are marked."""
    found = total = 0
    for each in explanations:
        true = marked(each.subject.graph)
        top = np.argsort(-each.importance[method].nodes)[: len(true)]
        found, total = found + len(true & set(top.tolist())), total + len(true)
    precision = found / total
    print(f"precision at k, {method}: {precision:.2f} of {total} marked nodes")
    assert precision > 0.9  # by chance about a quarter of twelve nodes


def test_the_score_separates_it_from_random(explanations: list[Explanation]) -> None:
    with_marks = [each for each in explanations if len(marked(each.subject.graph)) >= 3]
    assert len(with_marks) >= 3
    for each in with_marks:
        assert each.believed == ["gradients", "rollout"]
        assert each.verdict == "The ranking of nodes by gradients and rollout is faithful to the model."
        for nodes, _ in each.scores.values():
            assert nodes.interval[0] > 0
            assert nodes.top > 2 * nodes.random.mean()


def test_an_untrained_model_is_not_believed() -> None:
    for seed in SEEDS:
        found = explain(untrained(), [tree(seed)], draws=50)
        assert found.believed == []
        assert found.verdict.startswith("Do not believe")
        assert all(score.doubts for both in found.scores.values() for score in both)


@pytest.mark.parametrize("method", ["gradients", "rollout"])
def test_the_one_node_that_decides_a_class_is_found_and_believed(method: str) -> None:
    """The answer is the color of the node itself, and its probability near 1, where nothing would move it."""
    right = believed = total = 0
    for seed in range(1000, 1004):
        graph = colors.colored(seed)
        for node in range(0, graph.num_nodes, 3):
            found = explain(colors.trained(), [graph], of=node, draws=50)
            right += int(np.abs(found.importance[method].nodes).argmax() == node)
            believed += method in found.believed
            total += 1
    assert right >= 0.95 * total
    assert believed >= 0.9 * total


def test_the_class_of_an_untrained_model_is_not_believed() -> None:
    for seed in range(1000, 1003):
        for node in (0, 5):
            assert explain(colors.untrained(), [colors.colored(seed)], of=node, draws=50).believed == []


def test_a_class_is_explained_by_its_log_odds() -> None:
    graph = colors.colored(1000)
    found = explain(colors.trained(), [graph], of=2, draws=5)
    [prediction] = colors.trained().predict([graph])
    assert prediction.values is not None
    color = int(prediction.values[2].argmax())
    assert found.target == f"log-odds of {color}"
    assert found.probability == pytest.approx(prediction.values[2].max(), rel=1e-4)
    assert found.title.endswith(f"(probability {found.probability:.4g})")
    gradients = found.importance["gradients"]
    total = gradients.nodes.sum() + gradients.pairs.sum()
    assert total == pytest.approx(found.value - found.without, rel=0.05)


def test_the_numbers_add_up(explanations: list[Explanation]) -> None:
    for each in explanations:
        assert each.value == pytest.approx(each.subject.graph.graph_targets[0], abs=0.5)
        gradients = each.importance["gradients"]
        assert gradients.nodes.sum() + gradients.pairs.sum() == pytest.approx(each.value - each.without, abs=0.05)
        assert each.importance["rollout"].nodes.sum() < 1  # the virtual node has its own share
        assert len(each.of_edges["gradients"]) == each.subject.graph.num_nodes - 1


def test_tables_and_page(explanations: list[Explanation], tmp_path: Path) -> None:
    found = explanations[2]
    files = write_explanation(found, tmp_path / "out", "egt explain ...")
    assert {"explanation.html", "gradients.svg", "nodes.csv", "edges.parquet", "pairs.csv"} <= {f.name for f in files}
    page = files[0].read_text()
    assert found.verdict in page
    assert page.count("<svg") == 2
    assert "Rings mark the nodes that were masked" in page
    assert "//" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing is loaded
    kind, name, _ = top_rows(found, "gradients")[0]
    assert kind == "node"
    assert int(name) in marked(found.subject.graph)
    assert len((tmp_path / "out" / "pairs.csv").read_text().splitlines()) == 1 + 12 * 11


def test_scores_fit_a_terminal_of_80_columns(
    explanations: list[Explanation], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    columns, rows = score_table(explanations[2])
    assert columns[1:3] == ["gradients, nodes", "gradients, edges"]
    assert rows[0][1] == "3 of 12"
    assert [rows[-1][k] for k in (1, 3)] == ["yes", "yes"]
    print_table("faithfulness", columns, rows)
    printed = capsys.readouterr().out
    for word in ("gradients", "rollout", "untrained", "random", *(cell for row in rows for cell in row[1:])):
        assert word in printed  # in one piece


def test_gradients_that_do_not_add_up_are_not_believed(explanations: list[Explanation]) -> None:
    first = explanations[2]
    wrong = replace(first.importance["gradients"], gap=-0.4)
    found = replace(first, importance={**first.importance, "gradients": wrong})
    assert found.believed == ["rollout"]
    assert found.verdict.endswith("do not believe gradients.")
    assert ("nodes", "its values miss what they explain by 40% of their size") in found.doubts("gradients")


def test_wrong_questions() -> None:
    with pytest.raises(DataError, match=r"--row.*0\.\.0"):
        explain(trained(), [tree(0)], row=3)
    with pytest.raises(DataError, match=r"--of.*0\.\.0"):
        explain(trained(), [tree(0)], of=2)
    with pytest.raises(DataError, match="--target"):
        explain(trained(), [tree(0)], target="color")
    with pytest.raises(ConfigError, match="--draws"):
        explain(trained(), [tree(0)], draws=0)


def test_a_graph_of_one_node_cannot_be_judged() -> None:
    found = explain(trained(), [tree(0, size=1)], draws=5)
    assert "too few nodes" in found.scores["rollout"][0].doubts[0]
