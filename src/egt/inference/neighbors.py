"""The training graphs, nodes or pairs nearest to new ones, by their embeddings; and what is unlike all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.config.run import RunConfig
from egt.config.run_data import open_source, prepare_split
from egt.data.encodings.encoding import Sample
from egt.data.source import Progress
from egt.errors import DataError
from egt.graph import IntArray
from egt.inference.embedding import EmbeddingLevel, FloatRows, Rows, answered_rows, embedding_rows
from egt.nn.model import EGT

MOST_ROWS = 20_000  # nodes or pairs that are kept of a split, drawn at random where it has more; graphs all are
_ROWS_AT_ONCE = 256
_GRAPHS_AT_ONCE = 256
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The embeddings of the graphs of a split, or of their nodes or pairs.

    Fields:
        rows: (n, width) embeddings.
        names: (n) of the graph of each.
        places: (0, 1 or 2, n) the nodes of each in its graph.
        smiles: (n) of the molecule of each; None for other graphs.
    """

    rows: FloatRows
    names: Sequence[str]
    places: IntArray
    smiles: Sequence[str] | None = None

    def nearest(self, rows: FloatRows, count: int) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the numbers of the nearest rows, nearest first, and their Euclidean distances, (m, count) each.

        rows: (m, width) embeddings; count: how many for each of them, at most n.
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

    def name(self, number: int) -> str:
        """Return what a row is called: its graph or molecule, and the nodes in it."""
        graph = (self.names if self.smiles is None else self.smiles)[number]
        nodes = self.places[:, number].tolist()
        return f"{'-'.join(map(str, nodes))} of {graph}" if nodes else graph


def training_rows(
    model: EGT,
    config: RunConfig,
    *,
    level: EmbeddingLevel = "graph",
    layer: int | None = None,
    of: Any = None,
    watch: Progress | None = None,
) -> KnownRows:
    """Embed the graphs that a model was trained on, or nodes or pairs of them; of node targets, those with a label.

    The data of the run must be in its place; `of` is the data itself, where the model was trained on objects in memory.
    """

    def embed(samples: Sequence[Sample]) -> list[Rows]:
        return embedding_rows(model, config, samples, level, layer)

    labeled = level if level == config.model.level == "node" else None
    return rows_of_split(config, "train", embed, level, labeled, of, watch)


def rows_of_split(
    config: RunConfig,
    split: str,
    embed: Callable[[Sequence[Sample]], list[Rows]],
    level: str,
    labeled: str | None,
    of: Any = None,
    watch: Progress | None = None,
) -> KnownRows:
    """Embed a split of the data of a run; `labeled` keeps only rows with a label of this level ("node" or "edge")."""
    source = open_source(config, of)
    store = prepare_split(config, source, split, progress=watch)
    draw = _Draw(len(store) if level == "graph" else MOST_ROWS)
    for first in range(0, len(store), _GRAPHS_AT_ONCE):
        numbers = range(first, min(first + _GRAPHS_AT_ONCE, len(store)))
        samples = [store[k] for k in numbers]
        for (rows, places), k, sample in zip(embed(samples), numbers, samples, strict=True):
            if labeled is not None:
                known = np.flatnonzero(~np.isnan(getattr(sample.graph, f"{labeled}_targets")).all(1))
                rows, places = rows[known], places[:, known]
            draw.add(rows, np.full(len(rows), k), places.T)
    if not draw.seen:
        what = level if labeled is None else f"labeled {level}"
        raise DataError(f"{config.name}: the {split} split has no {what} to compare with")
    if draw.seen > MOST_ROWS and level != "graph":
        log.warning("%d of %d %ss of the %s split, drawn at random, stand for all", MOST_ROWS, draw.seen, level, split)
    rows, graphs, places = draw.finish()
    numbers_of_rows = store.rows.tolist()
    names = {k: store[k].graph.id or str(numbers_of_rows[k]) for k in set(graphs.tolist())}
    smiles = source.smiles()
    molecules = None if smiles is None else [str(smiles[numbers_of_rows[k]]) for k in graphs.tolist()]
    return KnownRows(rows, [names[k] for k in graphs.tolist()], places.T, molecules)


class _Draw:
    """At most so many rows, drawn at random from any number, which come part by part: those with the smallest keys."""

    def __init__(self, most: int) -> None:
        self.most, self.seen = most, 0
        self._random = np.random.default_rng(0)
        self._parts: list[list[NDArray[Any]]] = []
        self._num_kept = 0

    def add(self, *columns: NDArray[Any]) -> None:
        """Draw from more rows. columns: (rows, ...) what is known of each."""
        count = len(columns[0])
        self.seen, self._num_kept = self.seen + count, self._num_kept + count
        self._parts.append([self._random.random(count), *columns])
        if self._num_kept > 2 * self.most:
            self.finish()

    def finish(self) -> list[NDArray[Any]]:
        """Return the columns of what was drawn, in the order in which it came."""
        joined = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        if len(joined[0]) > self.most:
            chosen = np.sort(np.argpartition(joined[0], self.most)[: self.most])
            joined = [column[chosen] for column in joined]
        self._parts, self._num_kept = [joined], len(joined[0])
        return joined[1:]


ALMOST_ALL = 0.99


@dataclass(frozen=True, eq=False)
class Novelty:
    """Warnings of graphs, nodes or edges (whatever the model answers) that are unlike the training data.

    Fields:
        known: those of the training split, of what has a label there.
        limit: the distance to the nearest of them that `ALMOST_ALL` of the validation split keeps.
    """

    model: EGT
    config: RunConfig
    known: KnownRows
    limit: float

    def __call__(self, samples: Sequence[Sample]) -> list[list[str]]:
        """Return for each graph a warning for each answer that is unlike training, "" for the others; [] for none."""
        return [self._warnings(rows) for rows, _ in answered_rows(self.model, self.config, samples)]

    def _warnings(self, rows: FloatRows) -> list[str]:
        if not len(rows):
            return []
        nearest, distances = (each[:, 0] for each in self.known.nearest(rows, 1))
        if not (distances > self.limit).any():
            return []
        level = self.config.model.level
        return [
            f"unlike training: the nearest training {level} ({self.known.name(number)}) is {distance:.3g} away, and "
            f"for {ALMOST_ALL:.0%} of the validation {level}s it is at most {self.limit:.3g}"
            if distance > self.limit
            else ""
            for number, distance in zip(nearest.tolist(), distances.tolist(), strict=True)
        ]


def novelty_of(model: EGT, config: RunConfig, of: Any = None, watch: Progress | None = None) -> Novelty:
    """Return what finds answers that are unlike the training data. Arguments as for `training_rows`."""
    level = config.model.level
    labeled = None if level == "graph" else level

    def embed(samples: Sequence[Sample]) -> list[Rows]:
        return answered_rows(model, config, samples)

    known, held_out = (rows_of_split(config, split, embed, level, labeled, of, watch) for split in ("train", "val"))
    _, distances = known.nearest(held_out.rows, 1)
    return Novelty(model, config, known, float(np.quantile(distances, ALMOST_ALL, method="higher")))
