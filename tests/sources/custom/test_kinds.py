from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egt.errors import DataError
from egt.sources.custom.kinds import choose_features, encode_target, guess_feature, guess_target
from egt.sources.custom.raw import Column, column_of_values


def column(*values: Any) -> Column:
    return column_of_values(list(values), "test")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["C", "O", None], "categorical"),
        ([1, 2, 3, None], "categorical"),
        ([True, False], "categorical"),
        ([0.5, 1.0, None], "continuous"),
        (list(range(21)), "continuous"),
        (list(range(20)), "categorical"),
        ([None, None], "ignored"),
        ([[1, 2], [3, 4]], "continuous"),
        ([f"name {k}" for k in range(21)], "ignored"),
    ],
)
def test_feature_kinds(values: list[Any], kind: str) -> None:
    assert guess_feature("f", column(*values)).kind == kind


def test_the_user_may_say_otherwise() -> None:
    columns = {"a": column(1, 2), "v": column([1, 2], [3, 4]), "w": column(1, 1)}
    features = choose_features(columns, "w", {"a": "continuous", "v": "ignored"}, "nodes")
    assert [(feature.name, feature.kind) for feature in features] == [
        ("a", "continuous"),
        ("v", "ignored"),
        ("w", "continuous"),
    ]
    with pytest.raises(DataError, match="no column 'b'; the columns are a, v, w"):
        choose_features(columns, "", {"b": "ignored"}, "nodes")
    with pytest.raises(DataError, match="allowed: categorical, continuous, ignored"):
        choose_features(columns, "", {"a": "number"}, "nodes")
    with pytest.raises(DataError, match="holds vectors"):
        choose_features(columns, "", {"v": "categorical"}, "nodes")


@pytest.mark.parametrize(
    ("columns", "kind", "classes"),
    [
        ([[0, 1, None, 1]], "binary", ("0", "1")),
        ([[1, -1]], "binary", ("-1", "1")),
        ([["no", "yes", "no"]], "binary", ("no", "yes")),
        ([["b", "a", "c", "a", "b", "c"]], "multiclass", ("a", "b", "c")),
        ([[10, 2, 3, 2, 3, 10]], "multiclass", ("2", "3", "10")),
        ([[1, 2, 3]], "regression", ()),
        ([[0.5, 0.5]], "regression", ()),
        ([[0, 1], [None, 1]], "binary", ("0", "1")),
        ([[0, 0, 0]], "binary", ("0", "1")),
        ([[0, 1], [0.5, 1]], "regression", ()),
        ([[2**60 + 1, 2**60 + 3, 2**61 + 1]], "regression", ()),
        ([["00", "01", "00", "01"]], "binary", ("00", "01")),
    ],
)
def test_target_kinds(columns: list[list[Any]], kind: str, classes: tuple[str, ...]) -> None:
    named = {f"t{k}": column(*values) for k, values in enumerate(columns)}
    assert guess_target(named, None, "data") == (kind, classes)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([[None, None]], "no value at all"),
        ([["on", "on"]], "all labels are 'on'"),
        ([["1", "2", "3", "<5"]], "holds numbers, but also '<5'"),
        ([["a", "b", "c", "d", "e"]], "looks like names"),
        ([["a", "b", "c"], ["a", "b", "c"]], "not a number; choose targets of one kind"),
        ([[[1, 2]]], "vectors"),
    ],
)
def test_targets_that_are_not_clear(columns: list[list[Any]], message: str) -> None:
    named = {f"t{k}": column(*values) for k, values in enumerate(columns)}
    with pytest.raises(DataError, match=message):
        guess_target(named, None, "data")


def test_a_given_kind_is_kept_and_checked() -> None:
    assert guess_target({"t": column(0, 1, 2, 0, 1, 2)}, "regression", "data") == ("regression", ())
    assert guess_target({"t": column("1", "2", "<5")}, "regression", "data") == ("regression", ())
    with pytest.raises(DataError, match="needs two values; found 3"):
        guess_target({"t": column(0, 1, 2)}, "binary", "data")


def test_encoding_keeps_missing_and_reports_strange_values() -> None:
    encoded, strange = encode_target(column("b", None, "a", "z"), ["a", "b"])
    np.testing.assert_equal(encoded, [1.0, np.nan, 0.0, np.nan])
    assert strange == ["z"]
    encoded, strange = encode_target(column("1.5", "<5"), [])
    np.testing.assert_equal(encoded, [1.5, np.nan])
    assert strange == ["<5"]
