"""`egt tune` on the command line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runs import TINY, egt, molecules


@pytest.fixture(autouse=True)
def same_levels() -> Iterator[None]:
    """Undo what the command quiets for the rest of its process."""
    logger = logging.getLogger("egt.training.checks")
    before = logger.level
    yield
    logger.setLevel(before)


def test_it_says_what_it_tries_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    molecules(tmp_path / "t.csv", y=range(20))
    words = (
        "tune",
        "t.csv",
        "--target",
        "y",
        "--epochs",
        "1",
        "--set",
        *(each for each in TINY if "epochs" not in each),
    )
    done = egt(capsys, *words, "--trials", "1")
    assert done.code == 0, done.err
    assert "default 0: lr 0.001, attention dropout 0.1" in done.err
    assert "done, default, best" in " ".join(done.out.split())
    again = egt(capsys, "tune", "runs/t-tuned", "--trials", "1", "--json")
    assert again.json["artifact"] == "runs/t-tuned/artifact"
    assert again.json["best"] == again.json["default"]
    assert again.json["settings"] == {}
    assert "trial" not in again.err
