"""`Ensemble`: several models whose answers are averaged, with the deviation between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.data.encodings.encoding import Sample
from egt.data.source import SPLITS, Progress, Source
from egt.errors import DataError
from egt.inference.embedding import Embedding
from egt.inference.evaluation import Evaluation
from egt.inference.members import EnsembleArtifact
from egt.inference.predictions import Answer, Predictions, pooled
from egt.inference.predictor import Predictor
from egt.parts.tasks.scores import TargetScores
from egt.parts.tasks.task import Task
from egt.processes import ALONE, Processes


class Ensemble(Predictor):
    """The models of an ensemble in use: like one `Predictor`, except that data is prepared once for all of them.

    A number is the mean of the models' numbers, a probability the mean of their probabilities, and `std` the sample
    deviation between them.

    Args:
        ensemble: the models.
        device, processes, overrides, calibrated: as for `Predictor`.
    """

    has_spread = True

    def __init__(
        self,
        ensemble: EnsembleArtifact,
        device: str | torch.device | None = None,
        processes: Processes = ALONE,
        overrides: Mapping[str, Any] | None = None,
        *,
        calibrated: bool = False,
    ) -> None:
        first = replace(
            ensemble.members[0],
            metrics=ensemble.metrics,
            calibration=ensemble.calibration,
            checksum=ensemble.checksum,
        )
        super().__init__(first, device, processes, overrides, calibrated=calibrated)
        self.ensemble = ensemble
        self.members = [Predictor(member, self.device, processes, overrides) for member in ensemble.members]

    def answers(self, samples: Sequence[Sample], progress: Progress | None, dropout_samples: int = 0) -> list[Answer]:
        """Return for each graph the mean and the deviation of the values of all members, or of all their draws."""
        found = (member.answers(samples, progress, dropout_samples) for member in self.members)
        return pooled(found, max(dropout_samples, 1))

    def evaluation(self, data: Any = "test", *, of: Any = None, watch: Progress | None = None) -> Evaluation:
        """Return the metrics of the averaged answers; see `Predictor.evaluation`."""
        source, split = self.opened(data, of, watch)
        found = self.predict_source(source, split, with_truth=True, watch=watch)
        return evaluate_answers(self.task, *labeled(found), num_graphs=len(found) - found.num_errors)

    def opened(self, data: Any, of: Any, watch: Progress | None) -> tuple[Source, str]:
        """See `Predictor.opened`."""
        if isinstance(data, str) and data in SPLITS:
            self._check_split(data)
        return super().opened(data, of, watch)

    def predict_split(self, split: str, data: Any = None, **options: Any) -> Predictions:
        """See `Predictor.predict_split`."""
        self._check_split(split)
        return super().predict_split(split, data, **options)

    def warn_if_unlike(self, of: Any = None, *, watch: Progress | None = None) -> None:
        """See `Predictor.warn_if_unlike`; the embeddings are those of the first member."""
        self._check_split("train")
        super().warn_if_unlike(of, watch=watch)

    def encode(self, data: Any, *, layer: int | None = None, watch: Progress | None = None) -> list[Embedding | None]:
        """See `Predictor.encode`; every member has a space of its own, and the embeddings are those of the first."""
        return super().encode(data, layer=layer, watch=watch)

    def _check_split(self, split: str) -> None:
        if self.ensemble.kind == "folds":
            raise DataError(
                f"each model of these folds has another {split} split, and the others were trained on its rows; take "
                "new data, or one of the models (ARTIFACT/member0), or read the metrics of all in ensemble.json"
            )


def labeled(found: Predictions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(rows, outputs) values and (rows, T) labels of the rows that were read, of predictions beside their labels."""
    pairs = [(each.values, each.truth) for each in found if each.values is not None and each.truth is not None]
    if not pairs:
        raise DataError("there is no graph with a label to evaluate on")
    values, truth = zip(*pairs, strict=True)
    return np.concatenate(values).astype(np.float64), np.concatenate(truth).astype(np.float64)


def evaluate_answers(
    task: Task, values: NDArray[np.float64], truth: NDArray[np.float64], *, num_graphs: int
) -> Evaluation:
    """Return loss and metrics of answers that are decoded already.

    Args:
        task: that scores.
        values: (rows, outputs) decoded.
        truth: (rows, T) labels, NaN where one is missing.
        num_graphs: that the rows belong to.
    """
    outputs, targets = torch.from_numpy(task.encode(values)), torch.from_numpy(truth)
    scores = task.scores()
    scores.update(outputs, targets)
    names = task.part.names
    each = scores.by_target() if len(names) > 1 and isinstance(scores, TargetScores) else []
    if task.scale is not None:
        mean, std = task.scale.tensors()
        targets = (targets - mean) / std
    loss = task.part.loss_sum(outputs, targets.float()).item() / max(int((~targets.isnan()).sum()), 1)
    metrics = {**scores.compute(), "num_graphs": float(num_graphs)}
    return Evaluation(loss, metrics, dict(zip(names, each, strict=True)) if each else {}, [])
