"""Missing links of a large graph with communities, through the command line only: seconds, memory, and ROC-AUC.

    python -m benchmarks.links [--nodes 20000] [--edges 100000] [--communities 200] [--seed 0] [--set KEY=VALUE ...]

A stochastic block model: four of five edges stay within the community of a node. A twentieth of the edges is held back
and asked about in a folder of its own, together with as many pairs that are no edges; neither training nor its
validation ever sees them. Beside the model stand the number of common neighbors, and whether both nodes are of one
community, which nobody knows and no predictor can beat by much.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

IntArray = NDArray[np.int64]
WITHIN = 0.8
HELD_BACK = 0.05


def block_model(
    num_nodes: int, num_edges: int, num_communities: int, random: np.random.Generator, within: float = WITHIN
) -> tuple[IntArray, IntArray]:
    """Return distinct undirected edges (2, num_edges) in random order, and the community (N,) of each node.

    within: the share of edges that are drawn within a community.
    """
    community = np.sort(random.integers(num_communities, size=num_nodes))
    first = np.searchsorted(community, np.arange(num_communities))
    size = np.bincount(community, minlength=num_communities)
    codes = np.zeros(0, np.int64)
    while len(codes) < num_edges:
        i = random.integers(num_nodes, size=2 * num_edges)
        near = first[community[i]] + random.integers(1 << 62, size=len(i)) % size[community[i]]
        j = np.where(random.random(len(i)) < within, near, random.integers(num_nodes, size=len(i)))
        both = np.minimum(i, j) * num_nodes + np.maximum(i, j)
        codes = np.unique(np.concatenate([codes, both[i != j]]))
    return np.stack(np.divmod(random.permutation(codes)[:num_edges], num_nodes)), community


def non_edges(edges: IntArray, num_nodes: int, count: int, random: np.random.Generator) -> IntArray:
    """Return (2, count) pairs of different nodes that are no edges."""
    pairs = np.sort(random.integers(num_nodes, size=(2, 2 * count)), axis=0)
    known = np.isin(pairs[0] * num_nodes + pairs[1], edges[0] * num_nodes + edges[1])
    return pairs[:, (pairs[0] != pairs[1]) & ~known][:, :count]


def common_neighbors(edges: IntArray, num_nodes: int, pairs: IntArray) -> NDArray[np.float64]:
    """Return (P,) how many neighbors the nodes of each pair share."""
    i, j = np.concatenate([edges, edges[::-1]], axis=1)
    A = csr_array((np.ones(len(i)), (i, j)), shape=(num_nodes, num_nodes))
    return np.asarray(A[pairs[0]].multiply(A[pairs[1]]).sum(axis=1)).ravel()


def write_folder(folder: Path, num_nodes: int, edges: IntArray, queries: IntArray | None = None) -> Path:
    """Write a graph as tables."""
    folder.mkdir(parents=True)
    np.savetxt(folder / "nodes.csv", np.arange(num_nodes), "%d", header="node", comments="")
    np.savetxt(folder / "edges.csv", edges.T, "%d", ",", header="source,target", comments="")
    if queries is not None:
        np.savetxt(folder / "queries.csv", queries.T, "%d", ",", header="source,target", comments="")
    return folder


def egt(*words: str) -> tuple[str, float]:
    """Run a command; return what it prints and the seconds it takes."""
    print("$ egt " + " ".join(words), file=sys.stderr, flush=True)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "egt", *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout, time.perf_counter() - started


def measure(
    num_nodes: int, num_edges: int, num_communities: int, seed: int, settings: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Train on most of the edges and ask for the rest; files go to `folder`."""
    random = np.random.default_rng(seed)
    num_held = round(HELD_BACK * num_edges)
    edges, community = block_model(num_nodes, num_edges + num_held, num_communities, random)
    shown, held = edges[:, num_held:], edges[:, :num_held]
    asked = np.concatenate([held, non_edges(edges, num_nodes, num_held, random)], axis=1)
    labels = np.arange(asked.shape[1]) < num_held
    known = write_folder(folder / "known", num_nodes, shown)
    query = write_folder(folder / "asked", num_nodes, shown, asked)
    words = ["--set", *settings] if settings else []
    _, training = egt("train", str(known), "--task", "link", "--out", str(folder / "run"), *words)
    _, predicting = egt("predict", str(folder / "run"), str(query), "-o", str(folder / "answers.csv"))
    tested, _ = egt("evaluate", str(folder / "run"), "--json")
    with (folder / "answers.csv").open() as file:
        answers = np.array([float(row["link_probability"]) for row in csv.DictReader(file)])
    same = community[asked[0]] == community[asked[1]]
    return {
        "nodes": num_nodes,
        "edges": num_edges,
        "communities": num_communities,
        "training_seconds": round(training, 1),
        "predicting_seconds": round(predicting, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9, 2),
        "cpu_seconds": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 1),
        "roc_auc": round(float(roc_auc_score(labels, answers)), 4),
        "roc_auc_common_neighbors": round(float(roc_auc_score(labels, common_neighbors(shown, num_nodes, asked))), 4),
        "roc_auc_same_community": round(float(roc_auc_score(labels, same)), 4),
        "test": json.loads(tested.strip().splitlines()[-1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--communities", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", dest="settings")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["EGT_CACHE_DIR"] = f"{scratch}/cache"
        found = measure(
            given.nodes, given.edges, given.communities, given.seed, given.settings, Path(scratch) / "links"
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
