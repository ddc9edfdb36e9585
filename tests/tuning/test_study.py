"""The study: one SQLite file, the default first, for one search only."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import egt
from egt.errors import ConfigError
from egt.tuning.study import STUDY, Search, list_trials, make_sampler, open_study, read_search

FIRST = [{"lr": 1e-3}]


@pytest.fixture(scope="module")
def search() -> Search:
    return Search(egt.preset("zinc-100k").model_dump(mode="json"), ["trainer.max_epochs"], "abc")


def test_the_default_is_the_first_trial_and_is_made_once(search: Search, tmp_path: Path) -> None:
    open_study(tmp_path / "s", search, FIRST)
    study = open_study(tmp_path / "s", search, FIRST)
    assert list_trials(study) == []  # waiting
    first, second = study.ask(), study.ask()
    assert (first.number, second.number) == (0, 1)
    assert first.suggest_float("lr", 1e-4, 1e-2) == 1e-3
    assert second.suggest_float("lr", 1e-4, 1e-2) != 1e-3
    assert [each.state for each in list_trials(study)] == ["open", "open"]
    assert read_search(tmp_path / "s") == search


def test_the_first_trials_keep_their_order(search: Search, tmp_path: Path) -> None:
    study = open_study(tmp_path / "s", search, [{"lr": 1e-3}, {"lr": 2e-3}, {"lr": 5e-4}])
    assert [study.ask().suggest_float("lr", 1e-4, 1e-2) for _ in range(3)] == [1e-3, 2e-3, 5e-4]


def test_another_search_is_refused(search: Search, tmp_path: Path) -> None:
    open_study(tmp_path, search, FIRST)
    for changed, words in (
        ({"data": "x"}, "other data"),
        ({"fixed": []}, "other settings"),
        ({"config": {}}, "target"),
    ):
        other = replace(search, **changed)
        with pytest.raises(ConfigError, match=words):
            open_study(
                tmp_path, replace(other, config=other.config or egt.preset("mnist-100k").model_dump(mode="json")), FIRST
            )


def test_folders_of_others_are_left_alone(search: Search, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("mine")
    with pytest.raises(ConfigError, match="folder"):
        open_study(tmp_path, search, FIRST)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / STUDY).write_text("no database at all, but long enough to be looked at")
    with pytest.raises(ConfigError, match="study"):
        read_search(tmp_path / "other")


def test_trials_draw_numbers_of_their_own(search: Search, tmp_path: Path) -> None:
    study = open_study(tmp_path, search, [{}])
    study.ask()
    drawn = []
    for number in (1, 2):
        study.sampler = make_sampler(search, number)
        drawn.append(study.ask().suggest_float("lr", 0, 1))
    study.sampler = make_sampler(search, 1)
    assert drawn[0] != drawn[1]
    assert study.ask().suggest_float("lr", 0, 1) == drawn[0]


def test_without_optuna_one_line_says_how_to_install_it(
    search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"egt-graph\[tune\]"):
        open_study(tmp_path, search, FIRST)


def test_a_study_whose_worker_was_killed_while_making_it_is_made_to_its_end(search: Search, tmp_path: Path) -> None:
    first = [*FIRST, {"lr": 2e-3}]
    open_study(tmp_path, search, first)
    with closing(sqlite3.connect(tmp_path / STUDY)) as base, base:  # as it is after the first of two trials
        base.execute("delete from study_user_attributes")
        base.execute("delete from trials where number = 1")
    with pytest.raises(ConfigError, match="command"):
        read_search(tmp_path)
    study = open_study(tmp_path, search, first)
    assert [trial.system_attrs["fixed_params"]["lr"] for trial in study.get_trials()] == [1e-3, 2e-3]
    assert read_search(tmp_path) == search


@pytest.mark.parametrize(
    "change",
    [
        "update trials set state = 'x'",
        "update trials set datetime_start = -1",
        "update study_directions set study_id = ''",
        "update study_user_attributes set value_json = '[1]'",
        "update study_user_attributes set value_json = '{'",
        """update study_user_attributes set value_json = '{"config": 3, "fixed": 3, "data": 3}'""",
        "update alembic_version set version_num = 'null'",
    ],
)
def test_a_study_that_was_changed_is_refused(search: Search, tmp_path: Path, change: str) -> None:
    study = open_study(tmp_path, search, FIRST)
    study.ask()
    with closing(sqlite3.connect(tmp_path / STUDY)) as base, base:
        base.execute(change)
    for read in (lambda: read_search(tmp_path), lambda: open_study(tmp_path, search, FIRST)):
        with pytest.raises(ConfigError, match="study"):
            read()
