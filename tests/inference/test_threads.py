"""Waiting threads sleep, whichever of torch and egt is imported first."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from contextlib import suppress
from importlib import import_module

import pytest

from egt import processors
from egt.inference import backends as threads

CODE = """
import time, torch, egt
from egt import processors
from egt.inference.backends import stop_spinning
def seconds():
    x = torch.zeros(1 << 18)
    begin = time.process_time()
    for _ in range(60):
        x.add_(1)
        time.sleep(0.005)  # a waiting thread that spins does so here
    return time.process_time() - begin
torch.set_num_threads(2)
before = seconds()
stop_spinning()
print(processors.SPINS, before, seconds(), torch.get_num_threads())
"""
VARIABLES = ("OMP_", "GOMP_", "KMP_", "MKL_")


def run(**given: str) -> tuple[bool, float, float, int]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**environment, **given}, capture_output=True, text=True, check=True
    )
    spins, before, after, count = done.stdout.split()
    return spins == "True", float(before), float(after), int(count)


@pytest.mark.skipif(processors.num_visible() < 2, reason="threads that outnumber the processors never spin")
@pytest.mark.skipif(sys.platform != "linux", reason="libgomp")
def test_threads_stop_spinning_where_torch_was_imported_first() -> None:
    spins, before, after, count = run()
    assert spins
    assert count == 2
    assert after < before / 3


def test_nothing_is_done_where_the_user_has_chosen() -> None:
    assert not run(OMP_WAIT_POLICY="passive")[0]
    assert not run(GOMP_SPINCOUNT="1000")[0]


def test_other_runtimes_are_warned_of_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(processors, "SPINS", True)
    monkeypatch.setattr(threads, "openmp", lambda: None)
    threads.stop_spinning.cache_clear()
    with caplog.at_level(logging.WARNING):
        threads.stop_spinning()
        threads.stop_spinning()
    threads.stop_spinning.cache_clear()
    assert [record.message.partition(":")[0] for record in caplog.records] == ["torch was imported before egt"]


@pytest.mark.parametrize(
    ("module", "begin"),
    [("egt.training.loop", "loop"), ("egt.inference.forward", "forward")],
)
def test_training_and_prediction_ask_for_it(monkeypatch: pytest.MonkeyPatch, module: str, begin: str) -> None:
    asked = []
    begun = import_module(module)
    monkeypatch.setattr(begun, "stop_spinning", lambda: asked.append(module))
    with suppress(AttributeError, TypeError):  # no job, no model
        list(getattr(begun, begin)(*[None] * (2 if begin == "loop" else 3)))
    assert asked == [module]
