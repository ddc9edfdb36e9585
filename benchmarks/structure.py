"""What matrices, coordinates and full distance matrices are worth, each beside the same model without them.

    python -m benchmarks.structure signal     # a set where only a matrix carries the signal; GIN on thresholded graphs
    python -m benchmarks.structure tsp        # TSP with the full matrix of distances, without coordinates in any form
    python -m benchmarks.structure qm9 [--molecules 10000] [--epochs 12] [--only file]
    python -m benchmarks.structure pcqm4mv2   # the first 2,000 molecules with DFT's coordinates and with RDKit's

Prints a JSON line for each form: the metrics of the test rows and the seconds of training. `qm9` and `pcqm4mv2` read
EGT_DATA_DIR. Every form has the same rows, epochs and schedule.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import egt
from egt import Graph
from egt.data.molecules import require_rdkit, with_coordinates
from egt.paper.benchmarks.tsp import tsp_graph

COSINE = "schedule.kind=cosine"
GIN = (
    *("model.layer=gin", "model.node_width=96", "model.edge_width=8", "model.num_heads=1", "model.gate=none"),
    *("model.node_inputs=[constant]", "model.pair_inputs=[{kind: reachability, num_hops: 1}]"),
    *("model.edges.kind=frozen", "model.scope=neighbors", "model.readout=mean", "data.layout=edge_list"),
)
FORMS: Mapping[str, Sequence[str]] = {
    "graph": (),
    "graph, hydrogens": ("overrides.hydrogens=true",),
    "file": ("overrides.hydrogens=true", "overrides.positions=file"),
    "rdkit": ("overrides.hydrogens=true", "overrides.positions=rdkit"),
}
"""What is read of a molecule: atoms and bonds, and their coordinates by DFT or by RDKit."""

EV = 27.211386


def measure(name: str, data: Any, target: str | None, settings: Sequence[str], **options: Any) -> None:
    """Train one form and print its metrics."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        keys = [*settings, "trainer.baseline=false"]
        run = egt.train(data, target, set=keys, out=Path(folder) / "run", start="none", progress=False, **options)
        metrics = {key: round(value, 5) for key, value in run.artifact.metrics["test"].items()}
        parameters = sum(weight.numel() for weight in run.artifact.model.parameters())
    print(
        json.dumps({"form": name, "seconds": round(time.monotonic() - start), "parameters": parameters, **metrics}),
        flush=True,
    )


def band_graph(random: np.random.Generator, label: int) -> Graph:
    """Return noise over all pairs in (0, 1); with the label 1, a cycle through all nodes is about one half."""
    n = int(random.integers(12, 21))
    matrix = random.random((n, n))
    cycle = random.permutation(n)
    if label:
        matrix[cycle, np.roll(cycle, -1)] = random.uniform(0.48, 0.52, n)
        matrix[np.roll(cycle, -1), cycle] = matrix[cycle, np.roll(cycle, -1)]
    upper = np.triu(matrix, 1)
    return Graph(num_nodes=n, edge_index=np.zeros((2, 0)), pair_values=upper + upper.T, graph_targets=[label])


def signal(options: argparse.Namespace) -> None:
    """Measure a set where only a matrix carries the signal."""
    random = np.random.default_rng(0)
    graphs = [band_graph(random, k % 2) for k in range(2000)]
    common = (f"trainer.max_epochs={options.epochs or 30}", COSINE)
    measure("EGT, the matrix", graphs, None, common)
    for threshold in (0.3, 0.4, 0.45, 0.5):  # above one half the set is its own mirror image
        cut = []
        for graph in graphs:
            assert graph.pair_values is not None
            joined = (graph.pair_values[:, :, 0] > threshold) & ~np.eye(graph.num_nodes, dtype=bool)
            edges = np.argwhere(joined).T
            cut.append(Graph(num_nodes=graph.num_nodes, edge_index=edges, graph_targets=graph.graph_targets))
        measure(f"GIN, entries above {threshold}", cut, None, (*common, *GIN))
        if threshold == 0.5:
            measure(f"EGT, entries above {threshold}", cut, None, common)


def tsp(options: argparse.Namespace) -> None:
    """Measure tours of few cities: edges to the nearest neighbors, with and without the distances of all pairs."""
    graphs = [tsp_graph(0, "train", number, 20, 40) for number in range(options.molecules or 1500)]
    bare = [replace(graph, node_values=None) for graph in graphs]  # type: ignore[arg-type]
    full = []
    for graph, plain in zip(graphs, bare, strict=True):
        apart = np.linalg.norm(graph.node_values[:, None] - graph.node_values, axis=-1)
        full.append(replace(plain, pair_values=apart))
    common = (f"trainer.max_epochs={options.epochs or 10}", COSINE)
    measure("distances of the edges", bare, None, common)
    measure("distances of all pairs", full, None, common)
    measure("distances of all pairs, triplets", full, None, (*common, "model.triplets=aggregation"))


def qm9(options: argparse.Namespace) -> None:
    """Measure the gap of random molecules of QM9; one whose bonds RDKit cannot tell is in no form."""
    import pyarrow.parquet as parquet  # an extra

    chem = require_rdkit()
    from rdkit.Chem import rdDetermineBonds

    wanted = options.molecules or 10_000
    table = parquet.read_table(Path(os.environ["EGT_DATA_DIR"]) / "qm9" / "qm9_3d.parquet")
    chosen = np.random.default_rng(0).permutation(len(table))[: int(1.8 * wanted)]
    rows, symbol = [], chem.GetPeriodicTable().GetElementSymbol
    with chem.rdBase.BlockLogs():
        for row in table.take(chosen).to_pylist():
            places = np.reshape(row["xyz"], (-1, 3))
            atoms = [
                f"{symbol(z)} {x:.5f} {y:.5f} {v:.5f}"
                for z, (x, y, v) in zip(row["atomic_numbers"], places, strict=True)
            ]
            molecule = chem.MolFromXYZBlock("\n".join([str(len(atoms)), "", *atoms]))
            try:
                rdDetermineBonds.DetermineBonds(molecule, charge=0)
                rows.append((with_coordinates(molecule), row["HOMO_LUMO_gap_au"] * EV))
            except (ValueError, RuntimeError):
                continue
    print(f"bonds of {len(rows)} of {len(chosen)} molecules")
    splits = ["train"] * wanted + ["val"] * (wanted // 8) + ["test"] * (wanted // 4)
    molecules("qm9.csv", [(*row, split) for row, split in zip(rows, splits, strict=False)], options, 12)


def pcqm4mv2(options: argparse.Namespace) -> None:
    """Measure the gap of the first molecules of PCQM4Mv2."""
    path = Path(os.environ["EGT_DATA_DIR"]) / "pcqm4mv2" / "pcqm4mv2_first2k_3d.csv.gz"
    with gzip.open(path, "rt") as file:
        rows = [(row["cxsmiles_3d"], float(row["homolumogap_ev"])) for row in csv.DictReader(file)]
    codes = np.random.default_rng(0).permutation(len(rows)) * 10 // len(rows)
    splits = ["train" if code < 8 else "val" if code == 8 else "test" for code in codes]
    molecules("pcqm4mv2.csv", [(*row, split) for row, split in zip(rows, splits, strict=True)], options, 40)


def molecules(name: str, rows: Sequence[tuple[Any, ...]], options: argparse.Namespace, epochs: int) -> None:
    """Train on molecules with coordinates in each form."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("cxsmiles", "gap", "split"), *rows])
        for form, settings in FORMS.items():
            if options.only and form not in options.only:
                continue
            keys = (*settings, f"trainer.max_epochs={options.epochs or epochs}", COSINE)
            measure(form, path, "gap", keys, smiles="cxsmiles")


def main() -> None:
    """Measure one of the sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["signal", "tsp", "qm9", "pcqm4mv2"])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--molecules", type=int, help="or graphs, to train on")
    parser.add_argument("--only", nargs="*", help="forms of molecules")
    options = parser.parse_args()
    {"signal": signal, "tsp": tsp, "qm9": qm9, "pcqm4mv2": pcqm4mv2}[options.what](options)


if __name__ == "__main__":
    main()
