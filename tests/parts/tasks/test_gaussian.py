"""A normal distribution for each answer: its likelihood is the loss, its deviation is written and scales intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import egt
from egt.data.batching.batch import GraphBatch
from egt.inference.uncertainty import bounds_of, calibrate
from egt.parts.tasks.regression import Gaussian
from egt.parts.tasks.task import TargetScale, Task
from tests.cli.runs import SMILES, TINY, molecules

NAN = float("nan")
Build = Callable[[Sequence[Sequence[float]]], GraphBatch]
SCALE = TargetScale(mean=(10.0, 0.0), std=(4.0, 0.5))
TASK = Task(Gaussian(names=("a", "b")), "graph", SCALE)


def test_the_loss_is_the_negative_log_likelihood_of_known_labels(graph_batch: Build) -> None:
    prediction = torch.tensor([[0.5, 1.0, math.log(4.0), 0.0], [0.0, 0.0, 1.0, 1.0]])
    total, count = TASK.loss(prediction, graph_batch([[12.0, NAN], [NAN, 0.25]]))
    normal = torch.distributions.Normal
    expected = -normal(12.0, 8.0).log_prob(torch.tensor(12.0)) - normal(0.0, 0.5 * math.exp(0.5)).log_prob(
        torch.tensor(0.25)
    )
    constant = math.log(2 * math.pi) + math.log(4.0) + math.log(0.5)  # of both labels, and of their units
    assert count.item() == 2
    assert total.item() == pytest.approx(expected.item() - constant, rel=1e-5)


def test_means_and_deviations_are_in_the_unit_of_the_targets_and_go_back() -> None:
    outputs = torch.tensor([[0.5, -1.0, math.log(4.0), 0.0]])
    values = TASK.decode(outputs).double().numpy()
    np.testing.assert_allclose(values, [[12.0, -0.5, 8.0, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(TASK.encode(values), outputs, atol=1e-6)
    assert TASK.part.columns(values[0].astype(np.float32)) == {"a": 12.0, "a_std": 8.0, "b": -0.5, "b_std": 0.5}


def test_scores_are_those_of_the_means(graph_batch: Build) -> None:
    scores, labels = TASK.scores(), graph_batch([[13.0, NAN], [8.0, 1.0]]).graph_targets
    assert labels is not None
    scores.update(torch.tensor([[0.5, 9.0, 5.0, 5.0], [0.0, 0.0, 5.0, 5.0]]), labels)
    assert scores.compute()["mae"] == pytest.approx((1 + 2 + 1) / 3)


def test_a_mixture_has_the_variance_within_and_between() -> None:
    rng = np.random.default_rng(0)
    models = np.stack([rng.normal(size=5000), rng.uniform(0.5, 2.0, size=5000)])  # means and deviations
    row = Gaussian(names=("y",)).spread_columns(models.mean(1), models.std(1, ddof=1))
    draws = rng.normal(models[0], models[1])
    assert row["y_std"] == pytest.approx(draws.std(), rel=0.03)


def test_intervals_are_as_wide_as_the_deviations_say_and_hold_as_often() -> None:
    rng, part = np.random.default_rng(0), Gaussian(names=("y",))
    std = rng.uniform(0.1, 5.0, size=(2000, 1))
    values, truth = np.concatenate([np.zeros_like(std), std], axis=1), rng.normal(0.0, 2 * std)  # twice too sure
    calibration = calibrate(part, values[:1000], truth[:1000])
    assert calibration is not None
    bounds = bounds_of(part, calibration, values[1000:], 0.9)
    np.testing.assert_allclose(bounds[:, 0, 1] / std[1000:, 0], 2 * 1.645, rtol=0.1)
    inside = (bounds[:, 0, 0] <= truth[1000:, 0]) & (truth[1000:, 0] <= bounds[:, 0, 1])
    for part_of_rows in (std[1000:, 0] < 1, std[1000:, 0] > 4):
        assert inside[part_of_rows].mean() == pytest.approx(0.9, abs=0.05)


def test_it_is_a_kind_of_task_of_every_command(tmp_path: Path) -> None:
    data = molecules(tmp_path / "t.csv", y=[10.0 * len(text) for text in SMILES])
    settings = (*TINY, "trainer.max_epochs=1", "task.kind=gaussian", "split.fractions=[0.6, 0.2, 0.2]")
    run = egt.train(data, "y", set=settings, out=tmp_path / "run", ensemble=2, progress=False)
    found = egt.load(run.path).predict(["CCO"], interval=0.5)
    assert found.columns.count("y_std") == 1
    row = found.table()[0]
    assert row["y_low"] < row["y"] < row["y_high"]
    own = [egt.load(member.path).predict(["CCO"]).table()[0] for member in run.members]
    assert row["y"] == pytest.approx(np.mean([each["y"] for each in own]), rel=1e-5)
    assert row["y_std"] > min(each["y_std"] for each in own)
    assert egt.load(run.path).evaluate("test") == pytest.approx(run.artifact.metrics["test"])
