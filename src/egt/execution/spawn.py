"""Several processes on this machine that work together, started and watched by the one that was called."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from egt.errors import EgtError, RunError
from egt.execution.interruption import Interruption

_GRACE_SECONDS = 20.0
"""How long the others may take to end after one has failed."""


def run_together(function: Callable[..., None], num_processes: int, arguments: Mapping[str, Any]) -> None:
    """Call `function(**arguments)` in each of `num_processes` new processes, and wait for all of them.

    An `EgtError` of any process is raised here. What the first one logs is logged here. Signals are passed on, so that
    the processes can stop safely.
    """
    context = multiprocessing.get_context("spawn")
    port = _free_port()
    pipes = [context.Pipe(duplex=False) for _ in range(num_processes)]
    receivers = [receiver for receiver, _ in pipes]
    processes = [
        context.Process(target=_child, args=(function, dict(arguments), rank, num_processes, port, pipe[1]))
        for rank, pipe in enumerate(pipes)
    ]
    failures: list[EgtError] = []
    with Interruption() as interruption:
        interruption.listen()
        try:
            with _ignoring_control_c(), _safe_path():
                for process in processes:
                    process.start()
            for _, sender in pipes:
                sender.close()
            _watch(processes, receivers, failures, interruption)
        finally:
            for process in processes:
                if process.pid is not None:
                    process.kill()
                    process.join()
    if failures:
        raise failures[0]
    if interruption.requested:  # before the first step, or after the last
        raise RunError(f"stopped by {interruption.requested}; continue with --resume")
    for rank, process in enumerate(processes):
        if process.exitcode:
            raise RunError(f"process {rank} of {num_processes} ended with exit code {process.exitcode}")


def _watch(
    processes: Sequence[SpawnProcess],
    receivers: Sequence[Connection],
    failures: list[EgtError],
    interruption: Interruption,
) -> None:
    """Wait for all processes; pass a signal on once; do not let survivors wait for one that is gone."""
    told, deadline = False, None
    while alive := [process for process in processes if process.is_alive()]:
        open_pipes = [receiver for receiver in receivers if not receiver.closed]
        wait([*(process.sentinel for process in alive), *open_pipes], timeout=0.2)
        _listen(open_pipes, failures)
        if interruption.requested and not told:
            told = True
            for process in alive:
                os.kill(process.pid or 0, signal.SIGTERM)
        if deadline is None and any(process.exitcode for process in processes):
            deadline = time.monotonic() + _GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            for process in alive:
                process.kill()
    _listen([receiver for receiver in receivers if not receiver.closed], failures)


def _listen(receivers: Sequence[Connection], failures: list[EgtError]) -> None:
    """Take in what the processes have sent: records of their logs, and the errors they ended with."""
    for receiver in receivers:
        try:
            while receiver.poll():
                message = receiver.recv()
                if isinstance(message, EgtError):
                    failures.append(message)
                elif logging.getLogger(message.name).isEnabledFor(message.levelno):
                    logging.getLogger(message.name).handle(message)
        except (EOFError, OSError):  # the process is gone
            receiver.close()


class _ToParent(logging.Handler):
    """Sends the records of a log to the process that was called, which knows what to show."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
        self.pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record as its text: its arguments may be things that cannot travel."""
        record.msg, record.args, record.exc_info = self.format(record), None, None
        self.pipe.send(record)


def _child(
    function: Callable[..., None], arguments: dict[str, Any], rank: int, num_processes: int, port: int, pipe: Connection
) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(num_processes),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    # All do the same: one of them tells.
    level = logging.INFO if rank == 0 else logging.ERROR
    logging.basicConfig(handlers=[_ToParent(pipe)], format="%(message)s", level=level)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function(**arguments)
    except EgtError as error:
        pipe.send(error)
        raise SystemExit(1) from error
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # all is written; threads of libraries may crash while an interpreter is taken down


@contextmanager
def _ignoring_control_c() -> Iterator[None]:
    """Shield processes started inside from a Ctrl-C, which goes to all of a terminal; their parent handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Keep processes started inside from importing files of the current folder in place of Python's own modules."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def _end_with_parent() -> None:
    """Stop a process whose parent is gone as if by SIGTERM: nobody is left to collect its result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
