"""Bars are on standard error, only on a terminal, and come and go with the work; remarks stay short."""

from __future__ import annotations

import pytest

from egt.cli.output import Bars, print_coverage, print_table


def test_each_piece_of_work_has_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Bars() as bars:
        for done in range(4):
            bars("counting sheep", done, 3)
        bars("counting stars", 7, None)
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "counting sheep" in seen.err
    assert "3/3" in seen.err
    assert "counting stars" in seen.err
    assert "7/?" in seen.err


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_is_shown_without_a_terminal_or_when_not_wanted(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with Bars(shown=not terminal) as bars:
        bars("sheep", 1, 3)
    assert capsys.readouterr().err == ""


def test_names_with_brackets_are_no_markup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_table("data[bold].csv", ("a[/b]",), [("[/c], as wide as its title",)])
    with Bars() as bars:
        bars("reading x[/y].csv", 0, 1)
    seen = capsys.readouterr()
    assert all(name in seen.out for name in ("data[bold].csv", "a[/b]", "[/c]"))
    assert "x[/y].csv" in seen.err


def test_of_many_targets_coverage_is_said_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    targets = {f"t{k}": {"coverage": 0.8 + k / 1000, "size": 1.0, "num_labels": 40} for k in range(100)}
    print_coverage({"asked": 0.9, "kind": "interval", "transductive": False, "targets": targets})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("t0: 90% intervals covered 80.0%")
    assert lines[-1].startswith("94 other targets: covered 85.2% on average, 80.6% to 89.9%")
