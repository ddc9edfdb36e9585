"""Small random graphs of every kind the library promises to handle, and tiny models to read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import LayoutName
from egt.data.encodings.encoding import Sample
from egt.graph import Graph
from egt.inference.backends import BACKENDS, PLAIN, Backend
from egt.nn.kernels.operators import available
from egt.nn.model import EGT
from egt.paper.presets import preset

KINDS = ("plain", "one_node", "no_edges", "self_loops", "directed", "weighted", "disconnected", "large")


def random_graph(
    rng: np.random.Generator, kind: str = "plain", *, sizes: tuple[int, ...] = (5,), bonds: tuple[int, ...] = (3,)
) -> Graph:
    """A graph with categorical and continuous features on nodes and edges."""
    n = {"one_node": 1, "large": int(rng.integers(15, 24))}.get(kind, int(rng.integers(2, 9)))
    matrix = rng.random((n, n)) < 0.4
    if kind == "no_edges":
        matrix[:] = False
    if kind == "disconnected":
        matrix[: n // 2, n // 2 :] = matrix[n // 2 :, : n // 2] = False
    if kind != "directed":
        matrix = np.triu(matrix) | np.triu(matrix).T
    if kind != "self_loops":
        np.fill_diagonal(matrix, False)
    elif n:
        np.fill_diagonal(matrix, True)
    edges = np.argwhere(matrix).T
    num_edges = edges.shape[1]
    return Graph(
        num_nodes=n,
        edge_index=edges,
        node_categories=np.stack([rng.integers(0, size, n) for size in sizes], 1),
        node_values=rng.normal(size=(n, 2)),
        edge_categories=np.stack([rng.integers(0, size, num_edges) for size in bonds], 1),
        edge_values=rng.normal(size=(num_edges, 1)),
        edge_weight=rng.random(num_edges).astype(np.float32) + 0.1 if kind == "weighted" else None,
        id=kind,
    )


def tiny_config(**model: Any) -> RunConfig:
    """A small EGT that reads what `random_graph` makes; `model` replaces its settings."""
    base = override(
        preset("zinc-100k"),
        ["model.num_layers=2", "model.node_width=16", "model.edge_width=6", "model.num_heads=4", "task.auxiliary=[]"],
    )
    content = base.model_dump(mode="json")
    content["model"] |= {
        "node_inputs": [
            {"kind": "node_categories", "sizes": [5]},
            {"kind": "node_values", "num_values": 2},
            {"kind": "svd", "rank": 4},
        ],
        "pair_inputs": [
            {"kind": "distance", "max_hops": 4},
            {"kind": "edge_categories", "sizes": [3], "absent": "learned"},
            {"kind": "edge_values", "num_values": 1, "absent": "zero"},
        ],
        "norm_eps": 1e-5,
        "masking": {"probability": 0.0},
        "initialization": "torch",
    } | model
    return RunConfig.model_validate(content)


def lively(model: EGT, seed: int = 0) -> EGT:
    """Parameters spread so that every term matters: norms off 1 and 0, and queries large enough for the clip to act."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            if "norm" in name or "scaling" in name:
                parameter.add_(0.3 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif "qk" in name:
                parameter.mul_(4.0)
    return model


WAYS: tuple[tuple[str, LayoutName], ...] = (("cpu", "packed"), ("plain", "packed"), ("plain", "padded"))
"""The backends, each with the layouts that it computes."""


def backend_named(name: str) -> Backend:
    """A backend that can be used here; skips the test where the kernel cannot be compiled."""
    if name == "cpu" and not available():
        pytest.skip("no C++ compiler: no CPU kernel")
    return {backend.name: backend for backend in BACKENDS}[name]


def fastest(layout: LayoutName) -> Backend:
    """The backend that computes a layout here."""
    dtype, device = torch.float32, torch.device("cpu")
    return next(backend for backend in BACKENDS if not backend.unsupported(device, dtype, layout))


def tiny_model(config: RunConfig, seed: int = 0, backend: Backend = PLAIN) -> EGT:
    """The model of a configuration, lively, in evaluation mode."""
    torch.manual_seed(seed)
    return lively(build_model(config, backend=backend), seed).eval()


def samples_of(config: RunConfig, graphs: list[Graph]) -> list[Sample]:
    """The graphs prepared for a configuration."""
    prepare = preparation(config)
    return [prepare(graph) for graph in graphs]


def graphs_of_every_kind(seed: int, num_rounds: int = 1) -> list[Graph]:
    """One graph of each kind per round."""
    rng = np.random.default_rng(seed)
    return [random_graph(rng, kind) for _ in range(num_rounds) for kind in KINDS]
