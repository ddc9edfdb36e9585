"""Rows are divided as asked: at random, by class, by scaffold, by a column, in folds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from egt.data.columns import column_of_values
from egt.data.custom import open_custom
from egt.data.schema import (
    Codes,
    Fold,
    column_split,
    even_split,
    is_split_column,
    random_split,
    scaffold_split,
    stratified_split,
)
from egt.errors import DataError

FRACTIONS = (0.8, 0.1, 0.1)


@given(st.integers(0, 300), st.integers(0, 5))
def test_random_splits_have_the_right_sizes_and_depend_on_the_seed_only(count: int, seed: int) -> None:
    codes = random_split(count, FRACTIONS, seed)
    np.testing.assert_array_equal(codes, random_split(count, FRACTIONS, seed))
    sizes = np.bincount(codes, minlength=3)
    assert sizes.sum() == count
    np.testing.assert_allclose(sizes, np.array(FRACTIONS) * count, atol=1)


def test_seeds_differ() -> None:
    assert (random_split(100, FRACTIONS, 0) != random_split(100, FRACTIONS, 1)).any()


def test_stratified_keeps_the_share_of_each_class() -> None:
    labels = np.repeat([0.0, 1.0, np.nan], [500, 50, 20])
    codes = stratified_split(labels, FRACTIONS, 3, continuous=False)
    assert np.bincount(codes[:500]).tolist() == [400, 50, 50]
    assert np.bincount(codes[500:550]).tolist() == [40, 5, 5]
    assert np.bincount(codes[550:]).tolist() == [16, 2, 2]


def test_stratified_numbers_are_grouped_by_decile() -> None:
    values = np.random.default_rng(0).permutation(np.arange(1000.0))
    codes = stratified_split(values, FRACTIONS, 0, continuous=True)
    for low in range(0, 1000, 100):
        inside = codes[(values >= low) & (values < low + 100)]
        np.testing.assert_allclose(np.bincount(inside, minlength=3), [80, 10, 10], atol=2)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=9), st.integers(0, 3))
def test_even_splits_divide_each_class_and_all_rows(sizes: list[int], seed: int) -> None:
    groups = np.random.default_rng(1).permutation(np.repeat([*range(len(sizes) - 1), np.nan], sizes))
    codes = even_split(groups, FRACTIONS, seed)
    for members in (*(groups == group for group in range(len(sizes))), np.isnan(groups), groups == groups):
        found = np.bincount(codes[members], minlength=3)
        np.testing.assert_allclose(found, np.array(FRACTIONS) * members.sum(), atol=2)
        assert abs(found[0] - FRACTIONS[0] * members.sum()) <= 1
    np.testing.assert_array_equal(codes, even_split(groups, FRACTIONS, seed))


def test_rare_classes_are_in_every_split() -> None:
    groups = np.repeat([0.0, 1.0], [285, 15])
    for seed in range(20):
        assert set(even_split(groups, FRACTIONS, seed)[285:].tolist()) == {0, 1, 2}
    many = even_split(np.repeat(np.arange(20.0), 5), FRACTIONS, 0)
    assert np.bincount(many).tolist() == [80, 10, 10], "classes of five rows leave none of the splits empty"
    codes = [even_split(groups, Fold(number=number, of=5), 0) for number in range(5)]
    assert [int((code[285:] == 2).sum()) for code in codes] == [3] * 5


def test_classes_are_divided_evenly_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    rows = [
        f"{'C' * (n % 30 + 1)}{'O' * (n // 30 + 1)},{int(n % 20 == 0)},{int(n % 25 == 7)},{n / 7}" for n in range(300)
    ]
    (tmp_path / "m.csv").write_text("smiles,active,rare,number\n" + "\n".join(rows) + "\n")

    def kind(*targets: str, **options: Any) -> str:
        return open_custom(tmp_path / "m.csv", target=targets, **options).schema.split.kind

    assert [kind("active"), kind("active", "rare"), kind("number")] == ["even", "even", "random"]
    assert kind("active", split="random") == "random"
    source = open_custom(tmp_path / "m.csv", target=["active", "rare"])
    for split in ("train", "val", "test"):
        graphs = [source.read(record).graph for record in source.records(split)]
        labels = np.array([graph.graph_targets for graph in graphs if graph is not None])
        assert labels.any(axis=0).all(), "each label has a positive row in each split"
    with pytest.raises(DataError, match="random"):
        open_custom(tmp_path / "m.csv", target="number", split="even")


def test_scaffolds_stay_together_and_the_largest_go_to_train() -> None:
    pytest.importorskip("rdkit")
    benzenes = ["c1ccccc1" + "C" * k for k in range(8)]
    pyridine, cyclohexane = "Cc1ccncc1", "CC1CCCCC1"
    smiles = [pyridine, *benzenes, cyclohexane]
    codes = scaffold_split(smiles, FRACTIONS)
    assert codes[1:9].tolist() == [0] * 8
    assert codes[9] == 1, "of scaffolds of one size the later comes first"
    assert codes[0] == 2


def test_unreadable_molecules_do_not_stop_a_scaffold_split() -> None:
    pytest.importorskip("rdkit")
    assert scaffold_split(["C1CC", None, "c1ccccc1"], (1.0, 0.0, 0.0)).tolist() == [0, 0, 0]


def test_column_split_reads_the_usual_words() -> None:
    words = column_of_values(["Train", "valid", "TEST ", None, "dev", "training"], "split")
    assert column_split(words, "split").tolist() == [0, 1, 2, -1, 1, 0]
    assert is_split_column(words)
    with pytest.raises(DataError, match="'holdout'"):
        column_split(column_of_values(["train", "holdout"], "split"), "data")
    assert not is_split_column(column_of_values([1, 2], "split"))


@pytest.mark.parametrize("kind", ["random", "stratified", "scaffold"])
def test_folds_test_every_row_once_and_validate_on_the_part_before(kind: str) -> None:
    labels = np.arange(50.0) % 2
    smiles = ["c1ccccc1" + "C" * (k // 5) if k % 5 else f"C1{'C' * (k // 2 + 2)}C1" for k in range(50)]

    def codes(number: int) -> Codes:
        fold = Fold(number=number, of=5)
        if kind == "random":
            return random_split(50, fold, 3)
        return (
            scaffold_split(smiles, fold) if kind == "scaffold" else stratified_split(labels, fold, 3, continuous=False)
        )

    if kind == "scaffold":
        pytest.importorskip("rdkit")
    each = np.stack([codes(number) for number in range(5)])
    np.testing.assert_array_equal((each == 2).sum(0), 1)
    np.testing.assert_array_equal(each == 1, np.roll(each == 2, 1, axis=0))
    if kind == "scaffold":
        benzenes = [k for k in range(50) if k % 5]
        assert len({tuple(column) for column in each[:, benzenes].T}) == 1
    else:
        np.testing.assert_array_equal((each == 2).sum(1), 10)
    if kind == "stratified":
        np.testing.assert_array_equal((each[:, labels == 1] == 2).sum(1), 5)


def test_there_is_no_fold_beyond_the_last() -> None:
    with pytest.raises(ValidationError, match="fold"):
        Fold(number=5, of=5)
