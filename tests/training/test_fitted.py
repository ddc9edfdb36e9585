"""Constants fitted to the training graphs go where the weights go, and a cosine keeps its length."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from egt.config.run import RunConfig
from egt.data.encodings.encoding import Sample
from egt.errors import ConfigError, RunError
from egt.parts.schedules import Cosine
from egt.training.callbacks import Callback
from egt.training.finetune import Start
from egt.training.run import Run, train_on
from egt.training.run_folder import StepSums
from egt.training.state import State
from tests.training.tiny import tiny_config, tiny_samples

WALK = {"kind": "random_walk", "num_steps": 3, "scaled": True}
CONSTANTS = ("embed.node_terms.1.scale", "embed.pair_terms.1.scale", "readout.mean_size")


def config(**changes: Any) -> RunConfig:
    model = {
        "node_inputs": [{"kind": "node_categories", "sizes": [3]}, WALK],
        "pair_inputs": [{"kind": "distance", "max_hops": 4}, {**WALK, "bias": False}],
        "readout": {"kind": "scaled_sum"},
    }
    optimizer = {"lr": 0.01, "weight_decay": 0.1, "decays": "matrices"}
    trainer = {"max_epochs": 2, "ema_decay": 0.9, "gradient_clip": 1.0, **changes.pop("trainer", {})}
    return tiny_config(model=model, schedule=Cosine(warmup=0.2), optimizer=optimizer, trainer=trainer, **changes)


class Interrupted(Callback):
    """Asks the run to stop after a step."""

    def on_step(self, state: State, step: StepSums) -> None:
        """Send the signal in the middle of the second epoch."""
        if state.progress.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)


def run(folder: Path, samples: list[Sample], own: RunConfig | None = None, **options: Any) -> Run:
    own = own or config()
    return train_on(own, samples, tiny_samples(own, 5, seed=1), folder=folder, show_progress=False, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("alone"), tiny_samples(config(), 20))


def test_constants_are_those_of_the_training_graphs(trained: Run) -> None:
    samples = tiny_samples(config(), 20)
    assert trained.weights["readout.mean_size"] == np.mean([sample.graph.num_nodes for sample in samples])
    rows = np.concatenate([sample.pair["random_walk"].reshape(-1, 3) for sample in samples])
    np.testing.assert_allclose(trained.weights["embed.pair_terms.1.scale"], 1 / rows.std(0), rtol=1e-5)


def test_the_rate_comes_down_over_the_epochs_of_the_run(trained: Run) -> None:
    """6 steps: 1 of warm-up; the last one is 4/5 of the way down."""
    assert [row["lr"] for row in trained.history] == [
        pytest.approx(1e-6 + (0.01 - 1e-6) * (1 + np.cos(np.pi * done)) / 2) for done in (1 / 5, 4 / 5)
    ]


def test_a_stopped_run_ends_as_if_it_was_not(trained: Run, tmp_path: Path) -> None:
    samples = tiny_samples(config(), 20)
    with pytest.raises(RunError, match="SIGTERM"):
        run(tmp_path, samples, callbacks=[Interrupted()])
    resumed = run(tmp_path, samples, resume=True)
    for name, weight in trained.weights.items():
        assert torch.equal(weight, resumed.weights[name]), name


def test_a_run_that_starts_from_weights_takes_their_constants(trained: Run, tmp_path: Path) -> None:
    other = tiny_samples(config(), 12, seed=5)
    tuned = run(tmp_path, other, config(trainer={"max_epochs": 1}), start=Start(trained.weights))
    for name in CONSTANTS:
        assert torch.equal(tuned.weights[name], trained.weights[name]), name


def test_a_run_whose_rate_follows_its_length_cannot_be_made_longer(tmp_path: Path) -> None:
    samples = tiny_samples(config(), 8)
    run(tmp_path, samples, config(trainer={"max_epochs": 1}))
    with pytest.raises(ConfigError, match=r"trainer\.max_epochs"):
        run(tmp_path, samples, config(trainer={"max_epochs": 2}), resume=True)
