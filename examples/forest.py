"""A random forest on Morgan fingerprints, the opponent of every model of molecules.

    python examples/forest.py molecules.csv logP

It is trained and scored on random divisions of the table (80/20, three of them), with the mean as the lowest bar.
"""

from __future__ import annotations

import csv
import sys

import numpy as np
from rdkit.Chem import MolFromSmiles
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split


def main(path: str, target: str, smiles: str = "smiles") -> None:
    """Print the mean absolute error of the forest and of the mean."""
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row[target] and MolFromSmiles(row[smiles])]
    morgan = GetMorganGenerator(radius=2, fpSize=2048)
    X = np.array([morgan.GetFingerprintAsNumPy(MolFromSmiles(row[smiles])) for row in rows])
    y = np.array([float(row[target]) for row in rows])
    for seed in range(3):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        forest = RandomForestRegressor(300, n_jobs=-1, random_state=seed).fit(X_train, y_train)
        error = np.abs(forest.predict(X_test) - y_test).mean()
        print(f"division {seed}: forest {error:.3f}, mean of the labels {np.abs(y_train.mean() - y_test).mean():.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
