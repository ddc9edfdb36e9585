"""The folder of a run is tried without a trace, and a run that is refused leaves it as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from egt.config.load import read_config
from egt.errors import ConfigError, DataError, EgtError, RunError
from egt.training.run_folder import (
    check_not_foreign,
    claim_run,
    hold_folder,
    is_claimed,
    remove_leftovers,
    restore_if_refused,
    run_folder,
    try_folder,
    write_run_config,
)
from tests.training.tiny import tiny_config


def begin(folder: Path, end: EgtError) -> None:
    """A run that writes its configuration and ends with an error."""
    with restore_if_refused(folder):
        write_run_config(tiny_config(seed=2), folder)
        (folder / "checkpoints").mkdir(exist_ok=True)
        raise end


def test_a_trial_leaves_nothing(tmp_path: Path) -> None:
    try_folder(tmp_path / "runs" / "new")
    assert not (tmp_path / "runs" / "new").exists()
    try_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--out"):
        try_folder(tmp_path / "file" / "run")


def test_a_refused_run_leaves_the_configuration_that_was_there(tmp_path: Path) -> None:
    write_run_config(tiny_config(seed=1), tmp_path)
    with pytest.raises(ConfigError):
        begin(tmp_path, ConfigError("no"))
    assert read_config(tmp_path / "config.yaml").seed == 1
    with pytest.raises(RunError):
        begin(tmp_path, RunError("stopped"))
    assert read_config(tmp_path / "config.yaml").seed == 2
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml", "checkpoints"}


def test_a_refused_first_run_leaves_no_folder_but_one_with_something_in_it(tmp_path: Path) -> None:
    for folder, left in ((tmp_path / "new", False), (tmp_path / "used", True)):
        if left:
            folder.mkdir()
            (folder / "notes.txt").write_text("mine")
        with pytest.raises(DataError):
            begin(folder, DataError("no"))
        assert folder.exists() == left
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("name", ["../../escape_me", "/etc/egt", "a/b", "a\\b", "..", ".", "", "x" * 300])
def test_a_name_that_is_a_path_is_no_folder_of_a_run(name: str) -> None:
    with pytest.raises(ConfigError, match="--out"):
        run_folder(name)


def test_a_plain_name_is_a_folder_of_runs() -> None:
    assert run_folder("löslich 2.1") == Path("runs", "löslich 2.1")


@pytest.mark.parametrize("name", ["config.yaml", "metrics.csv", "checkpoints", "artifact"])
def test_files_of_something_else_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine: precious")
    for resume in (False, True):
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            check_not_foreign(tmp_path, resume)


def test_other_files_in_the_folder_are_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    check_not_foreign(tmp_path, resume=False)


def test_an_empty_folder_that_another_process_was_first_to_make_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    check_not_foreign(tmp_path, resume=False)
    (tmp_path / "checkpoints" / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match="checkpoints"):
        check_not_foreign(tmp_path, resume=False)


def test_a_run_that_was_begun_is_no_foreign_folder(tmp_path: Path) -> None:
    write_run_config(tiny_config(), tmp_path)
    check_not_foreign(tmp_path, resume=True)
    with hold_folder(tmp_path):
        check_not_foreign(tmp_path, resume=False)


def test_a_refused_run_that_had_claimed_its_folder_leaves_none(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(DataError), hold_folder(folder):
        begin(folder, DataError("no"))
    assert not folder.exists()
    with hold_folder(folder):
        assert folder.is_dir()


def test_what_a_killed_run_had_not_finished_is_removed(tmp_path: Path) -> None:
    write_run_config(tiny_config(), tmp_path)
    (tmp_path / ".artifact-x1" / "artifact").mkdir(parents=True)
    (tmp_path / ".config.123.partial.yaml").write_text("")
    (tmp_path / ".trial-123").write_text("")
    (tmp_path / ".mine").write_text("")
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    for name in (".tmpXy12Ab", ".step-000000000004.7.partial.safetensors", "step-000000000002.safetensors"):
        (checkpoints / name).write_text("")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml", ".mine", "checkpoints"}
    assert [path.name for path in checkpoints.iterdir()] == ["step-000000000002.safetensors"]


def test_only_one_run_writes_to_a_folder(tmp_path: Path) -> None:
    with (
        hold_folder(tmp_path),
        pytest.raises(ConfigError, match="writing"),
        hold_folder(tmp_path, patience=0.1),
    ):
        pass


def test_a_folder_that_cannot_be_held_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/run"), hold_folder(tmp_path / "file" / "run"):
        pass


def test_a_claim_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    run = tmp_path / "row" / "seed0"
    assert not is_claimed(run)
    assert not run.parent.exists()  # a question leaves nothing
    with claim_run(run) as first, claim_run(run) as second:
        assert (first, second) == (True, False)
        assert is_claimed(run)
    assert not is_claimed(run)
    assert not list(run.parent.iterdir())


def test_a_claim_of_a_process_that_is_gone_is_free_at_once(tmp_path: Path) -> None:
    code = "import sys, os; from pathlib import Path; from egt.training.run_folder import claim_run\n"
    code += f"with claim_run(Path({str(tmp_path / 'seed0')!r})) as free: os._exit(0 if free else 1)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["seed0.claim"]
    with claim_run(tmp_path / "seed0") as is_free:
        assert is_free
    assert not list(tmp_path.iterdir())


def test_a_claim_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"), claim_run(tmp_path / "file" / "seed0"):
        pass
