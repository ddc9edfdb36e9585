"""Whether intervals that widen with the distance from training hold the truth on new scaffolds.

    python -m benchmarks.widening [esol lipophilicity ...] [--divisions 3] [--network]

Reads EGT_DATA_DIR (MoleculeNet, MoleculeACE, TDC). Of each table 20% of the rows are kept apart by scaffold; the others
are divided at random: 75% to learn from, 12% to calibrate, 13% to test. A forest on counted Morgan fragments answers,
or with `--network` what `egt train` makes of these rows in 10 epochs, calibrated as it calibrates itself.
Prints the coverage of intervals of 90%, of all rows and of the quarter that is least familiar, and their mean width,
with the same width for all and widened as `egt.inference.uncertainty.fit_widening` says.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestRegressor

import egt
from egt.data.download import data_folder
from egt.data.fingerprints import fingerprints, tanimoto
from egt.data.molecules import graphs_from_smiles
from egt.data.schema import scaffold_split
from egt.errors import EgtError
from egt.graph import Graph, IntArray
from egt.inference.evaluation import collect_labels
from egt.inference.uncertainty import Floats, Scores, fit_widening

TABLES = {
    "esol": ("moleculenet/esol.csv.gz", "smiles", "logSolubility"),
    "lipophilicity": ("tdc_admet/lipophilicity_astrazeneca/train_val.csv.gz", "Drug", "Y"),
    "caco2": ("tdc_admet/caco2_wang/train_val.csv.gz", "Drug", "Y"),
    "ppbr": ("tdc_admet/ppbr_az/train_val.csv.gz", "Drug", "Y"),
    **{
        name: (f"moleculeace/{name}.csv.gz", "smiles", "y")
        for name in ("CHEMBL1862_Ki", "CHEMBL218_EC50", "CHEMBL2835_Ki", "CHEMBL244_Ki", "CHEMBL204_Ki")
    },
}
COVERAGE, MOST_ROWS, APART = 0.9, 1500, (0.75, 0.05, 0.2)


def main() -> None:
    """Print a line for each table and kind of test rows, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*TABLES], choices=[*TABLES])
    parser.add_argument("--divisions", type=int, default=3)
    parser.add_argument("--network", action="store_true")
    options = parser.parse_args()
    found = []
    for name in options.names:
        for row in measured(Table.read(name), options.divisions, of_network if options.network else of_forest):
            found.append({"table": name, **row})
            print(found[-1], flush=True)
    table = pd.DataFrame(found)
    print(table.groupby(["table", "rows", "widened"]).mean().round(3).to_string())
    together = table.drop(columns="table").groupby(["rows", "widened"])
    print(together.mean().round(3).to_string())
    print(together["covered"].std().round(3).to_string())


@dataclass(frozen=True)
class Table:
    """The readable rows of a table, and which of them (rows,) are apart by scaffold."""

    smiles: list[str]
    y: Floats
    graphs: list[Graph]
    apart: NDArray[np.bool_]

    @classmethod
    def read(cls, name: str) -> Table:
        """Read at most so many rows."""
        path, smiles_column, target = TABLES[name]
        table = pd.read_csv(data_folder() / path)[[smiles_column, target]].dropna()
        table = table.iloc[np.random.default_rng(0).permutation(len(table))[:MOST_ROWS]]
        texts = table[smiles_column].tolist()
        read = graphs_from_smiles(texts, canonical=True, ids=[""] * len(texts), graph_targets=[None] * len(texts))
        good = [k for k, each in enumerate(read) if not isinstance(each, EgtError)]
        smiles, y = [texts[k] for k in good], table[target].to_numpy(np.float64)[good]
        graphs = [each[0] for each in read if not isinstance(each, EgtError)]
        return cls(smiles, y, graphs, scaffold_split(smiles, APART) == 2)


Parts = dict[str, IntArray]
"""The rows that are learned from, that calibrate, and two kinds of test rows."""

Found = tuple[Floats, Floats]
"""(rows,) errors, and how far the molecules are from training."""


def of_forest(table: Table, parts: Parts, seed: int) -> dict[str, Found]:
    """Return what a forest finds for all rows but those it learns from."""
    morgan = rdFingerprintGenerator.GetMorganGenerator(2, fpSize=1024)
    counts = [morgan.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in table.smiles]
    x, bits, learned = np.array(counts, np.float32), fingerprints(table.graphs), parts["learned"]
    forest = RandomForestRegressor(100, max_features=0.3, random_state=seed).fit(x[learned], table.y[learned])
    return {
        kind: (np.abs(forest.predict(x[k]) - table.y[k]), 1 - tanimoto(bits[k], bits[learned]).max(1).astype(float))
        for kind, k in parts.items()
        if kind != "learned"
    }


def of_network(table: Table, parts: Parts, seed: int) -> dict[str, Found]:
    """Return what a network finds; of the calibrating rows by weights that these have not chosen."""
    split = np.full(len(table.smiles), "", object)
    for kind, name in (("learned", "train"), ("calibrating", "val"), ("random", "test"), ("scaffold", "test")):
        split[parts[kind]] = name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        pd.DataFrame({"smiles": table.smiles, "y": table.y, "split": split}).to_csv(path, index=False)
        settings = {"seed": seed, "trainer.max_epochs": 10, "split": "split", "trainer.baseline": False}
        run = egt.train(path, "y", set=settings, out=Path(folder) / "run", progress=False)
        model = egt.load(run.path)
        near = {
            name: 1 - np.array([each.familiarity for each in model.predict_split(name)]) for name in ("val", "test")
        }
        answers, truth = collect_labels(model.predict_split("test"))
    assert run.held_out is not None
    held_out = np.abs(run.held_out[0] - run.held_out[1])[:, 0]
    tested = np.flatnonzero(split == "test")
    inside = {kind: np.isin(tested, parts[kind]) for kind in ("random", "scaffold")}
    errors = np.abs(answers - truth)[:, 0]
    found = {kind: (errors[rows], near["test"][rows]) for kind, rows in inside.items()}
    return {"calibrating": (held_out, near["val"]), **found}


def measured(
    table: Table, divisions: int, find: Callable[[Table, Parts, int], dict[str, Found]]
) -> Iterator[dict[str, object]]:
    """Yield coverage and width for each division of a table, kind of test rows and kind of interval."""
    for seed in range(divisions):
        order = np.random.default_rng(seed).permutation(np.flatnonzero(~table.apart))
        learned, calibrating, tested = np.split(order, [int(0.75 * len(order)), int(0.87 * len(order))])
        parts = {"learned": learned, "calibrating": calibrating, "random": tested}
        found = find(table, {**parts, "scaffold": np.flatnonzero(table.apart)}, seed)
        known, away = found["calibrating"]
        widening = fit_widening(known, away)
        for kind in ("random", "scaffold"):
            errors, distance = found[kind]
            far = distance >= np.quantile(distance, 0.75)
            for is_widened in (False, True):
                c = widening if is_widened else 0.0
                widths = Scores.of(known / (1 + c * away)).quantile(COVERAGE) * (1 + c * distance)
                inside = errors <= widths
                about = {"rows": kind, "widened": is_widened, "c": c, "labels": len(errors)}
                yield {**about, "covered": inside.mean(), "far": inside[far].mean(), "width": 2 * widths.mean()}


if __name__ == "__main__":
    main()
