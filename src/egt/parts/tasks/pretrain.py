"""Pre-training without labels: features and distances are hidden, and a model learns to predict them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

import egt.nn as nn
from egt.errors import ConfigError
from egt.graph import FeatureSchema, Level
from egt.parts.tasks.task import Names, TaskPart, targets
from egt.registry import register

if TYPE_CHECKING:
    from torch import Tensor

    from egt.config.run import RunConfig
    from egt.data.batching.batch import GraphBatch
    from egt.parts.inputs import Input

Kind = Literal["category", "value", "distance"]

METRICS = {"category": "feature_accuracy", "value": "value_rmse", "distance": "distance_accuracy"}


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
    features of the graphs, as the inputs have them. Distances up to `max_hops` are distinct classes; 0 hides none.
    There are many more pairs than nodes: `distance_weight` is what a distance counts beside a feature.
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
    def hidden_columns(self) -> tuple[Column, ...]:
        """The columns of the targets, in their order: features of nodes, features of edges, the distance."""
        sizes: list[tuple[Kind, int]] = [("category", size) for size in self.node_categories]
        sizes += [("value", 1)] * self.num_node_values
        sizes += [("category", size) for size in self.edge_categories]
        sizes += [("value", 1)] * self.num_edge_values
        sizes += [("distance", self.max_hops + 2)] if self.max_hops else []
        starts = accumulate((size for _, size in sizes), initial=0)
        return tuple(Column(kind, start, size) for (kind, size), start in zip(sizes, starts, strict=False))

    @property
    def num_outputs(self) -> int:
        return sum(column.size for column in self.hidden_columns)

    @property
    def deciding_metric(self) -> str:
        return METRICS[self.hidden_columns[0].kind]

    @property
    def higher_is_better(self) -> bool:
        return self.deciding_metric != "value_rmse"

    def check(self, run: RunConfig) -> None:
        """Refuse what cannot be pre-trained, and inputs that give hidden features away."""
        super().check(run)
        if not self.hidden_columns:
            raise ValueError("the graphs have no features, and task.max_hops is 0: there is nothing to hide")
        if run.model.readout.kind != "hidden":
            raise ValueError("task pretrain needs model.readout hidden, which reads what it hides")
        if not run.model.updates_edges:
            raise ValueError("task pretrain reads the edge channel, which EGT-Simple (edges: frozen) does not update")
        self._check_inputs((*run.model.node_inputs, *run.model.pair_inputs))

    def _check_inputs(self, inputs: Sequence[Input]) -> None:
        if self.max_hops and not any(encoding.name == "distance" for term in inputs for encoding in term.encodings()):
            raise ValueError("task.max_hops hides distances, and no input of the model reads them; set it to 0")
        features: dict[str, Any] = {}
        for term in inputs:
            features |= term.features()
            if getattr(term, "weighted", False):
                raise ValueError(f"the weighted input {term.kind} shows weights of hidden edges; set weighted to false")
        read = FeatureSchema(**features)
        for name in ("node_categories", "num_node_values", "edge_categories", "num_edge_values"):
            own, there = getattr(self, name), getattr(read, name)
            if own != there:
                raise ValueError(f"task.{name} is {own}, but the model reads {there}; make them agree")

    def posed(self, batch: GraphBatch) -> GraphBatch:
        return nn.hiding.hide(batch, self.share, self.max_hops)

    def targets(self, batch: GraphBatch, level: Level) -> Tensor:
        """(M + R, T) what is hidden of the nodes and then of the query pairs, NaN where nothing is hidden."""
        of_nodes, of_pairs = targets(batch, "node"), targets(batch, "edge")
        rows, columns = len(of_nodes), of_nodes.shape[1]
        table = of_nodes.new_full((rows + len(of_pairs), columns + of_pairs.shape[1]), float("nan"))
        table[:rows, :columns] = of_nodes
        table[rows:, columns:] = of_pairs
        return table

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        total = prediction.float().sum() * 0
        for column, truth in zip(self.hidden_columns, target.unbind(1), strict=True):
            outputs = prediction[:, column.start : column.start + column.size].float()
            if column.kind == "value":
                total = total + nn.losses.sum_known(nn.losses.squared, outputs, truth.unsqueeze(1))
            else:
                weight = self.distance_weight if column.kind == "distance" else 1.0
                total = total + weight * nn.losses.entropy(outputs, truth)
        return total

    def scores(self) -> HiddenScores:
        return HiddenScores(self.hidden_columns)

    def decode(self, prediction: Tensor) -> Tensor:
        """Refuse: the outputs of a pre-trained model are no answers."""
        raise ConfigError(
            "a pre-trained model only predicts what was hidden from it; train one for your targets, starting from it: "
            "egt train DATA --target NAME --from RUN (egt embed works with either)"
        )


class HiddenScores:
    """`feature_accuracy` of hidden categories, `distance_accuracy`, and `value_rmse`; those that the graphs have."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self.sums = {column.kind: np.zeros(2) for column in columns}  # score, labels

    def update(self, prediction: Tensor, target: Tensor) -> None:
        prediction, target = prediction.detach().cpu(), target.cpu()
        for column, truth in zip(self.columns, target.unbind(1), strict=True):
            known = ~truth.isnan()
            outputs = prediction[known, column.start : column.start + column.size].double()
            if column.kind == "value":
                score = (outputs[:, 0] - truth[known]).square().sum()
            else:
                score = (outputs.argmax(-1) == truth[known]).sum()
            self.sums[column.kind] += (score.item(), known.sum().item())

    def absorb(self, other: Self) -> None:
        self.sums = {kind: sums + other.sums[kind] for kind, sums in self.sums.items()}

    def compute(self) -> dict[str, float]:
        scores = {"num_labels": float(sum(labels for _, labels in self.sums.values()))}
        for kind, (total, labels) in self.sums.items():
            mean = total / labels if labels else float("nan")
            scores[METRICS[kind]] = float(mean**0.5 if kind == "value" else mean)
        return scores
