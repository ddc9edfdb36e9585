"""Several processes on this machine that train one model together, started and watched by the one that was called."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from egt import errors
from egt.errors import ConfigError, EgtError, RunError
from egt.training.interruption import Interruption

_GRACE_SECONDS = 20.0
"""How long the others may take to end after one has failed."""


def started_from_outside() -> bool:
    """Whether torchrun, Slurm or another launcher has started the processes of this run already."""
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment

    return "LOCAL_RANK" in os.environ or SLURMEnvironment.detect()


def check_launch(devices: int | str, num_nodes: int) -> None:
    """Raise a `ConfigError` unless the processes that a launcher has started are those that the run asks for.

    Otherwise they would train alone in one folder, or wait forever for others.
    """
    if num_nodes > 1 and not started_from_outside():
        raise ConfigError(
            f"trainer.num_nodes is {num_nodes}, but nobody has started the processes on the other machines: "
            "use torchrun or Slurm (docs/commands.md), or leave trainer.num_nodes at 1"
        )
    started = os.environ.get("WORLD_SIZE") if "LOCAL_RANK" in os.environ else None
    if started is not None and devices != "auto" and int(started) != int(devices) * num_nodes:
        raise ConfigError(
            f"{started} processes were started, but trainer.devices x trainer.num_nodes is {int(devices) * num_nodes}: "
            f"--set trainer.devices={max(1, int(started) // num_nodes)}"
        )


def run_together(function: Callable[..., None], num_processes: int, arguments: Mapping[str, Any]) -> None:
    """Call `function(**arguments)` in each of `num_processes` new processes, and wait for all of them.

    An `EgtError` of any process is raised here. Signals are passed on, so that the processes can stop safely.
    """
    context = multiprocessing.get_context("spawn")
    port = _free_port()
    pipes = [context.Pipe(duplex=False) for _ in range(num_processes)]
    processes = [
        context.Process(target=_child, args=(function, dict(arguments), rank, num_processes, port, pipe[1]))
        for rank, pipe in enumerate(pipes)
    ]
    with Interruption() as interruption:
        for process in processes:
            process.start()
        for _, sender in pipes:
            sender.close()
        try:
            _watch(processes, interruption)
        finally:
            for process in processes:
                process.kill()
                process.join()
    for receiver, _ in pipes:
        with suppress(EOFError):  # a process without an error sends nothing
            name, message = receiver.recv()
            raise getattr(errors, name)(message)
    for rank, process in enumerate(processes):
        if process.exitcode:
            raise RunError(f"process {rank} of {num_processes} ended with exit code {process.exitcode}")


def _watch(processes: list[SpawnProcess], interruption: Interruption) -> None:
    """Wait for all processes; pass a signal on once; do not let survivors wait for one that is gone."""
    told, deadline = False, None
    while alive := [process for process in processes if process.is_alive()]:
        wait([process.sentinel for process in alive], timeout=0.2)
        if interruption.requested and not told:
            told = True
            for process in alive:
                os.kill(process.pid or 0, signal.SIGTERM)
        if deadline is None and any(process.exitcode for process in processes):
            deadline = time.monotonic() + _GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            for process in alive:
                process.kill()


def _child(
    function: Callable[..., None], arguments: dict[str, Any], rank: int, num_processes: int, port: int, pipe: Connection
) -> None:
    os.environ.update(
        LOCAL_RANK=str(rank),
        NODE_RANK="0",
        WORLD_SIZE=str(num_processes),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function(**arguments)
    except EgtError as error:
        pipe.send((type(error).__name__, str(error)))
        raise SystemExit(1) from error


def _end_with_parent() -> None:
    """A process whose parent is gone stops as if by SIGTERM: nobody is left to collect its result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
