"""A run with patience ends when validation no longer becomes better, by the loss or by the metric; resumed or not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from egt.config.run import RunConfig
from egt.errors import ConfigError
from egt.parts.schedules import ConstantRate
from egt.training.run import Run, train_on
from tests.training.tiny import tiny_config, tiny_samples


def config(**trainer: Any) -> RunConfig:
    return tiny_config(optimizer={"lr": 0.1}, trainer={"max_epochs": 40, "patience": 3, **trainer})


def run(folder: Path, run: RunConfig, **options: Any) -> Run:
    samples, validation = tiny_samples(run, 37), tiny_samples(run, 11, seed=1)
    return train_on(run, samples, validation, folder=folder, show_progress=False, **options)


def test_it_ends_after_so_many_epochs_without_a_better_loss(tmp_path: Path) -> None:
    result = run(tmp_path, config())
    losses = [row["val_loss"] for row in result.history]
    assert len(losses) < 40
    assert result.epoch == len(losses) - 1 - 3 == losses.index(min(losses))
    again = run(tmp_path, config(), resume=True)  # it has ended, and stays so
    assert len(again.history) == len(losses)


def test_a_run_that_was_interrupted_ends_where_the_whole_one_does(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", config())
    run(tmp_path / "parts", config(max_epochs=len(whole.history) - 2))
    parts = run(tmp_path / "parts", config(), resume=True)
    assert (parts.epoch, len(parts.history)) == (whole.epoch, len(whole.history))
    assert all(torch.equal(parts.weights[name], weight) for name, weight in whole.weights.items())


def test_weights_are_selected_by_the_metric_on_request(tmp_path: Path) -> None:
    result = run(tmp_path, config(select_by="metric", patience=None, max_epochs=6))
    errors = [row["val_mae"] for row in result.history]
    assert result.epoch == errors.index(min(errors))


def test_patience_needs_a_validation_split(tmp_path: Path) -> None:
    patient = config(select="last")
    patient = patient.model_copy(update={"schedule": ConstantRate()})
    with pytest.raises(ConfigError, match=r"trainer\.patience"):
        train_on(patient, tiny_samples(patient, 9), None, tmp_path, show_progress=False)


def test_log_lines_count_epochs_from_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "egt.training.callbacks")
    result = run(tmp_path, config(max_epochs=2))
    assert [record.getMessage().split(",")[0] for record in caplog.records] == ["epoch 1", "epoch 2"]
    assert [row["epoch"] for row in result.history] == [0, 1]
