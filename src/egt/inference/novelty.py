"""Graphs, nodes or edges that are unlike the training data: farther from it than almost all of validation are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from egt.encodings.encoding import Sample
from egt.inference.embedding import FloatRows, Rows, answered_rows
from egt.inference.neighbors import KnownRows, rows_of_split
from egt.sources.source import Progress

if TYPE_CHECKING:
    from egt.inference.predictor import Predictor

ALMOST_ALL = 0.99


@dataclass(frozen=True, eq=False)
class Novelty:
    """Tells which graphs, nodes or edges (whatever the model answers) are unlike the training data.

    Fields:
        model: whose embeddings decide.
        known: those of the training split, of what has a label there.
        limit: the distance to the nearest of them that `ALMOST_ALL` of the validation split keeps.
    """

    model: Predictor
    known: KnownRows
    limit: float

    def __call__(self, samples: Sequence[Sample]) -> list[list[str]]:
        """Return for each graph a warning for each answer that is unlike training, "" for the others; [] for none."""
        return [self._warnings(rows) for rows, _ in _embedded(self.model, samples)]

    def _warnings(self, rows: FloatRows) -> list[str]:
        if not len(rows):
            return []
        nearest, distances = (each[:, 0] for each in self.known.nearest(rows, 1))
        if not (distances > self.limit).any():
            return []
        return [
            self._warning(number, distance) if distance > self.limit else ""
            for number, distance in zip(nearest.tolist(), distances.tolist(), strict=True)
        ]

    def _warning(self, number: int, distance: float) -> str:
        level, name = self.model.config.model.level, self.known.name(number)
        return (
            f"unlike training: the nearest training {level} ({name}) is {distance:.3g} away, and for "
            f"{ALMOST_ALL:.0%} of the validation {level}s it is at most {self.limit:.3g}"
        )


def novelty_of(model: Predictor, of: Any = None, watch: Progress | None = None) -> Novelty:
    """Return what tells apart what is unlike that which a model was trained on.

    Args:
        model: with the data of its run in place, and labels to validate on.
        of: the data itself, where the model was trained on objects in memory.
        watch: receives the progress of the preparation.
    """
    level = model.config.model.level
    labeled = None if level == "graph" else level

    def embed(samples: Sequence[Sample]) -> list[Rows]:
        return _embedded(model, samples)

    known, held_out = (rows_of_split(model, split, embed, level, labeled, of, watch) for split in ("train", "val"))
    _, distances = known.nearest(held_out.rows, 1)
    return Novelty(model, known, float(np.quantile(distances, ALMOST_ALL, method="higher")))


def _embedded(model: Predictor, samples: Sequence[Sample]) -> list[Rows]:
    return answered_rows(model.model, model.config, samples)
