"""Two "machines" train together by torchrun; one is lost and comes back, and the weights are those of a quiet run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.runs import TINY, molecules
from tests.restart.kill_runs import fingerprint, last_step

SETTINGS = (
    *TINY, "trainer.max_epochs=12", "trainer.num_nodes=2", "trainer.accelerator=cpu", "trainer.timeout_minutes=1",
    "trainer.checkpoint_minutes=1e-6", "trainer.baseline=false", "data.batch_size=4",
)  # fmt: skip


@contextmanager
def machine(port: int, data: Path, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One of two machines, with all its processes: they share this one's disk and speak over its loopback."""
    launcher = [
        *("--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "3", "--local-addr", "127.0.0.1"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "egt"),
    ]
    command = ["train", str(data), "--target", "y", "--from", "none", "--out", str(out), "--resume", "--set", *SETTINGS]
    process = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *launcher, "-m", "egt", *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},  # docs/engine.md
        start_new_session=True,
    )
    try:
        yield process
    finally:
        lose(process)


def lose(process: subprocess.Popen[bytes]) -> None:
    """End all processes of a machine at once, as when its power is cut."""
    for pid in [*processes_of(process.pid), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def processes_of(pid: int) -> list[int]:
    """What a process has started, and what that has started: torchrun gives each worker a session of its own."""
    try:
        children = [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [each for child in children for each in (child, *processes_of(child))]


def wait_until(reached: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_machine_that_is_lost_and_comes_back_changes_nothing(tmp_path: Path) -> None:
    data = molecules(tmp_path / "data.csv", y=[k * 0.5 for k in range(20)])
    with ExitStack() as stack:
        port = free_port()
        pair = [stack.enter_context(machine(port, data, tmp_path / "quiet")) for _ in range(2)]
        assert [each.wait(600) for each in pair] == [0, 0]
    with ExitStack() as stack:
        port, out = free_port(), tmp_path / "lost"
        first = stack.enter_context(machine(port, data, out))
        wait_until(lambda: listens(port))  # there the machines meet: this one must stay
        second = stack.enter_context(machine(port, data, out))
        wait_until(lambda: last_step(out) >= 8)
        lose(second)
        there = last_step(out)
        assert 8 <= there < last_step(tmp_path / "quiet")
        again = stack.enter_context(machine(port, data, out))
        assert [first.wait(600), again.wait(600)] == [0, 0]
    assert fingerprint(tmp_path / "lost") == fingerprint(tmp_path / "quiet")
    weights = [(tmp_path / name / "artifact" / "weights.safetensors").read_bytes() for name in ("lost", "quiet")]
    assert weights[0] == weights[1]
