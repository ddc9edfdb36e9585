"""How many molecules are called unlike training: test rows of the same table, and molecules of other ones.

    python -m benchmarks.familiarity [--divisions 5]

Reads EGT_DATA_DIR (MoleculeNet, MoleculeACE, TDC, ZINC). Each table is divided 80/10/10, at random and by scaffold, and
the training part is all that is known; no model is trained. `esol-light` is the lightest third of ESOL.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from egt.data.download import data_folder
from egt.data.encodings.encoding import Sample
from egt.data.molecules import graphs_from_smiles
from egt.data.schema import random_split, scaffold_split
from egt.errors import EgtError
from egt.inference.familiarity import TrainingMolecules

TABLES = {
    "esol": "moleculenet/esol.csv.gz",
    "bbbp": "moleculenet/bbbp.csv.gz",
    "tox21": "moleculenet/tox21.csv.gz",
    "caco2": "tdc_admet/caco2_wang/train_val.csv.gz",
    "half-life": "tdc_admet/half_life_obach/train_val.csv.gz",
    "lipophilicity": "tdc_admet/lipophilicity_astrazeneca/train_val.csv.gz",
    "ames": "tdc_admet/ames/train_val.csv.gz",
    "CHEMBL1862": "moleculeace/CHEMBL1862_Ki.csv.gz",
    "CHEMBL214": "moleculeace/CHEMBL214_Ki.csv.gz",
    "CHEMBL2835": "moleculeace/CHEMBL2835_Ki.csv.gz",
}
FOREIGN = {"zinc": "zinc/zinc_full_250k_smiles_y.parquet", "CHEMBL204": "moleculeace/CHEMBL204_Ki.csv.gz"}
SHARES = (0.8, 0.1, 0.1)
_MOST_ROWS, _FOREIGN_ROWS = 4_000, 500


class Molecules:
    """The molecules of a table that can be read, at most `_MOST_ROWS`."""

    def __init__(self, smiles: Sequence[str]) -> None:
        found = graphs_from_smiles(smiles, canonical=True, ids=[""] * len(smiles), graph_targets=[None] * len(smiles))
        read = [(text, row[0]) for text, row in zip(smiles, found, strict=True) if not isinstance(row, EgtError)]
        self.smiles, self.graphs = [text for text, _ in read], [graph for _, graph in read]

    def known(self, rows: Sequence[int]) -> TrainingMolecules:
        """Return what a model trained on some of them keeps."""
        return TrainingMolecules.of([Sample(self.graphs[k]) for k in rows], [self.smiles[k] for k in rows])

    def unlike(self, model: TrainingMolecules, rows: Sequence[int]) -> float:
        """Return the share of some of them that is called unlike training; NaN of none."""
        if not len(rows):
            return math.nan
        found = model.judge([self.graphs[k] for k in rows], [self.smiles[k] for k in rows])
        return float(np.mean([bool(each.warning) for each in found]))


def read_table(path: str, most: int = _MOST_ROWS) -> Molecules:
    """Return the molecules of a table, drawn at random where it has more."""
    file = data_folder() / path
    table = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
    column = next(name for name in table.columns if name.lower() in ("smiles", "drug"))
    smiles = [str(text).strip() for text in table[column]]
    order = np.random.default_rng(0).permutation(len(smiles))[:most]
    return Molecules([smiles[k] for k in order])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divisions", type=int, default=5)
    divisions = parser.parse_args().divisions
    tables = {name: read_table(path) for name, path in TABLES.items()}
    esol = tables["esol"]
    light = np.argsort([graph.num_nodes for graph in esol.graphs], kind="stable")[: len(esol.graphs) // 3]
    tables = {"esol-light": Molecules([esol.smiles[k] for k in light]), **tables}
    foreign = {name: read_table(path, _FOREIGN_ROWS) for name, path in FOREIGN.items()}
    print(f"| table | rows | limit | random test | scaffold test | {' | '.join(foreign)} |")
    print("|---|---|---|---|---|" + "---|" * len(foreign))
    for name, table in tables.items():
        shares: dict[str, list[float]] = {}
        limits = []
        codes = [random_split(len(table.smiles), SHARES, seed) for seed in range(divisions)]
        for kind, code in [*(("random", each) for each in codes), ("scaffold", scaffold_split(table.smiles, SHARES))]:
            model = table.known(np.flatnonzero(code == 0).tolist())
            shares.setdefault(kind, []).append(table.unlike(model, np.flatnonzero(code == 2).tolist()))
            if kind == "random":
                limits.append(model.facts.limit)
                for other, each in foreign.items():
                    shares.setdefault(other, []).append(each.unlike(model, range(len(each.smiles))))
        texts = [f"{np.mean(shares[kind]):.1%}".replace("nan%", "none") for kind in ("random", "scaffold", *foreign)]
        print(f"| {name} | {len(table.smiles)} | {np.mean(limits):.2f} | {' | '.join(texts)} |", flush=True)


if __name__ == "__main__":
    main()
