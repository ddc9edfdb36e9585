"""Signals become a wish to stop; the handlers that were there come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from subprocess import PIPE
from types import FrameType

import pytest

from egt.processes import Interruption, exit_on_signal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_wish(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interruption() as interruption:
        interruption.listen()
        os.kill(os.getpid(), number)
        assert interruption.requested == number.name
    assert signal.getsignal(number) is before


def test_a_second_control_c_interrupts_at_once() -> None:
    with Interruption() as interruption:
        interruption.listen()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_second_control_c_does_what_the_command_does_with_it() -> None:
    class Ended(BaseException):
        pass

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended

    before = signal.signal(signal.SIGINT, end)
    try:
        with Interruption() as interruption:
            interruption.listen()
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(Ended):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            interruption.listen()
            signal.raise_signal(signal.SIGINT)
        assert interruption.requested == ""
    finally:
        signal.signal(signal.SIGINT, before)


def test_before_listening_signals_do_what_they_did() -> None:
    with Interruption(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


BLOCKED = """
import ctypes, signal, sys
from egt.processes import exit_on_signal
signal.signal(signal.SIGTERM, lambda *_: None)
with exit_on_signal("in the test"):
    print("waiting", flush=True)
    wait = ctypes.CDLL(None).poll
    while wait(None, 0, 60_000) < 0:  # as a rendezvous does: a call that a signal does not end
        pass
"""


def test_a_signal_ends_a_process_that_is_stuck_in_a_call() -> None:
    with subprocess.Popen([sys.executable, "-c", BLOCKED], stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=20)[1]
    assert (process.returncode, error) == (1, "stopped by SIGTERM in the test\n")


def test_after_the_stuck_call_all_is_as_before() -> None:
    with exit_on_signal("in the test"):
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_handlers_can_be_put_in_place_again() -> None:
    with Interruption() as interruption:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        interruption.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.requested == "SIGTERM"


def test_a_process_that_goes_on_after_a_pause_is_told() -> None:
    told: list[str] = []
    with Interruption() as interruption:
        interruption.listen(lambda: told.append("continued"))
        signal.raise_signal(signal.SIGCONT)
        assert interruption.requested == ""
    signal.raise_signal(signal.SIGCONT)
    assert told == ["continued"]
