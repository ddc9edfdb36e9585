"""One model of numbers and yes/no against a model for each target, on Tox21 beside a computed number.

    python -m benchmarks.mixed [TARGET ...] [--rows 1000] [--seeds 2] [--epochs 15] [--out runs/mixed]

Reads EGT_DATA_DIR/moleculenet. Rows of Tox21 are drawn at random; beside its targets they have `logP` (RDKit's, with
noise of 0.3). All models have the same rows, split and settings. Prints a JSON line for each seed and target with
ROC-AUC or R2 on the test rows, of the joint model and of its own.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rdkit import Chem, rdBase
from rdkit.Chem import rdMolDescriptors

import egt
from egt.data.download import data_folder

TARGETS = ("NR-AhR", "SR-MMP")
NUMBER, NOISE = "logP", 0.3


def main() -> None:
    """Measure the targets that are named, and the number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=[*TARGETS])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("runs/mixed"))
    options = parser.parse_args()
    targets = [*options.targets, NUMBER]
    options.out.mkdir(parents=True, exist_ok=True)
    table(options.targets, options.rows).to_csv(options.out / "data.csv", index=False)
    for seed in range(options.seeds):
        joint = scores(options.out, targets, seed, options.epochs)
        for target in targets:
            own = scores(options.out, [target], seed, options.epochs)
            found = {"joint": joint[target], "alone": own[target]}
            print(json.dumps({"seed": seed, "target": target, **found}), flush=True)


def table(targets: list[str], count: int) -> pd.DataFrame:
    """Return rows of Tox21 with their number, and a column that divides them."""
    whole = pd.read_csv(data_folder() / "moleculenet/tox21.csv.gz").dropna(subset=targets, how="all")
    with rdBase.BlockLogs():
        molecules = [Chem.MolFromSmiles(text) for text in whole["smiles"]]
    rng = np.random.default_rng(0)
    chosen = rng.permutation(np.flatnonzero([molecule is not None for molecule in molecules]))[:count]
    rows = whole.iloc[chosen][["smiles", *targets]].copy()
    rows[NUMBER] = [
        round(rdMolDescriptors.CalcCrippenDescriptors(molecules[k])[0] + NOISE * rng.normal(), 3) for k in chosen
    ]
    rows["split"] = rng.choice(["train", "val", "test"], count, p=[0.6, 0.15, 0.25])
    return rows


def scores(folder: Path, targets: list[str], seed: int, epochs: int) -> dict[str, float]:
    """Return ROC-AUC or R2 of each target on the test rows, of a model that is trained for all of them together."""
    settings: dict[str, Any] = {"seed": seed, "trainer.max_epochs": epochs, "trainer.baseline": False}
    out = folder / f"{'-'.join(targets)}-{seed}"
    run = egt.train(folder / "data.csv", targets, set=settings, out=out, resume=out.exists(), progress=False)
    metrics = run.artifact.data.get("metrics_by_target", {}).get("test") or {targets[0]: run.artifact.metrics["test"]}
    return {name: round(each.get("roc_auc", each.get("r2", np.nan)), 4) for name, each in metrics.items()}


if __name__ == "__main__":
    main()
