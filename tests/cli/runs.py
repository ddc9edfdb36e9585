"""Tiny data sets, and runs of the command line on them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.cli.main import main

TINY = (
    "model.num_layers=2", "model.node_width=16", "model.edge_width=8", "model.num_heads=2",
    "trainer.max_epochs=2", "data.batch_size=8",
)  # fmt: skip
SMILES = (
    "CCO", "CCN", "CCC", "c1ccccc1", "CC(=O)O", "CCCl", "C1CCCCC1", "CC#N", "OCCO", "NCC(=O)O",
    "c1ccncc1", "CCOC", "CC(C)C", "C=C", "CCBr", "CS", "CCCCCC", "Oc1ccccc1", "CC=O", "COC",
)  # fmt: skip


@dataclass(frozen=True)
class Finished:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object on the last line of standard output."""
        content: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return content


def egt(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Finished:
    """Run a command in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    code = done.value.code
    assert isinstance(code, int)
    return Finished(code, captured.out, captured.err)


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A CSV file with the keys of the first row as its header."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_jsonl(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A file with one JSON object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def molecules(path: Path, **columns: Sequence[object]) -> Path:
    """A table of twenty molecules with the given target columns."""
    names = list(columns)
    rows = zip(SMILES, *columns.values(), strict=True)
    return write_csv(path, [{"smiles": row[0], **dict(zip(names, row[1:], strict=True))} for row in rows])


def ring(size: int, **more: object) -> dict[str, object]:
    """A ring of nodes with a color and a height."""
    edges = [[k, (k + 1) % size] for k in range(size)]
    nodes = {"color": ["red" if k % 2 else "blue" for k in range(size)], "height": [0.5 * k for k in range(size)]}
    return {"nodes": nodes, "edges": edges, **more}


def blocks(path: Path, *, num_nodes: int = 24, seed: int = 0, masks: bool = True) -> Path:
    """A folder with one graph of two communities; `label` says which, `split` divides the nodes."""
    random = np.random.default_rng(seed)
    community = np.arange(num_nodes) % 2
    path.mkdir()
    nodes = [
        {"node": f"n{k}", "x": float(random.normal() + c), "label": "ab"[c]} for k, c in enumerate(community.tolist())
    ]
    if masks:
        for k, node in enumerate(nodes):
            node["split"] = ("train", "train", "val", "test")[(k // 2) % 4]
    write_csv(path / "nodes.csv", nodes)
    chance = np.where(community[:, None] == community, 0.4, 0.1)
    i, j = np.nonzero(np.triu(random.random((num_nodes, num_nodes)) < chance, 1))
    write_csv(path / "edges.csv", [{"source": f"n{a}", "target": f"n{b}"} for a, b in zip(i, j, strict=True)])
    return path
