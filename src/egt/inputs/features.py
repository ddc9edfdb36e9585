"""The inputs that read the features of a data set: what its schema has, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PositiveInt

from egt.graph import FeatureSchema
from egt.inputs.input import Absent, NodeInput, PairInput, Sizes
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class NodeValues(NodeInput):
    """Continuous node features, `num_values` per node; `dropout` is the chance of each to be 0 in a training step."""

    kind: Literal["node_values"] = "node_values"
    num_values: PositiveInt
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def features(self) -> Mapping[str, Any]:
        """See `Input.features`."""
        return {"num_node_values": self.num_values}

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import NodeValueProjection

        return NodeValueProjection(self.num_values, width, self.dropout)


@register
class EdgeValues(PairInput):
    """Continuous edge features, `num_values` per edge; `absent` is what a non-edge gets."""

    kind: Literal["edge_values"] = "edge_values"
    num_values: PositiveInt
    absent: Absent = "zero"

    def features(self) -> Mapping[str, Any]:
        """See `Input.features`."""
        return {"num_edge_values": self.num_values}

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import EdgeValueProjection

        return EdgeValueProjection(self.num_values, width, self.absent)


@register
class NodeCategories(NodeInput):
    """Categorical node features; `sizes` are those of their vocabularies."""

    kind: Literal["node_categories"] = "node_categories"
    sizes: Sizes

    def features(self) -> Mapping[str, Any]:
        """See `Input.features`."""
        return {"node_categories": self.sizes}

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import NodeCategoryEmbedding

        return NodeCategoryEmbedding(self.sizes, width)


@register
class EdgeCategories(PairInput):
    """Categorical edge features; `sizes` are those of their vocabularies, `absent` is what a non-edge gets."""

    kind: Literal["edge_categories"] = "edge_categories"
    sizes: Sizes
    absent: Absent = "zero"

    def features(self) -> Mapping[str, Any]:
        """See `Input.features`."""
        return {"edge_categories": self.sizes}

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import EdgeCategoryEmbedding

        return EdgeCategoryEmbedding(self.sizes, width, self.absent)


def node_features(schema: FeatureSchema) -> tuple[NodeInput, ...]:
    """Return the inputs for the features of nodes."""
    inputs: list[NodeInput] = []
    if schema.node_categories:
        inputs.append(NodeCategories(sizes=_sizes(schema.node_categories)))
    if schema.num_node_values:
        inputs.append(NodeValues(num_values=schema.num_node_values))
    return tuple(inputs)


def edge_features(schema: FeatureSchema, absent: Absent = "zero") -> tuple[PairInput, ...]:
    """Return the inputs for the features of edges; `absent` is what a non-edge gets."""
    inputs: list[PairInput] = []
    if schema.edge_categories:
        inputs.append(EdgeCategories(sizes=_sizes(schema.edge_categories), absent=absent))
    if schema.num_edge_values:
        inputs.append(EdgeValues(num_values=schema.num_edge_values, absent=absent))
    return tuple(inputs)


def _sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Give a column without any known category a row in the table all the same."""
    return tuple(max(size, 1) for size in sizes)
