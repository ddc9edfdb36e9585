"""Trainings that share the cores: seconds of an epoch alone, two and three at once, and beside a busy program.

    python -m benchmarks.side_by_side [--data small zinc] [--epochs 6] [--rounds 2] [--json]

`small` is a table of 640 short molecules with the default model; `zinc` is the preset zinc-100k on a share of ZINC-12K
(EGT_DATA_DIR). Every run is `egt train` in a process of its own, as a user starts it: variables of the environment that
set threads or their waiting are removed. The arms take turns for some rounds, so that a machine that is busy with
something else disturbs all of them. Of each run the median epoch counts, without the first one, and the last ones that
may have had a core to themselves; of several at once the slowest run. A ratio is to the median of the runs alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.trace_files import SMILES

_THREADS = ("OMP_", "MKL_", "KMP_", "GOMP_")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(_THREADS)}


@dataclass(frozen=True)
class Arm:
    """How many trainings run at once, whether beside a busy program, and how much slower an epoch may be."""

    name: str
    trainings: int
    busy: bool = False
    allowed: float = 1.0


ARMS = (
    Arm("alone", 1),
    Arm("two at once", 2, allowed=2.5),
    Arm("three at once", 3, allowed=4.0),
    Arm("beside a single-threaded program", 1, busy=True, allowed=2.2),
)


def write_table(path: Path, rows: int = 640) -> Path:
    """Write short molecules with one number each."""
    lines = [f"{SMILES[k % len(SMILES)]}{'C' * (k // len(SMILES) % 12)},{k * 0.37 % 5:.2f}" for k in range(rows)]
    path.write_text("\n".join(["smiles,y", *lines]) + "\n")
    return path


def words(data: str, folder: Path) -> list[str]:
    """Return what follows `egt train` for a data set."""
    if data == "small":
        table = folder / "small.csv"
        return [str(table if table.exists() else write_table(table)), "--target", "y"]
    return ["zinc-100k", "--set", "data.train_share=0.1"]


@contextmanager
def busy_program() -> Iterator[None]:
    """Keep one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], env=ENVIRONMENT)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def epoch_seconds(run: Path) -> float:
    """Return the median seconds of an epoch of a run, without its first one and its last third."""
    with (run / "metrics.csv").open() as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    inner = seconds[1 : max(2, len(seconds) - len(seconds) // 3)]
    return median(inner or seconds)


def trained(arm: Arm, data: str, epochs: int, folder: Path, number: int) -> float:
    """Run an arm once; return the epoch seconds of its slowest training."""
    runs = [folder / f"{data}-{number}-{arm.trainings}-{int(arm.busy)}-{k}" for k in range(arm.trainings)]
    command = [sys.executable, "-m", "egt", "train", *words(data, folder), "--epochs", str(epochs), "--out"]
    logs = [run.with_suffix(".log") for run in runs]
    processes = [
        subprocess.Popen([*command, str(run)], env=ENVIRONMENT, stdout=log.open("w"), stderr=subprocess.STDOUT)
        for run, log in zip(runs, logs, strict=True)
    ]
    for process, log in zip(processes, logs, strict=True):
        if process.wait():
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()}")
    return max(map(epoch_seconds, runs))


def measure(data: str, epochs: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Return the seconds and ratios of all arms, which take turns."""
    trained(ARMS[0], data, 1, folder, -1)  # compiles the kernel and prepares the graphs
    found: dict[str, list[float]] = {arm.name: [] for arm in ARMS}
    for number in range(rounds):
        for arm in ARMS:
            with busy_program() if arm.busy else nullcontext():
                found[arm.name].append(trained(arm, data, epochs, folder, number))
            print(f"{data}, {arm.name}: {found[arm.name][-1]:.2f} s", file=sys.stderr, flush=True)
    alone = median(found["alone"])
    return [
        {
            "data": data,
            "arm": arm.name,
            "epoch_seconds": round(median(found[arm.name]), 3),
            "ratio": round(median(found[arm.name]) / alone, 2),
            "allowed": arm.allowed,
        }
        for arm in ARMS
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=["small", "zinc"], default=["small", "zinc"])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        rows = [row for data in given.data for row in measure(data, given.epochs, given.rounds, Path(scratch))]
    if given.json:
        print(json.dumps(rows))
        return
    print("| data | trainings | seconds of an epoch | to alone | at most |\n|---|---|---|---|---|")
    for row in rows:
        print("| {data} | {arm} | {epoch_seconds:.2f} | {ratio:.2f} | {allowed} |".format(**row))


if __name__ == "__main__":
    main()
