"""Pre-training on descriptors: a molecule's computed properties and fragments are learned, hundreds at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

from egt import nn
from egt.data.molecule_descriptors import LIMIT, with_descriptors
from egt.nn.randomness import Stream, derive, graph_rows, kept
from egt.parts.tasks.scores import ErrorScores
from egt.parts.tasks.task import TaskPart
from egt.registry import register

if TYPE_CHECKING:
    from torch import Tensor

    from egt.data.batching.batch import GraphBatch
    from egt.data.source import Source
    from egt.parts.tasks.scores import Scores


@register
class Descriptors(TaskPart):
    """Descriptors of molecules by squared error, standardized and cut off 6 deviations from the mean.

    `names` are RDKit's names of them, and `fragment N`, `role fragment N` and `atom pair N` how often a fragment of
    each kind occurs; `mean` and `std` are those of a sample of the molecules. Each training step asks for a random
    `share` of the descriptors of each molecule.
    """

    kind: Literal["descriptors"] = "descriptors"
    answers: ClassVar[bool] = False
    mean: tuple[float, ...]
    std: tuple[Annotated[float, Field(gt=0)], ...]
    share: Annotated[float, Field(gt=0, le=1)] = 1.0

    @model_validator(mode="after")
    def _check_lengths(self) -> Descriptors:
        if not len(self.names) == len(self.mean) == len(self.std):
            raise ValueError(f"{len(self.names)} names, {len(self.mean)} means and {len(self.std)} deviations differ")
        return self

    @property
    def deciding_metric(self) -> str:
        return "r2"

    def with_targets(self, source: Source) -> Source:
        return with_descriptors(source, self.names)

    def uninformed(self, targets: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the mean of each descriptor, which is 0 when standardized."""
        return np.zeros(len(self.names))

    def posed(self, batch: GraphBatch) -> GraphBatch:
        if self.share == 1 or batch.random_keys is None or batch.graph_targets is None:
            return batch
        keys = derive(batch.random_keys, 0, Stream.HIDDEN)
        others = kept(keys, graph_rows(batch.num_graphs, keys.device), len(self.names), self.share)
        return replace(batch, graph_targets=batch.graph_targets.masked_fill(others, torch.nan))

    def loss_sum(self, prediction: Tensor, target: Tensor) -> Tensor:
        return nn.losses.sum_known(nn.losses.squared, prediction.float(), self.standardized(target))

    def scores(self) -> Scores:
        return _StandardScores(self)

    def standardized(self, target: Tensor) -> Tensor:
        """(rows, T) descriptors on the scale of the outputs, at most 6 deviations from the mean."""
        mean, std = (nn.losses.constant(values, target.device) for values in (self.mean, self.std))
        return ((target - mean) / std).clamp(-LIMIT, LIMIT)

    def decode(self, prediction: Tensor) -> Tensor:
        mean, std = (nn.losses.constant(values, prediction.device) for values in (self.mean, self.std))
        return mean + std * prediction.float()

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        standardized: NDArray[Any] = (values - np.array(self.mean)) / np.array(self.std)
        return standardized


class _StandardScores(ErrorScores):
    """Errors of outputs as the model gives them, in deviations of each descriptor."""

    def __init__(self, task: Descriptors) -> None:
        super().__init__()
        self.task = task

    def update(self, prediction: Tensor, target: Tensor) -> None:
        super().update(prediction, self.task.standardized(target))
