"""Labels that are bounds: learning from them against dropping them, on open potency tables of MoleculeACE.

    python -m benchmarks.censored [TARGET ...] [--seeds 3] [--how limit random] [--forms bounds dropped all] \
        [--epochs N] [--out runs/censored]

Reads EGT_DATA_DIR/moleculeace. In each table 30% of the training and validation labels are replaced by bounds, and all
test rows stay measured. `limit`: the assay does not resolve weak binders, so that the lowest 30% become `<LIMIT`.
`random`: labels drawn at random become `>` or `<` a number up to one log unit to the side. Then three models with the
same rows, seed and settings: `bounds` learns from them, `dropped` has missing labels there, `all` had every label
measured. Prints a JSON line for each model with the RMSE on the test rows, and one for each table with the means. A
model that is there is not trained again.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import egt
from egt.api import Run
from egt.inference.artifact import load_artifact

TARGETS = ("CHEMBL218_EC50", "CHEMBL237_EC50", "CHEMBL231_Ki", "CHEMBL1862_Ki", "CHEMBL4203_Ki")
SHARE = 0.3
WIDEST = 1.0
VALIDATION = 0.1
FORMS = ("bounds", "dropped", "all")


def main() -> None:
    """Measure the tables that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=[*TARGETS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--how", nargs="+", default=["limit", "random"], choices=["limit", "random"])
    parser.add_argument("--forms", nargs="+", default=[*FORMS], choices=FORMS)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--out", type=Path, default=Path("runs/censored"))
    options = parser.parse_args()
    for how in options.how:
        for target in options.targets:
            found: dict[str, list[float]] = {form: [] for form in options.forms}
            for seed in range(options.seeds):
                for form in options.forms:
                    began = time.monotonic()
                    metrics = measured(target, how, form, seed, options.epochs, options.out / how)
                    found[form].append(metrics["rmse"])
                    about = {"how": how, "target": target, "seed": seed, "form": form}
                    print(json.dumps({**about, **metrics, "seconds": round(time.monotonic() - began)}), flush=True)
            means = {form: round(float(np.mean(each)), 4) for form, each in found.items()}
            print(json.dumps({"how": how, "target": target, "rmse": means}), flush=True)


def measured(target: str, how: str, form: str, seed: int, epochs: int | None, folder: Path) -> dict[str, float]:
    """Return the metrics on the test rows of a model that is trained now, or was before."""
    name = f"{target}-{form}-{seed}"
    if not (folder / name / "artifact" / "card.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / f"{name}.csv", rows_of(target), how, form, seed)
        settings: dict[str, Any] = {"seed": seed, "trainer.baseline": False}
        settings |= {} if epochs is None else {"trainer.max_epochs": epochs}
        run: Run = egt.train(
            folder / f"{name}.csv",
            "y",
            set=settings,
            out=folder / name,
            resume=(folder / name).exists(),
            progress=False,
        )
        return dict(run.artifact.metrics["test"])
    return dict(load_artifact(folder / name / "artifact").metrics["test"])


def rows_of(target: str) -> list[dict[str, str]]:
    """Return the rows of a table of MoleculeACE: smiles, y (-log10 of mol/L), split."""
    path = Path(os.environ["EGT_DATA_DIR"]) / "moleculeace" / f"{target}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Sequence[dict[str, str]], how: str, form: str, seed: int) -> None:
    """Write a table with bounds, with missing labels in their place, or with all labels."""
    rng = np.random.default_rng(seed)
    y = np.array([float(row["y"]) for row in rows])
    learned = np.flatnonzero([row["split"] == "train" for row in rows])
    validation = rng.permutation(learned)[: round(VALIDATION * len(learned))]
    cells = [f"{value:.4f}" for value in y]
    for row, bound in bounds(y, learned, how, rng).items():
        cells[row] = {"bounds": bound, "dropped": "", "all": cells[row]}[form]
    splits = ["train" if row["split"] == "train" else "test" for row in rows]
    for row in validation:
        splits[row] = "val"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y", "split"])
        writer.writerows(zip([row["smiles"] for row in rows], cells, splits, strict=True))


def bounds(y: Any, learned: Any, how: str, rng: np.random.Generator) -> dict[int, str]:
    """Return row -> bound for a share of the rows that are learned from."""
    count = round(SHARE * len(learned))
    if how == "limit":
        chosen = learned[np.argsort(y[learned], kind="stable")[:count]]
        limit = y[learned][np.argsort(y[learned], kind="stable")[count]]
        return {int(row): f"<{limit:.4f}" for row in chosen}
    found = {}
    for row in rng.permutation(learned)[:count]:
        distance, above = rng.uniform(0, WIDEST), rng.random() < 0.5
        found[int(row)] = f">{y[row] - distance:.4f}" if above else f"<{y[row] + distance:.4f}"
    return found


if __name__ == "__main__":
    main()
