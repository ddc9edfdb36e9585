"""Categorical features of nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from egt.inputs.input import Absent, NodeInput, PairInput, Sizes
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class NodeCategories(NodeInput):
    """Categorical node features; one vocabulary size each."""

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
    """Categorical edge features; `absent` is what a non-edge gets."""

    kind: Literal["edge_categories"] = "edge_categories"
    sizes: Sizes
    absent: Absent = "zero"
    needs_all_pairs: ClassVar[bool] = False

    def features(self) -> Mapping[str, Any]:
        """See `Input.features`."""
        return {"edge_categories": self.sizes}

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import EdgeCategoryEmbedding

        return EdgeCategoryEmbedding(self.sizes, width, self.absent)
