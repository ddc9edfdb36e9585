"""Reading prepared graphs: the store against PyG's in-memory data set, on ZINC-12K.

    EGT_DATA_DIR=... python -m benchmarks.store

Prints the time per graph of random batches of 128 (the graph with its SVD and distance encodings on both sides), and
the time and memory to open 100,000 molecules. PyG keeps every object it made in the first epoch in memory and copies
it in later ones; the store keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from egt.data.encodings.encoding import Preparation, ShortestPaths
from egt.data.source import DataCard, Reading, Source, TargetSchema
from egt.data.store import Store, prepare, verify
from egt.graph import FeatureSchema, Graph
from egt.parts.inputs import SvdEncoding

BATCH_SIZE = 128
SCHEMA = FeatureSchema(node_categories=(28,), edge_categories=(4,))
PREPARATION = Preparation(SCHEMA, (SvdEncoding(8), ShortestPaths(16)))


@dataclass(frozen=True)
class RepeatedZinc(Source):
    """The 12,000 molecules of ZINC-12K, again and again until there are enough."""

    table: list[dict[str, Any]]
    num_graphs: int

    @property
    def card(self) -> DataCard:
        """What the molecules are."""
        target = TargetSchema("graph", "regression", ("y",))
        return DataCard("zinc", "ZINC-12K, repeated", SCHEMA, target, {"all": self.num_graphs}, (9, 23.2, 37), 49.8)

    def fingerprint(self) -> str:
        """Return a name unique among the stores of this benchmark."""
        return f"benchmark-{self.num_graphs}"

    def records(self, split: str) -> Sequence[int]:
        """Return the number of each molecule."""
        return range(self.num_graphs)

    def read(self, record: int) -> Reading:
        """Return the molecule with both directions of each bond."""
        row = self.table[record % len(self.table)]
        graph = Graph.undirected(
            num_nodes=len(row["atom_type"]),
            edge_index=[row["src"], row["dst"]],
            node_categories=row["atom_type"],
            edge_categories=row["bond_type"],
            graph_targets=[row["y"]],
        )
        return Reading(record, "", graph=graph)


def pyg_dataset(store: Store) -> Any:
    """Return the same graphs and encodings in PyG's in-memory data set."""
    import torch
    from torch_geometric.data import Data, InMemoryDataset

    class Zinc(InMemoryDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            samples = [
                Data(
                    x=torch.tensor(sample.graph.node_categories),
                    edge_index=torch.tensor(sample.graph.edge_index),
                    edge_attr=torch.tensor(sample.graph.edge_categories),
                    y=torch.tensor(sample.graph.graph_targets),
                    svd=torch.tensor(sample.node["svd"]),
                    distance=torch.tensor(sample.pair["distance"]).reshape(-1),
                )
                for sample in store
            ]
            self.data, self.slices = self.collate(samples)

    return Zinc()


def microseconds_per_graph(dataset: Any, batches: NDArray[np.int64]) -> tuple[float, float]:
    """Of the first pass over all batches, and of the best of three more."""
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        for batch in batches:
            _ = [dataset[int(k)] for k in batch]
        seconds.append(time.perf_counter() - start)
    return seconds[0] / batches.size * 1e6, min(seconds[1:]) / batches.size * 1e6


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def open_in_new_process(path: Path) -> dict[str, float]:
    """Seconds and growth of memory (MB) to open a store, then to read one batch, in a process that did nothing else."""
    command = [sys.executable, "-m", "benchmarks.store", "--open", str(path)]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answer


def report_opening(path: Path) -> None:
    before, start = resident_megabytes(), time.perf_counter()
    store = Store(path, PREPARATION)
    seconds, opened = time.perf_counter() - start, resident_megabytes()
    for k in np.random.default_rng(0).integers(0, len(store), BATCH_SIZE):
        store[int(k)]
    read = resident_megabytes()
    numbers = {"graphs": len(store), "seconds": seconds, "opened_mb": opened - before, "batch_mb": read - opened}
    print(json.dumps(numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=100_000, help="how many molecules to open")
    parser.add_argument("--workers", type=int, default=2, help="processes that prepare them")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open is not None:
        report_opening(arguments.open)
        return

    data_dir = Path(os.environ.get("EGT_DATA_DIR", "../shared/data"))
    table = pq.read_table(data_dir / "zinc" / "zinc12k.parquet").to_pylist()
    with tempfile.TemporaryDirectory() as cache:
        zinc = prepare(
            RepeatedZinc(table, len(table)), "all", PREPARATION, cache_dir=cache, num_workers=arguments.workers
        )
        order = np.random.default_rng(0).permutation(len(zinc))
        batches = order[: len(zinc) // BATCH_SIZE * BATCH_SIZE].reshape(-1, BATCH_SIZE)
        print(f"random batches of {BATCH_SIZE}, {len(zinc)} graphs: us per graph in the first and in later epochs")
        for name, dataset in (("egt store", zinc), ("PyG InMemoryDataset", pyg_dataset(zinc))):
            first, later = microseconds_per_graph(dataset, batches)
            print(f"  {name:20} {first:8.1f} {later:8.1f}")

        start = time.perf_counter()
        source = RepeatedZinc(table, arguments.graphs)
        many = prepare(source, "all", PREPARATION, cache_dir=cache, num_workers=arguments.workers)
        seconds = time.perf_counter() - start
        size = sum(file.stat().st_size for file in many.path.iterdir()) / 2**20
        print(
            f"preparing {len(many)} molecules: {seconds:.1f} s with {arguments.workers} processes "
            f"({len(many) / seconds:.0f} graphs/s), {size:.0f} MB on disk"
        )
        numbers = open_in_new_process(many.path)
        print(
            f"opening {numbers['graphs']:.0f} molecules: {numbers['seconds'] * 1e3:.1f} ms, "
            f"{numbers['opened_mb']:+.1f} MB resident; reading a random batch: {numbers['batch_mb']:+.1f} MB"
        )
        start = time.perf_counter()
        verify(many.path)
        print(f"verifying every byte: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
