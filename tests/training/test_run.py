"""A run has its folder for itself, also against one that starts at the same moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import egt.training.run
from egt.api import Run, train
from egt.config.load import read_config, write_config
from egt.errors import ConfigError
from egt.training.run_folder import hold_folder
from tests.cli.runs import SMILES, TINY, molecules, write_csv
from tests.training.tiny import tiny_config


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two targets of which one is a hundred times the other."""
    lengths = [len(smiles) for smiles in SMILES]
    return molecules(tmp_path / "two.csv", sol=lengths, anti=[-100 * length for length in lengths])


def begin(table: Path, target: str, out: Path, resume: bool = False) -> Run:
    return train(table, target, set=TINY, out=out, progress=False, resume=resume)


def beaten(monkeypatch: pytest.MonkeyPatch, table: Path, out: Path) -> None:
    """Let another run get hold of the folder between the checks of a run and its claim."""

    @contextmanager
    def late(folder: Path) -> Iterator[None]:
        monkeypatch.undo()
        begin(table, "sol", out)
        with hold_folder(folder):
            yield

    monkeypatch.setattr(egt.training.run, "hold_folder", late)


def test_of_two_runs_into_one_folder_the_second_is_refused(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beaten(monkeypatch, table, tmp_path / "run")
    with pytest.raises(ConfigError, match="run"):
        begin(table, "anti", tmp_path / "run")
    assert read_config(tmp_path / "run" / "config.yaml").task.names == ("sol",)
    assert read_config(tmp_path / "run" / "artifact" / "config.yaml").task.names == ("sol",)


def test_a_run_never_continues_another_one_that_came_first(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beaten(monkeypatch, table, tmp_path / "run")
    with pytest.raises(ConfigError, match="settings"):
        begin(table, "anti", tmp_path / "run", resume=True)
    assert read_config(tmp_path / "run" / "config.yaml").task.names == ("sol",)


def test_a_project_that_is_no_run_keeps_its_files(tmp_path: Path, table: Path) -> None:
    (tmp_path / "config.yaml").write_text("mine: precious")
    with pytest.raises(ConfigError, match=r"config\.yaml.*--out"):
        begin(table, "sol", tmp_path)
    assert (tmp_path / "config.yaml").read_text() == "mine: precious"


def test_the_name_of_a_run_does_not_lead_out_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    (tmp_path / "run.yaml").write_text(write_config(tiny_config(name="../../escape_me")))
    with pytest.raises(ConfigError, match="folder"):
        train(tmp_path / "run.yaml")
    assert {path.name for path in tmp_path.iterdir()} == {"deep", "run.yaml"}


def test_molecules_that_are_read_with_a_warning_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [*zip(SMILES, range(20), strict=True), ("CC(C)(C)(C)C", 1), ("no molecule", 2)]
    table = write_csv(tmp_path / "t.csv", [{"smiles": smiles, "y": y} for smiles, y in rows])
    begin(table, "y", tmp_path / "run")
    told = [record.message for record in caplog.records]
    assert sum("row 21 (20) is read with a warning: read with relaxed sanitization" in each for each in told) == 1
    assert sum("row 22 (21) is left out" in each for each in told) == 1
