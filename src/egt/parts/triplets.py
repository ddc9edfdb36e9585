"""Triplets: how pairs of nodes read each other in front of a layer of EGT. The math is in `egt.nn.triplet`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import PositiveInt

from egt.registry import Part, Registry, register

if TYPE_CHECKING:
    from torch.nn import Module

    from egt.config.run import ModelConfig, RunConfig
    from egt.nn.randomness import Dropout


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
