"""Seconds of `egt predict` for a table of drug-like molecules, with the default model; two checkouts in turns.

    python -m benchmarks.screen [--molecules 20000] [--rounds 3] \
        [--python-a .venv/bin/python --src-a src] [--python-b OTHER/.venv/bin/python --src-b OTHER/src]

Reads EGT_DATA_DIR (ZINC). Each checkout trains a model of its own for two epochs on 400 molecules, and keeps a cache of
its own: kernels are compiled before the first round. Other checkouts take turns, so that a busy machine disturbs both
alike; without `--src-b` there is one. Shown are the rounds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from benchmarks.startup import Checkout, add_checkouts, checkouts_of
from egt.data.download import data_folder

LABELED = 400


def write_tables(folder: Path, molecules: int) -> None:
    """Write molecules with a label to train on, and others, evenly spread over ZINC."""
    zinc = pd.read_parquet(data_folder() / "zinc" / "zinc_full_250k_smiles_y.parquet", columns=["smiles", "y"])
    order = np.random.default_rng(0).permutation(len(zinc))
    zinc.iloc[order[:LABELED]].to_csv(folder / "labeled.csv", index=False)
    zinc.iloc[order[LABELED:][:molecules]][["smiles"]].to_csv(folder / "screen.csv", index=False)


def children_seconds() -> float:
    """Return the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(checkout: Checkout, folder: Path) -> tuple[float, float]:
    """Return the seconds of one screen on the clock and of the processors."""
    before = children_seconds()
    words = ("predict", f"{checkout.name}-model", "screen.csv", "-o", f"{checkout.name}.csv")
    seconds = checkout.seconds("-m", "egt", *words, folder=folder)
    return seconds, children_seconds() - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_checkouts(parser)
    parser.add_argument("--molecules", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_tables(folder, given.molecules)
        checkouts = checkouts_of(given, folder)
        for checkout in checkouts:
            words = ("train", "labeled.csv", "--target", "y", "--out", f"{checkout.name}-model")
            checkout.seconds("-m", "egt", *words, "--set", "trainer.max_epochs=2", folder=folder)
        found: dict[str, list[tuple[float, float]]] = {checkout.name: [] for checkout in checkouts}
        for number in range(given.rounds):
            for checkout in checkouts if number % 2 else checkouts[::-1]:
                found[checkout.name].append(measure(checkout, folder))
    for name, rounds in found.items():
        shown = ", ".join(f"{seconds:.1f} s ({processors:.1f} s of processors)" for seconds, processors in rounds)
        print(f"{name}: {shown}")
    if len(found) == 2:
        a, b = (median(seconds for seconds, _ in rounds) for rounds in found.values())
        print(f"a is {b / a:.2f} times as fast as b")


if __name__ == "__main__":
    main()
