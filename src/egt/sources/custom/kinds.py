"""What a column holds: categories or numbers as a feature; classes or a quantity as a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast, get_args

import numpy as np
from numpy.typing import NDArray

from egt.errors import DataError
from egt.sources.custom.raw import LARGEST, Column, Columns, missing_in, text_of
from egt.sources.custom.schema import Feature, FeatureKind
from egt.sources.source import TargetKind

MAX_NUMBERS_AS_CATEGORIES = 20
MAX_VOCABULARY = 1000


def guess_feature(name: str, column: Column) -> Feature:
    """The kind of a feature column.

    Vectors are continuous. Texts are categories, unless they are all different or too many (names: ignored). Whole
    numbers with at most 20 different values are categories; other numbers are continuous. Nothing there: ignored.
    """
    if column.ndim == 2:
        return Feature(name, "continuous", width=column.shape[1])
    present = column[~missing_in(column)]
    distinct = len(set(present.tolist()))
    if not distinct:
        return Feature(name, "ignored")
    if column.dtype == object:
        names = distinct > MAX_VOCABULARY or (distinct > 20 and 2 * distinct > len(present))
        return Feature(name, "ignored" if names else "categorical")
    return Feature(name, "categorical" if _few_whole(present, distinct) else "continuous")


def choose_features(columns: Columns, weight: str, given: Mapping[str, str], where: str) -> tuple[Feature, ...]:
    """The features of a level: guesses, replaced by what the user says about a column."""
    unknown = sorted(set(given) - set(columns))
    if unknown:
        raise DataError(f"{where}: there is no column {unknown[0]!r}; the columns are {', '.join(columns) or 'none'}")
    features = []
    for name, column in columns.items():
        if name not in given:
            features.append(Feature(name, "continuous") if name == weight else guess_feature(name, column))
            continue
        if given[name] not in get_args(FeatureKind):
            raise DataError(f"{where}: {name!r} is to be {given[name]!r}; allowed: {', '.join(get_args(FeatureKind))}")
        if column.ndim == 2 and given[name] == "categorical":
            raise DataError(f"{where}: {name!r} holds vectors; give one column per category")
        width = column.shape[1] if column.ndim == 2 and given[name] == "continuous" else 1
        features.append(Feature(name, cast(FeatureKind, given[name]), width=width))
    return tuple(features)


def guess_target(columns: Columns, given: TargetKind | None, where: str) -> tuple[TargetKind, tuple[str, ...]]:
    """The kind of the targets and their classes.

    Two values: binary. Texts, or whole numbers with 3 to 20 values that appear twice on average: multiclass. Other
    numbers: regression. Several columns: multi-label if all of them hold the same two values, else regression.
    """
    for name, column in columns.items():
        if column.ndim != 1:
            raise DataError(f"{where}: target {name!r} holds vectors; give one column per target")
    values = [column[~missing_in(column)] for column in columns.values()]
    distinct = sorted_texts({text_of(value) for part in values for value in part})
    if not distinct:
        raise DataError(f"{where}: target {', '.join(columns)} has no value at all")
    kind = given or _target_kind(values, distinct)
    if kind == "regression":
        if given is None:
            _check_numbers(columns, where)
        return kind, ()
    if kind == "multiclass" and len(columns) > 1:
        raise DataError(f"{where}: {len(columns)} targets {list(columns)} with classes; choose one of them as target")
    if kind == "binary":
        distinct = _two(distinct, where)
    elif given is None and any(part.dtype == object for part in values):
        _check_classes(columns, len(distinct), where)
    return kind, tuple(distinct)


def encode_target(column: Column, classes: Sequence[str]) -> tuple[NDArray[np.float64], list[str]]:
    """(n,) numbers or class ids, NaN where there is none, and the values that are neither number nor class.

    A number that no graph can hold, infinity for one, is none.
    """
    strange: list[str] = []
    if not classes:
        numbers, strange = as_numbers(column)
        beyond = np.abs(numbers) > LARGEST
        return np.where(beyond, np.nan, numbers), [*strange, *(f"{number:g}" for number in numbers[beyond])]
    id_of = {name: float(number) for number, name in enumerate(classes)}
    encoded = np.full(len(column), np.nan)
    for row in np.flatnonzero(~missing_in(column)):
        name = text_of(column[row])
        if name in id_of:
            encoded[row] = id_of[name]
        else:
            strange.append(name)
    return encoded, strange


def as_numbers(column: Column) -> tuple[NDArray[np.float64], list[str]]:
    """(n,) or (n, width) numbers, NaN where there is none, and the texts that are not numbers."""
    if column.dtype != object:
        return column, []
    numbers = np.full(len(column), np.nan)
    strange: list[str] = []
    for row in np.flatnonzero(~missing_in(column)):
        try:
            numbers[row] = float(column[row])
        except ValueError:
            strange.append(column[row])
    return numbers, strange


def sorted_texts(texts: set[str]) -> list[str]:
    """Numbers by size, then texts by letter."""

    def key(text: str) -> tuple[int, float, str]:
        try:
            return 0, float(text), text
        except ValueError:
            return 1, 0.0, text

    return sorted(texts, key=key)


def _few_whole(present: Column, distinct: int) -> bool:
    whole = np.isfinite(present).all() and (present == np.rint(present)).all()
    return bool(whole) and distinct <= MAX_NUMBERS_AS_CATEGORIES


def _target_kind(values: list[Column], distinct: list[str]) -> TargetKind:
    numbers = [as_numbers(part) for part in values]
    numeric = not any(strange for _, strange in numbers)
    rows = sum(len(part) for part in values)
    whole = numeric and all(_few_whole(part, len(distinct)) for part, _ in numbers)
    if len(distinct) <= 2 and (whole or not numeric):
        return "binary"
    if len(values) == 1 and (not numeric or (whole and 2 * len(distinct) <= rows)):
        return "multiclass"
    return "regression"


def _two(distinct: list[str], where: str) -> list[str]:
    if len(distinct) == 1 and distinct[0] in ("0", "1"):
        return ["0", "1"]
    if len(distinct) == 1:
        raise DataError(f"{where}: all labels are {distinct[0]!r}; there is nothing to learn from one class")
    if len(distinct) != 2:
        raise DataError(f"{where}: a binary target needs two values; found {len(distinct)}: {distinct[:10]}")
    return distinct


def _check_numbers(columns: Columns, where: str) -> None:
    for name, column in columns.items():
        strange = as_numbers(column)[1]
        if strange:
            raise DataError(
                f"{where}: target {name!r} holds {strange[0]!r}, which is not a number; choose targets of one kind, "
                "or say overrides kind=regression to treat such labels as missing"
            )


def _check_classes(columns: Columns, num_classes: int, where: str) -> None:
    (name, column) = next(iter(columns.items()))
    present = int((~missing_in(column)).sum())
    strange = as_numbers(column)[1]
    if strange and len(strange) < present / 2:
        raise DataError(
            f"{where}: target {name!r} holds numbers, but also {strange[0]!r}; say overrides kind=regression to treat "
            "such labels as missing, or kind=multiclass if its values are names"
        )
    if num_classes > MAX_VOCABULARY or 2 * num_classes > present > 3:
        raise DataError(
            f"{where}: target {name!r} holds {num_classes} different texts in {present} rows; that looks like names. "
            "Choose another target, or say overrides kind=multiclass"
        )
