"""Ctrl-C and SIGTERM as a wish to stop, which the run grants at the next safe moment."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While the context lasts, the first signal only sets `requested`; a second Ctrl-C interrupts at once.

    Attributes:
        requested: the name of the signal that came, empty if none did.
    """

    def __init__(self) -> None:
        self.requested = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in _SIGNALS}
            self.install()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def install(self) -> None:
        """Put the handlers in place (again: Lightning sets its own when it starts)."""
        if self._before:
            for number in _SIGNALS:
                signal.signal(number, self._handle)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name
