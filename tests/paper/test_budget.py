"""A run that is cut keeps its shape: the schedule shrinks with the epochs, and only then the data."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from egt.config.run import RunConfig
from egt.paper.presets import preset
from egt.paper.reproduce import MIN_EPOCHS, fit_into, with_epochs
from egt.parts.schedules import Plateau, WarmupCosine
from egt.training.plan import Plan

PLAN = Plan(
    parameters=1, peak_memory_bytes=1, available_memory_bytes=1, seconds_per_epoch=20.0, steps_per_epoch=79,
    epochs=600.0, num_graphs=10_000, mean_nodes=23.0, largest_nodes=37, pairs_at_once=1, layout="packed",
    backend="plain", device="cpu", sizes_from="",
)  # fmt: skip


def plateau(config: RunConfig) -> Plateau:
    assert isinstance(config.schedule, Plateau)
    return config.schedule


def test_enough_time_changes_nothing() -> None:
    zinc = preset("zinc-100k")
    assert fit_into(zinc, PLAN, 200.0) == zinc
    assert with_epochs(zinc, 600) == zinc


def test_half_the_time_gives_half_the_epochs_and_half_the_patience() -> None:
    half = fit_into(preset("zinc-100k"), PLAN, 100.0)
    assert half.trainer.max_epochs == 300
    assert plateau(half).patience == 10
    assert half.data.train_share == 1
    assert plateau(half).min_lr == plateau(preset("zinc-100k")).min_lr


def test_with_very_little_time_there_are_fewer_graphs() -> None:
    short = fit_into(preset("zinc-100k"), PLAN, 1.0)  # three epochs' worth
    assert short.trainer.max_epochs == MIN_EPOCHS
    assert short.data.train_share == pytest.approx(0.3)
    assert plateau(short).patience == 3  # less would follow noise
    assert short.data.batch_size == 128


def test_epochs_alone_leave_the_data_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path))
    large = with_epochs(preset("pcqm4mv2-small"), 2)
    assert large.trainer.max_steps == 2 * math.ceil(3_378_606 / 512)
    assert large.data.train_share == 1
    short = with_epochs(preset("zinc-100k"), 3)
    assert (short.trainer.max_epochs, short.data.train_share) == (3, 1)


def test_a_run_of_steps_keeps_its_warm_up_and_leaves_out_graphs_it_never_sees() -> None:
    large = preset("pcqm4mv2-small")
    plan = replace(
        PLAN, seconds_per_epoch=6_600.0, steps_per_epoch=6_600, epochs=1_000_001 / 6_600, num_graphs=3_378_606
    )
    short = fit_into(large, plan, 1_000 / 60)  # a second a step
    assert short.trainer.max_steps == 1_000
    assert isinstance(short.schedule, WarmupCosine)
    assert (short.schedule.warmup_steps, short.schedule.total_steps) == (200, 1_000)
    assert short.data.train_share == pytest.approx(1_000 * 512 / 3_378_606, rel=1e-3)
