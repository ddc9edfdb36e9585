"""The features of whole graphs (`--features temperature pH`): columns of the table as standardized numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egt.errors import DataError
from egt.sources.custom.raw import LARGEST, RawData, as_numbers, missing_in, text_of
from egt.sources.custom.raw_to_graph import numbers_of
from egt.sources.custom.schema import Feature

Messages = dict[int, str]


def graph_values(raw: RawData, features: Sequence[Feature]) -> tuple[NDArray[np.float32], Messages, Messages]:
    """Return the standardized numbers of all rows, (R, F), warnings about missing ones, and errors, by row.

    Raises:
        DataError: a column holds vectors of another width than in training.
    """
    values: list[NDArray[np.float64]] = []
    filled: Messages = {}
    errors: Messages = {}
    for feature in features:
        numbers, missing, strange = _numbers(raw, feature)
        for row in np.flatnonzero(missing).tolist():
            warning = f"feature {feature.name!r} is missing: the training mean is taken"
            filled[row] = "; ".join(filter(None, (filled.get(row), warning)))
        for row in np.flatnonzero(strange).tolist():
            cell = raw.table[feature.name][row]
            shown = f"{text_of(cell)!r}" if np.ndim(cell) == 0 else f"{cell}"
            where = f"{raw.where} row {raw.first_row + row + 1}"
            errors.setdefault(row, f"{where}: feature {feature.name!r} is {shown}, not a finite number")
        values.append(numbers)
    return np.concatenate(values, axis=1).astype(np.float32), filled, errors


def _numbers(raw: RawData, feature: Feature) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """(R, width) standardized, the mean where there is none; (R,) which are missing, and which are no numbers."""
    column = raw.table[feature.name]
    numbers = as_numbers(column)[0].reshape(raw.num_rows, -1)
    missing = missing_in(column)
    beyond = np.abs(numbers) > LARGEST
    strange = (np.isnan(numbers) | beyond).any(axis=1) & ~missing
    try:
        return numbers_of(np.where(beyond, np.nan, numbers), feature, []), missing, strange
    except DataError as error:
        raise DataError(f"{raw.where}: feature {error}") from error
