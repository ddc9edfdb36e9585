"""Cora through the own-data path. Its public files are pickles, which the product never reads: converted here."""

from __future__ import annotations

import importlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.sources.own import OwnSource, open_own

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


def _write_cora(folder: Path, out: Path) -> None:
    """The public split: 140 training, 500 validation and 1,000 test nodes."""
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


@pytest.fixture(scope="module")
def cora(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> OwnSource:
    path = tmp_path_factory.mktemp("cora") / "cora.jsonl"
    _write_cora(data_dir / "planetoid", path)
    return open_own(path)


def test_schema_is_that_of_a_node_classification(cora: OwnSource) -> None:
    schema = cora.own_schema
    assert (schema.level, schema.kind, len(schema.classes)) == ("node", "multiclass", 7)
    assert schema.split.kind == "column"
    (words,) = schema.node_features
    assert (words.kind, words.width, words.mean) == ("continuous", 1433, ())


def test_each_split_is_the_same_graph_with_its_own_labels(cora: OwnSource) -> None:
    graphs = {split: cora.read(cora.records(split)[0]).graph for split in ("train", "val", "test")}
    scored = {}
    for split, graph in graphs.items():
        assert graph is not None
        assert (graph.num_nodes, graph.node_values.shape) == (2708, (2708, 1433))
        assert graph.is_symmetric
        # the file lists 5,429 citations, 5,278 of them distinct pairs of different papers
        assert graph.num_edges == 2 * 5278
        assert graph.node_targets is not None
        scored[split] = np.flatnonzero(~np.isnan(graph.node_targets[:, 0]))
    assert {split: len(nodes) for split, nodes in scored.items()} == {"train": 140, "val": 500, "test": 1000}
    train = graphs["train"]
    assert train is not None
    assert train.node_targets is not None
    labels = train.node_targets[scored["train"], 0]
    assert np.bincount(labels.astype(int)).tolist() == [20] * 7


def test_links_can_be_held_out(cora: OwnSource, tmp_path: Path, data_dir: Path) -> None:
    path = tmp_path / "cora.jsonl"
    _write_cora(data_dir / "planetoid", path)
    source = open_own(path, level="link")
    assert source.card.split_sizes == {"train": 10, "val": 1, "test": 1}
    test = source.read(source.records("test")[0]).graph
    assert test is not None
    assert test.query_index is not None
    assert test.query_index.shape[1] == 2 * 528
    assert test.num_edges == 2 * 4222
