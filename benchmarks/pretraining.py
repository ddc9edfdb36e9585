"""Whether pre-training helps: 100 labels of ESOL and of BBBP, from random weights and from a pre-trained model.

    python -m benchmarks.pretraining [--molecules 50000] [--epochs 10] [--seeds 0 1 2] [--out runs/pretraining]

Reads EGT_DATA_DIR. Pre-trains once, on ZINC molecules that are in neither set, unless OUT has that model. For each set
and seed, 100 random molecules train, 100 others select the weights, and all the rest are the test; both runs see the
same rows. Prints a JSON line for each run, and at the end the mean and deviation over the seeds.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import egt
from egt.data.download import data_folder

SETS = {"esol": ("logSolubility", "rmse"), "bbbp": ("p_np", "roc_auc")}
LABELS = 100


def main() -> None:
    """Run all and print the results."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--molecules", type=int, default=50_000)
    words.add_argument("--epochs", type=int, default=10)
    words.add_argument("--tuning-epochs", type=int, default=200)
    words.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    words.add_argument("--out", type=Path, default=Path("runs/pretraining"))
    asked = words.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    tables = {name: read_set(name) for name in SETS}
    known = {row["smiles"] for rows in tables.values() for row in rows}
    unlabeled = asked.out / "zinc.csv"
    write(unlabeled, [{"smiles": smiles} for smiles in zinc(asked.molecules) if smiles not in known])
    first = asked.out / "pretrained"
    epochs = {"trainer.max_epochs": asked.epochs}
    if not (first / "artifact").exists():
        pretrained = egt.train(unlabeled, task="pretrain", set=epochs, out=first, progress=False)
        print(json.dumps({"run": "pretrained", **pretrained.artifact.metrics["test"]}), flush=True)
    for name, (target, metric) in SETS.items():
        found: dict[str, list[float]] = {"random": [], "pretrained": []}
        for seed in asked.seeds:
            data = asked.out / f"{name}-{seed}.csv"
            write(data, divided(tables[name], seed))
            for how, start in (("random", None), ("pretrained", first)):
                settings = {"seed": seed, "trainer.max_epochs": asked.tuning_epochs}
                out = asked.out / f"{name}-{seed}-{how}"
                run = egt.train(data, target, start=start, set=settings, out=out, progress=False)
                found[how].append(run.artifact.metrics["test"][metric])
                print(json.dumps({"run": out.name, metric: found[how][-1], "epoch": run.epoch + 1}), flush=True)
        for how, values in found.items():
            summary = {"set": name, "start": how, metric: float(np.mean(values)), "std": float(np.std(values, ddof=1))}
            print(json.dumps(summary), flush=True)


def read_set(name: str) -> list[dict[str, str]]:
    """Return the rows of a set, each with its SMILES and target."""
    with gzip.open(data_folder() / "moleculenet" / f"{name}.csv.gz", "rt") as file:
        return [{"smiles": row["smiles"], SETS[name][0]: row[SETS[name][0]]} for row in csv.DictReader(file)]


def zinc(count: int) -> Iterable[str]:
    """Return SMILES of ZINC, evenly spread over the file."""
    smiles = pd.read_parquet(data_folder() / "zinc" / "zinc_full_250k_smiles_y.parquet", columns=["smiles"])["smiles"]
    return [str(smiles[k]) for k in np.linspace(0, len(smiles) - 1, min(count, len(smiles))).astype(int)]


def divided(rows: Sequence[dict[str, str]], seed: int) -> list[dict[str, str]]:
    """Return the rows with a split: as many labels in training as in validation."""
    order = np.random.default_rng(seed).permutation(len(rows))
    splits = ["train"] * LABELS + ["val"] * LABELS + ["test"] * (len(rows) - 2 * LABELS)
    return [{**rows[k], "split": split} for k, split in zip(order, splits, strict=True)]


def write(path: Path, rows: Sequence[dict[str, str]]) -> None:
    """Write a CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
