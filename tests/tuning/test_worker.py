"""Workers: a trial goes on where it was stopped, is pruned when it is bad, and is done by one worker only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest

import egt
from egt.errors import ConfigError, RunError, RunStopped
from egt.training.run_folder import claim_run
from egt.training.state import State
from egt.tuning import study
from egt.tuning.study import STUDY, Tried, Watch, Worker, trial_folder
from egt.tuning.tune import Tuning
from tests.cli.runs import read_csv
from tests.tuning.conftest import QUICK


def study_in(folder: Path) -> optuna.Study:
    return optuna.load_study(study_name="egt", storage=f"sqlite:///{folder / STUDY}")


def go_on(folder: Path, **options: Any) -> Tuning:
    return egt.tune(folder, progress=False, **options)


@pytest.fixture
def unpruned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all trials go to their end."""
    monkeypatch.setattr(study, "_UNPRUNED_TRIALS", 1_000)


def test_a_killed_search_goes_on_with_the_same_study(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Tuning
) -> None:
    def killed(self: Watch, state: State, row: Mapping[str, float]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "on_epoch", killed)
        with pytest.raises(KeyboardInterrupt):
            egt.tune(table, "y", set=QUICK, out=tmp_path / "s", progress=False)
    before = read_csv(trial_folder(tmp_path / "s", 0) / "metrics.csv")
    assert len(before) == 1
    again = egt.tune(table, "y", set=QUICK, trials=1, out=tmp_path / "s", progress=False)
    after = read_csv(trial_folder(tmp_path / "s", 0) / "metrics.csv")
    assert [row["seconds"] for row in after[:1]] == [row["seconds"] for row in before]  # not trained again
    assert [(each.number, each.state) for each in again.trials] == [(0, "done")]
    assert again.best.score == pytest.approx(found.trials[0].score)  # as if it had never been killed


@pytest.mark.usefixtures("unpruned")
def test_a_trial_that_runs_out_of_time_stays_open_and_goes_on(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Tried] = []
    report = Watch.on_epoch

    def late(self: Watch, state: State, row: Mapping[str, float]) -> None:
        report(self, state, row)
        self.deadline = self.deadline if told else 0.0

    monkeypatch.setattr(Watch, "on_epoch", late)
    again = go_on(copy, trials=4, tell=told.append)
    assert [(each.number, each.state, each.epochs) for each in told] == [(3, "open", 1), (3, "done", 2)]
    assert told[0].values == told[1].values
    assert len(again.trials) == 4


def test_a_bad_trial_is_pruned(copy: Path) -> None:
    kept = study_in(copy)
    done = kept.trials[0]
    for _ in range(4):  # excellent until the last epoch
        kept.add_trial(
            optuna.trial.create_trial(
                params=done.params,
                distributions=done.distributions,
                value=100.0,
                intermediate_values={0: -100.0, 1: 100.0},
            )
        )
    again = go_on(copy, trials=8)
    assert (again.trials[3].number, again.trials[3].state, again.trials[3].epochs) == (3, "pruned", 1)
    assert not (trial_folder(copy, 3) / "checkpoints").exists()
    assert (trial_folder(copy, 3) / "metrics.csv").exists()
    assert again.best.number < 3
    assert "pruned" in (copy / "report.html").read_text()


def test_nothing_is_begun_when_the_time_is_up(copy: Path) -> None:
    assert len(go_on(copy, minutes=1e-9).trials) == 3


@pytest.mark.usefixtures("unpruned")
def test_a_trial_of_another_worker_is_left_alone(copy: Path) -> None:
    study_in(copy).ask()
    with claim_run(trial_folder(copy, 3)):
        again = go_on(copy, trials=5)
    assert [each.state for each in again.trials] == ["done", "done", "done", "open", "done"]


def test_trials_may_fail_but_not_all_of_them(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RunError("the loss is not finite")

    monkeypatch.setattr(study, "train", fails)
    again = go_on(copy, trials=4)
    assert (again.trials[3].state, again.trials[3].error) == ("failed", "the loss is not finite")
    assert again.best.number < 3
    assert "trial 3 failed: the loss is not finite" in (copy / "report.html").read_text()
    with pytest.raises(RunError, match="not finite"):
        go_on(copy)


def test_a_pruned_trial_ends_a_row_of_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pruned(*_: object) -> float:
        raise optuna.TrialPruned

    told: list[Any] = []
    monkeypatch.setattr(Worker, "_train", pruned)
    some: Any = SimpleNamespace(tell=lambda _, state: told.append(state), number=1)
    one = Worker(some, some, [], tmp_path, some, deadline=0.0)
    one._failures = 4
    one._do(some)
    assert (one._failures, told) == (0, [optuna.trial.TrialState.PRUNED])


def test_a_search_that_is_stopped_leaves_the_best_so_far(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise RunStopped("stopped by SIGTERM")

    monkeypatch.setattr(study, "train", stopped)
    (copy / "run.yaml").unlink()
    with pytest.raises(RunStopped, match="continues"):
        go_on(copy)
    assert (copy / "run.yaml").exists()


def test_a_default_that_cannot_be_trained_is_an_error(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ConfigError("too large")

    monkeypatch.setattr(study, "train", refused)
    with pytest.raises(ConfigError, match="large"):
        egt.tune(table, "y", set=QUICK, out=tmp_path / "s", progress=False)
