"""What importing the package does, and does not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, ["passive", "1000"]),
        ({"GOMP_SPINCOUNT": "7"}, ["passive", "7"]),
        ({"OMP_WAIT_POLICY": "active"}, ["active", "None"]),
        ({"OMP_WAIT_POLICY": "passive"}, ["passive", "None"]),
    ],
)
def test_threads_spin_a_little_and_then_sleep_unless_the_user_says_otherwise(
    given: dict[str, str], kept: list[str]
) -> None:
    policy = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in policy} | given
    code = f"import egt, os, sys; print(*map(os.environ.get, {policy}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*kept, "False"]
