"""Commands that train several models, killed with SIGKILL again and again, end as ones that were left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from egt.tuning.study import STUDY, list_trials
from tests.cli.runs import TINY, molecules
from tests.restart.kill_runs import kill_at
from tests.tuning.test_worker import study_in

SETTINGS = (*TINY, "trainer.checkpoint_minutes=1e-6", "model.num_layers=1", "trainer.baseline=false")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["--ensemble", "--folds"])
def test_members_of_an_ensemble(kind: str, tmp_path: Path) -> None:
    data = molecules(tmp_path / "t.csv", y=range(20))
    words = ["train", str(data), "--target", "y", "--from", "none", kind, "3", "--set", *SETTINGS, "--resume", "--out"]
    command = [sys.executable, "-m", "egt", *words]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    moments = ("members.json", "config.yaml", "member0/checkpoints/*", "member0/artifact", "member1/checkpoints/.*")
    kill_at(command, tmp_path / "killed", [*moments, "member2/.artifact-*", "member2/artifact", ".artifact-*"])
    subprocess.run([*command, str(tmp_path / "killed")], check=True, capture_output=True)
    whole, killed = ({path.relative_to(run): path for path in run.rglob("*.safetensors")} for run in runs(tmp_path))
    assert whole.keys() == killed.keys()
    assert all(
        path.read_bytes() == whole[name].read_bytes() for name, path in killed.items() if "artifact" in str(name)
    )
    assert not [*(tmp_path / "killed").rglob(".artifact-*")]


def runs(folder: Path) -> list[Path]:
    return [folder / "whole", folder / "killed"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_trials_of_a_search(tmp_path: Path) -> None:
    data = molecules(tmp_path / "t.csv", y=range(20))
    words = ["tune", str(data), "--target", "y", "--trials", "3", "--minutes", "30", "--set", *SETTINGS, "--out"]
    command = [sys.executable, "-m", "egt", *words]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    moments = (STUDY, "trials/0/checkpoints/*", "trials/0/artifact", "trials/1/checkpoints/.*", "trials/2/config.yaml")
    kill_at(command, tmp_path / "killed", [*moments, ".artifact-*", "artifact"])
    subprocess.run([*command, str(tmp_path / "killed")], check=True, capture_output=True)
    whole, killed = ([*map(outcome, list_trials(study_in(run)))] for run in runs(tmp_path))
    assert len(whole) == 3
    assert whole == killed
    weights = [(run / "artifact" / "weights.safetensors").read_bytes() for run in runs(tmp_path)]
    assert weights[0] == weights[1]
    assert not [*(tmp_path / "killed").rglob(".artifact-*")]


def outcome(trial: object) -> dict[str, object]:
    """What is known of a trial, without how long it took."""
    return {name: value for name, value in vars(trial).items() if name != "seconds"}
