"""The order of training: pure, complete, the same batch however many processes share it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from benchmarks.padding import padded_share
from egt.data.batching.loader import Epoch, Sampling, evaluation_batches, permutation
from egt.errors import ConfigError
from egt.paper.benchmarks.block_models import PATTERN_SEED, pattern_graph

SIZES = np.random.default_rng(0).integers(5, 60, 1000)
MODES: tuple[Literal["exact", "buckets"], ...] = ("exact", "buckets")


def whole_steps(epoch: Epoch) -> list[list[int]]:
    return [np.concatenate(step).tolist() for step in epoch.steps]


@pytest.mark.parametrize("mode", MODES)
def test_an_epoch_is_a_pure_function_of_seed_and_epoch(mode: Literal["exact", "buckets"]) -> None:
    first, again = (Sampling(SIZES, 32, seed=5, mode=mode) for _ in range(2))
    assert whole_steps(first.epoch(3)) == whole_steps(again.epoch(3))
    assert whole_steps(first.epoch(3)) != whole_steps(first.epoch(4))
    assert whole_steps(first.epoch(3)) != whole_steps(Sampling(SIZES, 32, seed=6, mode=mode).epoch(3))


@pytest.mark.parametrize("mode", MODES)
def test_each_graph_occurs_once_in_an_epoch_and_the_tail_is_kept(mode: Literal["exact", "buckets"]) -> None:
    epoch = Sampling(SIZES, 32, mode=mode, layout="padded", pair_budget=20_000).epoch(0)
    assert sorted(np.concatenate([group for step in epoch for group in step]).tolist()) == list(range(1000))
    assert len(epoch) == Sampling(SIZES, 32, mode=mode).num_steps == 32


@pytest.mark.parametrize("mode", MODES)
def test_the_rest_of_an_epoch_is_its_tail(mode: Literal["exact", "buckets"]) -> None:
    sampling = Sampling(SIZES, 32, mode=mode, accumulate=2, layout="padded")
    whole, rest = sampling.epoch(1), sampling.epoch(1, start=7)
    assert len(whole) == sampling.num_steps == 16
    assert [[g.tolist() for g in step] for step in rest] == [[g.tolist() for g in step] for step in whole[7:]]


@pytest.mark.parametrize("mode", MODES)
def test_processes_share_the_batch_of_one_process(mode: Literal["exact", "buckets"]) -> None:
    alone = Sampling(SIZES, 32, mode=mode).epoch(0)
    shares = [Sampling(SIZES, 32, mode=mode, rank=rank, num_ranks=3).epoch(0) for rank in range(3)]
    for position, step in enumerate(alone):
        shared = np.concatenate([group for share in shares for group in share[position]])
        assert sorted(shared.tolist()) == sorted(np.concatenate(step).tolist())
        work = [sum(int((SIZES[group] ** 2).sum()) for group in share[position]) for share in shares]
        assert max(work) < 1.9 * min(work)


def test_a_process_may_have_nothing_to_do_in_a_small_last_batch() -> None:
    sampling = Sampling(np.full(5, 4), 4, rank=1, num_ranks=2)
    assert [len(step) for step in sampling.epoch(0)] == [1, 0]


def test_buckets_have_like_sizes_and_differ_between_epochs() -> None:
    sampling = Sampling(SIZES, 32, mode="buckets")
    batches = [np.concatenate(step) for step in sampling.epoch(0)]
    assert padded_share(SIZES[batch] for batch in batches) < 0.1
    companions = [{frozenset(step) for step in whole_steps(sampling.epoch(epoch))} for epoch in (0, 1)]
    assert companions[0] != companions[1]


def test_exact_batches_are_random_whatever_the_sizes() -> None:
    steps = whole_steps(Sampling(SIZES, 100).epoch(0))
    means = [SIZES[step].mean() for step in steps]
    assert max(means) - min(means) < 15
    assert steps == whole_steps(Sampling(np.ones_like(SIZES), 100).epoch(0))


@pytest.fixture(scope="module")
def pattern_sizes() -> np.ndarray:
    return np.array([pattern_graph(PATTERN_SEED, "train", number).num_nodes for number in range(400)])


@pytest.mark.parametrize("mode", MODES)
def test_batches_of_pattern_graphs_have_little_padding(
    mode: Literal["exact", "buckets"], pattern_sizes: np.ndarray
) -> None:
    epoch = Sampling(pattern_sizes, 128, mode=mode, layout="padded").epoch(0)
    random = padded_share(pattern_sizes[batch] for batch in whole_steps(Sampling(pattern_sizes, 128).epoch(0)))
    share = padded_share(pattern_sizes[group] for step in epoch for group in step)
    groups = sum(len(step) for step in epoch) / len(epoch)
    print(f"PATTERN, batch 128, {mode}: {share:.1%} of the pair cells are padding, {random:.1%} in random batches")
    assert share < 0.1
    assert random > 0.35
    assert groups < 12, "few groups: a batch is not cut into single graphs"


def test_evaluation_visits_each_graph_once_over_all_processes() -> None:
    shares = [evaluation_batches(SIZES, 64, "padded", pair_budget=30_000, rank=rank, num_ranks=2) for rank in range(2)]
    assert sorted(np.concatenate([batch for share in shares for batch in share]).tolist()) == list(range(1000))
    assert padded_share(SIZES[batch] for batch in shares[0]) < 0.1


def test_budget_is_checked_before_anything_is_computed() -> None:
    with pytest.raises(ConfigError, match="pair_budget"):
        Sampling(SIZES, 32, pair_budget=100)


def test_the_order_never_changes_between_versions() -> None:
    assert permutation(8, 0, 0).tolist() == [3, 2, 1, 6, 0, 7, 4, 5]
