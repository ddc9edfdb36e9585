"""What an auxiliary objective offers: a loss on the edge channel beside that of the task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pydantic import NonNegativeFloat

from egt.encodings.encoding import Encoding
from egt.parts import Part, Registry

if TYPE_CHECKING:
    from torch import Tensor

    from egt.batching.batch import GraphBatch
    from egt.config.run import RunConfig
    from egt.nn.channels import Channels


class Objective(Part):
    """A head on the edge channel with a loss of its own, added with `weight` (kappa)."""

    registry: ClassVar[Registry[type[Objective]]] = Registry("objective", __package__)
    default_kind: ClassVar[str] = "distance"
    weight: NonNegativeFloat

    @property
    def num_outputs(self) -> int:
        """Outputs of the head for each pair."""
        raise NotImplementedError(f"{type(self).__name__} does not say how wide its head is (property `num_outputs`)")

    def encodings(self) -> tuple[Encoding, ...]:
        """What is computed for each graph beforehand."""
        return ()

    def check(self, run: RunConfig) -> None:
        """Refuse a model without an edge channel to read, and a layout without all pairs."""
        if not run.model.updates_edges:
            raise ValueError(
                f"the {self.kind} objective reads the edge channel, which EGT-Simple (edges: frozen) does not update; "
                "drop task.auxiliary or use edges: residual"
            )
        if run.data.layout == "edge_list":
            raise ValueError(
                f"data.layout edge_list has no pairs except edges; drop task.auxiliary (the {self.kind} objective), "
                "or use the packed layout"
            )

    def loss(self, head: Callable[[Tensor], Tensor], x: Channels, batch: GraphBatch) -> Tensor:
        """The sum over the graphs times the weight; whoever calls divides it by their number.

        Args:
            head: of the objective, on rows of the edge channel.
            x: the final channels.
            batch: the graphs.
        """
        raise NotImplementedError(f"{type(self).__name__} has no loss (method `loss`)")
