"""Rows that are unlike the training data: farther from it than almost all validation rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egt.encodings.encoding import Sample
from egt.errors import DataError
from egt.inference.embedding import embedding_rows
from egt.inference.neighbors import TrainingRows, training_rows
from egt.inference.run_data import open_source, prepare_split
from egt.sources.source import Progress

if TYPE_CHECKING:
    from egt.inference.predictor import Predictor

ALMOST_ALL = 0.99


@dataclass(frozen=True, eq=False)
class Novelty:
    """Tells which graphs are unlike the training data.

    Fields:
        model: whose embeddings decide.
        known: those of the training graphs.
        limit: the distance to the nearest of them that `ALMOST_ALL` of the validation graphs keep.
    """

    model: Predictor
    known: TrainingRows
    limit: float

    def __call__(self, samples: Sequence[Sample]) -> list[str]:
        """Return a warning for each graph that is unlike training, "" for the others."""
        nearest, distances = self.known.nearest(_embedded(self.model, samples), 1)
        return [
            f"unlike training: the nearest training graph ({self._name(number)}) is {distance:.3g} away, and for "
            f"{ALMOST_ALL:.0%} of the validation graphs it is at most {self.limit:.3g}"
            if distance > self.limit
            else ""
            for number, distance in zip(nearest[:, 0].tolist(), distances[:, 0].tolist(), strict=True)
        ]

    def _name(self, number: int) -> str:
        return (self.known.names if self.known.smiles is None else self.known.smiles)[number]


def novelty_of(model: Predictor, of: Any = None, watch: Progress | None = None) -> Novelty:
    """Return what tells graphs apart that are unlike those a model was trained on.

    Args:
        model: of graph targets, with the data of its run in place.
        of: the data itself, where the model was trained on objects in memory.
        watch: receives the progress of the preparation.
    """
    if model.config.model.level != "graph":
        raise DataError(
            f"{model.config.name}: predicts {model.config.model.level}s; only whole graphs can be compared with those "
            "of training"
        )
    known = training_rows(model, of=of, watch=watch)
    held_out = prepare_split(model.config, open_source(model.config, of), "val", progress=watch)
    if not len(held_out):
        raise DataError(f"{model.config.name}: has no validation graphs, which would tell how far is unusual")
    _, distances = known.nearest(_embedded(model, held_out), 1)
    return Novelty(model, known, float(np.quantile(distances, ALMOST_ALL, method="higher")))


def _embedded(model: Predictor, samples: Sequence[Sample]) -> NDArray[np.float32]:
    """(n, width) the embeddings of graphs."""
    return np.concatenate([rows for rows, _ in embedding_rows(model.model, model.config, samples, "graph")])
