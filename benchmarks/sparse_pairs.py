"""A training step on chosen pairs beside one on all pairs, on graphs of the shape of superpixels.

    python -m benchmarks.sparse_pairs [--preset cifar10-100k] [--graphs 64] [--batch 32] [--repeats 3]

Processor time on one thread: putting graphs together, forward and backward. An epoch is that of as many graphs; "pairs"
are rows of the edge channel, those of virtual nodes included. The forms take turns in one process, least times count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from egt.assemble import build_model, preparation
from egt.batching.batch import collate
from egt.config.load import override
from egt.config.presets import preset
from egt.execution.execution import execution
from egt.graph import Graph
from egt.nn.kernels.allocator import keep_freed_memory
from egt.nn.randomness import graph_keys
from egt.pairs.nearest import Nearest

COMMON = ("task.auxiliary=[]", "model.readout={kind: virtual_nodes, num_virtual: 1}")
FORMS: dict[str, Sequence[str]] = {
    "all pairs": (),
    "edges, expander 10": ("data.layout=edge_list", "model.pairs=[edges, {kind: expander, degree: 10}]"),
    "edges": ("data.layout=edge_list", "model.pairs=[edges]"),
}


def superpixels(rng: np.random.Generator, nodes: int, values: int, k: int = 8) -> Graph:
    """Return random points with the edges to their nearest ones and as many features as the model reads."""
    graph = Graph(num_nodes=nodes, edge_index=np.zeros((2, 0)), node_values=rng.random((nodes, values)))
    (edges,) = Nearest(k=k, columns=(values - 2, values - 1)).choose(graph)
    return replace(graph, edge_index=edges, edge_values=rng.random((edges.shape[1], 1)), edge_categories=None)  # type: ignore[arg-type]


def epoch_of(name: str, settings: Sequence[str], num_graphs: int, size: int) -> Callable[[], tuple[float, int]]:
    """Return a function that takes the training steps of all graphs and returns their seconds and rows of pairs."""
    config = override(preset(name), [*COMMON, *settings])
    rng = np.random.default_rng(0)
    values = max(term.features().get("num_node_values", 0) for term in config.model.node_inputs)
    prepare, how = preparation(config), execution(config)
    samples = [prepare(superpixels(rng, int(n), values)) for n in rng.integers(95, 140, num_graphs)]
    torch.manual_seed(0)
    model = build_model(config, backend=how.backend).train()

    def epoch() -> tuple[float, int]:
        start, pairs = time.process_time(), 0
        for first in range(0, num_graphs, size):
            batch = collate(samples[first : first + size], how.layout)
            batch = replace(batch, random_keys=graph_keys(0, 0, batch.graph_ids))
            model(batch).square().mean().backward()
            model.zero_grad()
            pairs += batch.layout.with_virtual(1)[0].num_pairs
        return time.process_time() - start, pairs

    return epoch


def main() -> None:
    """Measure and print one row for each form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="cifar10-100k")
    parser.add_argument("--graphs", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    epochs = {form: epoch_of(options.preset, given, options.graphs, options.batch) for form, given in FORMS.items()}
    for epoch in epochs.values():
        epoch()
    runs = [[epoch() for epoch in epochs.values()] for _ in range(options.repeats)]
    print(f"{'':20} {'s/epoch':>8} {'faster':>7} {'pairs':>9} {'fewer':>6} {'us/pair':>8}")
    dense: tuple[float, int] | None = None
    for form, measured in zip(epochs, zip(*runs, strict=True), strict=True):
        seconds, pairs = min(measured)
        dense = dense or (seconds, pairs)
        faster, fewer = dense[0] / seconds, dense[1] / pairs
        print(f"{form:20} {seconds:8.2f} {faster:7.2f} {pairs:9,} {fewer:6.2f} {1e6 * seconds / pairs:8.2f}")


if __name__ == "__main__":
    main()
