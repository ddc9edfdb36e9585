"""Pre-training without labels: features and distances are hidden, and a model learns to tell them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from egt.errors import ConfigError
from egt.graph import FeatureSchema, Level
from egt.parts.tasks.task import Names, TaskPart, sum_known, targets
from egt.registry import register

if TYPE_CHECKING:
    from torch import Tensor

    from egt.config.run import RunConfig
    from egt.data.batching.batch import GraphBatch
    from egt.parts.inputs import Input
    from egt.parts.tasks.hidden_scores import HiddenScores

Kind = Literal["category", "value", "distance"]

_MISSING = -100


class Column(NamedTuple):
    """A hidden quantity: what it is, its place among the outputs, and how many of them it has (1 for a number)."""

    kind: Kind
    start: int
    size: int


@register
class Pretrain(TaskPart):
    """Predict the hidden part of each graph, drawn afresh in each step; validation always hides the same.

    `share` of the nodes, of the edges, and of the pairs that are no edges is hidden (`egt.nn.hiding.hide`): categories
    and distances are learned by cross-entropy, values by squared error. Edges stay, so no encoding of the structure
    gives a hidden feature away. `node_categories`, `num_node_values`, `edge_categories` and `num_edge_values` are the
    features of the graphs, as the inputs have them. Distances up to `max_hops` are told apart; 0 hides none. There are
    many more pairs than nodes: `distance_weight` is what a distance counts beside a feature.
    """

    kind: Literal["pretrain"] = "pretrain"
    answers: ClassVar[bool] = False
    names: Names = ("hidden",)
    share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    node_categories: tuple[PositiveInt, ...] = ()
    num_node_values: NonNegativeInt = 0
    edge_categories: tuple[PositiveInt, ...] = ()
    num_edge_values: NonNegativeInt = 0
    max_hops: Annotated[int, Field(ge=0, le=254)] = 0
    distance_weight: NonNegativeFloat = 0.1

    @property
    def columns_asked(self) -> tuple[Column, ...]:
        """The columns of the targets, in their order: features of nodes, features of edges, the distance."""
        return tuple(self._columns())

    @property
    def num_outputs(self) -> int:
        """See `TaskPart.num_outputs`."""
        return sum(column.size for column in self.columns_asked)

    @property
    def deciding_metric(self) -> str:
        """See `TaskPart.deciding_metric`."""
        first = self.columns_asked[0].kind
        return {"category": "feature_accuracy", "value": "value_rmse", "distance": "distance_accuracy"}[first]

    @property
    def higher_is_better(self) -> bool:
        """See `TaskPart.higher_is_better`."""
        return self.deciding_metric != "value_rmse"

    def check(self, run: RunConfig) -> None:
        """Refuse what cannot be pre-trained, and inputs that give hidden features away."""
        super().check(run)
        if not self.columns_asked:
            raise ValueError("the graphs have no features, and task.max_hops is 0: there is nothing to hide")
        if run.model.readout.kind != "hidden":
            raise ValueError("task pretrain needs model.readout hidden, which reads what it hides")
        if not run.model.updates_edges:
            raise ValueError("task pretrain reads the edge channel, which EGT-Simple (edges: frozen) does not update")
        self._check_inputs((*run.model.node_inputs, *run.model.pair_inputs))

    def _check_inputs(self, inputs: Sequence[Input]) -> None:
        if self.max_hops and not any(encoding.name == "distance" for term in inputs for encoding in term.encodings()):
            raise ValueError("task.max_hops asks for distances, and no input of the model reads them; set it to 0")
        features: dict[str, Any] = {}
        for term in inputs:
            features |= term.features()
            if getattr(term, "weighted", False):
                raise ValueError(f"the weighted input {term.kind} shows weights of hidden edges; set weighted to false")
        read = FeatureSchema(**features)
        for name in ("node_categories", "num_node_values", "edge_categories", "num_edge_values"):
            asked, there = getattr(self, name), getattr(read, name)
            if asked != there:
                raise ValueError(f"task.{name} is {asked}, but the model reads {there}; make them agree")

    def posed(self, batch: GraphBatch) -> GraphBatch:
        """See `TaskPart.posed`."""
        from egt.nn.hiding import hide

        return hide(batch, self.share, self.max_hops)

    def targets(self, batch: GraphBatch, level: Level) -> Tensor:
        """(M + R, T) what is hidden of the nodes and then of the query pairs, NaN where nothing is asked."""
        import torch

        of_nodes, of_pairs = targets(batch, "node"), targets(batch, "edge")
        rows, columns = len(of_nodes), of_nodes.shape[1]
        table = of_nodes.new_full((rows + len(of_pairs), columns + of_pairs.shape[1]), torch.nan)
        table[:rows, :columns] = of_nodes
        table[rows:, columns:] = of_pairs
        return table

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        """See `TaskPart.loss_sum`."""
        total = prediction.float().sum() * 0
        for column, truth in zip(self.columns_asked, target.unbind(1), strict=True):
            outputs = prediction[:, column.start : column.start + column.size].float()
            weight = self.distance_weight if column.kind == "distance" else 1.0
            total = total + weight * _column_loss(column, outputs, truth)
        return total

    def scores(self) -> HiddenScores:
        """See `TaskPart.scores`."""
        from egt.parts.tasks.hidden_scores import HiddenScores

        return HiddenScores(self.columns_asked)

    def decode(self, prediction: Tensor) -> Tensor:
        """Refuse: the outputs of a pre-trained model are no answers."""
        raise ConfigError(
            "a pre-trained model only tells what was hidden from it; train one that predicts, starting from it: "
            "egt train DATA --target NAME --from RUN (egt embed works with either)"
        )

    def _columns(self) -> Iterator[Column]:
        place = 0
        kinds: list[tuple[Kind, Sequence[int]]] = [
            ("category", self.node_categories),
            ("value", [1] * self.num_node_values),
            ("category", self.edge_categories),
            ("value", [1] * self.num_edge_values),
            ("distance", [self.max_hops + 2] if self.max_hops else []),
        ]
        for kind, size in ((kind, size) for kind, sizes in kinds for size in sizes):
            yield Column(kind, place, size)
            place += size


def _column_loss(column: Column, outputs: Tensor, truth: Tensor) -> Tensor:
    """Sum the loss of a hidden quantity. outputs: (rows, size), truth: (rows,), NaN where it is not asked for."""
    from torch.nn import functional

    if column.kind == "value":
        return sum_known(lambda y_hat, y: (y_hat - y).square(), outputs, truth.unsqueeze(1))
    classes = truth.nan_to_num(nan=_MISSING).long()
    return functional.cross_entropy(outputs, classes, ignore_index=_MISSING, reduction="sum")
