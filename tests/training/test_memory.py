"""A run that does not fit into memory is split or refused before it allocates."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from egt.assemble import build_model, preparation
from egt.batching.groups import split as groups_of
from egt.config.load import override
from egt.config.presets import preset
from egt.config.run import RunConfig
from egt.encodings.store import Store, prepare
from egt.errors import ConfigError
from egt.sources.own import GraphsSource
from egt.sources.registry import BENCHMARKS
from egt.training import memory
from egt.training.footprint import measure_footprint, num_parameters, synthetic_graph

TINY = ["model.num_layers=3", "model.node_width=16", "model.edge_width=8", "model.num_heads=2", "data.batch_size=4"]


@pytest.fixture
def config() -> RunConfig:
    return override(preset("zinc-100k"), TINY)


@pytest.fixture
def store(config: RunConfig, tmp_path: Path) -> Store:
    """Graphs of 10 to 40 nodes."""
    random = np.random.default_rng(0)
    graphs = [synthetic_graph(config, size, random, targets=True) for size in (10, 20, 40, 30)]
    source = GraphsSource({"train": graphs}, BENCHMARKS["zinc"].card.target)
    return prepare(source, "train", preparation(config), cache_dir=tmp_path, num_workers=0)


def free(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: int(size))


def test_parameters_are_counted_without_the_model(config: RunConfig) -> None:
    assert num_parameters(config) == build_model(config).num_parameters()


def test_the_footprint_grows_with_layers_and_squares(config: RunConfig) -> None:
    short, long = measure_footprint(config), measure_footprint(override(config, ["model.num_layers=9"]))
    assert long.per_pair > 1.4 * short.per_pair
    small, large = short.graphs(np.array([10, 100]))
    assert 10 < large / small < 100


def test_the_footprint_is_that_of_a_real_step(config: RunConfig) -> None:
    """What autograd keeps for a batch of another size is foretold from the rates."""
    from egt.training import footprint

    sizes = (50, 13)
    deep = override(config, ["model.num_layers=6"])
    kept = footprint._kept_bytes(build_model(deep), deep, sizes)
    foretold = measure_footprint(deep).graphs(np.array(sizes)).sum()
    layer = kept / 6  # the forecast also counts the gradients of one layer
    assert kept < foretold < kept + 2 * layer


def test_enough_memory_changes_nothing(config: RunConfig, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 1e12)
    assert memory.fit_into_memory(config, {"train": store}) is config


def test_a_batch_that_does_not_fit_is_split(
    config: RunConfig, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    footprint = measure_footprint(config)
    needed = footprint.fixed + footprint.graphs(store.sizes).sum()
    there = footprint.fixed + 0.7 * (needed - footprint.fixed)
    free(monkeypatch, there)
    with caplog.at_level(logging.WARNING):
        split = memory.fit_into_memory(config, {"train": store})
    assert split.data.pair_budget is not None
    assert 40**2 <= split.data.pair_budget < (store.sizes**2).sum()
    assert "data.pair_budget" in caplog.text
    groups = groups_of(store.sizes, "packed", split.data.pair_budget)
    assert len(groups) > 1
    assert all(footprint.fixed + footprint.graphs(store.sizes[group]).sum() <= there for group in groups)


def test_a_graph_that_does_not_fit_is_named(config: RunConfig, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    footprint = measure_footprint(config)
    free(monkeypatch, footprint.fixed + 0.5 * footprint.graphs(np.array([40]))[0])
    with pytest.raises(ConfigError, match=r"40 nodes.*model\.edge_width"):
        memory.fit_into_memory(config, {"train": store})


def test_nothing_random_is_touched(config: RunConfig) -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    measure_footprint(config)
    assert torch.equal(before, torch.random.get_rng_state())
