"""Whether labels of other molecules help: MolHIV from random weights and from a model of ZINC, beside a forest.

    python -m benchmarks.molhiv [--epochs 10] [--first-epochs 3] [--seeds 0 1 2] [--arms random "from ZINC" forest]

Reads EGT_DATA_DIR. The model is the default for tables of molecules. It is first trained once on the constrained
solubility of all 220,011 training molecules of ZINC-full, and then on MolHIV (the public scaffold split), as is one
that starts from random weights: the same settings, fixed beforehand, and weights selected on validation. The forest is
500 trees on Morgan counts of radius 2, and takes longer than a network. Every run continues if it was stopped; finished
ones are lines of OUT/results.jsonl and are not repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rdkit import Chem

import egt
from benchmarks.defaults import read, spread
from benchmarks.rivals import by_forest, cpu_seconds, scored, truth_of
from egt.data.download import data_folder

ARMS = ("random", "from ZINC", "forest")
SETTINGS = {"optimizer.lr": 5e-4, "schedule": {"kind": "cosine"}, "trainer.patience": None}


def main(words: Sequence[str] | None = None) -> None:
    """Run all that is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10, help="on MolHIV")
    parser.add_argument("--first-epochs", type=int, default=3, help="on ZINC")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--out", type=Path, default=Path("runs/molhiv"))
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    molecules = table(asked.out / "molhiv.csv")
    results = asked.out / "results.jsonl"
    done = read(results)
    for arm in asked.arms:
        for seed in asked.seeds:
            if ("molhiv", arm, seed) in done:
                continue
            before = cpu_seconds()
            found = forest(molecules, seed) if arm == "forest" else network(molecules, arm, seed, asked)
            record = {"data": "molhiv", "arm": arm, "seed": seed, **found, "cpu_seconds": round(cpu_seconds() - before)}
            done["molhiv", arm, seed] = record
            with results.open("a") as file:
                print(json.dumps(record), file=file)
            print(json.dumps(record), flush=True)
    print("\n".join(summary([*done.values()])))


def table(path: Path) -> Path:
    """Write MolHIV with its scaffold split, without the few rows that RDKit cannot read, and return its path."""
    with gzip.open(data_folder() / "molhiv" / "molhiv.csv.gz", "rt", newline="") as file:
        rows = pd.read_csv(file)
    rows[[Chem.MolFromSmiles(text) is not None for text in rows["smiles"]]].to_csv(path, index=False)
    return path


def forest(molecules: Path, seed: int) -> dict[str, Any]:
    """Fit the forest and score it on the test rows."""
    said = by_forest(molecules, ["y"], seed, "roc_auc")
    return {"test": scored(truth_of(molecules, ["y"]), said, "roc_auc")}


def network(molecules: Path, arm: str, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Train on MolHIV and return its scores."""
    settings = {**SETTINGS, "seed": seed, "trainer.max_epochs": asked.epochs}
    start = None if arm == "random" else first_model(asked)
    run = trained(molecules, settings, asked.out / f"{arm.replace(' ', '-')}-{seed}", start)
    metrics = run.artifact.metrics
    return {"val": metrics["val"]["roc_auc"], "test": metrics["test"]["roc_auc"], "best_epoch": run.epoch + 1}


def first_model(asked: argparse.Namespace) -> Path:
    """Return the folder of the model of ZINC, which is trained if it is not there."""
    folder: Path = asked.out / "zinc"
    if not (folder / "artifact").exists():
        data = asked.out / "zinc.csv"
        rows = pd.read_parquet(data_folder() / "zinc" / "zinc_full_250k_smiles_y.parquet")
        rows[["smiles", "y", "split"]].to_csv(data, index=False)
        trained(data, {**SETTINGS, "trainer.max_epochs": asked.first_epochs}, folder)
    return folder


def trained(data: Path, settings: dict[str, Any], out: Path, start: Path | None = None) -> egt.Run:
    """Train, or go on where a run was stopped."""
    return egt.train(data, "y", set=settings, out=out, start=start, resume=out.exists(), progress=False)


def summary(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Write the means as Markdown."""
    yield "| start | seeds | validation ROC-AUC | test ROC-AUC | CPU s |"
    yield "|---|---|---|---|---|"
    for arm in ARMS:
        mine = [record for record in records if record["arm"] == arm]
        if mine:
            known = [record["val"] for record in mine if "val" in record]
            seconds = sum(record["cpu_seconds"] for record in mine) / len(mine)
            scores = f"{spread(known)} | {spread([record['test'] for record in mine])}"
            yield f"| {arm} | {len(mine)} | {scores} | {seconds:.0f} |"


if __name__ == "__main__":
    main()
