"""Plans without the data set, from its card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from egt.config.load import override
from egt.data.benchmark import BENCHMARKS
from egt.errors import ConfigError, DataError
from egt.paper.presets import preset
from egt.training.plan import card_sizes, known_sizes, plan
from tests.accelerator import DEVICE, show
from tests.caches import fresh_cache

TINY = ["model.num_layers=3", "model.node_width=16", "model.edge_width=8", "model.num_heads=2"]


@pytest.fixture(autouse=True)
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))


@pytest.mark.parametrize("name", ["zinc", "pattern", "tsp", "pcqm4mv2"])
def test_sizes_of_a_card_have_its_mean_and_range(name: str) -> None:
    card = BENCHMARKS.get(name).card
    sizes, (low, mean, high) = card_sizes(card), card.num_nodes
    assert sizes.min() >= low
    assert sizes.max() == high
    assert sizes.mean() == pytest.approx(mean, rel=0.03)


def test_a_plan_without_the_data() -> None:
    config = override(preset("zinc-100k"), TINY)
    found = plan(config)
    assert found.sizes_from == "the data card"
    assert found.num_graphs == 10_000
    assert found.steps_per_epoch == 79
    assert found.epochs == 600
    assert found.seconds_per_epoch > 0
    assert found.device == "cpu"
    longer = plan(override(config, ["data.batch_size=1024"]))
    assert longer.peak_memory_bytes > found.peak_memory_bytes
    assert longer.pairs_at_once > 4 * found.pairs_at_once


def test_a_pair_budget_bounds_what_is_computed_at_once() -> None:
    config = override(preset("zinc-100k"), [*TINY, "data.pair_budget=5000"])
    assert plan(config).pairs_at_once <= 5000


def test_graphs_that_are_generated_need_no_reading() -> None:
    config = override(preset("pattern-100k"), ["data.options={split_sizes: {train: 7, val: 2, test: 1}}"])
    sizes = known_sizes(config)
    assert sizes.origin == "the data card"
    assert sizes.counts == {"train": 7, "val": 2, "test": 1}
    assert np.all(sizes.train > 1)
    assert sizes.degree == pytest.approx(BENCHMARKS.get("pattern").card.mean_edges / sizes.train.mean(), rel=0.05)


def test_own_data_that_is_gone_is_an_error() -> None:
    with pytest.raises(DataError, match="benchmark"):
        known_sizes(override(preset("zinc-100k"), ["data.source=nothing"]))


def test_what_is_computed_is_told() -> None:
    config = override(preset("zinc-100k"), TINY)
    packed, padded = plan(config), plan(override(config, ["data.layout=padded"]))
    assert (packed.layout, padded.layout, padded.backend) == ("packed", "padded", "plain")
    assert padded.pairs_at_once < packed.pairs_at_once  # groups of like size, one after the other
    if packed.backend == "cpu":
        assert padded.peak_memory_bytes > packed.peak_memory_bytes
    shared = plan(override(config, ["trainer.devices=2"]))
    assert shared.pairs_at_once < 0.7 * packed.pairs_at_once


def test_precision_may_be_written_as_a_number() -> None:
    assert override(preset("zinc-100k"), ["trainer.precision=16"]).trainer.precision == "16"
    with pytest.raises(ConfigError, match=r"data\.num_workers"):
        override(preset("zinc-100k"), ["data.num_workers=100000"])


@pytest.mark.parametrize("setting", ["model.node_width=800000", "model.node_width=80000"])
def test_a_model_that_does_not_fit_is_refused_without_being_allocated(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"the model has [0-9,]+ parameters.* GB are free; lower model.node_width"):
        plan(override(preset("zinc-100k"), [setting]))


def test_an_accelerator_is_planned_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    config = override(preset("zinc-100k"), TINY)
    monkeypatch.setattr("egt.training.plan.measure_seconds", lambda *_: (1.0, 0.5))
    show(monkeypatch)
    monkeypatch.setattr(torch.get_device_module(DEVICE), "free", 10**8)
    there, light = plan(config), plan(override(config, ["trainer.recompute=true"]))
    assert (there.device, there.layout, there.backend) == ("fake", "padded", "plain")
    assert there.available_memory_bytes == 9 * 10**7
    assert light.peak_memory_bytes < there.peak_memory_bytes
