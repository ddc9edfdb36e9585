"""Backends: the ways to compute the layers of a model.

Each says which runs it can compute, builds the layers with classes of its own, and knows how much memory they take. All
share the names of parameters, and the plain one is the specification: the others must give the same numbers.
"""

from __future__ import annotations

from typing import Protocol

import torch

from egt.assemble import LayerClasses, PlainLayers, build_model
from egt.batching.batch import LayoutName
from egt.config.model import ModelConfig
from egt.config.run import RunConfig
from egt.model import EGT
from egt.nn.kernels.fused import available
from egt.nn.kernels.layers import FusedLayer
from egt.nn.kernels.passes import FusedEdgePass, FusedPairPass
from egt.nn.layer import EGTLayer
from egt.nn.pair_pass import EdgePass, PairPass


class Backend(LayerClasses, Protocol):
    """One way to compute the layers."""

    @property
    def title(self) -> str:
        """What it is, in a few words."""

    def unsupported(self, device: torch.device, dtype: torch.dtype, layout: LayoutName) -> str:
        """Say why a run cannot be computed; "" if it can.

        Args:
            device: where it is to be computed.
            dtype: of the work inside the layers.
            layout: of its batches.
        """

    def bytes_per_pair(self, model: ModelConfig) -> float:
        """Estimate the bytes of a pair that are alive at once at the peak of a layer, without gradients."""

    def bytes_per_node(self, model: ModelConfig) -> float:
        """Estimate the same for a node."""


class Plain(PlainLayers):
    """The plain specification, in PyTorch: every layout, device and precision."""

    title = "plain PyTorch"

    def unsupported(self, device: torch.device, dtype: torch.dtype, layout: LayoutName) -> str:
        """See `Backend.unsupported`."""
        return ""

    def bytes_per_pair(self, model: ModelConfig) -> float:
        """Count three of the edge channel, the hidden rows twice, and four numbers for each head: logit to A_tilde."""
        hidden = round(model.edge_width * model.edge_ffn_multiplier)
        return 4.0 * (3 * model.edge_width + 2 * hidden + 4 * model.num_heads) + _input_bytes(model)

    def bytes_per_node(self, model: ModelConfig) -> float:
        """Count as for the CPU kernel, and the hidden rows twice."""
        return 4.0 * model.node_width * (6 + 2 * model.node_ffn_multiplier)


class CpuKernel:
    """The fused kernel for CPUs (`egt.nn.kernels`): one operator for all pair work of a layer."""

    name = "cpu"
    title = "the CPU kernel"
    layer: type[EGTLayer] = FusedLayer
    pairs: type[PairPass] = FusedPairPass
    edges: type[EdgePass] = FusedEdgePass

    def unsupported(self, device: torch.device, dtype: torch.dtype, layout: LayoutName) -> str:
        """See `Backend.unsupported`."""
        if device.type != "cpu":
            return f"it computes on a CPU, and the device is {device.type}"
        if layout != "packed":
            return f"it computes packed batches, and those of this run are {layout}"
        if dtype != torch.float32:
            return f"it computes in float32, and this run in {str(dtype).removeprefix('torch.')}"
        return "" if available() else "it could not be compiled here"

    def bytes_per_pair(self, model: ModelConfig) -> float:
        """Count e, an input term and their sum; with a single input term only e and its update."""
        return 4.0 * (2 if len(model.pair_inputs) == 1 else 3) * model.edge_width + _input_bytes(model)

    def bytes_per_node(self, model: ModelConfig) -> float:
        """Count the channel, Q|K|V, what the heads gather and the next channel."""
        return 4.0 * 6 * model.node_width


def _input_bytes(model: ModelConfig) -> float:
    """Estimate the bytes of a pair's input values, and of the indices that place virtual nodes."""
    values = max((getattr(term, "num_steps", 1) for term in model.pair_inputs), default=1)
    return 4.0 * (values + (10 if model.readout.added_nodes() else 2))


PLAIN = Plain()
CPU = CpuKernel()
BACKENDS: tuple[Backend, ...] = (CPU, PLAIN)
"""The first one that supports a run computes it."""


def on_backend(model: EGT, config: RunConfig, backend: Backend) -> EGT:
    """Return the model if it is built of this backend's layers, else another one that shares its parameters.

    Args:
        model: of the run.
        config: the run.
        backend: to compute it.
    """
    if model.backend == backend.name:
        return model
    with torch.device("meta"):  # nothing is allocated: the parameters are there already
        layers = build_model(config, backend=backend).layers
    given = model.layers.state_dict(keep_vars=True)
    for name, parameter in layers.named_parameters():
        parameter.requires_grad_(given[name].requires_grad)  # which loading would carry over to the given ones
    layers.load_state_dict(given, assign=True)
    other = EGT(
        model.embed,
        list(layers),
        model.readout,
        model.head,
        run_layer=model.run_layer,
        reads_only_virtual_nodes=model.reads_only_virtual_nodes,
        backend=backend.name,
    )
    other.auxiliary = model.auxiliary
    return other.train(model.training)
