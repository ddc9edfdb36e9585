"""A training epoch on chosen pairs beside one on all pairs, on graphs of the shape of superpixels.

    python -m benchmarks.sparse_pairs [--preset cifar10-100k-plus] [--graphs 64] [--nodes 95 140] [--repeats 5]

Processor time on one thread of reading (encodings that are not stored, batches), forward, backward and optimizer.
"Pairs" are rows of the edge channel. The forms take turns in one process, and medians count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import collate
from egt.data.encodings.encoding import Preparation
from egt.data.preparing import with_computed
from egt.graph import Graph
from egt.inference.backends import execution
from egt.nn.kernels.binding import keep_freed_memory
from egt.nn.randomness import graph_keys
from egt.paper.presets import preset
from egt.parts.pairs import Nearest
from egt.training.memory import trial_loss
from egt.training.state import AdamW

LIST = ("data.layout=edge_list", "task.auxiliary=[]")
FORMS: dict[str, Sequence[str]] = {
    "all pairs, objective": ("data.layout=auto", "model.pairs=[]"),
    "all pairs": ("data.layout=auto", "model.pairs=[]", "task.auxiliary=[]"),
    "edges, expander 10": (*LIST, "model.pairs=[edges, {kind: expander, degree: 10}]"),
    "edges, expander 6": (*LIST, "model.pairs=[edges, {kind: expander, degree: 6}]"),
    "edges": (*LIST, "model.pairs=[edges]"),
}
"""An objective on all pairs, such as the paper's on distances, also makes the last layer update all of them."""


def superpixels(rng: np.random.Generator, nodes: int, values: int, k: int = 8) -> Graph:
    """Return random points with the edges to their nearest ones and as many features as the model reads."""
    graph = Graph(num_nodes=nodes, edge_index=np.zeros((2, 0)), node_values=rng.random((nodes, values)))
    (edges,) = Nearest(k=k, columns=(values - 2, values - 1)).choose(graph)
    return replace(graph, edge_index=edges, edge_values=rng.random((edges.shape[1], 1)), edge_categories=None)  # type: ignore[arg-type]


def graphs_for(config: RunConfig, count: int, nodes: tuple[int, int]) -> list[Graph]:
    """Return the same graphs for all forms of a preset."""
    rng = np.random.default_rng(0)
    values = max(term.features().get("num_node_values", 0) for term in config.model.node_inputs)
    return [superpixels(rng, int(n), values) for n in rng.integers(*nodes, count)]


def epoch_of(config: RunConfig, graphs: Sequence[Graph]) -> Callable[[], tuple[float, int]]:
    """Return a function that takes the training steps of all graphs and returns their seconds and rows of pairs."""
    prepare, how, size = preparation(config), execution(config), config.data.batch_size
    stored = Preparation(prepare.schema, [encoding for encoding in prepare.encodings if encoding.stored])
    samples = [stored(graph) for graph in graphs]
    torch.manual_seed(0)
    model = build_model(config, backend=how.backend).train()
    optimizer = AdamW(dict(model.named_parameters()), config.optimizer)

    def epoch() -> tuple[float, int]:
        start, pairs = time.process_time(), 0
        for first in range(0, len(samples), size):
            batch = collate([with_computed(sample, prepare) for sample in samples[first : first + size]], how.layout)
            batch = replace(batch, random_keys=graph_keys(0, 0, batch.graph_ids))
            trial_loss(model, config, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            pairs += batch.layout.num_pairs
        return time.process_time() - start, pairs

    return epoch


def main() -> None:
    """Measure and print one row for each form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="cifar10-100k-plus")
    parser.add_argument("--graphs", type=int, default=64)
    parser.add_argument("--nodes", type=int, nargs=2, default=(95, 140), help="fewest, and one more than the most")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--set", nargs="*", default=[], help="settings to change, as path=value")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    chosen = preset(options.preset)
    configs = {form: override(chosen, [*options.set, *given]) for form, given in FORMS.items()}
    if not chosen.task.auxiliary:
        del configs["all pairs, objective"]
    graphs = graphs_for(chosen, options.graphs, tuple(options.nodes))
    epochs = {form: epoch_of(config, graphs) for form, config in configs.items()}
    for epoch in epochs.values():
        epoch()
    runs = [[epoch() for epoch in epochs.values()] for _ in range(options.repeats)]
    print(f"{'':20} {'s/epoch':>8} {'faster':>7} {'pairs':>9} {'fewer':>6} {'us/pair':>8}")  # than the first
    dense: tuple[float, int] | None = None
    for form, measured in zip(epochs, zip(*runs, strict=True), strict=True):
        seconds, pairs = median(taken for taken, _ in measured), measured[0][1]
        dense = dense or (seconds, pairs)
        faster, fewer = dense[0] / seconds, dense[1] / pairs
        print(f"{form:20} {seconds:8.2f} {faster:7.2f} {pairs:9,} {fewer:6.2f} {1e6 * seconds / pairs:8.2f}")


if __name__ == "__main__":
    main()
