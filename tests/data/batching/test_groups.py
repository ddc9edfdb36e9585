"""Groups of like size: nothing lost, little padding, never over the budget."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.padding import padded_share
from egt.data.batching.batch import LayoutName
from egt.data.batching.loader import MAX_PADDED_SHARE, IntArray, check_budget, split
from egt.errors import ConfigError

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=60).map(lambda sizes: np.array(sizes, np.int64))


def fewest_groups(sizes: IntArray) -> int:
    """By trying all ways to cut the sorted sizes."""
    ordered = np.sort(sizes)
    for num_cuts in range(len(ordered)):
        for cuts in combinations(range(1, len(ordered)), num_cuts):
            if padded_share(np.split(ordered, cuts)) <= MAX_PADDED_SHARE:
                return num_cuts + 1
    raise AssertionError("single graphs have no padding")


@given(SIZES, st.sampled_from(["packed", "padded"]), st.none() | st.integers(1600, 6000))
def test_each_graph_is_in_one_group_within_all_limits(sizes: IntArray, layout: LayoutName, budget: int | None) -> None:
    groups = split(sizes, layout, budget)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(sizes)))
    for group in groups:
        own = sizes[group]
        assert (np.diff(own) >= 0).all()
        cells = (own**2).sum() if layout == "packed" else len(own) * own.max() ** 2
        assert budget is None or cells <= budget
    if layout == "padded":
        assert padded_share(sizes[group] for group in groups) <= MAX_PADDED_SHARE + 1e-12


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9).map(lambda sizes: np.array(sizes, np.int64)))
def test_padded_groups_are_as_few_as_can_be(sizes: IntArray) -> None:
    assert len(split(sizes, "padded")) == fewest_groups(sizes)


def test_packed_graphs_stay_together_sorted_by_size() -> None:
    assert [group.tolist() for group in split(np.array([5, 2, 9, 2]), "packed")] == [[1, 3, 0, 2]]
    assert [group.tolist() for group in split(np.array([5, 2, 9, 2]), "packed", 90)] == [[1, 3, 0], [2]]
    assert [group.tolist() for group in split(np.array([5, 2, 9, 2]), "edge_list", 90)] == [[1, 3, 0, 2]]


def test_padded_share_by_hand() -> None:
    assert padded_share([np.array([1, 2]), np.array([3])]) == pytest.approx(1 - (1 + 4 + 9) / (8 + 9))


def test_a_graph_over_the_budget_is_named_with_the_setting() -> None:
    check_budget(np.array([10, 20]), "packed", 400)
    with pytest.raises(ConfigError, match=r"data\.pair_budget"):
        check_budget(np.array([10, 20]), "packed", 399)


def test_real_zinc_batches_have_little_padding(data_dir: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(data_dir / "zinc" / "zinc12k.parquet", columns=["split", "atom_type"])
    rows = zip(table["split"].to_pylist(), table["atom_type"].to_pylist(), strict=True)
    sizes = np.array([len(atoms) for part, atoms in rows if part == "train"])
    order = np.random.default_rng(0).permutation(len(sizes))
    batches = [sizes[order[k : k + 128]] for k in range(0, len(sizes), 128)]
    assert 0.5 < padded_share(batches) < 0.6  # what random padding wastes
    assert padded_share(batch[group] for batch in batches for group in split(batch, "padded")) < 0.1
