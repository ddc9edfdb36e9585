"""The kernel's tests under the address and undefined-behavior sanitizers."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from egt.native.library import compiler

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tests_are_clean_under_sanitizers(tmp_path: Path) -> None:
    cxx = compiler()
    if cxx is None:
        pytest.skip("no C++ compiler: no sanitizer run")
    runtime = subprocess.run([cxx, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not Path(runtime.stdout.strip()).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    wrapper = tmp_path / "cxx"
    wrapper.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec "{cxx}" "$@" {FLAGS}\n')  # the compiler itself is fine
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IEXEC)
    stdcxx = subprocess.run([cxx, "-print-file-name=libstdc++.so"], capture_output=True, text=True, check=True)
    environment = {
        **os.environ,
        "CXX": str(wrapper),
        "EGT_CACHE_DIR": str(tmp_path / "cache"),
        "LD_PRELOAD": f"{runtime.stdout.strip()} {stdcxx.stdout.strip()}",
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter itself leaks at exit
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": "2",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "test_fused.py",
        "test_node_operator.py",
        "../../data/encodings/test_loops.py",
        "../../data/test_molecule_binary.py",
        "-k",
        "not molhiv",  # a real data set, which a machine may not have
    ]
    result = subprocess.run(
        command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout
