"""The processes that work together: those of torchrun and Slurm, and others that are started here; and their signals.

torchrun and Slurm start processes and describe them in environment variables; `run_together` does the same on one
machine. Nothing else in the package reads these variables.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from egt.errors import ConfigError, EgtError, RunError

if TYPE_CHECKING:
    import torch


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CONTINUED: tuple[signal.Signals, ...] = (signal.SIGCONT,) if hasattr(signal, "SIGCONT") else ()
"""What a process that was paused (Ctrl-Z, SIGSTOP, `scontrol suspend`) goes on with; not on every system."""


class Interruption:
    """From `listen` to the end of the context the first signal only sets `requested`, to its name.

    A second Ctrl-C does what the first would have done before. Signals that this process was started to ignore stay so.
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

        continued: called when the process goes on after it was paused.
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
def exit_on_signal(where: str) -> Iterator[None]:
    """Let a signal end this process with a message and exit code 1, even in a call that never comes back to Python.

    Python's own handlers wait for such a call, as for other processes that may never come. A thread does not.
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


T = TypeVar("T")
_INTERACTIVE = ("bash", "interactive")
"""Names of Slurm jobs that are a shell: what is typed there was not started by srun."""


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is, in all and on this machine; alone by default."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this process logs and writes for all."""
        return self.rank == 0

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, in order of rank, the same in each."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        _torch().distributed.all_gather_object(values, value)
        return values

    def total(self, *values: float) -> list[float]:
        """Return the sums of plain numbers over all processes, the same in each."""
        if self.count == 1:
            return list(values)
        torch = _torch()
        sums = torch.tensor(values, dtype=torch.float64)
        torch.distributed.all_reduce(sums)
        totals: list[float] = sums.tolist()
        return totals

    def wait(self) -> None:
        """Return when all processes have come here."""
        self.total(0.0)


ALONE = Processes()


def find_launch() -> Processes | None:
    """Find the processes that torchrun, Slurm, `egt.processes` or the caller started with this one; None if none did.

    The caller did if it has initialized a process group; all its processes then do the same work.
    """
    described, distributed = _described(), sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return described
    rank = distributed.get_rank()
    return Processes(rank, distributed.get_world_size(), rank if described is None else described.local_rank)


def _described() -> Processes | None:
    """Return what the environment says."""
    found = os.environ
    if "LOCAL_RANK" in found:
        count, local_rank = int(found.get("WORLD_SIZE", "1")), int(found["LOCAL_RANK"])
        before = int(found.get("NODE_RANK", "0")) * int(found.get("LOCAL_WORLD_SIZE", count))
        return Processes(int(found.get("RANK", before + local_rank)), count, local_rank)
    if "SLURM_PROCID" in found and "SLURM_NTASKS" in found and found.get("SLURM_JOB_NAME") not in _INTERACTIVE:
        count = int(found.get("SLURM_STEP_NUM_TASKS", found["SLURM_NTASKS"]))
        return Processes(int(found["SLURM_PROCID"]), count, int(found.get("SLURM_LOCALID", "0")))
    return None


def is_first() -> bool:
    """Whether this process logs and writes for all that a launcher has started; true where there are no others."""
    return (find_launch() or ALONE).is_first


_has_joined = False  # whether the process group was initialized here, and not by the caller


def join_processes(device: torch.device | None = None, timeout_minutes: float = 30.0) -> Processes:
    """Initialize the process group of a launcher (`torchrun --nproc-per-node 2 -m egt ...`), or take part in one.

    Tensors that travel are on `device`; numbers and objects always travel over the CPU. Processes that others wait for
    longer than the timeout count as lost.
    """
    global _has_joined
    processes = find_launch() or ALONE
    if processes.count == 1:
        return processes
    distributed = _torch().distributed
    if distributed.is_initialized():
        if distributed.get_backend() == "nccl":
            raise ConfigError(
                "the process group has nothing for numbers and objects on the CPU; initialize it with "
                'init_process_group("cpu:gloo,cuda:nccl")'
            )
        return processes
    os.environ.setdefault("MASTER_ADDR", _first_machine())
    os.environ.setdefault("MASTER_PORT", str(15_000 + int(os.environ.get("SLURM_JOB_ID", "0")[-4:])))
    backend = "cpu:gloo"
    if device is not None and device.type != "cpu":
        backend += f",{device.type}:{distributed.get_default_backend_for_device(device)}"
    with exit_on_signal("while waiting for the other processes"):
        patience = timedelta(minutes=timeout_minutes)
        distributed.init_process_group(backend, rank=processes.rank, world_size=processes.count, timeout=patience)
    _has_joined = True
    return processes


def leave_processes() -> None:
    """Leave the process group that was joined, if any. After an error the others may never answer: then just end."""
    global _has_joined
    if _has_joined:
        _has_joined = False
        _torch().distributed.destroy_process_group()


def _torch() -> Any:
    """Return torch with its distributed package: a process alone, as of most commands, does not wait for them here."""
    import torch.distributed

    return torch


def _first_machine() -> str:
    """Return the first machine of a Slurm job: "node[07-09,12]" is node07."""
    names = os.environ.get("SLURM_STEP_NODELIST", os.environ.get("SLURM_NODELIST", "127.0.0.1"))
    return re.sub(r"\[([^,\-\]]*)[^\]]*\]", r"\1", names).split(",")[0]


_UNGUARDED = (
    "a script that trains in several processes is imported by each of them: put what it does under "
    '`if __name__ == "__main__":`'
)


def refuse_import() -> None:
    """Raise an error in a process that is still importing the script it was started by: it would do all of it again."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RunError(_UNGUARDED)


_GRACE_SECONDS = 20.0  # how long the others may take to end after one has failed


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
    begun: list[int] = []
    with Interruption() as interruption:
        interruption.listen()
        try:
            with _start_safely():
                for process in processes:
                    _start(process)
            for _, sender in pipes:
                sender.close()
            _watch(processes, receivers, failures, begun, interruption)
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
            reason = "" if rank in begun else f" before it began: {_UNGUARDED}, and define in a module what it needs"
            raise RunError(f"process {rank} of {num_processes} ended with exit code {process.exitcode}{reason}")


def _start(process: SpawnProcess) -> None:
    try:
        process.start()
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise ConfigError(
            f"what several processes are to do cannot be sent to them ({error}); define callbacks and classes at the "
            "top of a module, not in a function, or set trainer.devices=1"
        ) from error


def _watch(
    processes: Sequence[SpawnProcess],
    receivers: Sequence[Connection],
    failures: list[EgtError],
    begun: list[int],
    interruption: Interruption,
) -> None:
    """Wait for all processes; pass a signal on once; do not let survivors wait for one that is gone."""
    has_passed_signal, deadline = False, None
    while alive := [process for process in processes if process.is_alive()]:
        open_pipes = [receiver for receiver in receivers if not receiver.closed]
        wait([*(process.sentinel for process in alive), *open_pipes], timeout=0.2)
        _listen(open_pipes, failures, begun)
        if interruption.requested and not has_passed_signal:
            has_passed_signal = True
            for process in alive:
                os.kill(process.pid or 0, signal.SIGTERM)
        if deadline is None and any(process.exitcode for process in processes):
            deadline = time.monotonic() + _GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            for process in alive:
                process.kill()
    _listen([receiver for receiver in receivers if not receiver.closed], failures, begun)


def _listen(receivers: Sequence[Connection], failures: list[EgtError], begun: list[int]) -> None:
    """Take in what the processes have sent: their ranks, records of their logs, and the errors they ended with."""
    for receiver in receivers:
        try:
            while receiver.poll():
                message = receiver.recv()
                if isinstance(message, EgtError):
                    failures.append(message)
                elif isinstance(message, int):
                    begun.append(message)
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
    pipe.send(rank)
    # All do the same: only rank 0 logs.
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
def _start_safely() -> Iterator[None]:
    """Shield processes that are started inside from Ctrl-C and from the current folder.

    Ctrl-C goes to all processes of a terminal; their parent handles it. Files of the current folder would be imported
    in place of Python's own modules.
    """
    variable = "PYTHONSAFEPATH"
    before = os.environ.get(variable)
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    os.environ[variable] = "1"
    try:
        yield
    finally:
        del os.environ[variable]
        if before is not None:
            os.environ[variable] = before
        if in_main_thread:
            signal.signal(signal.SIGINT, handler)


def _end_with_parent() -> None:
    """Stop a process whose parent is gone as if by SIGTERM."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
