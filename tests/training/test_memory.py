"""A run that does not fit into memory is split or refused before it allocates."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.loader import split as groups_of
from egt.data.benchmark import BENCHMARKS
from egt.data.custom import GraphsSource
from egt.data.store import Store, prepare
from egt.errors import ConfigError
from egt.inference.backends import execution, prediction_bytes
from egt.paper.presets import preset
from egt.training import memory
from egt.training.memory import Footprint, Memory, synthetic_graph
from egt.training.run import train_on
from tests.accelerator import show

TINY = ["model.num_layers=3", "model.node_width=16", "model.edge_width=8", "model.num_heads=2", "data.batch_size=4"]


@pytest.fixture
def config() -> RunConfig:
    return override(preset("zinc-100k"), TINY)


@pytest.fixture
def footprint(config: RunConfig) -> Footprint:
    return Memory(config).footprint(2.0)


def make(config: RunConfig, folder: Path, sizes: Sequence[int] = (10, 20, 40, 30)) -> Store:
    random = np.random.default_rng(0)
    graphs = [synthetic_graph(config, size, random, targets=True) for size in sizes]
    source = GraphsSource({"train": graphs}, BENCHMARKS.get("zinc").card.target)
    return prepare(source, "train", preparation(config), cache_dir=folder, num_workers=0)


@pytest.fixture
def store(config: RunConfig, tmp_path: Path) -> Store:
    return make(config, tmp_path)


def fit_into_memory(config: RunConfig, stores: Mapping[str, Store]) -> RunConfig:
    return Memory(config).fit_run(config, stores)


def free(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: int(size))


def test_enough_memory_changes_nothing(config: RunConfig, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 1e12)
    assert fit_into_memory(config, {"train": store}) is config


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_a_batch_that_does_not_fit_is_split(
    layout: str,
    config: RunConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = override(config, [f"data.layout={layout}"])
    store = make(config, tmp_path, (40, 38, 40, 39))
    footprint = Memory(config).footprint(2.0)
    there = footprint.fixed + 0.7 * footprint.largest_part(store.sizes, None)[0]
    free(monkeypatch, there)
    with caplog.at_level(logging.WARNING):
        split = fit_into_memory(config, {"train": store})
    assert split.data.pair_budget is not None
    assert 40**2 <= split.data.pair_budget < (store.sizes**2).sum()
    assert "data.pair_budget" in caplog.text
    assert len(groups_of(store.sizes, footprint.layout, split.data.pair_budget)) > 1
    assert footprint.fixed + footprint.largest_part(store.sizes, split.data.pair_budget)[0] <= there


def test_a_process_computes_only_its_share(
    config: RunConfig, footprint: Footprint, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 4 * (footprint.fixed + 0.7 * footprint.largest_part(store.sizes, None)[0]))
    four = override(config, ["trainer.devices=4"])  # each has a quarter of the memory, and one graph of the batch
    assert fit_into_memory(four, {"train": store}).data.pair_budget is None


def test_a_graph_that_does_not_fit_is_named(
    config: RunConfig, footprint: Footprint, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, footprint.fixed + 0.5 * footprint.graphs(np.array([40]))[0])
    with pytest.raises(ConfigError, match=r"model\.edge_width"):
        fit_into_memory(config, {"train": store})


@pytest.mark.parametrize("name", ["val", "test"])
def test_a_graph_that_cannot_be_evaluated_is_named(
    name: str, config: RunConfig, footprint: Footprint, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = make(config, tmp_path / "large", (5, 300))
    needed = footprint.fixed + prediction_bytes(config, 300, execution(config, training=False))
    free(monkeypatch, 0.9 * needed)
    with pytest.raises(ConfigError, match=name):
        fit_into_memory(config, {"train": store, name: large})
    free(monkeypatch, 1.1 * needed)
    fit_into_memory(config, {"train": store, name: large})


def test_a_graph_that_is_only_evaluated_may_have_more_pairs_than_a_part_of_a_batch(
    config: RunConfig, footprint: Footprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs less memory than a training step on it: the run is split, and still validates."""
    train = make(config, tmp_path, (40, 40, 38, 38))
    large = make(config, tmp_path / "large", (5, 60))
    free(monkeypatch, footprint.fixed + 0.55 * footprint.largest_part(train.sizes, None)[0])
    short = override(config, ["trainer.max_epochs=1", "task.names=[target]"])
    split = fit_into_memory(short, {"train": train, "val": large})
    assert split.data.pair_budget is not None
    assert split.data.pair_budget < 60**2
    result = train_on(split, train, large, folder=tmp_path / "run", show_progress=False)
    assert np.isfinite(result.metrics["loss"])


def test_a_model_that_does_not_fit_by_itself_is_said(
    config: RunConfig, footprint: Footprint, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 0.9 * footprint.fixed)
    with pytest.raises(ConfigError, match=r"model\.node_width"):
        fit_into_memory(config, {"train": store})


def test_lists_of_edges_that_do_not_fit_are_refused(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparse = override(config, ["data.layout=edge_list", "model.scope=neighbors", "task.auxiliary=[]"])
    store = make(sparse, tmp_path, (400, 400, 400, 400))
    footprint = Memory(sparse).footprint(2.0)
    free(monkeypatch, footprint.fixed + 0.7 * footprint.largest_part(store.sizes, None)[0])
    with pytest.raises(ConfigError, match=r"data\.batch_size"):
        fit_into_memory(sparse, {"train": store})


def test_a_graph_too_large_for_an_accelerator_is_told_to_recompute(
    config: RunConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 1e6)
    show(monkeypatch)
    with pytest.raises(ConfigError, match=r"--set.*trainer.recompute"):
        fit_into_memory(config, {"train": store})
    with pytest.raises(ConfigError) as error:
        fit_into_memory(override(config, ["trainer.recompute=true"]), {"train": store})
    assert "recompute" not in str(error.value)
