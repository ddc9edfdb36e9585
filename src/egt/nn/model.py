"""The Edge-augmented Graph Transformer, composed of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from egt.data.batching.batch import GraphBatch
from egt.data.encodings.encoding import Sample
from egt.nn.channels import Channels
from egt.nn.layer import EdgeOnlyLayer, EGTLayer
from egt.nn.readout import MLP, PairHead, Readout, VirtualNodeReadout
from egt.nn.terms import Embed

RunLayer = Callable[[nn.Module, Channels], tuple[Tensor, Tensor]]


def directly(layer: nn.Module, x: Channels) -> tuple[Tensor, Tensor]:
    """Run a layer and keep what its backward pass needs."""
    h, e = layer(x.h, x.e, x.context)
    return h, e


def recomputed(layer: nn.Module, x: Channels) -> tuple[Tensor, Tensor]:
    """Run a layer and keep only its input: the backward pass runs it again. Less memory, about a third more time.

    Counter-based random numbers come out the same again, so no state of a generator has to be kept.
    """
    h, e = checkpoint(layer, x.h, x.e, x.context, use_reentrant=False, preserve_rng_state=False)
    return h, e


@runtime_checkable
class Fitted(Protocol):
    """A module that keeps facts about the training graphs in buffers, so that they go wherever the weights go."""

    def fit(self, samples: Sequence[Sample]) -> None:
        """Take the facts from training graphs."""


class EGT(nn.Module):
    """head(readout(layers(embed(batch)))).

    Args:
        embed: features and encodings -> channels.
        layers: `EGTLayer`s; the last one may be an `EdgeOnlyLayer`.
        readout: channels -> one row per graph, node or query pair.
        head: row -> prediction.
        auxiliary: heads of auxiliary objectives on the edge channel, by name.
        run_layer: `directly`, or `recomputed` to trade time for memory.
        reads_only_virtual_nodes: whether the readout reads no other rows of the final channels.
        backend: the name of the backend whose layers they are.
    """

    def __init__(
        self,
        embed: Embed,
        layers: Sequence[nn.Module],
        readout: Readout,
        head: MLP,
        auxiliary: Mapping[str, PairHead] | None = None,
        *,
        run_layer: RunLayer = directly,
        reads_only_virtual_nodes: bool = False,
        backend: str = "plain",
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.readout = readout
        self.head = head
        self.auxiliary = nn.ModuleDict(auxiliary or {})
        self.run_layer = run_layer
        self.reads_only_virtual_nodes = reads_only_virtual_nodes
        self.backend = backend

    def encode(self, batch: GraphBatch, num_layers: int | None = None) -> Channels:
        """Return the channels after all layers, or the first few: all rows, the same on every backend and layout."""
        x = self.readout.prepare(self.embed(batch))
        for layer in list(self.layers)[:num_layers]:
            x = x.updated(*self.run_layer(layer, x))
        return x

    def read(self, x: Channels) -> Tensor:
        """Return the prediction from the final channels: (B, outputs), (M, outputs) or (R, outputs)."""
        return self.head(self.readout(x))

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return the prediction for each graph, node or query pair of the batch.

        Where only virtual nodes are read, a backend may skip most of the work of the last layer.
        """
        x = self.encode(batch, len(self.layers) - 1)
        if self.reads_only_virtual_nodes:
            x = replace(x, context=replace(x.context, only_virtual_rows=True))
        return self.read(x.updated(*self.run_layer(self.layers[-1], x)))

    def stages(self) -> dict[str, list[nn.Parameter]]:
        """Return all parameters by stage, in the order of computation.

        "embeddings" (with the virtual nodes), "layer 0" to "layer L-1", "readout", "head" and, beside the head, each
        auxiliary objective by its name. Fine-tuning freezes the first stages and starts the last ones afresh.
        """
        embedded = self.readout.embeddings()
        first = {id(parameter) for parameter in embedded}
        layers = {f"layer {k}": list(layer.parameters()) for k, layer in enumerate(self.layers)}
        return {
            "embeddings": [*self.embed.parameters(), *embedded],
            **layers,
            "readout": [parameter for parameter in self.readout.parameters() if id(parameter) not in first],
            "head": list(self.head.parameters()),
            **{name: list(head.parameters()) for name, head in self.auxiliary.items()},
        }

    def edge_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the edge channel: its terms, passes, triplets, virtual edges, auxiliary heads."""
        layers = [layer for layer in self.layers if isinstance(layer, EGTLayer | EdgeOnlyLayer)]
        passes = [part for layer in layers for part in (layer.pairs, layer.triplets) if part is not None]
        parts = [self.embed.pair_terms, *passes, self.auxiliary]
        virtual = [self.readout.edges] if isinstance(self.readout, VirtualNodeReadout) else []
        return [parameter for part in parts for parameter in part.parameters()] + virtual

    def fit(self, samples: Sequence[Sample]) -> None:
        """Fit those parts that need facts about the training graphs; called once, before training."""
        for module in self.modules():
            if module is not self and isinstance(module, Fitted):
                module.fit(samples)

    def num_parameters(self) -> int:
        """Count the numbers that are learned (a table's fixed zero row counts, as in the authors' figures)."""
        return sum(parameter.numel() for parameter in self.parameters())


def initialize_like_keras(model: nn.Module) -> None:
    """Start all linear maps, tables and virtual nodes the way Keras does; rows fixed at zero stay so.

    DISCREPANCY: the paper does not say. The PyTorch code keeps torch's defaults (nothing to do here); the TensorFlow
    code has Keras' defaults: Glorot uniform kernels, zero biases, tables and virtual nodes uniform in [-0.05, 0.05].
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.05, 0.05)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight.data[module.padding_idx])
        elif isinstance(module, VirtualNodeReadout):
            nn.init.uniform_(module.nodes, -0.05, 0.05)
            nn.init.uniform_(module.edges, -0.05, 0.05)
