"""The entry point of `egt`: turns errors and signals into one readable message and an exit code."""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from egt.errors import EgtError, RunError


class Stopped(BaseException):
    """A signal asked the command to end; like `KeyboardInterrupt` no error that anyone should handle on its way."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exits with 0 (done), 1 (the run failed or was stopped) or 2 (wrong input or usage)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with _stoppable():
            try:
                from egt.cli.commands import run  # here, where a signal can be handled

                run(words)
            finally:
                sys.stdout.flush()  # here, where a closed pipe can be handled
    except EgtError as error:
        if debug:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, RunError) else 2)
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        sys.exit(1)
    except (Stopped, KeyboardInterrupt) as reason:
        if debug:
            traceback.print_exc()
        print(f"stopped by {reason or 'SIGINT'}", file=sys.stderr)
        sys.exit(1)


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM and Ctrl-C end what happens inside, but for those that this process was told to ignore."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    listened = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in listened:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in listened:
            signal.signal(number, before[number])


def _stop(number: int, _: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` and others send it twice: the end is on its way
    raise Stopped(signal.Signals(number).name)


def _reader_is_gone() -> bool:
    """Whether nobody reads standard output any more, as after `| head -1`."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))
