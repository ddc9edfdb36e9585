"""`egt.tune`: the default first, never worse than it, and a model that predicts."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

import egt
from egt.config.load import override, read_config
from egt.errors import ConfigError
from egt.tuning.study import Tried, trial_folder
from egt.tuning.tune import Tuning
from tests.tuning.conftest import QUICK


def test_the_first_trial_is_the_default(found: Tuning, table: Path) -> None:
    plain = egt.api.configured(table, "y", set=QUICK)
    config = read_config(trial_folder(found.folder, 0) / "config.yaml")
    assert config == plain
    assert [each.number for each in found.trials] == [0, 1, 2]
    assert all(each.state == "done" for each in found.trials)
    assert {*found.trials[1].values} == {"lr", "attention dropout", "node dropout", "edge dropout", "readout"}


def test_the_result_is_never_worse_than_the_default(found: Tuning) -> None:
    scores = [each.score for each in found.trials if each.score is not None]
    assert found.best.score == min(scores) <= scores[0]
    rows = pandas.read_csv(found.folder / "metrics.csv")
    assert found.best.score == pytest.approx(rows["val_loss"].min())


def test_the_best_run_is_left_with_its_model(found: Tuning) -> None:
    kept = read_config(found.folder / "run.yaml")
    default = read_config(trial_folder(found.folder, 0) / "config.yaml")
    assert kept == found.config == override(default, found.settings)
    best = egt.load(trial_folder(found.folder, found.best.number))
    [row, bad] = egt.load(found.folder).predict(["CCO", "nonsense"]).table()
    assert row["y"] == best.predict(["CCO"]).table()[0]["y"] == found.model.predict(["CCO"]).table()[0]["y"]
    assert bad["error"]


def test_each_trial_is_told_and_shown(found: Tuning, told: list[Tried]) -> None:
    assert told == list(found.trials)
    page = (found.folder / "report.html").read_text()
    for words in ("The best settings", "best so far", "All trials", f"{found.best.score:.4g}", "done, default"):
        assert words in page


def test_a_frame_is_searched_and_gone_on_with(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"smiles": ["C" * k for k in range(1, 21)], "y": [float(k) for k in range(20)]})
    for count in (1, 2):
        again = egt.tune(frame, "y", set=QUICK, minutes=1e-9, out=tmp_path / "s", progress=False)
        assert [each.number for each in again.trials] == [0], count
    with pytest.raises(ConfigError, match="memory"):
        egt.tune(frame, "y", set=QUICK, workers=2, out=tmp_path / "s")
    with pytest.raises(ConfigError, match="data"):
        egt.tune(frame[::-1].reset_index(drop=True), "y", set=QUICK, out=tmp_path / "s")


def test_what_makes_no_sense_is_refused(table: Path, found: Tuning, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--minutes"):
        egt.tune(table, "y", minutes=0)
    with pytest.raises(ConfigError, match="continue"):
        egt.tune(found.folder, "y")
    with pytest.raises(ConfigError, match="settings"):
        egt.tune(table, "y", set=[*QUICK, "seed=1"], out=found.folder)
    with pytest.raises(ConfigError, match="validation"):
        egt.tune(table, "y", set=["split.fractions=[0.9,0,0.1]"], out=tmp_path / "s")
    with pytest.raises(ConfigError, match="--workers"):
        egt.tune(table, "y", set=["trainer.devices=2"], out=tmp_path / "s")
