"""How often conformal intervals and sets hold the truth, and whether an ensemble knows when it errs.

    python -m benchmarks.coverage [esol bbbp enzymes] [--models 5] [--epochs 40] [--divisions 20] [--out runs/coverage]

Reads EGT_DATA_DIR. Each data set is trained once, as an ensemble; a run that was stopped goes on. The predictions for
its validation and test rows are then divided at random (by class where the data is split by class), half to calibrate
and half to test. Prints a JSON line
for each data set: the coverage of intervals or sets of 90% of the averaged answers and of the first model alone (mean
and deviation over the divisions), the same with scores tampered with (cut to 0.7 of their size: 1 - p for classes), the
metric of the ensemble beside those of its models, and the rank correlation of the spread with the error.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import egt
from egt.graph import IntArray
from egt.inference.evaluation import collect_labels
from egt.inference.predictor import Predictor, load
from egt.inference.uncertainty import Calibration, Floats, Scores, bounds_of, calibrate, holds, sizes
from egt.parts.tasks.scores import spearman
from egt.parts.tasks.task import TaskPart

COVERAGE = 0.9
TAMPERED = 0.7


@dataclass(frozen=True)
class Data:
    """Where a data set is below EGT_DATA_DIR, what is predicted, and how it is divided."""

    path: str
    target: str | None
    split: str


SETS = {
    "esol": Data("moleculenet/esol.csv.gz", "logSolubility", "random"),
    "bbbp": Data("moleculenet/bbbp.csv.gz", "p_np", "random"),
    "enzymes": Data("tudataset/ENZYMES", None, "stratified"),
}


def main() -> None:
    """Measure the data sets that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*SETS], choices=[*SETS])
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--divisions", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("runs/coverage"))
    options = parser.parse_args()
    for name in options.names:
        model = trained(SETS[name], options.out / name, options.models, options.epochs)
        found = measured(model, options.divisions, by_class=SETS[name].split == "stratified")
        print(json.dumps({"data": name, "epochs": options.epochs, **found}), flush=True)


def trained(data: Data, folder: Path, models: int, epochs: int) -> Predictor:
    """Return the ensemble that is trained on a data set, now or before."""
    path = Path(os.environ["EGT_DATA_DIR"]) / data.path
    if path.suffix == ".gz":
        folder.mkdir(parents=True, exist_ok=True)
        plain = folder / path.with_suffix("").name
        with gzip.open(path) as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file)
        path = plain
    settings = {"trainer.max_epochs": epochs, "split": data.split}
    resume = (folder / "run" / "members.json").exists()
    egt.train(path, data.target, set=settings, ensemble=models, out=folder / "run", resume=resume, progress=False)
    model = load(folder / "run")
    assert model.is_ensemble
    return model


def measured(model: Predictor, divisions: int, *, by_class: bool) -> dict[str, Any]:
    """Return what is printed about an ensemble, over random divisions as `divided` makes them."""
    part = model.task.part
    splits = [model.predict_split(split) for split in ("val", "test")]
    values, truth = (np.concatenate(each) for each in zip(*map(collect_labels, splits), strict=True))
    std = np.concatenate([answer.std for split in splits for answer in split if answer.std is not None])
    alone = [collect_labels(model.members[0].predict_split(split))[0] for split in ("val", "test")]
    metric = part.deciding_metric
    members = model.artifact.data["member_metrics"]["test"][metric]
    error, spread = _error_and_spread(part, values, truth, std)
    halves = [divided(truth, seed, by_class=by_class) for seed in range(divisions)]
    return {
        "rows": len(truth),
        "models": len(model.members),
        "ensemble": coverages(part, values, truth, halves),
        "first model": coverages(part, np.concatenate(alone), truth, halves),
        "tampered": coverages(part, values, truth, halves, tamper=TAMPERED)["coverage"],
        f"test {metric}": {"ensemble": model.artifact.metrics["test"][metric], "members": members},
        "spearman of spread and error": spearman(spread, error),
    }


def divided(truth: Floats, seed: int, *, by_class: bool) -> tuple[IntArray, IntArray]:
    """Return the rows of two random halves, which have equally many of each class if asked. truth: (rows, T)."""
    order = np.random.default_rng(seed).permutation(len(truth))
    if not by_class:
        one, other = np.array_split(order, 2)
        return one, other
    order = order[np.argsort(truth[order, 0], kind="stable")]
    return order[::2], order[1::2]


def coverages(
    part: TaskPart, values: Floats, truth: Floats, halves: Sequence[tuple[IntArray, IntArray]], tamper: float = 1.0
) -> dict[str, float]:
    """Return coverage and size of intervals or sets over divisions: one half calibrates them, the other tests them."""
    found = []
    for one, other in halves:
        calibration = calibrate(part, values[one], truth[one])
        assert calibration is not None
        bounds = bounds_of(part, _tampered(calibration, tamper), values[other], COVERAGE)
        found.append([np.nanmean(holds(bounds, truth[other])), sizes(bounds).mean()])
    (coverage, size), (deviation, _) = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    return {"coverage": float(coverage), "deviation": float(deviation), "size": float(size)}


def _tampered(calibration: Calibration, factor: float) -> Calibration:
    groups = [
        [Scores(tuple(factor * x for x in each.ranked), each.count) for each in row] for row in calibration.scores
    ]
    return replace(calibration, scores=groups)


def _error_and_spread(part: TaskPart, values: Floats, truth: Floats, std: Floats) -> tuple[Floats, Floats]:
    """(rows,) how wrong the answer is, and how much the models differ: of numbers, or of the class that is answered."""
    classes = part.class_probabilities(values)
    if classes is None:
        return np.abs(values - truth)[:, 0], std[:, 0]
    right = np.take_along_axis(classes[:, 0], truth[:, :1].astype(np.int64), axis=1)[:, 0]
    return 1 - right, std[np.arange(len(std)), values.argmax(1)]


if __name__ == "__main__":
    main()
