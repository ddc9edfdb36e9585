"""Our defaults beside other tools on the same rows: chemprop and a forest on molecules, GIN and GCN on graphs.

    python -m benchmarks.rivals [--chemprop PATH] [--data esol bbbp tox21 enzymes] [--tools egt ...] [--seeds 0 1 2] \
        [--out runs/rivals]

Reads EGT_DATA_DIR. Each seed divides the rows into 80, 10 and 10% (the split column of one file that all tools read)
and seeds the trainings. Tools take turns. Ours is `egt train FILE` with nothing set; chemprop (its command in an
environment of its own, for example of `pip install chemprop==2.3.1`) has its defaults of 50 epochs; the forest is 500
trees on Morgan counts of radius 2; GIN and GCN are PyG's layers in our loop, with as many parameters. CPU seconds count
the whole command. Every finished run is a line of OUT/results.jsonl and is not repeated.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from benchmarks.defaults import read, spread
from egt.data.download import data_folder
from egt.data.schema import random_split

Values = NDArray[np.float64]
SPLITS = ("train", "val", "test")
METRICS = {"esol": "rmse", "bbbp": "roc_auc", "tox21": "roc_auc", "enzymes": "accuracy"}
TOOLS = {
    "esol": ("egt", "chemprop", "forest"),
    "bbbp": ("egt", "chemprop", "forest"),
    "tox21": ("egt", "chemprop", "forest"),
    "enzymes": ("egt", "gin", "gcn"),
}


def main(words: Sequence[str] | None = None) -> None:
    """Run all that is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chemprop", help="the command of chemprop; it is left out without one")
    parser.add_argument("--data", nargs="+", choices=list(TOOLS), default=list(TOOLS))
    parser.add_argument("--tools", nargs="+", choices=sorted({tool for tools in TOOLS.values() for tool in tools}))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/rivals"))
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    results = asked.out / "results.jsonl"
    done = read(results)
    for seed in asked.seeds:
        for name in asked.data:
            for tool in TOOLS[name]:
                missing = tool == "chemprop" and asked.chemprop is None
                if (name, tool, seed) in done or missing or tool not in (asked.tools or TOOLS[name]):
                    continue
                folder = asked.out / f"{name}-{seed}-{tool}"
                before = cpu_seconds()
                score = graphs(tool, seed, folder) if name == "enzymes" else rows(name, tool, seed, folder, asked)
                record = {"data": name, "arm": tool, "seed": seed, "test": score}
                record["cpu_seconds"] = round(cpu_seconds() - before, 1)
                done[name, tool, seed] = record
                with results.open("a") as file:
                    print(json.dumps(record), file=file)
                print(json.dumps(record), flush=True)
    print("\n".join(table(done, asked.data)))


def cpu_seconds() -> float:
    """Return the processor time of this process and of all that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def rows(name: str, tool: str, seed: int, folder: Path, asked: argparse.Namespace) -> float:
    """Train one tool on a table of molecules and return its score on the test rows."""
    path = divided(name, seed, asked.out)
    with path.open(newline="") as file:
        targets = [column for column in next(csv.reader(file)) if column not in ("smiles", "split")]
    truth = truth_of(path, targets)
    if tool == "egt":
        said = by_egt(path, targets, seed, folder)
    elif tool == "chemprop":
        said = by_chemprop(asked.chemprop, path, targets, seed, folder, METRICS[name])
    else:
        said = by_forest(path, targets, seed, METRICS[name])
    return scored(truth, said, METRICS[name])


def truth_of(path: Path, targets: Sequence[str]) -> Values:
    """(rows, targets) the labels of the test rows."""
    with path.open(newline="") as file:
        test = [row for row in csv.DictReader(file) if row["split"] == "test"]
    return np.array([[float(row[target] or "nan") for target in targets] for row in test])


def divided(name: str, seed: int, out: Path) -> Path:
    """Write the table with a split column, without rows that RDKit cannot read, and return its path."""
    path = out / f"{name}-{seed}.csv"
    with gzip.open(data_folder() / "moleculenet" / f"{name}.csv.gz", "rt", newline="") as file:
        table = [row for row in csv.DictReader(file) if Chem.MolFromSmiles(row["smiles"]) is not None]
    codes = random_split(len(table), (0.8, 0.1, 0.1), seed)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*table[0], "split"])
        writer.writeheader()
        writer.writerows({**row, "split": SPLITS[code]} for row, code in zip(table, codes, strict=True))
    return path


def call(*words: str | Path) -> None:
    """Run a command and show what it said only if it fails."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout[-3000:]}")


def by_egt(path: Path, targets: Sequence[str], seed: int, folder: Path) -> Values:
    """Train and predict with the commands of egt."""
    egt = (sys.executable, "-m", "egt")
    call(*egt, "train", path, "--target", *targets, "--out", folder, "--set", f"seed={seed}")
    said = folder / "said.csv"
    call(*egt, "predict", folder, "--split", "test", "-o", said)
    return columns(said, targets, "_probability")


def by_chemprop(command: str, path: Path, targets: Sequence[str], seed: int, folder: Path, metric: str) -> Values:
    """Train with chemprop, which predicts the test rows at the end."""
    kind = "regression" if metric == "rmse" else "classification"
    where = ("--data-path", path, "--output-dir", folder, "--splits-column", "split", "--smiles-columns", "smiles")
    how = ("--task-type", kind, "--target-columns", *targets, "--pytorch-seed", str(seed), "--accelerator", "cpu")
    call(command, "train", *where, *how)
    return columns(next(folder.rglob("test_predictions.csv")), targets, "")


def columns(path: Path, targets: Sequence[str], suffix: str) -> Values:
    """(rows, targets) of a file of predictions; of yes or no the probability, if it has one."""
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    names = [target + suffix if target + suffix in table[0] else target for target in targets]
    return np.array([[float(row[name]) for name in names] for row in table])


def by_forest(path: Path, targets: Sequence[str], seed: int, metric: str) -> Values:
    """Fit a forest for each target and answer the test rows."""
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    made = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = np.array([made.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(row["smiles"])) for row in table])
    split = np.array([row["split"] for row in table])
    asked, said = prints[split == "test"], []
    for target in targets:
        label = np.array([float(row[target] or "nan") for row in table])
        known = (split != "test") & ~np.isnan(label)  # nothing is selected on validation, so it learns from it too
        options: Mapping[str, Any] = {"n_estimators": 500, "n_jobs": 2, "random_state": seed}
        if metric == "rmse":
            said.append(RandomForestRegressor(**options).fit(prints[known], label[known]).predict(asked))
        else:
            forest = RandomForestClassifier(**options).fit(prints[known], label[known])
            said.append(forest.predict_proba(asked)[:, 1])
    return np.stack(said, axis=1)


def scored(truth: Values, said: Values, metric: str) -> float:
    """Mean over the targets, on rows with a label."""
    score: Callable[..., float] = root_mean_squared_error if metric == "rmse" else roc_auc_score
    found = []
    for label, answer in zip(truth.T, said.T, strict=True):
        known = ~np.isnan(label)
        found.append(float(score(label[known], answer[known])))
    return float(np.mean(found))


def graphs(tool: str, seed: int, folder: Path) -> float:
    """Train on ENZYMES, and return the accuracy on the test graphs."""
    import egt
    from egt.api import configured
    from egt.paper.presets import apply_form

    data = data_folder() / "tudataset" / "ENZYMES"
    settings = ["split=stratified", f"split.seed={seed}", f"seed={seed}"]
    run = configured(data, set=settings)
    if tool != "egt":
        run = apply_form(run, tool)
    return float(egt.train(run, out=folder, progress=False).artifact.metrics["test"]["accuracy"])


def table(done: Mapping[tuple[str, str, int], Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """Write the means as Markdown."""
    yield "| data | tool | seeds | test | CPU s |"
    yield "|---|---|---|---|---|"
    for name in names:
        for tool in TOOLS[name]:
            mine = [record for (data, arm, _), record in sorted(done.items()) if (data, arm) == (name, tool)]
            if mine:
                seconds = np.mean([each["cpu_seconds"] for each in mine])
                score = spread([each["test"] for each in mine])
                yield f"| {METRICS[name]}, {name} | {tool} | {len(mine)} | {score} | {seconds:.0f} |"


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    main()
