"""Users' data through the command line only: train, evaluate, and predict on a file that training never had.

    python -m benchmarks.own_data [--only esol ...] [--seeds 0] [--epochs N] [--out runs/own_data]

Reads EGT_DATA_DIR; PATTERN and TSP are generated. Prints the commands, and for each run a JSON line with the metrics of
`egt evaluate` ("test") and the scores of the predictions on the new file ("new"). What is new about it: `unseen.py`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from benchmarks.unseen import NOT_A_MOLECULE, Unseen, hold_back

Texts = NDArray[np.str_]
Row = dict[str, str]


@dataclass(frozen=True)
class Plan:
    """How one data set is trained and what its predictions are scored with.

    Fields:
        words: of `egt train` before `--set`.
        settings: of `egt train`, besides the epochs and the seed.
        epochs: the budget.
        scores: names in `SCORES`.
    """

    words: Sequence[str]
    settings: Sequence[str]
    epochs: int
    scores: Sequence[str]


SETS = {
    "esol": Plan(["--target", "logSolubility"], [], 100, ["rmse"]),
    "bbbp": Plan(["--target", "p_np"], [], 40, ["roc_auc", "accuracy"]),
    "tox21": Plan(["--target", "*"], [], 20, ["roc_auc", "accuracy"]),
    "enzymes": Plan([], ["split=stratified"], 150, ["accuracy"]),
    "cora": Plan([], ["optimizer.weight_decay=0.01"], 100, ["accuracy"]),
    "cora-links": Plan(["--task", "link"], [], 8, ["roc_auc"]),
    "pattern": Plan([], ["data.options={split_sizes: {train: 500, val: 100, test: 200}}"], 8, ["weighted_accuracy"]),
    "tsp": Plan([], ["data.options={split_sizes: {train: 60, val: 10, test: 20}}"], 50, ["f1"]),
}


def rmse(labels: Texts, answers: Texts) -> float:
    return float(metrics.root_mean_squared_error(labels.astype(float), answers.astype(float)))


def roc_auc(labels: Texts, probabilities: Texts) -> float:
    """Not defined, and NaN, when all labels are of one class."""
    if len(set(labels)) < 2:
        return float("nan")
    return float(metrics.roc_auc_score(labels == "1", probabilities.astype(float)))


def f1(labels: Texts, answers: Texts) -> float:
    return float(metrics.f1_score(labels, answers, pos_label="in the tour"))


SCORES: dict[str, tuple[str, Callable[[Texts, Texts], float]]] = {
    "rmse": ("", rmse),
    "roc_auc": ("_probability", roc_auc),
    "accuracy": ("", metrics.accuracy_score),
    "weighted_accuracy": ("", metrics.balanced_accuracy_score),
    "f1": ("", f1),
}
"""By name: what the column of predictions has after the name of the target, and (labels, column) -> score."""


def egt(*words: str) -> Any:
    """Return the JSON that a command prints last."""
    print("$ egt " + shlex.join(words), flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "egt", *words, "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def read_predictions(path: Path, unseen: Unseen) -> list[Row]:
    """Read a file of predictions: a row for each input, in order, with an error where there is no molecule."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(unseen.places), f"{path}: {len(rows)} rows for {len(unseen.places)} inputs"
    for row, place in zip(rows, unseen.places, strict=True):
        assert row.items() >= place.items(), f"{path}: expected the answer for {place}, got {row}"
        bad = NOT_A_MOLECULE in place.values()
        assert bool(row["error"]) == bad, f"{path}: {row}"
        assert all((row[target] == "") == bad for target in unseen.labels), f"{path}: {row}"
    return rows


def score(rows: Sequence[Row], labels: dict[str, list[str]], names: Sequence[str]) -> dict[str, float | None]:
    """Each score as the mean over the targets it is defined for (None if there is none), and what it is made of."""
    found: dict[str, float | None] = {}
    for name in names:
        suffix, function = SCORES[name]
        values = []
        for target, column in labels.items():
            label, answers = np.array(column), np.array([row[target + suffix] for row in rows])
            values.append(function(label[label != ""], answers[label != ""]))
        defined = [value for value in values if value == value]
        found[name] = float(np.mean(defined)) if defined else None
    num_labels = sum(label != "" for column in labels.values() for label in column)
    return {**found, "num_labels": num_labels, "num_rows": len(rows)}


def run(name: str, seed: int, epochs: int, unseen: Unseen, folder: Path) -> dict[str, Any]:
    """One data set, one seed."""
    plan = SETS[name]
    start = time.perf_counter()
    settings = [*plan.settings, f"trainer.max_epochs={epochs}", f"seed={seed}"]
    trained = egt("train", unseen.known, *plan.words, "--out", str(folder), "--set", *settings)
    seconds = time.perf_counter() - start
    evaluated = egt("evaluate", trained["artifact"])
    predictions = folder / "predictions.csv"
    egt("predict", trained["artifact"], str(unseen.new), "-o", str(predictions))
    new = score(read_predictions(predictions, unseen), unseen.labels, plan.scores)
    return {"name": name, "seed": seed, "seconds": round(seconds), "test": evaluated["metrics"], "new": new}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, help="in place of the number that each data set has")
    parser.add_argument("--out", type=Path, default=Path("runs/own_data"))
    options = parser.parse_args(words)
    data = Path(os.environ["EGT_DATA_DIR"])
    unseen = {name: hold_back(name, data, options.out / name) for name in options.only}
    for seed in options.seeds:
        for name in options.only:
            folder = options.out / f"{name}-{seed}"
            epochs = options.epochs or SETS[name].epochs
            print(json.dumps(run(name, seed, epochs, unseen[name], folder)), flush=True)


if __name__ == "__main__":
    main()
