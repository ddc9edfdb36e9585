"""Compilation happens once, survives races, and says in one line why there is no kernel."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from egt.nn.kernels import build as module
from egt.nn.kernels.build import build, cache_folder


@pytest.fixture
def fake_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Installs a shell script as the compiler; it writes one line per call to the returned file."""

    def install(script: str) -> Path:
        calls = tmp_path / "calls"
        cxx = tmp_path / "cxx"
        cxx.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo fake 1.0 && exit 0\necho "$@" >> {calls}\n{script}\n')
        cxx.chmod(cxx.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("CXX", str(cxx))
        return calls

    return install


WRITES_OUTPUT = 'for last; do :; done; sleep 0.05; echo library > "$last"'


def test_second_call_finds_the_first_one_s_library(fake_compiler: Callable[[str], Path], tmp_path: Path) -> None:
    calls = fake_compiler(WRITES_OUTPUT)
    first = build(folder=tmp_path / "cache")
    number = len(calls.read_text().splitlines())
    assert first is not None
    assert build(folder=tmp_path / "cache") == first
    assert len(calls.read_text().splitlines()) == number
    assert list((tmp_path / "cache").iterdir()) == [first]


def test_flags_and_sources_decide_the_name(
    fake_compiler: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_compiler(WRITES_OUTPUT)
    names = {build(folder=tmp_path / "cache"), build(flags=["-O0"], folder=tmp_path / "cache")}
    other = tmp_path / "csrc"
    other.mkdir()
    (other / "a.cpp").write_text("int x;")
    monkeypatch.setattr(module, "SOURCES", other)
    names.add(build(folder=tmp_path / "cache"))
    assert len(names) == 3


def test_builders_at_once_leave_one_library(fake_compiler: Callable[[str], Path], tmp_path: Path) -> None:
    fake_compiler(WRITES_OUTPUT)
    found: list[Path | None] = []
    threads = [threading.Thread(target=lambda: found.append(build(folder=tmp_path / "cache"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert list((tmp_path / "cache").iterdir()) == [found[0]]


def test_no_compiler_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build(folder=tmp_path) is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "no C++ compiler found" in caplog.text


def test_failing_compiler_is_one_line(
    fake_compiler: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake_compiler("echo 'x.cpp:1: error: no such thing' >&2; exit 1")
    assert build(folder=tmp_path / "cache") is None
    assert "error: no such thing" in caplog.records[-1].message
    assert list((tmp_path / "cache").iterdir()) == []


def test_unwritable_cache_is_one_line(
    fake_compiler: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake_compiler(WRITES_OUTPUT)
    (tmp_path / "file").write_text("in the way")
    assert build(folder=tmp_path / "file" / "cache") is None
    assert "cannot write the fused kernel" in caplog.text


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path / "kernels"
    monkeypatch.delenv("EGT_CACHE_DIR")
    assert cache_folder() == Path(os.path.expanduser("~")) / ".cache" / "egt" / "kernels"
