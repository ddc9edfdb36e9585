"""What matrices, coordinates and full distance matrices are worth, each beside the same model without them.

    python -m benchmarks.structure signal     # a set where only a matrix carries the signal; GIN on thresholded graphs
    python -m benchmarks.structure handedness # left and right hands, which distances do not tell apart
    python -m benchmarks.structure tsp        # TSP with the full matrix of distances, without coordinates in any form
    python -m benchmarks.structure qm9 [--target U0] [--molecules 110000] [--epochs 12] [--only file]
    python -m benchmarks.structure two-stages [--molecules 110000]    # distances that a first model predicts
    python -m benchmarks.structure pcqm4mv2   # the first 2,000 molecules with DFT's coordinates and with RDKit's

Prints a JSON line for each form: the metrics of the test rows and the processor seconds. `qm9` and `pcqm4mv2` read
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
from numpy.typing import NDArray

import egt
from egt import Graph
from egt.data.molecules import Placement, graph_from_smiles, require_rdkit, with_coordinates
from egt.data.source import SPLITS
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


def measure(
    name: str, data: Any, target: str | None, settings: Sequence[str], out: Path | None = None, **options: Any
) -> egt.Run:
    """Train one form and print its metrics; what it leaves is kept in `out` only."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        keys = [*settings, "trainer.baseline=false"]
        out = (out or Path(folder)) / "run"
        run = egt.train(data, target, set=keys, out=out, start="none", progress=False, **options)
    metrics = {key: round(value, 5) for key, value in run.artifact.metrics["test"].items()}
    parameters = sum(weight.numel() for weight in run.artifact.model.parameters())
    seconds = round(time.process_time() - start)
    print(json.dumps({"form": name, "cpu_seconds": seconds, "parameters": parameters, **metrics}), flush=True)
    return run


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


def hand_graph(random: np.random.Generator) -> Graph:
    """Return a center with four neighbors of different types at random distances; the target is the handedness."""
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])[random.permutation(4)]
    places = np.concatenate([np.zeros((1, 3)), corners * random.uniform(0.6, 0.9, (4, 1))])
    rotation = np.linalg.qr(random.normal(size=(3, 3)))[0]
    rotation[0] *= np.linalg.det(rotation)
    order = random.permutation(5)
    return Graph(
        num_nodes=5,
        edge_index=np.zeros((2, 0)),
        node_categories=order[:, None],
        positions=(places @ rotation + random.normal(size=3))[order],
        graph_targets=[float(np.linalg.det(corners[1:] - corners[0]) > 0)],
    )


def handedness(options: argparse.Namespace) -> None:
    """Measure left and right hands with distances alone, and with signed volumes."""
    random = np.random.default_rng(0)
    graphs = [hand_graph(random) for _ in range(600)]
    common = (f"trainer.max_epochs={options.epochs or 30}", COSINE)
    measure("distances", graphs, None, common)
    measure("and signed volumes", graphs, None, (*common, "model.node_inputs+={kind: signed_volumes, types: 5}"))


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


def qm9_molecule(row: Mapping[str, Any]) -> str | None:
    """Return a molecule of QM9 with its coordinates; None where the atoms are not joined as its SMILES says."""
    chem = require_rdkit()
    from rdkit.Chem import AllChem, rdDetermineBonds

    assign: Any = AllChem.AssignBondOrdersFromTemplate
    symbol = chem.GetPeriodicTable().GetElementSymbol
    places = np.reshape(row["xyz"], (-1, 3))
    atoms = [f"{symbol(z)} {x:.5f} {y:.5f} {v:.5f}" for z, (x, y, v) in zip(row["atomic_numbers"], places, strict=True)]
    template = chem.MolFromSmiles(row["smiles"])
    for reach in (1.15, 1.1, 1.2):  # of the covalent radii: strained rings have short distances across
        molecule = chem.MolFromXYZBlock("\n".join([str(len(atoms)), "", *atoms]))
        rdDetermineBonds.DetermineConnectivity(molecule, useVdw=True, covFactor=reach)
        try:
            joined = assign(chem.AddHs(template), molecule)
            chem.SanitizeMol(joined)
            return with_coordinates(joined)
        except ValueError:
            continue
    return None


def read_qm9(target: str) -> list[tuple[str, float, str]]:
    """Return coordinates, target in eV and split of QM9: 110,000 rows to train, 10,000 and the rest, at random.

    The energy `U0` is what the numbers of atoms of each element do not explain: a linear fit on the training rows.
    """
    import pyarrow.parquet as parquet  # an extra

    table = parquet.read_table(Path(os.environ["EGT_DATA_DIR"]) / "qm9" / "qm9_3d.parquet")
    rows = table.take(np.random.default_rng(0).permutation(len(table))).to_pylist()
    values = np.array([row["HOMO_LUMO_gap_au" if target == "gap" else "InternalEnergy_0K_au"] * EV for row in rows])
    if target == "U0":
        counts = np.array([np.bincount(row["atomic_numbers"], minlength=10) for row in rows])
        values -= counts @ np.linalg.lstsq(counts[:110_000], values[:110_000], rcond=None)[0]
    splits = ["train"] * 110_000 + ["val"] * 10_000 + ["test"] * len(rows)
    with require_rdkit().rdBase.BlockLogs():
        texts = [qm9_molecule(row) for row in rows]
    print(f"no bonds are found for {texts.count(None)} of {len(rows)} molecules, which are in no form", flush=True)
    return [(text, value, split) for text, value, split in zip(texts, values, splits, strict=False) if text]


def some_qm9(options: argparse.Namespace) -> list[tuple[str, float, str]]:
    """Return QM9 with the first molecules to train on, and then as many fewer to validate and test."""
    rows = read_qm9(options.target)
    share = (options.molecules or 110_000) / 110_000
    by_split = [[row for row in rows if row[2] == split] for split in SPLITS]
    return [row for part in by_split for row in part[: round(share * len(part))]]


def qm9(options: argparse.Namespace) -> None:
    """Measure the gap or the energy of molecules of QM9, with and without coordinates."""
    molecules("qm9.csv", some_qm9(options), options, 12)


def two_stages(options: argparse.Namespace) -> None:
    """Measure the gap with no distances, those that a first model predicts from the graph, and the true ones.

    Graphs are of the heavy atoms. Distances enter as a matrix of numbers in all forms.
    """
    rows = some_qm9(options)
    read = [
        graph_from_smiles(text, canonical=True, placement=Placement("file", (3,)), graph_targets=[value])[0]
        for text, value, _ in rows
    ]
    splits = [row[2] for row in rows]

    def by_split(graphs: Sequence[Graph]) -> dict[str, list[Graph]]:
        return {each: [graph for graph, split in zip(graphs, splits, strict=True) if split == each] for each in SPLITS}

    common = (f"trainer.max_epochs={options.epochs or 12}", COSINE)
    unlabeled = [replace(graph, graph_targets=None) for graph in read]
    with tempfile.TemporaryDirectory() as folder:
        run = measure("first stage: distances", by_split(unlabeled), None, common, Path(folder), task="pair")
        predicted = [matrix_of(answer) for answer in egt.load(run.path).predict(unlabeled)]
    flat = [replace(graph, positions=None) for graph in read]
    true = [distances_of(graph) for graph in read]
    for form, matrices in {"no distances": None, "predicted distances": predicted, "true distances": true}.items():
        graphs = flat if matrices is None else list(map(with_matrix, flat, matrices))
        measure(form, by_split(graphs), None, common)


def with_matrix(graph: Graph, matrix: NDArray[np.float64]) -> Graph:
    """Return the graph with a number for each pair of nodes."""
    return replace(graph, pair_values=matrix.astype(np.float32))


def distances_of(graph: Graph) -> NDArray[np.float64]:
    """Return the distances (N, N) of nodes with positions."""
    assert graph.positions is not None
    apart: NDArray[np.float64] = np.linalg.norm(graph.positions[:, None] - graph.positions, axis=-1)
    return apart


def matrix_of(answer: Any) -> NDArray[np.float64]:
    """Return the symmetric matrix (N, N) of the answers for pairs, with a diagonal of zeros."""
    matrix = np.zeros((answer.num_nodes, answer.num_nodes))
    i, j = answer.pairs
    matrix[i, j] = matrix[j, i] = answer.values[:, 0]
    return matrix


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


SETS = {
    "signal": signal,
    "handedness": handedness,
    "tsp": tsp,
    "qm9": qm9,
    "two-stages": two_stages,
    "pcqm4mv2": pcqm4mv2,
}


def main() -> None:
    """Measure one of the sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(SETS))
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--molecules", type=int, help="or graphs, to train on")
    parser.add_argument("--target", choices=["gap", "U0"], default="gap", help="of qm9")
    parser.add_argument("--only", nargs="*", help="forms of molecules")
    options = parser.parse_args()
    SETS[options.what](options)


if __name__ == "__main__":
    main()
