"""Whole training steps as a user runs them, against the layer stack alone; and how the cost grows with size.

    python -m benchmarks.train [--json] [--steps 40] [--threads 2]

A step comes from the store through the loader, the model, its heads and the optimizer, driven by `egt.training.loop`.
The layer stack alone is measured on the same batches. ZINC-12K is read from EGT_DATA_DIR, PATTERN is generated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import collate
from egt.data.batching.layout import Packed
from egt.data.batching.loader import Sampling
from egt.data.benchmark import open_benchmark
from egt.data.encodings.encoding import Sample
from egt.data.store import prepare
from egt.graph import Graph
from egt.inference.backends import CPU
from egt.nn.channels import AttentionContext
from egt.nn.layer import EGTLayer
from egt.paper.presets import preset
from egt.training.run import train_on


def whole_steps(config: RunConfig, samples: Sequence[Sample]) -> float:
    """Seconds of a training step in the loop, over an epoch of the samples."""
    with tempfile.TemporaryDirectory() as folder:
        result = train_on(config, samples, None, folder=Path(folder), show_progress=False)
    return result.history[-1]["seconds"] / result.history[-1]["step"]


def layer_steps(config: RunConfig, samples: Sequence[Sample]) -> float:
    """Seconds of the layers alone, forward and backward, on the same batches."""
    model = build_model(config, backend=CPU).train()
    sizes = np.array([sample.graph.num_nodes for sample in samples])
    total, steps = 0.0, Sampling(sizes, config.data.batch_size, config.seed).epoch(0)
    for plan in steps:
        for group in plan:
            x = model.readout.prepare(model.embed(collate([samples[k] for k in group])))
            h, e = x.h.detach().requires_grad_(), x.e.detach().requires_grad_()
            gradients = [torch.randn_like(h), torch.randn_like(e)]
            start = time.perf_counter()
            *first, last = model.layers
            for layer in first:
                h, e = layer(h, e, x.context)
            h, e = last(h, e, replace(x.context, only_virtual_rows=model.reads_only_virtual_nodes))
            torch.autograd.backward([h, e], gradients)
            total += time.perf_counter() - start
    return total / len(steps)


def compare(name: str, samples: Sequence[Sample]) -> dict[str, float]:
    """One data set: the ratio of whole steps to the layer stack."""
    config = override(preset(name), ["trainer.max_epochs=1", "schedule={kind: constant}", "trainer.select=last"])
    whole, layers = whole_steps(config, samples), layer_steps(config, samples)
    whole = min(whole, whole_steps(config, samples))
    layers = min(layers, layer_steps(config, samples))
    return {"step_ms": 1e3 * whole, "layers_ms": 1e3 * layers, "ratio": whole / layers}


def dense_growth() -> dict[int, float]:
    """Nanoseconds per pair of one training step of a TSP layer, for one graph of N nodes."""
    found = {}
    for size in (25, 50, 100, 200, 400, 700, 1000):
        layer = build_model(preset("tsp-100k"), backend=CPU).layers[0]
        copies = max(1, 200_000 // size**2)
        context = AttentionContext(Packed([size] * copies))
        times = []
        for _ in range(4):
            h = torch.randn(size * copies, 64, requires_grad=True)
            e = torch.randn(size * size * copies, 8, requires_grad=True)
            start = time.perf_counter()
            new_h, new_e = layer(h, e, context)
            (new_h.sum() + new_e.sum()).backward()
            times.append(time.perf_counter() - start)
        found[size] = 1e9 * min(times) / (size * size * copies)
    return found


def sparse_growth() -> dict[int, float]:
    """Nanoseconds per edge of one training step of an EGT-Constrained layer on the edge list, for one graph."""
    layer: EGTLayer = EGTLayer(64, 8, 8)
    found = {}
    for num_edges in (10_000, 100_000, 1_000_000):
        rng = np.random.default_rng(0)
        n = num_edges // 10
        codes = np.unique(rng.integers(0, n * n, num_edges))
        graph = Graph(num_nodes=n, edge_index=np.stack([codes // n, codes % n]))
        layout = collate([Sample(graph)], "edge_list").layout
        times = []
        for _ in range(2 + 200_000 // num_edges):  # the first steps of a process are slow
            h = torch.randn(n, 64, requires_grad=True)
            e = torch.randn(layout.num_pairs, 8, requires_grad=True)
            start = time.perf_counter()
            new_h, new_e = layer(h, e, AttentionContext(layout))
            (new_h.sum() + new_e.sum()).backward()
            times.append(time.perf_counter() - start)
        found[num_edges] = 1e9 * min(times) / layout.num_pairs
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--steps", type=int, default=40, help="steps of each run")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, Any] = {}
    for name, source in (("zinc-100k", open_benchmark("zinc")), ("pattern-100k", _few_patterns(16 * options.steps))):
        config = preset(name)
        store = prepare(source, "train", preparation(config))
        count = 128 * options.steps if name.startswith("zinc") else 16 * options.steps
        samples = [store[k] for k in range(min(count, len(store)))]
        results[name] = compare(name, samples)
    results["dense_ns_per_pair"] = dense_growth()
    results["sparse_ns_per_edge"] = sparse_growth()
    if options.json:
        print(json.dumps(results))
    else:
        for name, found in results.items():
            print(name, {key: round(value, 2) for key, value in found.items()})


def _few_patterns(count: int) -> Any:
    return open_benchmark("pattern", options={"split_sizes": {"train": count, "val": 1, "test": 1}})


if __name__ == "__main__":
    main()
