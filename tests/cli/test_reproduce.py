"""`egt reproduce` on the command line: what would run, what ran, and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.caches import fresh_cache
from tests.cli.runs import egt
from tests.paper.tiny import GRAPHS, SETTINGS

WORDS = ("--seeds", "1", "--epochs", "2", "--set", GRAPHS, *SETTINGS)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path / "data"))


def test_a_dry_run_shows_parameters_memory_and_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("reproduce", "variants", "--rows", "pattern-500k-gcn", *WORDS, "-o", tmp_path / "out", "--dry-run")
    (run,) = egt(capsys, *words, "--json").json["runs"]
    assert (run["row"], run["state"], run["epochs"]) == ("pattern-500k-gcn", "to do", 2)
    assert run["parameters"] > 0
    assert run["peak_memory_bytes"] > 0
    assert run["seconds_per_epoch"] > 0
    assert not (tmp_path / "out").exists()


def test_runs_are_done_then_skipped_then_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("reproduce", "variants", "--rows", "mlp", "propagation", *WORDS, "-o", tmp_path / "out", "--json")
    first = egt(capsys, *words)
    assert first.code == 0, first.err
    assert first.json["done"] == 3
    assert "cluster-500k-mlp, seed 0: starts in" in first.err
    assert egt(capsys, *words).json["skipped"] == 3
    report = egt(capsys, "report", tmp_path / "out", "--json").json["results"]
    assert {row["row"] for row in report} == {"pattern-500k-mlp", "cluster-500k-mlp", "cluster-500k-propagation"}


def test_a_row_without_data_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = egt(capsys, "reproduce", "medium", "--rows", "zinc-100k", "--seeds", "1", "-o", tmp_path / "out")
    assert done.code == 1
    assert "zinc-100k, seed 0: failed: " in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("large",), "there are: medium, pcqm, transfer, variants, steps"),
        (("medium", "--rows", "zink"), "has no row 'zink'"),
        (("medium", "--budget", "1", "--epochs", "1"), "either --budget or --epochs"),
    ],
)
def test_wrong_words(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = egt(capsys, "reproduce", *words)
    assert done.code == 2
    assert message in done.err
