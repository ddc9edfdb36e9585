"""The Edge-augmented Graph Transformer, composed of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from egt.batching.batch import GraphBatch
from egt.nn.channels import Channels
from egt.nn.embed import Embed
from egt.nn.head import MLP, PairHead
from egt.nn.readout import Readout

RunLayer = Callable[[nn.Module, Channels], tuple[Tensor, Tensor]]


def directly(layer: nn.Module, x: Channels) -> tuple[Tensor, Tensor]:
    """Run a layer and keep what its backward pass needs."""
    h, e = layer(x.h, x.e, x.scope)
    return h, e


def recomputed(layer: nn.Module, x: Channels) -> tuple[Tensor, Tensor]:
    """Run a layer and keep only its input: the backward pass runs it again. Less memory, about a third more time.

    Nothing random has to be kept: the counter-based numbers come out the same again.
    """
    h, e = checkpoint(layer, x.h, x.e, x.scope, use_reentrant=False, preserve_rng_state=False)
    return h, e


class EGT(nn.Module):
    """head(readout(layers(embed(batch)))).

    Args:
        embed: features and encodings -> channels.
        layers: `EGTLayer`s; the last one may be an `EdgeOnlyLayer`.
        readout: channels -> one row per graph, node or asked pair.
        head: row -> prediction.
        auxiliary: heads of auxiliary objectives on the edge channel, by name.
        run_layer: `directly`, or `recomputed` to trade time for memory.
    """

    def __init__(
        self,
        embed: Embed,
        layers: Sequence[nn.Module],
        readout: Readout,
        head: MLP,
        auxiliary: Mapping[str, PairHead] | None = None,
        run_layer: RunLayer = directly,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.readout = readout
        self.head = head
        self.auxiliary = nn.ModuleDict(auxiliary or {})
        self.run_layer = run_layer

    def encode(self, batch: GraphBatch) -> Channels:
        """The channels after the last layer."""
        x = self.readout.prepare(self.embed(batch))
        for layer in self.layers:
            x = x.updated(*self.run_layer(layer, x))
        return x

    def read(self, x: Channels) -> Tensor:
        """The prediction from the final channels: (B, outputs), (M, outputs) or (R, outputs)."""
        out: Tensor = self.head(self.readout(x))
        return out

    def forward(self, batch: GraphBatch) -> Tensor:
        """The prediction for each graph, node or asked pair of the batch."""
        return self.read(self.encode(batch))

    def num_parameters(self) -> int:
        """How many numbers are learned (a table's fixed zero row counts, as in the authors' figures)."""
        return sum(parameter.numel() for parameter in self.parameters())
