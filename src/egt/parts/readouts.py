"""Readouts: their level, the width of a row, and what of the last layer they read. The math is in `egt.nn.readout`.

The slot of layers that stand in for those of EGT is here too, as what a readout reads of the last layer concerns both;
and triplets, which stand in front of each layer of EGT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

import egt.nn as nn
from egt.graph import Level
from egt.registry import Part, Registry, register

if TYPE_CHECKING:
    from torch.nn import Module

    from egt.config.run import ModelConfig, RunConfig
    from egt.nn.randomness import Dropout
    from egt.nn.readout import Readout


Reads = Literal["nodes", "virtual_nodes", "pairs", "both"]
"""The rows that the readout takes from the last layer; "both" are nodes and pairs."""


class ReadoutPart(Part):
    """One row per graph, node or query pair from the final channels."""

    registry: ClassVar[Registry[type[ReadoutPart]]] = Registry("readout", __name__)
    level: ClassVar[Level]

    def added_nodes(self) -> int:
        """Return how many nodes the readout puts in front of each graph."""
        return 0

    def reads(self, model: ModelConfig) -> Reads:
        """Return what is read of the last layer; the rest is not computed there."""
        return "nodes"

    def width(self, model: ModelConfig) -> int:
        """Return the width of a row that it gives."""
        return model.node_width

    def module(self, model: ModelConfig) -> Readout:
        """Return the learned half."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it reads (method `module`)")


@register
class MeanPool(ReadoutPart):
    """One output per graph, from the mean of its nodes."""

    kind: Literal["mean"] = "mean"
    level: ClassVar[Level] = "graph"

    def module(self, model: ModelConfig) -> Readout:
        return nn.readout.MeanReadout(model.norm(model.node_width))


@register
class SumPool(ReadoutPart):
    """One output per graph, from the sum of its nodes."""

    kind: Literal["sum"] = "sum"
    level: ClassVar[Level] = "graph"

    def module(self, model: ModelConfig) -> Readout:
        return nn.readout.SumReadout(model.norm(model.node_width))


@register
class ScaledSumPool(ReadoutPart):
    """One output per graph, from the sum of its nodes over the mean size of the training graphs."""

    kind: Literal["scaled_sum"] = "scaled_sum"
    level: ClassVar[Level] = "graph"

    def module(self, model: ModelConfig) -> Readout:
        return nn.readout.ScaledSumReadout(model.norm(model.node_width))


@register
class AttentionPool(ReadoutPart):
    """One output per graph, from the nodes that learned queries attend, one for each head."""

    kind: Literal["attention"] = "attention"
    level: ClassVar[Level] = "graph"

    def module(self, model: ModelConfig) -> Readout:
        return nn.readout.AttentionReadout(model.num_heads, model.node_width, model.norm(model.node_width))


@register
class VirtualNodes(ReadoutPart):
    """One output per graph, from `num_virtual` learned nodes that join every graph.

    `attend_padding` repeats the authors' PyTorch code (padded layout).
    """

    kind: Literal["virtual_nodes"] = "virtual_nodes"
    level: ClassVar[Level] = "graph"
    num_virtual: PositiveInt = 4
    attend_padding: bool = False

    def check(self, run: RunConfig) -> None:
        if self.attend_padding and run.data.layout != "padded":
            raise ValueError("readout.attend_padding exists only on the padded layout; set data.layout to padded")

    def added_nodes(self) -> int:
        return self.num_virtual

    def reads(self, model: ModelConfig) -> Reads:
        return "virtual_nodes"

    def width(self, model: ModelConfig) -> int:
        return self.num_virtual * model.node_width

    def module(self, model: ModelConfig) -> Readout:
        readout = nn.readout.PaddingVirtualNodeReadout if self.attend_padding else nn.readout.VirtualNodeReadout
        return readout(self.num_virtual, model.node_width, model.edge_width, model.norm(model.node_width))


@register
class PerNode(ReadoutPart):
    """One output per node."""

    kind: Literal["node"] = "node"
    level: ClassVar[Level] = "node"

    def module(self, model: ModelConfig) -> Readout:
        return nn.readout.NodeReadout(model.norm(model.node_width))


@register
class Propagated(ReadoutPart):
    """One output per node, read after `steps` steps of a walk along the edges that returns with probability `restart`.

    For one graph with few labels whose neighbors are mostly alike: each label then teaches a neighborhood.
    `dropout` acts on what is spread.
    """

    kind: Literal["propagated"] = "propagated"
    steps: PositiveInt = 10
    restart: Annotated[float, Field(gt=0, le=1)] = 0.1
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    level: ClassVar[Level] = "node"

    def module(self, model: ModelConfig) -> Readout:
        return nn.readout.PropagatedReadout(model.norm(model.node_width), self.steps, self.restart, self.dropout)


@register
class PerEdge(ReadoutPart):
    """One output per edge, or per query pair.

    The edge channel is read; EGT-Simple has none to read, and takes both nodes and the edge embedding. A `symmetric`
    answer is the same in both directions, since the mean of both is read.
    """

    kind: Literal["edge"] = "edge"
    level: ClassVar[Level] = "edge"
    symmetric: bool = False

    def check(self, run: RunConfig) -> None:
        if self.symmetric and (run.data.layout == "edge_list" or not run.model.updates_edges):
            raise ValueError(
                "readout.symmetric reads the edge channel of all pairs: data.layout edge_list and model.edges frozen "
                "have none; set it to false"
            )

    def reads(self, model: ModelConfig) -> Reads:
        return "pairs" if model.updates_edges else "nodes"

    def width(self, model: ModelConfig) -> int:
        return model.edge_width if model.updates_edges else 2 * model.node_width + model.edge_width

    def module(self, model: ModelConfig) -> Readout:
        if model.updates_edges:
            return nn.readout.EdgeReadout(model.norm(model.edge_width), symmetric=self.symmetric)
        return nn.readout.EdgeOfNodesReadout(model.norm(model.node_width))


@register
class Hidden(ReadoutPart):
    """The nodes and the query pairs, for the task `pretrain`; `num_virtual` nodes take part without being read."""

    kind: Literal["hidden"] = "hidden"
    level: ClassVar[Level] = "node"
    num_virtual: PositiveInt = 4

    def added_nodes(self) -> int:
        return self.num_virtual

    def reads(self, model: ModelConfig) -> Reads:
        return "both"

    def module(self, model: ModelConfig) -> Readout:
        d_h, d_e = model.node_width, model.edge_width
        return nn.readout.HiddenReadout(self.num_virtual, d_h, d_e, model.norm(d_h), model.norm(d_e))


@dataclass(frozen=True)
class LayerPlace:
    """Where a layer stands among the layers of a model.

    Fields:
        index: number of the layer, from 0; with it each layer draws random numbers of its own.
        num_layers: L.
        reads: which of its channels are read behind it. Of the last layer that may be less than "both"; parameters
            that only make the others get no gradient, which several processes refuse: leave them out or freeze them.
    """

    index: int
    num_layers: int
    reads: Reads

    @property
    def is_last(self) -> bool:
        """Whether the readout is behind it."""
        return self.index == self.num_layers - 1


class LayerPart(Part):
    """A layer of another kind: (h, e, context) -> (h, e), along the edges of a graph and of each node with itself."""

    registry: ClassVar[Registry[type[LayerPart]]] = Registry("layer", "egt.paper.baselines")

    def module(self, model: ModelConfig, place: LayerPlace) -> Module:
        """Return one layer with fresh parameters; a part of 0.1 takes the model alone."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes (method `module`)")

    def check(self, run: RunConfig) -> None:
        """Refuse a layout or an objective that needs all pairs."""
        if run.data.layout != "edge_list":
            raise ValueError(f"the layer {self.kind} passes messages along edges; set data.layout to edge_list")
        if run.task.auxiliary:
            raise ValueError(f"the layer {self.kind} has no channel of all pairs; set task.auxiliary to []")


class TripletPart(Part):
    """What pairs of nodes read of each other in front of each layer of EGT: (e, context) -> e, on all pairs."""

    registry: ClassVar[Registry[type[TripletPart]]] = Registry("triplets", __name__)

    def module(self, model: ModelConfig, dropout: Dropout) -> Module:
        """Return the module of one layer with fresh parameters; `dropout` is for what it adds."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes (method `module`)")

    def bytes_per_pair(self, model: ModelConfig) -> float:
        """Estimate the bytes of a pair that are alive at once, without gradients."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it needs (method `bytes_per_pair`)")

    def check(self, run: RunConfig) -> None:
        """Refuse a model without all pairs, and one whose edge channel stays as it is."""
        if run.data.layout == "edge_list":
            raise ValueError("model.triplets needs all pairs of nodes, and data.layout edge_list has few: use packed")
        if not run.model.updates_edges or run.model.layer is not None:
            what = "model.edges frozen leaves it unchanged" if run.model.layer is None else "model.layer has its own"
            raise ValueError(f"model.triplets updates the edge channel of EGT, and {what}; set one of them to null")


@register
class Aggregation(TripletPart):
    """Pair (i, j) sums up what it reads of the pairs (j, k) and (k, j), as in the successor of EGT.

    Each of `num_heads` heads reads `value_width` numbers of a pair, in both directions.
    """

    kind: Literal["aggregation"] = "aggregation"
    num_heads: PositiveInt = 4
    value_width: PositiveInt = 4

    def module(self, model: ModelConfig, dropout: Dropout) -> Module:
        from egt.nn.triplet import TripletAggregation  # few models have them

        d_e = model.edge_width
        return TripletAggregation(d_e, self.num_heads, self.value_width, model.norm(d_e), dropout)

    def bytes_per_pair(self, model: ModelConfig) -> float:
        """Count the edge channel, its maps, what both directions gather, and copies of that or of the channel."""
        values = self.num_heads * self.value_width
        return 4.0 * (
            model.edge_width + 2 * (2 * self.num_heads + values) + 2 * values + 2 * max(values, model.edge_width)
        )
