"""What each part of EGT+ inside the layer costs in the CPU kernel: a training step of a layer stack, parts on and off.

    python -m benchmarks.plus_layer [--preset zinc-100k] [--batch 32] [--nodes 15 31] [--repeats 12]

Processor time on one thread, forward and backward, of all layers except the last (whose edges nobody reads). The forms
take turns in one process; ratios compare medians, and least times, with the paper's layer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.data.batching.layout import Packed
from egt.inference.backends import CPU
from egt.nn.channels import AttentionContext
from egt.nn.randomness import graph_keys
from egt.paper.presets import preset

SWAP = ("model.edge_values=sliced", "model.edges.kind=outer_sum", "model.edge_ffn_multiplier=1")
FORMS: dict[str, Sequence[str]] = {
    "as in the paper": (),
    "degree scaling": ("model.node_scaling=degree",),
    "key dropout 0.1": ("model.key_dropout=0.1",),
    "drop-path 0.1": ("model.drop_path=0.1",),
    "edge values, sliced": ("model.edge_values=sliced",),
    "edge values, full": ("model.edge_values=full",),
    "outer sum": ("model.edges.kind=outer_sum",),
    "sliced, outer sum, FFN x1": SWAP,
    "triplets": ("model.triplets=aggregation",),
}


def step_of(name: str, settings: Sequence[str], sizes: Sequence[int]) -> Callable[[], float]:
    """Return a function that runs a training step and returns its seconds of processor time."""
    config = override(preset(name), ["task.auxiliary=[]", "model.masking.probability=0", *settings])
    torch.manual_seed(0)
    layers = build_model(config, backend=CPU).train().layers[:-1]
    layout = Packed(sorted(sizes))
    h = torch.randn(layout.num_nodes, config.model.node_width, requires_grad=True)
    e = torch.randn(layout.num_pairs, config.model.edge_width, requires_grad=True)
    keys, degree = graph_keys(0, 0, torch.arange(len(sizes))), torch.full((layout.num_nodes, 1), 2.0)
    context = AttentionContext(layout, None, keys, degree)

    def step() -> float:
        start, x = time.process_time(), (h, e)
        for layer in layers:
            x = layer(*x, context)
        (x[0].sum() + x[1].sum()).backward()
        return time.process_time() - start

    return step


def main() -> None:
    """Measure and print one row for each form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="zinc-100k")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--nodes", type=int, nargs=2, default=(15, 31))
    parser.add_argument("--repeats", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    low, high = options.nodes
    sizes = np.random.default_rng(0).integers(low, high + 1, options.batch).tolist()
    steps = {form: step_of(options.preset, settings, sizes) for form, settings in FORMS.items()}
    for step in steps.values():
        step()
    seconds = np.array([[step() for step in steps.values()] for _ in range(options.repeats)])
    median, least = np.median(seconds, axis=0), seconds.min(axis=0)
    print(f"{'':26} {'ms':>6} {'median':>7} {'least':>6}")
    for k, form in enumerate(steps):
        print(f"{form:26} {1e3 * median[k]:6.1f} {median[k] / median[0]:7.2f} {least[k] / least[0]:6.2f}")


if __name__ == "__main__":
    main()
