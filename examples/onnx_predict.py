"""Predict with a model of molecules, by onnxruntime, numpy and RDKit alone: `python onnx_predict.py FOLDER CCO CCN`."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from rdkit import Chem


def categories(things: list, features: list[dict]) -> np.ndarray:
    """Return what RDKit says about atoms or bonds, as the place in each feature's values: (things, features)."""
    asked = [[(getattr(thing, feature["rdkit"])(), feature["values"]) for feature in features] for thing in things]
    found = [[known.index(value) if value in known else len(known) - 1 for value, known in row] for row in asked]
    return np.array(found, np.int64).reshape(len(things), len(features))


def distance(mol: Chem.Mol, max_hops: int) -> np.ndarray:
    """Return how many bonds lie between two atoms, `max_hops` + 1 if there are more: (N, N)."""
    return np.minimum(Chem.GetDistanceMatrix(mol), max_hops + 1)


def svd(mol: Chem.Mol, rank: int, weighted: bool) -> np.ndarray:
    """Return singular vectors of bonds and self-loops, (N, 2 rank); the first odd moment that is not 0 is positive."""
    A, found = Chem.GetAdjacencyMatrix(mol) + np.eye(mol.GetNumAtoms()), np.zeros((mol.GetNumAtoms(), 2 * rank))
    values, vectors = np.linalg.eigh(A)
    for k, c in enumerate(np.argsort(-np.abs(values + 1e-10 * np.abs(values).max()), kind="stable")[:rank]):
        u = vectors[:, c] * np.sqrt(abs(values[c])) * (abs(values[c]) > 1e-13)
        terms = [w * u**3 for w in (np.ones(len(A)), A.sum(1), A @ A.sum(1))]
        moments = [term.sum() for term in terms if abs(term.sum()) > 1e-6 * np.abs(term).sum()]
        found[:, k] = u * np.sign([*moments, u[np.abs(u) >= (1 - 1e-6) * np.abs(u).max()][0]][0])
        found[:, rank + k] = found[:, k] * np.sign(values[c])
    return found


def predict(folder: str, smiles: list[str]) -> dict[str, np.ndarray]:
    """Return the answers of the model in a folder, (outputs,) for each molecule that RDKit can read."""
    schema, edges, bonds = json.loads((Path(folder) / "schema.json").read_text()), [], []
    mols = {text: mol for text in smiles if (mol := Chem.MolFromSmiles(text)) and mol.GetNumAtoms()}
    sizes = {"graphs": len(mols), "nodes": max([mol.GetNumAtoms() for mol in mols.values()], default=1), "edges": 0}
    feeds = {x["name"]: np.zeros([sizes.get(n, n) for n in x["shape"]], x["dtype"]) for x in schema["inputs"]}
    for g, mol in enumerate(mols.values()):
        feeds["mask"][g, : (n := mol.GetNumAtoms())] = True
        feeds["node_categories"][g, :n] = categories(list(mol.GetAtoms()), schema["features"]["atoms"])
        ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
        edges += [(g, *pair) for i, j in ends for pair in ((i, j), (j, i))]
        bonds += [bond for bond in mol.GetBonds() for _ in range(2)]
        for encoding in schema["encodings"]:
            made = {"svd": svd, "distance": distance}[encoding["name"]](mol, **encoding["settings"])
            feeds[encoding["name"]][g, :n][:, : made.shape[1]] = made
    feeds["edges"] = np.array(edges, np.int64).reshape(-1, 3).T
    feeds["edge_categories"] = categories(bonds, schema["features"]["bonds"])
    answers = onnxruntime.InferenceSession(Path(folder) / "model.onnx").run(None, feeds)[0] if mols else []
    return dict(zip(mols, answers, strict=True))


if __name__ == "__main__":
    found = predict(sys.argv[1], sys.argv[2:])
    print(*(f"{text}: {found.get(text, 'error, RDKit cannot read this molecule')}" for text in sys.argv[2:]), sep="\n")
