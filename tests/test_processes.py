"""Which of how many processes this is, as torchrun, Slurm and this package tell it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from egt.processes import ALONE, Processes, _first_machine, _free_port, find_launch, is_first
from tests.cli.runs import TINY, molecules

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "SLURM_PROCID", "SLURM_NTASKS")
SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_JOB_NAME": "fit"}


def describe(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"RANK": "2", "LOCAL_RANK": "0"}, False),
        ({"SLURM_PROCID": "0"}, True),
    ],
)
def test_one_process_of_several_is_the_first(
    environment: dict[str, str], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(monkeypatch, environment)
    assert is_first() == first


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, Processes(5, 8, local_rank=1)),  # torchrun
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "1", "NODE_RANK": "0"}, Processes(1, 2, local_rank=1)),
        ({"WORLD_SIZE": "4", "LOCAL_RANK": "1", "NODE_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, Processes(3, 4, 1)),
        (SLURM, Processes(5, 8, local_rank=1)),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "6"}, Processes(5, 6, local_rank=1)),  # srun with fewer tasks than the job
        (SLURM | {"SLURM_JOB_NAME": "bash"}, None),  # a shell in a job
        (SLURM | {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, Processes(0, 2)),  # torchrun in a job
    ],
)
def test_what_the_launcher_says(
    environment: dict[str, str], expected: Processes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(monkeypatch, environment)
    assert find_launch() == expected


@pytest.mark.parametrize(
    ("names", "first"), [("node07", "node07"), ("node[07-09,12]", "node07"), ("gpu[3],cpu[1-2]", "gpu3"), ("a,b", "a")]
)
def test_the_first_machine_of_a_slurm_job(names: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NODELIST", names)
    assert _first_machine() == first


def test_alone_everything_stays_as_it_is() -> None:
    assert ALONE.total(1.5, 2.0) == [1.5, 2.0]
    assert ALONE.gather("a") == ["a"]
    ALONE.wait()


TOGETHER = """
from egt.processes import join_processes, leave_processes
processes = join_processes()
print(processes.total(1.0, processes.rank), processes.gather("ab"[processes.rank]))
leave_processes()
"""


def test_slurm_processes_meet_and_share() -> None:
    plain = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    job = {"SLURM_NTASKS": "2", "SLURM_JOB_ID": str(os.getpid()), "SLURM_NODELIST": "localhost", "SLURM_JOB_NAME": "x"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER],
            env=plain | job | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=60)[0] for process in started]
    assert said == ["[2.0, 1.0] ['a', 'b']\n"] * 2


IN_A_GROUP = """
import sys
import torch.distributed as distributed
import egt

rank, (port, data, out) = int(sys.argv[1]), sys.argv[2:5]
distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
settings = [*sys.argv[5:], "trainer.accelerator=cpu", "trainer.devices=2", "trainer.baseline=false"]
run = egt.train(data, "y", start="none", out=out, set=settings, progress=False)
assert run.is_first == (rank == 0)
ranks = [None, None]
distributed.all_gather_object(ranks, distributed.get_rank())
assert ranks == [0, 1]  # the group is still that of the caller
distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_training_takes_part_in_a_group_that_is_there(tmp_path: Path) -> None:
    """`egt.train` in the middle of a program of several processes trains in them, as in those that it starts itself."""
    data = molecules(tmp_path / "data.csv", y=[k * 0.5 for k in range(20)])
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    options: Any = {"cwd": tmp_path, "env": {**environment, "OMP_NUM_THREADS": "1"}}
    words = [str(_free_port()), str(data), "inside"]
    pair = [
        subprocess.Popen([sys.executable, "-c", IN_A_GROUP, str(rank), *words, *TINY], **options) for rank in (0, 1)
    ]
    assert [process.wait(600) for process in pair] == [0, 0]
    settings = [*TINY, "trainer.accelerator=cpu", "trainer.devices=2", "trainer.baseline=false"]
    command = ["train", str(data), "--target", "y", "--from", "none", "--out", "started", "--set", *settings]
    subprocess.run([sys.executable, "-m", "egt", *command], check=True, **options)
    inside, started = (tmp_path / name / "artifact" / "weights.safetensors" for name in ("inside", "started"))
    assert inside.read_bytes() == started.read_bytes()
