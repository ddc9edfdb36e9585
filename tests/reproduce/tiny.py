"""Orders that take seconds: tiny models on a few generated graphs, or on a few molecules in the files of benchmarks."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import torch

from egt.reproduce.rows import Order
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
    """PCQM4Mv2 and MolHIV of twenty molecules, in the formats in which they are published."""
    raw = folder / "pcqm4m-v2" / "raw" / "data.csv.gz"
    raw.parent.mkdir(parents=True)
    with gzip.open(raw, "wt") as file:
        file.write("idx,smiles,homolumogap\n")
        file.writelines(f"{k},{smiles},{'' if k > 17 else 3 + 0.1 * k}\n" for k, smiles in enumerate(SMILES))
    splits = {"train": np.arange(14), "valid": np.arange(14, 18), "test-dev": np.arange(18, 20)}
    torch.save(splits, folder / "pcqm4m-v2" / "split_dict.pt")
    table = folder / "molhiv" / "molhiv.csv.gz"
    table.parent.mkdir(parents=True)
    with gzip.open(table, "wt") as file:
        file.write("split,smiles,y\n")
        names = ["train"] * 12 + ["valid"] * 4 + ["test"] * 4
        file.writelines(
            f"{name},{smiles},{k % 2}\n" for k, (name, smiles) in enumerate(zip(names, SMILES, strict=True))
        )
    return folder
