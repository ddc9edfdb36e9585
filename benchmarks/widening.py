"""Whether intervals that widen with the distance from training hold the truth on new scaffolds, with quick models.

    python -m benchmarks.widening [--divisions 3]

Reads EGT_DATA_DIR (MoleculeNet, MoleculeACE, TDC). Of each table 20% of the rows are kept apart by scaffold; the others
are divided at random: 75% to learn from, 12% to calibrate, 13% to test. A forest on counted Morgan fragments answers.
Prints the coverage of intervals of 90%, of all rows and of the quarter that is least familiar, and their mean width,
with the same width for all and widened as `egt.inference.uncertainty.fit_widening` says.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestRegressor

from egt.data.download import data_folder
from egt.data.fingerprints import fingerprints, tanimoto
from egt.data.molecules import graphs_from_smiles
from egt.data.schema import scaffold_split
from egt.errors import EgtError
from egt.graph import IntArray
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
    parser.add_argument("--divisions", type=int, default=3)
    divisions = parser.parse_args().divisions
    found = pd.DataFrame([row for name in TABLES for row in measured(name, divisions)])
    print(found.groupby(["table", "rows", "widened"]).mean().round(3).to_string())
    print(found.drop(columns="table").groupby(["rows", "widened"]).mean().round(3).to_string())


def measured(name: str, divisions: int) -> list[dict[str, object]]:
    """Return coverage and width for each division of a table, kind of test rows and kind of interval."""
    path, smiles_column, target = TABLES[name]
    table = pd.read_csv(data_folder() / path)[[smiles_column, target]].dropna()
    table = table.iloc[np.random.default_rng(0).permutation(len(table))[:MOST_ROWS]]
    texts = table[smiles_column].tolist()
    read = graphs_from_smiles(texts, canonical=True, ids=[""] * len(texts), graph_targets=[None] * len(texts))
    good = [k for k, each in enumerate(read) if not isinstance(each, EgtError)]
    smiles, y = [texts[k] for k in good], table[target].to_numpy(np.float64)[good]
    bits = fingerprints([each[0] for each in read if not isinstance(each, EgtError)])
    morgan = rdFingerprintGenerator.GetMorganGenerator(2, fpSize=1024)
    x = np.array([morgan.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in smiles], np.float32)
    code = scaffold_split(smiles, APART)
    rows = []
    for seed in range(divisions):
        order = np.random.default_rng(seed).permutation(np.flatnonzero(code != 2))
        learned, calibrating, tested = np.split(order, [int(0.75 * len(order)), int(0.87 * len(order))])
        forest = RandomForestRegressor(100, max_features=0.3, random_state=seed).fit(x[learned], y[learned])

        def errors(k: IntArray, forest: RandomForestRegressor = forest) -> Floats:
            found: Floats = np.abs(forest.predict(x[k]) - y[k])
            return found

        def distance(k: IntArray, learned: IntArray = learned) -> Floats:
            found: Floats = 1 - tanimoto(bits[k], bits[learned]).max(1).astype(np.float64)
            return found

        widening = fit_widening(errors(calibrating), distance(calibrating))
        for kind, test in (("random", tested), ("scaffold", np.flatnonzero(code == 2))):
            far = distance(test) >= np.quantile(distance(test), 0.75)
            for is_widened in (False, True):
                c = widening if is_widened else 0.0
                scores = Scores.of(errors(calibrating) / (1 + c * distance(calibrating)))
                widths = scores.quantile(COVERAGE) * (1 + c * distance(test))
                inside = errors(test) <= widths
                about = {"table": name, "rows": kind, "widened": is_widened, "c": c}
                rows.append({**about, "covered": inside.mean(), "far": inside[far].mean(), "width": 2 * widths.mean()})
    return rows


if __name__ == "__main__":
    main()
