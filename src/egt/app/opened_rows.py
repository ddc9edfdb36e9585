"""Rows that were opened in the page, whatever they come from: SMILES, an uploaded file, a split of the data set."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from egt.analysis.subject import components_of, names_of, smiles_column
from egt.inference.predictions import Prediction, Predictions, join
from egt.inference.predictor import Predictor
from egt.sources.source import ALL, Reading, Source, read_all

Json = dict[str, Any]
AT_ONCE = 64
"""Graphs that are predicted together. More of them would be prepared by forked processes, which threads forbid."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a split.

    Fields:
        source: the data.
        split: the split.
        folder: where the data was read from, if nobody should be told.
    """

    source: Source
    split: str = ALL
    folder: str = ""

    def __len__(self) -> int:
        return len(self.source.records(self.split))

    def read(self, start: int, count: int) -> list[Reading]:
        """Read some rows of the split."""
        found = read_all(self.source, self.source.records(self.split)[start : start + count])
        return [replace(reading, error=without(self.folder, reading.error)) for reading in found]

    def smiles(self, reading: Reading) -> str | None:
        """Return the molecule of a row; None for other graphs."""
        return None if self._smiles is None else str(self._smiles[reading.row])

    def names(self, reading: Reading) -> list[str]:
        """Return what the data calls the nodes of a row; empty where they are numbered."""
        return names_of(self.source, reading.row)

    def components(self, reading: Reading) -> dict[str, str]:
        """Return column -> SMILES of a row that has several; else nothing."""
        return {name: column[reading.row] for name, column in self._components.items()}

    @cached_property
    def _components(self) -> dict[str, list[str]]:
        return components_of(self.source)

    @cached_property
    def _smiles(self) -> Sequence[Any] | None:
        return smiles_column(self.source)


def predict_rows(model: Predictor, rows: Rows, start: int, count: int) -> Predictions:
    """Predict some rows: what `Predictor.predict` says about them, beside the labels if they are of a split."""
    parts = [
        _predict(model, rows, rows.read(first, min(AT_ONCE, start + count - first)))
        for first in range(start, start + count, AT_ONCE)
    ]
    return join(parts) if parts else Predictions(model.config, [])


def table(found: Predictions, start: int) -> Json:
    """Return predictions for the page: columns, which of them are answers, rows, and all as CSV.

    `of` has the row of the data behind each row of cells: several for a graph whose nodes or edges are predicted.

    Args:
        found: the predictions.
        start: the position of the first one in its data.
    """
    columns, rows, of = found.columns, [], []
    for number in range(len(found)):
        for row in found[number : number + 1].table():
            rows.append([finite(row.get(name, "")) for name in columns])
            of.append(start + number)
    text = io.StringIO()
    found.to_csv(text)
    own = Predictions(found.config, []).columns[1:-2]  # without name, warning and error
    answers = [name for name in columns if name in own or name.removesuffix("_true") in found.config.task.names]
    return {"columns": columns, "answers": answers, "rows": rows, "of": of, "csv": text.getvalue()}


def without(folder: str, message: str) -> str:
    """Return a message with the names of files alone."""
    return message.replace(f"{folder}/", "") if folder else message


def finite(value: Any) -> Any:
    """Return a value that JSON can hold: None in the place of a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _predict(model: Predictor, rows: Rows, readings: list[Reading]) -> Predictions:
    graphs = [reading.graph for reading in readings if reading.graph is not None]
    answers = iter(model.predict(graphs) if graphs else ())
    found = []
    for reading in readings:
        answer = Prediction(reading.row, reading.id) if reading.graph is None else next(answers)
        found.append(_beside(model, rows, reading, answer))
    return Predictions(model.config, found)


def _beside(model: Predictor, rows: Rows, reading: Reading, answer: Prediction) -> Prediction:
    """Return the answer with what its data says about the row."""
    labeled = reading.graph if rows.split != ALL else None
    truth = getattr(labeled, f"{model.task.level}_targets", None)
    return replace(
        answer,
        row=reading.row,
        id=reading.id,
        warning=reading.warning,
        error=answer.error or reading.error,
        smiles=rows.smiles(reading),
        names=rows.names(reading),
        kept=rows.components(reading),
        truth=None if truth is None else np.atleast_2d(truth),
    )
