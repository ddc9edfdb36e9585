"""The tables of the paper: every row is a preset that exists and measures what the column says."""

from __future__ import annotations

import pytest

from egt.errors import ConfigError
from egt.paper.presets import preset
from egt.paper.rules import RULES
from egt.paper.tables import TABLES, PaperRow, Score, choose_rows, find_row, find_table
from egt.training.memory import num_parameters

ROWS = [row for table in TABLES.values() for row in table.rows]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_a_preset_that_reports_its_metric(row: PaperRow) -> None:
    task = preset(row.preset).task
    assert task.deciding_metric == row.measure.metric
    assert row.measure.higher_is_better == (row.measure.metric != "mae")
    assert row.rule in ("", *RULES)


@pytest.mark.parametrize("table", TABLES)
def test_the_names_of_rows_are_unique(table: str) -> None:
    names = [row.name for row in TABLES[table].rows]
    assert len(set(names)) == len(names)


def test_numbers_are_those_printed() -> None:
    printed = {
        "zinc-100k": Score(0.143, 0.011),
        "pattern-500k": Score(86.821, 0.020),
        "tsp-500k-simple": Score(0.831, 0.002),
        "pcqm4mv2-large": Score(0.0869),
        "molpcba-larger": Score(29.61, 0.24),
        "pcqm4mv2-small-step3": Score(0.0919),
    }
    for name, score in printed.items():
        found = find_row(name)
        assert found is not None
        assert found[1].paper == score
    found = find_row("zinc-500k")
    assert found is not None
    assert found[1].column.others["Graphormer"] == Score(0.122, 0.006)
    assert found[1].column.others["GT"] == Score(0.226, 0.014)


def test_each_column_with_its_scores_stands_once() -> None:
    """A row that two tables have says the same in both."""
    for row in ROWS:
        found = find_row(row.name)
        assert found is not None
        assert found[1].paper == row.paper
        assert found[1].column == row.column


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mnist-100k-nope", "B31"),
        ("pcqm4mv2-medium", "B32"),
        ("molhiv-larger", "validation figure"),
        ("tsp-100k", "not comparable"),
    ],
)
def test_known_errors_stand_beside_their_numbers(name: str, words: str) -> None:
    found = find_row(name)
    assert found is not None
    assert any(words in note for note in found[1].notes)


@pytest.mark.parametrize(
    ("name", "millions"), [("pcqm4mv2-small", 11.5), ("pcqm4m-medium", 47.4), ("pcqm4mv2-large", 89.3)]
)
def test_sizes_are_the_papers(name: str, millions: float) -> None:
    assert round(num_parameters(preset(name)) / 1e6, 1) == millions


def test_rows_are_chosen_by_name_pattern_or_part() -> None:
    variants = find_table("variants")
    assert [row.name for row in choose_rows(variants, ["zinc-100k"])] == ["zinc-100k"]
    assert len(choose_rows(variants, ["zinc-100k*"])) == 9  # five forms of EGT and four baselines
    assert {row.name.rpartition("-")[2] for row in choose_rows(variants, ["gcn"])} == {"gcn"}
    assert not any(row.is_extra for row in choose_rows(variants, []))
    named = choose_rows(TABLES["medium"], ["tsp-100k", "nearest"])
    assert [row.name for row in named] == ["tsp-100k", "tsp-100k-nearest"]
    with pytest.raises(ConfigError, match="'zink'"):
        choose_rows(variants, ["zink"])
    with pytest.raises(ConfigError, match="medium"):
        find_table("large")
