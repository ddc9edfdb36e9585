"""The layer stack, three ways side by side: plain padded on random batches, packed PyTorch, and the fused kernel.

    python -m benchmarks.layers [--json] [--shapes a b c d e] [--threads 2] [--repeats 5] [--allocator kept|default]

Times are the least of several runs, interleaved in one process with the same allocator settings; memory is the growth
of the peak resident size over one training step, each in a process of its own. The floor is the time of the matrix
products alone. Ratios compare the fused kernel with plain padded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.config.load import override
from egt.data.batching.layout import Packed, Padded
from egt.inference.backends import CPU, PLAIN
from egt.nn.channels import AttentionContext, Channels
from egt.nn.kernels.binding import keep_freed_memory
from egt.paper.presets import preset

WAYS = ("padded", "packed", "fused")


@dataclass(frozen=True)
class RawGraph:
    """A preset's layers on a batch of graphs of its data set's sizes."""

    preset: str
    batch: int
    sizes: Callable[[np.random.Generator, int], Any]
    num_virtual: int = 0


def _normal(mean: float, spread: float, low: int, high: int) -> Callable[[np.random.Generator, int], Any]:
    return lambda rng, count: np.clip(rng.normal(mean, spread, count).round(), low, high).astype(int)


SHAPES = {
    "a": RawGraph("zinc-500k", 128, _normal(23.2, 4.5, 9, 37)),
    "b": RawGraph("zinc-100k", 128, _normal(23.2, 4.5, 9, 37)),
    "c": RawGraph("pattern-500k", 32, _normal(119, 26, 44, 188)),
    "d": RawGraph("pcqm4mv2-small", 64, _normal(14.1, 2.5, 1, 20), num_virtual=4),
    "e": RawGraph("tsp-100k", 8, lambda rng, count: rng.integers(50, 501, count)),
}


class Stack:
    """The layers of a shape in one of the three ways, on random channels."""

    def __init__(self, shape: RawGraph, way: str) -> None:
        config = override(preset(shape.preset), ["model.masking.probability=0", "model.attention_dropout=0"])
        torch.manual_seed(0)
        self.layers = build_model(config, backend=CPU if way == "fused" else PLAIN).layers
        rng = np.random.default_rng(0)
        sizes = [int(size) + shape.num_virtual for size in shape.sizes(rng, shape.batch)]
        d_h, d_e = config.model.node_width, config.model.edge_width
        if way == "padded":
            width = max(sizes)
            layout = Padded(torch.tensor(sizes), width, shape.num_virtual)
            self.context = AttentionContext(layout, layout.real_pairs.unsqueeze(-1))
            self.h, self.e = torch.randn(len(sizes), width, d_h), torch.randn(len(sizes), width, width, d_e)
        else:
            packed = Packed(sorted(sizes), shape.num_virtual)
            self.context = AttentionContext(packed)
            self.h, self.e = torch.randn(packed.num_nodes, d_h), torch.randn(packed.num_pairs, d_e)
        self.d_h, self.d_e = torch.randn_like(self.h), torch.randn_like(self.e)

    def forward(self) -> tuple[Tensor, Tensor]:
        none = torch.empty(0)
        x = Channels(self.h.requires_grad_(), self.e.requires_grad_(), self.context, queries=none, edges=none)
        *first, last = self.layers
        for layer in first:
            x = x.updated(*layer(x.h, x.e, x.context))
        context = replace(x.context, only_virtual_rows=x.context.layout.num_virtual > 0)  # as the models read them
        x = x.updated(*last(x.h, x.e, context))
        return x.h, x.e

    def infer(self) -> None:
        with torch.inference_mode():
            self.forward()

    def train(self) -> None:
        outputs = [x for x in self.forward() if x.requires_grad and x.grad_fn is not None]
        torch.autograd.backward(outputs, [self.d_h, self.d_e][: len(outputs)])
        self.h.grad = self.e.grad = None
        self.layers.zero_grad()


def floor(shape: RawGraph) -> float:
    """Seconds of the matrix products of one forward pass."""
    model = preset(shape.preset).model
    sizes = [int(size) + shape.num_virtual for size in shape.sizes(np.random.default_rng(0), shape.batch)]
    nodes, pairs = sum(sizes), sum(size * size for size in sizes)
    d_h, d_e, heads = model.node_width, model.edge_width, model.num_heads
    m_h, m_e = round(d_h * model.node_ffn_multiplier), round(d_e * model.edge_ffn_multiplier)
    maps = [(nodes, d_h, 3 * d_h), (nodes, d_h, d_h), (nodes, d_h, m_h), (nodes, m_h, d_h)]
    maps += [(pairs, d_e, 2 * heads), (pairs, heads, d_e), (pairs, d_e, m_e), (pairs, m_e, d_e)]
    operands = [(torch.randn(rows, inner), torch.randn(inner, outer)) for rows, inner, outer in maps]
    attention = [(torch.randn(heads, n, d_h // heads), torch.randn(heads, d_h // heads, n)) for n in sizes]

    def products() -> None:
        for left, right in operands:
            left @ right
        for left, right in attention:
            (left @ right) @ left

    return model.num_layers * min(clock(products) for _ in range(3))


def clock(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_memory(shape: str, way: str, threads: int) -> float:
    """Bytes by which the peak resident size grows over a training step, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.layers", "--memory", shape, way, "--threads", str(threads)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def grow(shape: str, way: str) -> int:
    stack = Stack(SHAPES[shape], way)
    small = Stack(RawGraph(SHAPES[shape].preset, 1, lambda rng, count: np.array([4])), way)
    small.train()  # loads the kernel and the libraries
    Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
    before = resident("VmRSS")
    stack.train()
    return resident("VmHWM") - before


def resident(which: str) -> int:
    """Bytes resident now (VmRSS) or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))


def measure(shape: str, repeats: int, threads: int) -> dict[str, Any]:
    """Measure times, memory and ratios of one shape."""
    stacks = {way: Stack(SHAPES[shape], way) for way in WAYS}
    times: dict[str, dict[str, list[float]]] = {mode: {way: [] for way in WAYS} for mode in ("infer", "train")}
    for _ in range(repeats + 1):
        for way, stack in stacks.items():
            # Training first: what a layout keeps must not come from inference mode.
            times["train"][way].append(clock(stack.train))
            times["infer"][way].append(clock(stack.infer))
    best = {mode: {way: min(found[1:]) for way, found in ways.items()} for mode, ways in times.items()}
    memory = {way: measure_memory(shape, way, threads) for way in WAYS}
    lowest = floor(SHAPES[shape])
    return {
        "preset": SHAPES[shape].preset,
        "infer_ms": {way: 1e3 * t for way, t in best["infer"].items()},
        "train_ms": {way: 1e3 * t for way, t in best["train"].items()},
        "memory_mb": {way: m / 2**20 for way, m in memory.items()},
        "floor_ms": {"infer": 1e3 * lowest, "train": 3e3 * lowest},
        "train_ratio": best["train"]["padded"] / best["train"]["fused"],
        "infer_ratio": best["infer"]["padded"] / best["infer"]["fused"],
        "memory_ratio": memory["padded"] / memory["fused"],
        "packed_train_ratio": best["train"]["padded"] / best["train"]["packed"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--allocator", choices=("kept", "default"), default="kept", help="as `egt train`, or glibc's")
    parser.add_argument("--memory", nargs=2, metavar=("SHAPE", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.allocator == "kept":
        keep_freed_memory()
    if options.memory:
        print(grow(*options.memory))
        return
    results = {}
    for shape in options.shapes:
        results[shape] = found = measure(shape, options.repeats, options.threads)
        if not options.json:
            print(f"{shape}  {found['preset']}")
            for mode in ("infer_ms", "train_ms", "memory_mb"):
                print(f"   {mode:10}" + "".join(f"  {way} {value:8.0f}" for way, value in found[mode].items()))
            print(f"   floor ms    infer {found['floor_ms']['infer']:.0f}, train {found['floor_ms']['train']:.0f}")
            ratios = ("train_ratio", "infer_ratio", "memory_ratio", "packed_train_ratio")
            print("   " + ", ".join(f"{name} {found[name]:.1f}x" for name in ratios), flush=True)
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
