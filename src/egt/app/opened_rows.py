"""Rows that were opened in the page, whatever they come from: SMILES, an uploaded file, a split of the data set."""

from __future__ import annotations

import codecs
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from egt.analysis.subject import components_of, names_of, smiles_column
from egt.inference.predictions import Prediction, Predictions
from egt.inference.predictor import Predictor
from egt.sources.source import ALL, Reading, Source, read_all

Json = dict[str, Any]
_BINARY = (".gz", ".parquet", ".zip", ".xlsx", ".npz", ".pt")
AT_ONCE = 64
"""Graphs that are predicted together. More of them would be prepared by forked processes, which threads forbid."""
INTERVAL = 0.9
"""The chance that the intervals and sets on the page hold the truth."""


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


def interval_of(model: Predictor) -> float | None:
    """Return the chance of the intervals or sets that a model can give; None without a calibration.

    Nor has a model any where a target is called like a column of them.
    """
    names = model.config.task.names
    taken = {f"{name}_{end}" for name in names for end in ("low", "high", "set")} & {*names}
    return None if model.artifact.calibration is None or taken else INTERVAL


def predict_rows(model: Predictor, rows: Rows, start: int, count: int) -> Predictions:
    """Predict some rows: what `Predictor.predict` says about them, beside the labels if they are of a split."""
    parts = [
        _predict(model, rows, rows.read(first, min(AT_ONCE, start + count - first)))
        for first in range(start, start + count, AT_ONCE)
    ]
    more = max((part.more for part in parts), key=len, default=())  # rows that cannot be read have none
    return Predictions(model.config, [answer for part in parts for answer in part], more)


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
    own = Predictions(found.config, [], found.more).columns[1:-2]  # without name, warning and error
    answers = [name for name in columns if name in own or name.removesuffix("_true") in found.config.task.names]
    return {"columns": columns, "answers": answers, "rows": rows, "of": of, "csv": text.getvalue()}


def without(folder: str, message: str) -> str:
    """Return a message with the names of files alone."""
    return message.replace(f"{folder}/", "") if folder else message


def is_no_text(name: str, content: bytes) -> bool:
    """Return whether a file that is called a text is none, such as a picture with the name of a table."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return not name.lower().endswith(_BINARY) and not wide and b"\0" in content


def finite(value: Any) -> Any:
    """Return a value that JSON can hold: None in the place of a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _predict(model: Predictor, rows: Rows, readings: list[Reading]) -> Predictions:
    graphs = [reading.graph for reading in readings if reading.graph is not None]
    computed = model.predict(graphs, interval=interval_of(model)) if graphs else Predictions(model.config, [])
    answers, found = iter(computed), []
    for reading in readings:
        answer = Prediction(reading.row, reading.id) if reading.graph is None else next(answers)
        found.append(_beside(model, rows, reading, answer))
    return Predictions(model.config, found, computed.more)


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
