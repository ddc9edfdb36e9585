"""Ctrl-C and SIGTERM as a wish to stop, which the run grants at the next safe moment."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CONTINUED: tuple[signal.Signals, ...] = (signal.SIGCONT,) if hasattr(signal, "SIGCONT") else ()
"""What a process that was paused (Ctrl-Z, SIGSTOP, `scontrol suspend`) goes on with; not on every system."""


class Interruption:
    """From `listen` to the end of the context the first signal only sets `requested`.

    A second Ctrl-C does what the first would have done before. Signals that this process was told to ignore stay so.

    Attributes:
        requested: the name of the signal that came, empty if none did.
    """

    def __init__(self) -> None:
        self.requested = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in (*_SIGNALS, *_CONTINUED)}
            self._before = {number: old for number, old in handlers.items() if old is not signal.SIG_IGN}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def listen(self, continued: Callable[[], None] = lambda: None) -> None:
        """Put the handlers in place: from here on there is something to keep, and a moment to keep it.

        Args:
            continued: is called when the process goes on after it was paused.
        """
        self._continued = continued
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number in _CONTINUED:
            self._continued()
            return
        if self.requested and number == signal.SIGINT:
            before = self._before[signal.SIGINT]
            if callable(before):
                before(number, frame)
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name


@contextmanager
def ending_at_once(where: str) -> Iterator[None]:
    """Yield a signal ends this process with a message and exit code 1, even in a call that never comes back to Python.

    Python's own handlers wait for such a call, as for other processes that may never come. A thread does not.

    Args:
        where: what the process was doing, for the message.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)

    def watch() -> None:
        while number := os.read(reader, 1):  # nothing when the writer is closed
            if number[0] in _SIGNALS:
                print(f"stopped by {signal.Signals(number[0]).name} {where}", file=sys.stderr, flush=True)
                os._exit(1)
        os.close(reader)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
