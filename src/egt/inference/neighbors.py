"""The training graphs nearest to a new one, by their embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.errors import DataError
from egt.graph import IntArray
from egt.inference.embedding import FloatRows, embedding_rows
from egt.inference.run_data import open_source, prepare_split
from egt.sources.custom.custom_source import CustomSource
from egt.sources.source import Progress

if TYPE_CHECKING:
    from egt.inference.predictor import Predictor

_ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The embeddings of the graphs that a model was trained on.

    Fields:
        rows: (n, width) one for each graph.
        names: of the graphs.
        smiles: of the molecules; None for other graphs.
    """

    rows: FloatRows
    names: Sequence[str]
    smiles: Sequence[str] | None = None

    def nearest(self, rows: FloatRows, count: int) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the numbers of the nearest training graphs, nearest first, and their Euclidean distances.

        Args:
            rows: (m, width) embeddings.
            count: how many for each of them, at most n.

        Returns:
            (m, count) each.
        """
        known, count = torch.from_numpy(self.rows), min(count, len(self.rows))
        parts = []
        for part in torch.from_numpy(rows).split(_ROWS_AT_ONCE):
            # Not as a matrix product, which leaves a distance between equal rows.
            distances = torch.cdist(part, known, compute_mode="donot_use_mm_for_euclid_dist")
            parts.append(distances.topk(count, largest=False))
        return (
            np.concatenate([part.indices.numpy() for part in parts]),
            np.concatenate([part.values.numpy() for part in parts]),
        )


def training_rows(
    model: Predictor, *, layer: int | None = None, of: Any = None, watch: Progress | None = None
) -> TrainingRows:
    """Embed the graphs that a model was trained on.

    Args:
        model: with the data of its run in place.
        layer: as for `egt.inference.embedding.embeddings`.
        of: the data itself, where the model was trained on objects in memory.
        watch: receives the progress of the preparation.
    """
    source = open_source(model.config, of)
    store = prepare_split(model.config, source, "train", progress=watch)
    if not len(store):
        raise DataError("none of the training graphs can be read, so there are no neighbors to find")
    rows = np.concatenate([rows for rows, _ in embedding_rows(model.model, model.config, store, "graph", layer)])
    smiles = source.smiles() if isinstance(source, CustomSource) else None
    numbers = store.rows.tolist()
    names = [sample.graph.id or str(row) for sample, row in zip(store, numbers, strict=True)]
    return TrainingRows(rows, names, None if smiles is None else [smiles[row] for row in numbers])
