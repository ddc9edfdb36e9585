"""Preparing molecules: this package against OGB's `smiles2graph` + numpy's SVD + scipy's shortest paths, on MolHIV.

    EGT_DATA_DIR=... python -m benchmarks.prepare [--molecules 2000] [--processes 1 2] [--rounds 3]

Both make the same arrays: OGB's features, the SVD encoding of rank 8 (float32) and hop distances up to 16 (uint8).
Worker processes with one BLAS thread each take turns: a chunk of molecules by one way, then the same chunk by the
other, so that whatever else the machine does hits both. These times are processor time, and the ratio is the median
over the chunks. Scipy gets the form that is fastest for it (a sparse matrix, Floyd-Warshall). The shares come from a
second run that times each stage over a chunk.

At last the command itself, `egt data prepare molhiv`, as a user runs it, into an empty cache: the rate that it reports
and the time of all of it, from the start of Python to the end. In turns with it the other way has the same molecules,
in as many processes that are already running, and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.encodings.encoding import Preparation, ShortestPaths
from egt.data.molecules import OGB_SCHEMA, binary_form, graphs_from_smiles, ogb_features, parse_smiles
from egt.data.preparing import make_chunk
from egt.data.source import DataCard, Reading, Source
from egt.errors import EgtError
from egt.paper.benchmarks.molecule_sets import MOLHIV, molhiv_table
from egt.parts.inputs import SvdEncoding

RANK, MAX_HOPS, CHUNK = 8, 16, 64
PREPARATION = Preparation(OGB_SCHEMA, (SvdEncoding(RANK), ShortestPaths(MAX_HOPS)))
STAGES = ("parsing", "features", "graph", "shortest paths", "SVD")
Seconds = list[float]


@dataclass(frozen=True)
class Molecules(Source):
    """SMILES as a source; each graph has one target."""

    texts: list[str]

    @property
    def card(self) -> DataCard:
        """What the molecules are."""
        return replace(MOLHIV, split_sizes={"all": len(self.texts)})

    def fingerprint(self) -> str:
        """Return the same for all: each store of this benchmark has a folder of its own."""
        return "benchmark"

    def records(self, split: str) -> Sequence[int]:
        """Return the number of each molecule."""
        return range(len(self.texts))

    def read(self, record: int) -> Reading:
        """One molecule."""
        return self.read_all([record])[0]

    def read_all(self, records: Sequence[int]) -> list[Reading]:
        """Return the molecules as `MoleculeSource` reads them."""
        names = [str(record) for record in records]
        results = graphs_from_smiles(
            [self.texts[record] for record in records], ids=names, graph_targets=[[0.0]] * len(names)
        )
        readings = []
        for record, name, result in zip(records, names, results, strict=True):
            assert not isinstance(result, EgtError), "only readable molecules are chosen"
            readings.append(Reading(record, name, graph=result[0], warning=result[1]))
        return readings


def ours(chunk: list[str]) -> Any:
    return make_chunk(Molecules(chunk), PREPARATION, range(len(chunk)))


def theirs(chunk: list[str]) -> Any:
    from ogb.utils import smiles2graph

    results = []
    for smiles in chunk:
        graph = smiles2graph(smiles)
        results.append((graph, their_svd(graph), their_distances(graph)))
    return results


def compute_theirs(chunk: list[str]) -> None:
    """Run the other way without handing over what it has computed."""
    theirs(chunk)


def their_svd(graph: dict[str, Any]) -> Any:
    A = np.eye(graph["num_nodes"])
    A[tuple(graph["edge_index"])] = 1.0
    u, s, vt = np.linalg.svd(A)
    scale = np.sqrt(s[:RANK])
    return np.concatenate([u[:, :RANK] * scale, vt[:RANK].T * scale], axis=1).astype(np.float32)


def their_distances(graph: dict[str, Any]) -> Any:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    i, j = graph["edge_index"]
    A = csr_array((np.ones(len(i)), (i, j)), shape=(graph["num_nodes"],) * 2)
    return np.minimum(shortest_path(A, method="FW", unweighted=True), MAX_HOPS + 1).astype(np.uint8)


def timed(function: Callable[..., Any], items: Iterable[Any]) -> tuple[float, list[Any]]:
    """Seconds of processor time, which other programs on the machine do not add to, and the results."""
    start = time.thread_time()
    results = [function(item) for item in items]
    return time.thread_time() - start, results


def stages_of_ours(chunk: list[str]) -> Seconds:
    parsing, [parsed] = timed(parse_smiles, [chunk])
    molecules = [molecule for molecule, _ in parsed]
    forms, binary = timed(binary_form, molecules)
    features, _ = timed(ogb_features, [binary])
    features += forms
    del parsed, molecules
    together, [readings] = timed(Molecules(chunk).read_all, [range(len(chunk))])
    graphs = [reading.graph for reading in readings]
    checking, _ = timed(Preparation(OGB_SCHEMA).each, [graphs])
    paths, _ = timed(ShortestPaths(MAX_HOPS), graphs)
    svd, _ = timed(SvdEncoding(RANK), graphs)
    return [parsing, features, together - parsing - features + checking, paths, svd]


def stages_of_theirs(chunk: list[str]) -> Seconds:
    from ogb.utils import smiles2graph
    from rdkit import Chem

    parsing, _ = timed(Chem.MolFromSmiles, chunk)
    together, graphs = timed(smiles2graph, chunk)
    paths, _ = timed(their_distances, graphs)
    svd, _ = timed(their_svd, graphs)
    return [parsing, together - parsing, 0.0, paths, svd]


def work(chunks: list[list[str]]) -> tuple[list[Seconds], list[Seconds], list[Seconds]]:
    """In a worker, for each chunk: seconds of both ways, then of the stages of each."""
    from rdkit import RDLogger

    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    for way in (ours, theirs):
        way(chunks[0])  # imports and compilation
    pairs, our_stages, their_stages = [], [], []
    for number, chunk in enumerate(chunks):
        ways = (ours, theirs) if number % 2 else (theirs, ours)
        seconds = {way: timed(way, [chunk])[0] for way in ways}
        pairs.append([seconds[ours], seconds[theirs]])
    for chunk in chunks:
        our_stages.append(stages_of_ours(chunk))
        their_stages.append(stages_of_theirs(chunk))
    return pairs, our_stages, their_stages


def pool(num_processes: int) -> Any:
    """Fresh processes, which read the limit of one BLAS thread from the environment."""
    return multiprocessing.get_context("spawn").Pool(num_processes)


def compare_encoding(smiles: Sequence[str], num_processes: int) -> None:
    chunks = [list(smiles[k : k + CHUNK]) for k in range(0, len(smiles) - CHUNK + 1, CHUNK)]
    with pool(num_processes) as workers:
        parts = workers.map(work, [chunks[k::num_processes] for k in range(num_processes)], chunksize=1)
    pairs = np.concatenate([part[0] for part in parts])
    rates = sum(CHUNK / np.median(part[0], axis=0) for part in parts)
    low, ratio, high = np.quantile(pairs[:, 1] / pairs[:, 0], (0.25, 0.5, 0.75))
    print(f"\n{num_processes} process(es), {len(chunks) * CHUNK} molecules: graphs/s")
    print(
        f"  egt {rates[0]:.0f}, ogb + numpy + scipy {rates[1]:.0f}, ratio {ratio:.2f} (quartiles {low:.2f}, {high:.2f})"
    )
    for name, which in (("egt", 1), ("ogb + numpy + scipy", 2)):
        stages = np.median(np.concatenate([part[which] for part in parts]), axis=0) / CHUNK * 1e6
        shares = ", ".join(
            f"{stage} {us:.0f} ({us / stages.sum():.0%})" for stage, us in zip(STAGES, stages, strict=True) if us
        )
        print(f"  {name}, us per graph: {shares}")


def run_command(num_processors: int) -> tuple[float, float]:
    """Graphs per second as `egt data prepare molhiv` reports them, and the seconds of all of it."""
    limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # the command sets its own
    environment = {name: value for name, value in os.environ.items() if name not in limits}
    processors = sorted(os.sched_getaffinity(0))[:num_processors]
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        told = subprocess.run(
            [sys.executable, "-m", "egt", "data", "prepare", "molhiv", "--json"],
            env={**environment, "EGT_CACHE_DIR": cache},
            preexec_fn=lambda: os.sched_setaffinity(0, processors),  # it takes one process per processor
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        seconds = time.perf_counter() - start
    return json.loads(told)["graphs_per_second"], seconds


def compare_command(num_processes: int, rounds: int) -> None:
    smiles = readable_molhiv(None)
    chunks = [smiles[k : k + CHUNK] for k in range(0, len(smiles), CHUNK)]
    print(f"\n`egt data prepare molhiv`, {num_processes} process(es); the other way: {len(smiles)} molecules")
    with pool(num_processes) as workers:
        workers.map(compute_theirs, chunks[: 2 * num_processes], chunksize=1)
        for _ in range(rounds):
            rate, seconds = run_command(num_processes)
            start = time.perf_counter()
            workers.map(compute_theirs, chunks, chunksize=1)
            their_rate = len(smiles) / (time.perf_counter() - start)
            whole = len(smiles) / seconds
            print(
                f"  egt {rate:.0f} graphs/s reported, the other {their_rate:.0f}, ratio {rate / their_rate:.2f}; "
                f"all of the command {seconds:.1f} s: {whole:.0f} graphs/s, ratio {whole / their_rate:.2f}"
            )


def readable_molhiv(num_molecules: int | None) -> list[str]:
    """Molecules of MolHIV at random, all for None, without the few that `smiles2graph` cannot read."""
    data_dir = Path(os.environ.get("EGT_DATA_DIR", "../shared/data"))
    source = molhiv_table(data_dir / "molhiv" / "molhiv.csv.gz")
    table = source.load(*source.files)
    rows = np.random.default_rng(0).permutation(len(table.smiles))[:num_molecules]
    chosen = [reading.row for reading in source.read_all(rows.tolist()) if not reading.warning]
    smiles: list[str] = table.smiles.take(chosen).to_pylist()
    return smiles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", type=int, default=2000)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3, help="of the command; each takes half a minute or more")
    arguments = parser.parse_args()
    if arguments.molecules < CHUNK * max(arguments.processes):
        sys.exit(f"--molecules must be at least {CHUNK} for each process")
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    smiles = readable_molhiv(arguments.molecules)
    for num_processes in arguments.processes:
        compare_encoding(smiles, num_processes)
        compare_command(num_processes, arguments.rounds)


if __name__ == "__main__":
    main()
