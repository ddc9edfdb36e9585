"""How many pair cells of a padded batch are padding: random batches against ours.

    python -m benchmarks.padding [--batch 128]

ZINC-12K is read from EGT_DATA_DIR; PATTERN is generated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Literal

import numpy as np

from egt.data.batching.loader import IntArray, Sampling, permutation
from egt.data.benchmark import open_benchmark


def graph_sizes(name: str, count: int) -> IntArray:
    source = open_benchmark(name)
    readings = (source.read(record) for record in source.records("train")[:count])
    return np.array([reading.graph.num_nodes for reading in readings if reading.graph is not None])


def padded_share(groups: Iterable[IntArray]) -> float:
    """Return the share of pair cells that is padding when each group is padded to its largest graph.

    groups: the sizes of the graphs of each group.
    """
    real = cells = 0
    for sizes in groups:
        real += int((sizes**2).sum())
        cells += len(sizes) * int(sizes.max()) ** 2
    return 1 - real / cells


def share(sizes: IntArray, batch: int, mode: Literal["exact", "buckets"]) -> float:
    epoch = Sampling(sizes, batch, mode=mode, layout="padded").epoch(0)
    return padded_share(sizes[group] for step in epoch for group in step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128)
    batch = parser.parse_args().batch
    for name, count in (("zinc", 10_000), ("pattern", 2_000)):
        sizes = graph_sizes(name, count)
        order = permutation(len(sizes), 0)
        random = padded_share(sizes[order[k : k + batch]] for k in range(0, len(order), batch))
        ours = {mode: share(sizes, batch, mode) for mode in ("exact", "buckets")}
        print(f"{name:8} random {random:.1%}, " + ", ".join(f"{mode} {value:.1%}" for mode, value in ours.items()))


if __name__ == "__main__":
    main()
