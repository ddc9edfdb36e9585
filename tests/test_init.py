"""What importing the package does, and does not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import egt
import egt.parts

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def printed(code: str, **given: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES} | given
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


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
    code = f"import egt.inference, os, sys; print(*map(os.environ.get, {VARIABLES}), 'torch' in sys.modules)"
    assert printed(code, **given) == [*kept, "False"]


def test_the_environment_is_the_users_until_training_or_prediction_begins() -> None:
    code = (
        "import os; before = dict(os.environ); import egt; egt.Graph, egt.preset('zinc-100k'), egt.parts, egt.EGTLayer"
    )
    assert printed(f"{code}; print(before == dict(os.environ)); egt.train; print(before == dict(os.environ))") == [
        "True",
        "False",
    ]


def test_training_asks_for_sleeping_threads_before_torch_is_loaded() -> None:
    assert printed("import egt; egt.train; from egt import processors; print(processors.SPINS)") == ["False"]
    assert printed("import torch, egt; egt.load; from egt import processors; print(processors.SPINS)") == ["True"]


def test_all_names_are_there() -> None:
    assert all(getattr(egt, name) is not None for name in egt.__all__)
    assert all(getattr(egt.parts, name) is not None for name in egt.parts.__all__)
    assert callable(egt.fit)
    assert not hasattr(egt, "nonsense")
