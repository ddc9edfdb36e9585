"""Signals become a wish to stop; the handlers that were there come back."""

from __future__ import annotations

import os
import signal

import pytest

from egt.training.interruption import Interruption, ending_at_once


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


def test_handlers_can_be_put_in_place_again() -> None:
    with Interruption() as interruption:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        interruption.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.requested == "SIGTERM"
