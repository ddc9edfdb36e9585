"""The same learned vector for every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from egt.inputs.input import NodeInput
from egt.parts import register

if TYPE_CHECKING:
    from torch import nn


@register
class Constant(NodeInput):
    """The same learned vector for every node, for graphs without node features."""

    kind: Literal["constant"] = "constant"

    def module(self, width: int) -> nn.Module:
        """See `Input.module`."""
        from egt.nn.terms import SharedVector

        return SharedVector(width)
