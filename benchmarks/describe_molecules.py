"""RDKit's 2D descriptors of many molecules, in parts that a killed run goes on from.

    python -m benchmarks.describe_molecules FOLDER [--processes 2] [--smiles FILE.parquet]

Reads EGT_DATA_DIR (`molecules/unlabeled_molecules.parquet`) unless a file is named. `FOLDER/part-0000.npy` has the rows
of the first 2,000 molecules, float32, NaN where RDKit has no number; `FOLDER/names.txt` the columns.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rdkit import Chem, RDLogger
from rdkit.Chem import Descriptors
from rich.progress import track

from egt.data.download import data_folder
from egt.files import write_atomically

PART = 2_000

NAMES = [name for name, _ in Descriptors._descList]


def describe(smiles: str) -> NDArray[np.float32]:
    """(217,) the descriptors of a molecule."""
    molecule: Any = Chem.MolFromSmiles(smiles)
    if molecule is None:
        return np.full(len(NAMES), np.nan, np.float32)
    found = Descriptors.CalcMolDescriptors(molecule, missingVal=np.nan, silent=True)  # type: ignore[no-untyped-call]
    with np.errstate(over="ignore"):
        return np.array(list(found.values()), np.float64).astype(np.float32)


def write_part(work: tuple[Path, Sequence[str]]) -> None:
    """Describe some molecules and write them, complete or not at all."""
    path, smiles = work
    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    with write_atomically(path) as draft, draft.open("wb") as file:
        np.save(file, np.stack([describe(text) for text in smiles]))


def main() -> None:
    """Describe the molecules of which no part is there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--smiles", type=Path, default=None)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "names.txt").write_text("\n".join(NAMES) + "\n")
    file = given.smiles or data_folder() / "molecules" / "unlabeled_molecules.parquet"
    smiles = pq.read_table(file, columns=["smiles"])["smiles"].to_pylist()
    parts = [(given.folder / f"part-{k // PART:04d}.npy", smiles[k : k + PART]) for k in range(0, len(smiles), PART)]
    missing = [part for part in parts if not part[0].exists()]
    with get_context("spawn").Pool(given.processes) as pool:
        for _ in track(pool.imap_unordered(write_part, missing), "parts", total=len(missing)):
            pass


if __name__ == "__main__":
    main()
