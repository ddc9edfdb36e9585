"""Graphs, nodes or edges that are unlike the training data: farther from it than almost all of validation are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from egt.encodings.encoding import Sample
from egt.graph import IntArray
from egt.inference.embedding import FloatRows, Rows, answered_rows
from egt.inference.neighbors import KnownRows, rows_of_split
from egt.sources.source import Progress

if TYPE_CHECKING:
    from egt.inference.predictor import Predictor

ALMOST_ALL = 0.99
_MOST_NAMED = 20
"""Nodes or edges that a warning lists."""


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

    def __call__(self, samples: Sequence[Sample]) -> list[str]:
        """Return a warning for each graph that is unlike training, or has nodes or edges that are; "" for others."""
        return [self._warning(rows, places) for rows, places in _embedded(self.model, samples)]

    def _warning(self, rows: FloatRows, places: IntArray) -> str:
        if not len(rows):
            return ""
        nearest, distances = (each[:, 0] for each in self.known.nearest(rows, 1))
        far = np.flatnonzero(distances > self.limit)
        if not len(far):
            return ""
        farthest = int(distances.argmax())
        level, away = self.model.config.model.level, f"{distances[farthest]:.3g} away"
        usual = f"for {ALMOST_ALL:.0%} of the validation {level}s it is at most {self.limit:.3g}"
        closest = f"the nearest training {level} ({self.known.name(int(nearest[farthest]))}) is {away}, and {usual}"
        if level == "graph":
            return f"unlike training: {closest}"
        listed = _listed(places[:, far])
        return f"unlike training: {level}s {listed} of {len(rows)}; of {_name(places[:, farthest])} {closest}"


def _name(nodes: IntArray) -> str:
    return "-".join(map(str, nodes.tolist()))


def _listed(places: IntArray) -> str:
    """Return the names of nodes or edges; of many, the first ones. places: (1 or 2, n)."""
    names, more = [_name(nodes) for nodes in places.T[:_MOST_NAMED]], places.shape[1] - _MOST_NAMED
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


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
