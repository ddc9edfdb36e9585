"""Kill a run again and again with SIGKILL, resume it each time, and compare its end with that of a run left alone.

`python -m tests.restart.kill_runs --kills 20 --processes 2` prints one JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.training.tiny import tiny_config, tiny_samples

SERVER = multiprocessing.get_context("forkserver")


def train(out: Path, epochs: int, num_workers: int, environment: dict[str, str]) -> None:
    """One process of the run, to its end."""
    os.environ.update(environment)
    import torch

    from egt.training.run import train_on

    torch.set_num_threads(1)
    layout = "padded" if "WORLD_SIZE" in environment else "packed"
    config = tiny_config(
        data={"num_workers": num_workers, "layout": layout, "pair_budget": 600},
        trainer={
            "max_epochs": epochs,
            "checkpoint_minutes": 1e-6,  # after every step
            "devices": int(environment.get("WORLD_SIZE", 1)),
            "ema_decay": 0.9,
            "accumulate": 2,
        },
    )
    samples = tiny_samples(config, 90), tiny_samples(config, 15, seed=1)
    train_on(config, *samples, folder=out, resume=True, show_progress=False)


def start(out: Path, epochs: int, num_workers: int, num_processes: int) -> list[ForkServerProcess]:
    """Start all processes of the run, as torchrun would."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    processes = []
    for rank in range(num_processes):
        environment = (
            {}
            if num_processes == 1
            else {
                "LOCAL_RANK": str(rank),
                "NODE_RANK": "0",
                "WORLD_SIZE": str(num_processes),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            }
        )
        processes.append(SERVER.Process(target=train, args=(out, epochs, num_workers, environment)))
        processes[-1].start()
    return processes


def kill_at(command: Sequence[str], out: Path, moments: Sequence[str]) -> None:
    """Start a command once for each moment, and kill it as soon as `out` has one more file that matches the moment."""
    for moment in moments:
        process = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = {*out.glob(moment)}
        while process.poll() is None and not {*out.glob(moment)} - before:
            time.sleep(0.0005)
        process.kill()
        process.wait()


def last_step(out: Path) -> int:
    """The step of the newest checkpoint, 0 if there is none."""
    return max((int(path.stem.split("-")[1]) for path in (out / "checkpoints").glob("step-*.safetensors")), default=0)


def fingerprint(out: Path) -> dict[str, object]:
    """Hashes of everything a run ends with: weights, optimizer, average, selected weights, and the loss curve."""
    from egt.training.run_folder import read_tensors

    state, tensors = read_tensors(out / "checkpoints" / f"step-{last_step(out):012d}.safetensors")
    _, best = read_tensors(out / "checkpoints" / state["best"]["file"])
    digest = hashlib.sha256()
    for part in (tensors, best):
        for name in sorted(part):
            digest.update(name.encode() + part[name].numpy().tobytes())
    curve = [{k: v for k, v in row.items() if "second" not in k} for row in state["progress"]["history"]]
    return {"weights": digest.hexdigest(), "history": curve, "schedule": state["schedule"]}


def wait_for(processes: list[ForkServerProcess]) -> None:
    for process in processes:
        process.join()
        if process.exitcode:
            sys.exit(f"a run failed with exit code {process.exitcode}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    SERVER.set_forkserver_preload(["egt.training.loop", "tests.training.tiny"])
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        alone, killed = Path(folder) / "alone", Path(folder) / "killed"
        wait_for(start(alone, arguments.epochs, 0, arguments.processes))
        resumed_from = []
        for kill in range(arguments.kills):
            before = last_step(killed)
            processes = start(killed, arguments.epochs, kill % 3, arguments.processes)
            while last_step(killed) <= before and all(process.is_alive() for process in processes):
                time.sleep(0.005)
            time.sleep(chance.random() * 0.6)
            for process in chance.sample(processes, len(processes)):
                if process.is_alive():
                    os.kill(process.pid or 0, signal.SIGKILL)
            for process in processes:
                process.join()
            resumed_from.append(last_step(killed))
        wait_for(start(killed, arguments.epochs, 1, arguments.processes))
        ends = fingerprint(alone), fingerprint(killed)
        result = {"resumed_from": resumed_from, "last_step": last_step(killed), "equal": ends[0] == ends[1]}
        print(json.dumps(result | {"ends": ends}))


if __name__ == "__main__":
    main()
