"""Orders that take seconds: tiny models on a few generated graphs, or on a few molecules in the files of benchmarks."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from egt.paper.reproduce import Order
from tests.cli.runs import SMILES

SETTINGS = (
    "model.num_layers=1",
    "model.node_width=8",
    "model.edge_width=8",
    "model.num_heads=1",
    "data.batch_size=4",
    "trainer.trackers=[]",
    "trainer.backend=plain",
)
GRAPHS = "data.options={split_sizes: {train: 8, val: 3, test: 3}}"


def tiny_order(out: Path, *rows: str, table: str = "variants", **changes: Any) -> Order:
    """Rows of PATTERN or CLUSTER, two epochs each."""
    defaults: dict[str, Any] = {"seeds": 2, "epochs": 2, "settings": (GRAPHS, *SETTINGS)}
    return Order(table, out, rows, **defaults | changes)


def molecule_files(folder: Path) -> Path:
    """PCQM4Mv2, PCQM4M, MolHIV and MolPCBA of twenty molecules, in the formats in which they are published."""
    for name, hidden in (("pcqm4m-v2", "test-dev"), ("pcqm4m_kddcup2021", "test")):
        gaps = [f"{k},{smiles},{'' if k > 17 else 3 + 0.1 * k}" for k, smiles in enumerate(SMILES)]
        _write(folder / name / "raw" / "data.csv.gz", ["idx,smiles,homolumogap", *gaps])
        splits = {"train": np.arange(14), "valid": np.arange(14, 18), hidden: np.arange(18, 20)}
        torch.save(splits, folder / name / "split_dict.pt")
    names = ["train"] * 12 + ["valid"] * 4 + ["test"] * 4
    rows = [f"{name},{smiles},{k % 2}" for k, (name, smiles) in enumerate(zip(names, SMILES, strict=True))]
    _write(folder / "molhiv" / "molhiv.csv.gz", ["split,smiles,y", *rows])
    header = ",".join([*(f"PCBA-{task}" for task in range(128)), "mol_id", "smiles"])
    rows = [",".join([*_labels(k), f"CID{k}", smiles]) for k, smiles in enumerate(SMILES)]
    _write(folder / "ogbg_molpcba" / "mapping" / "mol.csv.gz", [header, *rows])
    for split in ("train", "valid", "test"):
        numbers = [str(k) for k, name in enumerate(names) if name == split]
        _write(folder / "ogbg_molpcba" / "split" / "scaffold" / f"{split}.csv.gz", numbers)
    return folder


def _labels(molecule: int) -> list[str]:
    """128 labels of a molecule, a third of them missing."""
    return ["" if (molecule + task) % 3 == 0 else f"{(molecule + task) % 2}.0" for task in range(128)]


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(f"{line}\n" for line in lines)
