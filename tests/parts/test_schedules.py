"""Learning rates: the authors' plateau rule and the warm-up with half a cosine, by hand."""

from __future__ import annotations

import math

import pytest

from egt.parts.schedules import ConstantRate, Cosine, CosineSchedule, Plateau, PlateauSchedule, WarmupCosine


def rates(schedule: PlateauSchedule, losses: list[float]) -> list[float]:
    seen = []
    for loss in losses:
        schedule.observe(loss)
        seen.append(schedule.rate(0))
    return seen


def test_the_rate_falls_after_exactly_patience_epochs_without_a_strictly_better_loss() -> None:
    schedule = PlateauSchedule(1.0, 0.5, 2, 0.1)
    # 1.0 is the best; an equal loss is no improvement; the count restarts at each reduction.
    assert rates(schedule, [1.0, 1.0, 1.2, 1.1, 1.1]) == [1.0, 1.0, 0.5, 0.5, 0.25]
    # A better loss restarts the count, too; the floor holds.
    assert rates(schedule, [1.05, 0.9, 0.9, 0.9, 0.9, 0.9]) == [0.25, 0.25, 0.25, 0.125, 0.125, 0.1]
    assert rates(schedule, [0.9, 0.9, 0.9, 0.9]) == [0.1, 0.1, 0.1, 0.1]


def test_the_best_loss_stays_after_a_reduction() -> None:
    schedule = PlateauSchedule(1.0, 0.5, 1, 0.0001)
    assert rates(schedule, [1.0, 2.0, 1.5, 1.2]) == [1.0, 0.5, 0.25, 0.125]


def test_a_rate_below_the_floor_is_not_raised() -> None:
    schedule = PlateauSchedule(1e-6, 0.5, 1, 5e-6)
    assert rates(schedule, [1.0, 1.0]) == [1e-6, 1e-6]


def test_a_kept_state_continues() -> None:
    losses = [1.0, 1.1, 1.1, 0.8, 0.9, 0.9, 0.9, 0.9]
    whole = rates(PlateauSchedule(1.0, 0.5, 2, 0.01), losses)
    first, second = PlateauSchedule(1.0, 0.5, 2, 0.01), PlateauSchedule(1.0, 0.5, 2, 0.01)
    start = rates(first, losses[:5])
    second.restore(first.state())
    assert start + rates(second, losses[5:]) == whole


def test_warmup_is_linear_and_the_cosine_ends_at_the_floor() -> None:
    schedule = CosineSchedule(1.0, 0.1, warmup_steps=4, total_steps=12)
    assert schedule.rate(0) == 0.1
    assert schedule.rate(1) == pytest.approx(0.1 + 0.9 / 4)
    assert schedule.rate(4) == 1.0
    assert schedule.rate(6) == pytest.approx(0.1 + 0.45 * (1 + math.cos(math.pi / 4)))
    assert schedule.rate(8) == pytest.approx(0.55)
    assert schedule.rate(12) == pytest.approx(0.1)
    assert schedule.rate(13) == pytest.approx(0.1)


def test_no_warmup_starts_at_the_full_rate() -> None:
    assert CosineSchedule(1.0, 0.1, warmup_steps=0, total_steps=10).rate(0) == 1.0


def test_settings_build_their_schedule() -> None:
    assert Plateau().build(0.01).rate(5) == 0.01
    assert WarmupCosine(warmup_steps=2, total_steps=8).build(0.01).rate(0) == 1e-6
    assert ConstantRate().build(0.01).rate(10**6) == 0.01


def test_a_cosine_is_as_long_as_the_run() -> None:
    schedule = Cosine(warmup=0.1, min_lr=1e-5).of_length(200).build(1e-3)
    assert schedule.rate(0) == 1e-5
    assert schedule.rate(10) == pytest.approx((1e-3 + 1e-5) / 2)
    assert schedule.rate(20) == 1e-3
    assert schedule.rate(110) == pytest.approx((1e-3 + 1e-5) / 2)
    assert schedule.rate(200) == pytest.approx(1e-5)
    assert Cosine(warmup=0.9).of_length(1).build(1e-3).rate(0) == 1e-3
    assert Plateau().of_length(7) == Plateau()
