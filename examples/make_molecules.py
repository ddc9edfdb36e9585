"""Write `molecules.csv`: 340 molecules put together from rings and groups, with the logP that RDKit computes for them.

Nothing here is measured, so the table may be used for anything; `python examples/make_molecules.py` makes it again.
"""

from __future__ import annotations

import csv
from pathlib import Path

from rdkit import Chem
from rdkit.Chem import Crippen

RINGS = (
    *("c1ccc({})cc1", "c1cnc({})cc1", "c1coc({})c1", "c1csc({})c1", "C1CCC({})CC1", "C1CCN({})CC1", "C1COCCN1{}"),
    *("Cc1ccc({})cc1", "Clc1ccc({})cc1", "Oc1cccc({})c1", "COc1ccccc1{}", "c1ccc2c({})cccc2c1", "CC(=O)Nc1ccc({})cc1"),
    *("O=C(N{})c1ccccc1", "CCCCCC{}", "CC(C)CC{}", "NC(=O)CC{}"),
)
GROUPS = (
    *("C", "CC", "CCC", "C(C)C", "CCO", "CC(=O)O", "CC(N)=O", "CCN", "CC#N", "CCOC", "CCCl", "CCF", "CC(C)O"),
    *("CCS", "CC1CC1", "CCN(C)C", "CCc1ccccc1", "CC(=O)OC", "CCCCO", "CC(F)(F)F"),
)


def main() -> None:
    """Write the table beside this file."""
    with (Path(__file__).parent / "molecules.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["id", "smiles", "logP"])
        for number, smiles in enumerate(ring.format(group) for ring in RINGS for group in GROUPS):
            molecule = Chem.MolFromSmiles(smiles)
            table.writerow([f"m{number}", Chem.MolToSmiles(molecule), f"{Crippen.MolLogP(molecule):.3f}"])


if __name__ == "__main__":
    main()
