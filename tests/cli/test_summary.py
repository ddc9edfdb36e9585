"""The summary of a test run says what was left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


@pytest.mark.parametrize("processes", [0, 2])
def test_slow_tests_that_are_left_out_are_counted_once(processes: int) -> None:
    words = ["-m", "pytest", "-q", "-n", str(processes), "-m", "not slow", str(HERE / "test_processes.py")]
    done = subprocess.run([sys.executable, *words], cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.stdout.count("slow tests left out: 1 (`make test-full` runs them)") == 1, done.stdout
