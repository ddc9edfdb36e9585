"""Loading: the same batches from any number of workers, and the global generator left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from egt.data.batching.loader import Sampling, graph_sizes, step_loader
from egt.data.encodings.encoding import Sample
from egt.graph import Graph

SAMPLES = [
    Sample(Graph(num_nodes=k % 5 + 1, edge_index=np.zeros((2, 0), np.int64), graph_targets=np.array([float(k)])))
    for k in range(23)
]


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_workers_do_not_change_what_is_loaded(num_workers: int) -> None:
    epoch = Sampling(graph_sizes(SAMPLES), 6, pair_budget=40).epoch(2, start=1)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    steps = list(step_loader(SAMPLES, epoch, "packed", num_workers))
    assert torch.equal(torch.get_rng_state(), before)
    assert [[batch.graph_ids.tolist() for batch in step] for step in steps] == [[g.tolist() for g in s] for s in epoch]
    for step in steps:
        for batch in step:
            assert batch.graph_targets is not None
            assert batch.graph_targets.flatten().tolist() == batch.graph_ids.tolist()


class Noted(list[Sample]):
    """Samples that write down when each is read."""

    def __init__(self, samples: list[Sample], file: Path) -> None:
        super().__init__(samples)
        self.file = file

    def __getitem__(self, index: Any) -> Any:
        with self.file.open("a") as file:
            print(index, time.monotonic(), file=file)
        return super().__getitem__(index)


def test_a_worker_prepares_the_next_steps_while_one_is_computed(tmp_path: Path) -> None:
    samples, asked = Noted(SAMPLES, tmp_path / "timeline"), []
    for _ in step_loader(samples, [[np.array([k])] for k in range(6)], "packed", num_workers=1):
        time.sleep(0.2)  # what the device would compute
        asked.append(time.monotonic())
    lines = [line.split() for line in samples.file.read_text().splitlines()]
    read = {int(number): float(moment) for number, moment in lines}
    assert all(read[k + 1] < asked[k] for k in range(5)), "the device would have waited for a batch"


@pytest.mark.skipif(os.name != "posix", reason="process groups are a thing of POSIX")
def test_workers_do_not_hear_the_signals_to_a_command() -> None:
    """Ctrl-C in a terminal and `timeout` reach all processes of a group; a dead worker would end the run."""
    steps: Any = iter(step_loader(SAMPLES, [[np.array([0])], [np.array([1])]], "packed", num_workers=1))
    next(steps)
    (worker,) = steps._workers
    assert os.getpgid(worker.pid) == worker.pid != os.getpgid(0)


def test_sizes_come_from_a_store_that_knows_them() -> None:
    class Known(list[Sample]):
        sizes = np.array([7, 8])

    assert graph_sizes(Known()).tolist() == [7, 8]
    assert graph_sizes(SAMPLES[:3]).tolist() == [1, 2, 3]


KILLED = """
import os, signal
from torch.utils.data._utils.worker import ManagerWatchdog
ManagerWatchdog.is_alive = lambda self: True
from tests.data.batching.test_loader import SAMPLES, np, step_loader
steps = iter(step_loader(SAMPLES, [[np.array([0])]] * 9, "packed", num_workers=2))
next(steps)
print(*(worker.pid for worker in steps._workers), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_workers_end_with_a_parent_that_is_killed() -> None:
    """Torch looks for a new parent, and misses one that came before it first looked: here it never finds one."""
    folder = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, cwd=folder, timeout=60)
    workers = done.stdout.split()
    assert len(workers) == 2, done.stderr[-2000:]
    limit = time.monotonic() + 30
    while any(Path("/proc", worker, "fd", "0").exists() for worker in workers):
        assert time.monotonic() < limit
        time.sleep(0.05)
