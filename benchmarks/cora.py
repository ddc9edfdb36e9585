"""Cora as a JSONL graph. Its public files are pickles, which the product never reads: they are converted here, once.

python -m benchmarks.cora FOLDER_WITH_IND.CORA_FILES cora.jsonl
"""

from __future__ import annotations

import importlib
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"): ("numpy", "ndarray"),
    ("numpy", "dtype"): ("numpy", "dtype"),
    ("scipy.sparse.csr", "csr_matrix"): ("scipy.sparse", "csr_matrix"),
    ("collections", "defaultdict"): ("collections", "defaultdict"),
    ("__builtin__", "list"): ("builtins", "list"),
}


class ArraysOnly(pickle.Unpickler):
    """Reads arrays, sparse matrices and lists; any other name in the file is an error."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        module, name = ALLOWED[module, name]
        return getattr(importlib.import_module(module), name)


def _load(path: Path) -> Any:
    with path.open("rb") as file:
        return ArraysOnly(file, encoding="latin1").load()


def write_cora(folder: Path, out: Path) -> None:
    """Return the public split: 140 training, 500 validation and 1,000 test nodes."""
    part = {name: _load(folder / f"ind.cora.{name}") for name in ("allx", "ally", "tx", "ty", "graph")}
    tested = np.loadtxt(folder / "ind.cora.test.index", dtype=int)
    x = np.concatenate([part["allx"].toarray(), part["tx"].toarray()])
    y = np.concatenate([part["ally"], part["ty"]])
    x[tested], y[tested] = x[np.sort(tested)], y[np.sort(tested)]
    split: list[str | None] = [None] * len(x)
    split[:140], split[140:640] = ["train"] * 140, ["val"] * 500
    for node in tested:
        split[node] = "test"
    edges = sorted({(min(i, j), max(i, j)) for i, others in part["graph"].items() for j in others})
    line = {
        "id": "cora",
        "nodes": {"words": x.astype(int).tolist(), "split": split},
        "node_targets": {"topic": [f"topic {k}" for k in y.argmax(axis=1)]},
        "edges": [[int(i), int(j)] for i, j in edges],
        "directed": False,
    }
    out.write_text(json.dumps(line))


if __name__ == "__main__":
    write_cora(Path(sys.argv[1]), Path(sys.argv[2]))
