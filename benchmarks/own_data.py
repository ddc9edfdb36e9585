"""Users' data through the command line only: train, evaluate, and predict on rows the model has not seen.

    python -m benchmarks.own_data [--only esol ...] [--seeds 0] [--out runs/own_data]

Reads EGT_DATA_DIR; PATTERN and TSP are generated. Prints the commands and a table row for each run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cora import write_cora

SETS: dict[str, tuple[str, list[str]]] = {
    "esol": ("moleculenet/esol.csv.gz", ["--target", "logSolubility"]),
    "bbbp": ("moleculenet/bbbp.csv.gz", ["--target", "p_np"]),
    "tox21": ("moleculenet/tox21.csv.gz", ["--target", "*"]),
    "enzymes": ("tudataset/ENZYMES", ["--set", "split=stratified"]),
    "cora": ("cora.jsonl", ["--set", "optimizer.weight_decay=0.01"]),
    "cora-links": ("cora.jsonl", ["--task", "link"]),
    "pattern": ("pattern-100k", ["--set", "data.options={split_sizes: {train: 500, val: 100, test: 200}}"]),
    "tsp": ("tsp-100k", ["--set", "data.options={split_sizes: {train: 60, val: 10, test: 20}}"]),
}
EPOCHS = {"esol": 100, "bbbp": 40, "tox21": 20, "enzymes": 150, "cora": 100, "cora-links": 8, "pattern": 8, "tsp": 50}


def egt(*words: str) -> Any:
    """The JSON that a command prints last."""
    print("$ egt " + " ".join(words), flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "egt", *words, "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def unseen(name: str, source: Path, folder: Path) -> Path | None:
    """A file with a few rows and no targets, for data sets of SMILES."""
    if not name.startswith(("esol", "bbbp", "tox21")):
        return None
    with gzip.open(source, "rt") as file:
        rows = [line.split(",")[0] for line in file][-20:]
    path = folder / f"{name}-new.csv"
    path.write_text("smiles\n" + "\n".join([*rows, "not a molecule"]) + "\n")
    return path


def run(name: str, seed: int, data: Path, out: Path) -> dict[str, Any]:
    """One data set, one seed."""
    file, words = SETS[name]
    what = file if name in ("pattern", "tsp") else str(data / file)
    if name.startswith("cora"):
        what = str(out / file)
        if not Path(what).exists():
            write_cora(data / "planetoid", Path(what))
    folder = out / f"{name}-{seed}"
    start = time.perf_counter()
    epochs = f"trainer.max_epochs={EPOCHS[name]}"
    settings = ["--set", *words[words.index("--set") + 1 :]] if "--set" in words else ["--set"]
    before = words[: words.index("--set")] if "--set" in words else words
    trained = egt("train", what, *before, "--out", str(folder), *settings, epochs, f"seed={seed}")
    seconds = time.perf_counter() - start
    evaluated = egt("evaluate", trained["artifact"])
    new = unseen(name, Path(what), out)
    if new is not None:
        egt("predict", trained["artifact"], str(new), "-o", str(folder / "predictions.csv"))
        lines = (folder / "predictions.csv").read_text().splitlines()
        assert len(lines) == 22, "21 rows and a header"
    return {"name": name, "seed": seed, "seconds": round(seconds), "test": evaluated["metrics"]}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=Path("runs/own_data"))
    options = parser.parse_args(words)
    data = Path(os.environ["EGT_DATA_DIR"])
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        for seed in options.seeds:
            print(json.dumps(run(name, seed, data, options.out)), flush=True)


if __name__ == "__main__":
    main()
