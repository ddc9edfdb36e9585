"""Seconds until a command does its work: `egt train` up to its first step, `egt predict` of one molecule.

    python -m benchmarks.startup [--rounds 5] [--json] \
        [--python-a .venv/bin/python --src-a src] [--python-b OTHER/.venv/bin/python --src-b OTHER/src]

Two checkouts take turns, so that a busy machine disturbs both alike; without `--src-b` there is one. Each has its own
cache, which a first round fills: kernels and prepared graphs are there, as in daily use. The first step ends with the
first backward pass of the training loop (that of a memory estimate does not count). Shown are the median and, in
parentheses, the fastest round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.trace_files import write_molecules

ROOT = Path(__file__).resolve().parents[1]
UNTIL_FIRST_STEP = """
import os, sys

def stop_after_first_step():
    import torch
    backward = torch.autograd.backward
    def watched(*args, **options):
        backward(*args, **options)
        frame = sys._getframe()
        while frame is not None:
            if "memory" in os.path.basename(frame.f_code.co_filename):
                return
            frame = frame.f_back
        os._exit(0)
    torch.autograd.backward = watched

class Watch:
    # torch is imported when egt does; the hook follows as soon as that import has ended.
    def find_spec(self, name, path=None, target=None):
        if "torch" in sys.modules and hasattr(sys.modules["torch"], "compile"):
            sys.meta_path.remove(self)
            stop_after_first_step()
        return None

sys.meta_path.insert(0, Watch())
from egt.cli.main import main
main(sys.argv[1:])
"""


@dataclass(frozen=True)
class Checkout:
    """A version of egt: the interpreter that runs it, its sources, and a cache of its own."""

    name: str
    python: str
    source: Path
    cache: Path

    def seconds(self, *words: str, folder: Path) -> float:
        """Measure the wall time of a process."""
        begin = time.perf_counter()
        done = subprocess.run(
            [self.python, *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(self.source.resolve()), "EGT_CACHE_DIR": str(self.cache)},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{self.name}: {' '.join(words[-5:])} failed: {done.stderr[-2000:]}")
        return time.perf_counter() - begin


def add_checkouts(parser: argparse.ArgumentParser) -> None:
    """Add the options that name one or two checkouts."""
    for name in "ab":
        parser.add_argument(f"--python-{name}", default=sys.executable)
        parser.add_argument(f"--src-{name}", type=Path, default=ROOT / "src" if name == "a" else None)


def checkouts_of(given: argparse.Namespace, folder: Path) -> list[Checkout]:
    """Return the checkouts that were named. folder: of their caches."""
    checkouts = [Checkout("a", given.python_a, given.src_a, folder / "cache-a")]
    if given.src_b is not None:
        checkouts.append(Checkout("b", given.python_b, given.src_b, folder / "cache-b"))
    return checkouts


def train(checkout: Checkout, folder: Path, number: int) -> float:
    run = f"{checkout.name}-{number}"
    words = ("train", "molecules.csv", "--target", "y", "--out", run)
    return checkout.seconds("-c", UNTIL_FIRST_STEP, *words, folder=folder)


def predict(checkout: Checkout, folder: Path, number: int) -> float:
    return checkout.seconds("-m", "egt", "predict", f"{checkout.name}-model", "CCO", folder=folder)


def prepare(checkout: Checkout, folder: Path) -> None:
    """Fill the cache, and train the model that predicts."""
    small = ("--set", "trainer.max_epochs=1", "model.num_layers=1")
    words = ("train", "molecules.csv", "--target", "y", "--out", f"{checkout.name}-model", *small)
    checkout.seconds("-m", "egt", *words, folder=folder)


def measure(checkouts: list[Checkout], folder: Path, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each command for each checkout, which take turns."""
    for checkout in checkouts:
        prepare(checkout, folder)
        train(checkout, folder, 0)
    found: dict[str, dict[str, list[float]]] = {"train, first step": {}, "predict CCO": {}}
    for number in range(1, rounds + 1):
        for checkout in checkouts if number % 2 else checkouts[::-1]:
            for name, command in zip(found, (train, predict), strict=True):
                found[name].setdefault(checkout.name, []).append(command(checkout, folder, number))
    return found


def show(found: Mapping[str, Mapping[str, list[float]]]) -> None:
    for command, times in found.items():
        shown = [f"{name} {median(seconds):.2f} s ({min(seconds):.2f})" for name, seconds in times.items()]
        middle = [median(seconds) for seconds in times.values()]
        gain = f", b is {middle[0] - middle[1]:+.2f} s sooner" if len(middle) == 2 else ""
        print(f"{command:<20} {', '.join(shown)}{gain}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_checkouts(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_molecules(folder / "molecules.csv")
        found = measure(checkouts_of(given, folder), folder, given.rounds)
    print(json.dumps(found)) if given.json else show(found)


if __name__ == "__main__":
    main()
