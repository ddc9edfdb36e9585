"""The Edge-augmented Graph Transformer, composed of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from egt.batching.batch import GraphBatch
from egt.nn.channels import Channels
from egt.nn.embed import Embed
from egt.nn.head import MLP, PairHead
from egt.nn.readout import Readout


class EGT(nn.Module):
    """head(readout(layers(embed(batch)))).

    Args:
        embed: features and encodings -> channels.
        layers: `EGTLayer`s; the last one may be an `EdgeOnlyLayer`.
        readout: channels -> one row per graph, node or asked pair.
        head: row -> prediction.
        auxiliary: heads of auxiliary objectives on the edge channel, by name.
    """

    def __init__(
        self,
        embed: Embed,
        layers: Sequence[nn.Module],
        readout: Readout,
        head: MLP,
        auxiliary: Mapping[str, PairHead] | None = None,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.readout = readout
        self.head = head
        self.auxiliary = nn.ModuleDict(auxiliary or {})

    def encode(self, batch: GraphBatch) -> Channels:
        """The channels after the last layer."""
        x = self.readout.prepare(self.embed(batch))
        for layer in self.layers:
            x = x.updated(*layer(x.h, x.e, x.scope))
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
