"""Open tables of molecules: the network, the baseline beside it, and the blend of both.

    python -m benchmarks.tables [--data moleculeace tdc NAME NAME@300 ...] [--options=... ...] [--seeds 0 1 2] \
        [--split test] [--out runs/tables]

Reads EGT_DATA_DIR. A run is `egt train FILE --target y` with some options of the command line (none by default), which
name its arm. NAME@300 is a table of which 300 rows train. The test rows are the published ones; a random eighth of the
other rows, drawn by the seed, is validation and the rest training, the same for every arm. Every finished run is a line
of OUT/results.jsonl and is not repeated. The tables at the end have the means over seeds; to choose is what `--split
val` is for. The blend is measured without `--blend` too; of `--ensemble` and `--folds` with it alone, in the column of
the network.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults import read, spread
from benchmarks.rivals import cpu_seconds
from egt.data.download import data_folder

Record = dict[str, Any]
LEARNERS = ("network", "baseline", "blend")
METRICS = {
    "lipophilicity_astrazeneca": "mae",
    "ppbr_az": "mae",
    "caco2_wang": "mae",
    "half_life_obach": "spearman",
    "clearance_microsome_az": "spearman",
    "cyp2d6_substrate_carbonmangels": "average_precision",
}
"""What TDC compares, where that is not ROC-AUC."""


@dataclass(frozen=True)
class Table:
    """A table with published test rows.

    Fields:
        group: "moleculeace" or "tdc".
        metric: what is compared.
        most: how many rows train; None for all.
    """

    group: str
    file: str
    metric: str
    most: int | None = None

    @property
    def name(self) -> str:
        """How the table is asked for."""
        return self.file if self.most is None else f"{self.file}@{self.most}"

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return self.metric not in ("rmse", "mae")

    def rows(self) -> Iterator[tuple[str, str, bool]]:
        """Yield the SMILES, the label and whether it is a test row."""
        if self.group == "moleculeace":
            yield from ((row["smiles"], row["y"], row["split"] == "test") for row in _read(self._path))
            return
        for file in ("train_val", "test"):
            yield from ((row["Drug"], row["Y"], file == "test") for row in _read(self._path / f"{file}.csv.gz"))

    @property
    def _path(self) -> Path:
        if self.group == "moleculeace":
            return data_folder() / "moleculeace" / f"{self.file}.csv.gz"
        return data_folder() / "tdc_admet" / self.file

    def divided(self, seed: int, folder: Path) -> Path:
        """Write the table with a column of its split, and return its path."""
        rows = [*self.rows()]
        others = [k for k, (_, _, is_test) in enumerate(rows) if not is_test]
        shuffled = np.random.default_rng(seed).permutation(others).tolist()
        held_out, training = {*shuffled[: len(others) // 8]}, {*shuffled[len(others) // 8 :][: self.most]}
        path = folder / f"{self.name}-{seed}.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("smiles", "y", "split"))
            for k, (smiles, label, is_test) in enumerate(rows):
                if is_test or k in held_out or k in training:
                    writer.writerow((smiles, label, "test" if is_test else "val" if k in held_out else "train"))
        return path


def _read(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


def tables() -> dict[str, Table]:
    """Return all tables that are there, by name."""
    aces = sorted((data_folder() / "moleculeace").glob("*.csv.gz"))
    sets = sorted((data_folder() / "tdc_admet").glob("*/train_val.csv.gz"))
    found = [Table("moleculeace", path.name.removesuffix(".csv.gz"), "rmse") for path in aces]
    found += [Table("tdc", path.parent.name, METRICS.get(path.parent.name, "roc_auc")) for path in sets]
    return {table.name: table for table in found}


def main(words: Sequence[str] | None = None) -> None:
    """Run all that is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["moleculeace", "tdc"], help="names of tables, or of both groups")
    parser.add_argument("--options", nargs="+", default=[""], help="of `egt train`, each arm in quotes")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--split", choices=("val", "test"), default="test", help="what the tables show")
    parser.add_argument("--out", type=Path, default=Path("runs/tables"))
    asked = parser.parse_args(words)
    known = tables()
    parts = [name for name in asked.data if "@" in name]
    chosen = [table for table in known.values() if {table.name, table.group} & {*asked.data}]
    chosen += [replace(known[file], most=int(rows)) for file, _, rows in (name.partition("@") for name in parts)]
    if unknown := {*asked.data} - {*known, *parts} - {"moleculeace", "tdc"}:
        sys.exit(f"{', '.join(sorted(unknown))}: there is no such table; there are {', '.join(known)}")
    asked.out.mkdir(parents=True, exist_ok=True)
    results = asked.out / "results.jsonl"
    done = read(results)
    for seed in asked.seeds:
        for table in chosen:
            for options in asked.options:
                if (table.name, options, seed) in done:
                    continue
                record = run(table, options, seed, asked.out)
                done[table.name, options, seed] = record
                with results.open("a") as file:
                    print(json.dumps(record), file=file)
                print(json.dumps(record), flush=True)
    for options in asked.options:
        print("\n".join(summary(done, chosen, options, asked.split)))


def run(table: Table, options: str, seed: int, out: Path) -> Record:
    """Train once as a user does, and return what came of it; the run folder is removed."""
    path = table.divided(seed, out)
    folder = out / f"{table.name}-{seed}-run"
    shutil.rmtree(folder, ignore_errors=True)
    egt = (sys.executable, "-m", "egt", "train", str(path), "--target", "y", "--out", str(folder), "--json")
    before = cpu_seconds()
    ended = subprocess.run(
        [*egt, "--set", f"seed={seed}", *shlex.split(options)], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        sys.exit(f"{table.name}, {options}: {ended.stderr[-3000:]}")
    said = json.loads(ended.stdout.splitlines()[-1])
    blend = said["blend"] or {}
    found = {
        "network": blend.get("network", said["metrics"]),
        "baseline": (said["baseline"] or {}).get("metrics", {}),
        "blend": blend.get("metrics", {}),
    }
    shutil.rmtree(folder)
    path.unlink()
    return {
        "data": table.name,
        "arm": options,
        "seed": seed,
        "metric": table.metric,
        **{name: {split: each[table.metric] for split, each in found[name].items()} for name in found},
        "baseline_name": (said["baseline"] or {}).get("name"),
        "share_of_network": blend.get("share"),
        "epochs": said["epochs"],
        "cpu_seconds": round(cpu_seconds() - before, 1),
    }


def summary(
    done: Mapping[tuple[str, str, int], Record], chosen: Sequence[Table], options: str, split: str
) -> Iterator[str]:
    """Write the means of an arm as Markdown: a row for each table, and the mean of each group with one metric."""
    yield f"\n`egt train FILE --target y {options}".rstrip() + f"`, {split}:\n"
    yield f"| table | metric | seeds | {' | '.join(LEARNERS)} | best | CPU s |"
    yield f"|{'---|' * (len(LEARNERS) + 5)}"
    means: dict[str, list[dict[str, float]]] = {}
    for table in chosen:
        mine = [record for (name, arm, _), record in sorted(done.items()) if (name, arm) == (table.name, options)]
        scores = {name: [each[name][split] for each in mine if split in each.get(name, {})] for name in LEARNERS}
        mean = {name: float(np.mean(found)) for name, found in scores.items() if found}
        if not mean:
            continue
        means.setdefault(f"{table.group}, {table.metric}", []).append(mean)
        best = (max if table.higher else min)(mean, key=mean.__getitem__)
        cells = [table.name, table.metric, str(len(mine)), *(spread(scores[name]) for name in LEARNERS), best]
        yield f"| {' | '.join(cells)} | {np.mean([each['cpu_seconds'] for each in mine]):.0f} |"
    for name, found in means.items():
        common = [learner for learner in LEARNERS if all(learner in mean for mean in found)]
        cells = [f"{np.mean([mean[each] for mean in found]):.3f}" if each in common else "-" for each in LEARNERS]
        yield f"| **{name}** | mean of {len(found)} | | {' | '.join(cells)} | | |"


if __name__ == "__main__":
    main()
