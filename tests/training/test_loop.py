"""The loop on tiny data: it learns, its batches are exact, and it refuses what cannot work."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.config.run import RunConfig
from egt.data.encodings.encoding import Sample
from egt.errors import ArtifactError, ConfigError, DataError, RunError
from egt.nn.randomness import graph_keys
from egt.parts.schedules import ConstantRate
from egt.training import loop
from egt.training.finetune import Start
from egt.training.run import Run, train_on
from tests.training.tiny import tiny_config, tiny_samples


def run(out: Path, config: RunConfig, **options: Any) -> Run:
    samples, validation = tiny_samples(config, 37), tiny_samples(config, 11, seed=1)
    return train_on(config, samples, validation, folder=out, show_progress=False, **options)


def distance(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
    return max((first[name] - second[name]).abs().max().item() for name in first)


def test_a_run_learns_and_leaves_its_best_weights_and_a_table(tmp_path: Path) -> None:
    config = tiny_config(trainer={"max_epochs": 8})
    result = run(tmp_path, config)
    losses = [row["val_loss"] for row in result.history]
    assert result.epoch == int(np.argmin(losses))
    assert min(losses) < 0.8 * losses[0]
    assert result.metrics["loss"] == pytest.approx(min(losses))
    assert result.metrics["mae"] == pytest.approx(min(losses), rel=1e-5)
    assert result.metrics["num_labels"] == 19
    build_model(config).load_state_dict(dict(result.weights))
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["val_loss"]) for row in rows] == losses
    assert [int(row["step"]) for row in rows] == [5 * (k + 1) for k in range(8)]


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"layout": "padded"}},
        {"data": {"pair_budget": 90}},
        {"data": {"batch_size": 4}, "trainer": {"accumulate": 2}},
        {"data": {"layout": "padded", "num_workers": 1, "pair_budget": 200}},
    ],
)
def test_however_a_batch_is_split_the_step_is_that_of_the_whole(tmp_path: Path, changes: dict[str, Any]) -> None:
    start = {"trainer": {"max_epochs": 1, "select": "last"}}
    whole = run(tmp_path / "whole", tiny_config(**start))
    trainer = {**start["trainer"], **changes.pop("trainer", {})}
    parts = run(tmp_path / "parts", tiny_config(trainer=trainer, **changes))
    assert distance(whole.weights, parts.weights) < 2e-5
    assert parts.history[0]["train_loss"] == pytest.approx(whole.history[0]["train_loss"], rel=1e-5)
    assert parts.history[0]["train_auxiliary"] == pytest.approx(whole.history[0]["train_auxiliary"], rel=1e-5)


def test_two_processes_equal_one(tmp_path: Path) -> None:
    # One process has nothing to do in the last batch of an epoch, nor in validation; some batches come in parts.
    changes: dict[str, Any] = {"data": {"batch_size": 4, "pair_budget": 100}}
    config = tiny_config(**changes, trainer={"max_epochs": 2, "accumulate": 2})
    samples, validation = tiny_samples(config, 25), tiny_samples(config, 1, seed=4)
    one = train_on(config, samples, validation, folder=tmp_path / "one", show_progress=False)
    config = tiny_config(**changes, trainer={"max_epochs": 2, "accumulate": 2, "devices": 2})
    two = train_on(config, samples, validation, folder=tmp_path / "two", show_progress=False)
    assert distance(one.weights, two.weights) < 1e-5
    for mine, theirs in zip(one.history, two.history, strict=True):
        assert {k: v for k, v in mine.items() if "second" not in k} == pytest.approx(
            {k: v for k, v in theirs.items() if "second" not in k}, rel=1e-5, nan_ok=True
        )


def test_random_numbers_differ_from_step_to_step_and_belong_to_the_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[int, list[int]] = {}

    def noted(seed: int, step: int, graph_ids: Tensor) -> Tensor:
        assert seed == 7
        drawn.setdefault(step, []).extend(graph_ids.tolist())
        return graph_keys(seed, step, graph_ids)

    monkeypatch.setattr(loop, "graph_keys", noted)
    run(tmp_path, tiny_config(trainer={"max_epochs": 2}, data={"pair_budget": 90}))
    assert list(drawn) == list(range(10))
    assert sorted(k for step in range(5, 10) for k in drawn[step]) == list(range(37))


def test_the_monitored_loss_leaves_the_distance_objective_out(tmp_path: Path) -> None:
    heavy = {"names": ["a", "b"], "auxiliary": [{"max_hops": 3, "weight": 1000.0}]}
    result = run(tmp_path, tiny_config(task=heavy, trainer={"max_epochs": 1}))
    assert result.history[0]["train_auxiliary"] > 100
    assert result.history[0]["val_loss"] == pytest.approx(result.metrics["mae"], rel=1e-5)


def test_standardized_targets_come_back_in_their_unit(tmp_path: Path) -> None:
    task = {"names": ["a", "b"], "standardize": True}
    result = run(tmp_path, tiny_config(task=task, trainer={"max_epochs": 1}))
    targets = np.array([sample.graph.graph_targets for sample in tiny_samples(tiny_config(), 37)])
    assert result.scale is not None
    assert result.scale.mean == pytest.approx(np.nanmean(targets, 0))
    assert result.scale.std == pytest.approx(np.nanstd(targets, 0))
    assert result.metrics["loss"] > 2 * result.metrics["mae"]  # the loss is in standard deviations


def test_a_run_of_steps_ends_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    trainer = {"max_epochs": None, "max_steps": 7, "select": "last"}
    result = run(tmp_path, tiny_config(trainer=trainer, schedule=ConstantRate()))
    assert [row["step"] for row in result.history] == [5, 7]


def test_nodes_and_missing_labels_train(tmp_path: Path) -> None:
    task = {"kind": "multiclass", "num_classes": 3, "class_counts": [5, 5, 10], "metric": "weighted_accuracy"}
    config = tiny_config(model={"readout": {"kind": "node"}}).model_dump(mode="json") | {"task": task}
    result = run(tmp_path, RunConfig.model_validate(config | {"trainer": {"max_epochs": 6, "accelerator": "cpu"}}))
    assert result.metrics["weighted_accuracy"] > 0.6
    assert result.metrics["num_labels"] == sum(s.graph.num_nodes for s in tiny_samples(tiny_config(), 11, seed=1))


@pytest.mark.parametrize("select", ["last", "best"])
def test_averaged_weights_are_what_is_left(tmp_path: Path, select: str) -> None:
    plain = run(tmp_path / "plain", tiny_config(trainer={"max_epochs": 1, "select": select}))
    average = run(tmp_path / "average", tiny_config(trainer={"max_epochs": 1, "select": select, "ema_decay": 0.99}))
    torch.manual_seed(7)
    start = build_model(tiny_config()).state_dict()
    assert plain.history[0]["train_loss"] == average.history[0]["train_loss"]
    assert distance(start, average.weights) < 0.06 * distance(start, plain.weights)
    assert distance(start, average.weights) > 0


@pytest.mark.parametrize("clip", [1e-9, None])
def test_gradients_are_clipped_when_asked(tmp_path: Path, clip: float | None) -> None:
    # Adam does not see the scale of a gradient but through eps: below it, a step is small.
    config = tiny_config(trainer={"max_epochs": 1, "select": "last", "gradient_clip": clip}, optimizer={"eps": 1e-2})
    torch.manual_seed(7)
    start = build_model(config).state_dict()
    assert (distance(start, run(tmp_path, config).weights) < 1e-6) == (clip is not None)


def test_half_precision_trains(tmp_path: Path) -> None:
    result = run(tmp_path, tiny_config(trainer={"max_epochs": 1, "precision": "bf16"}))
    full = run(tmp_path / "full", tiny_config(trainer={"max_epochs": 1}))
    assert result.metrics["loss"] == pytest.approx(full.metrics["loss"], rel=0.1)
    assert all(weight.dtype == torch.float32 for weight in result.weights.values())


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_graphs(tmp_path: Path) -> None:
    config = tiny_config(task={"loss": "mse"}, data={"batch_size": 4, "pair_budget": 81})
    samples = tiny_samples(config, 24)
    bad = tiny_samples(config, 1, seed=9)[0]
    object.__setattr__(bad.graph, "graph_targets", np.array([1e30, 1.0]))
    object.__setattr__(bad.graph, "id", "bad one")
    samples[17] = bad
    with pytest.raises(
        RunError,
        match=r"training loss is not finite.*graphs (g\d+, )*bad one(, g\d+)* of the training split; there is no",
    ):
        train_on(config, samples, samples[:3], folder=tmp_path, show_progress=False)


def test_the_last_good_checkpoint_outlives_a_divergence(tmp_path: Path) -> None:
    config = tiny_config(trainer={"max_epochs": 1})
    good = run(tmp_path, config)
    samples = tiny_samples(config, 37)
    for sample in samples:
        object.__setattr__(sample.graph, "graph_targets", np.array([np.inf, np.inf]))
    longer = tiny_config(trainer={"max_epochs": 2})
    with pytest.raises(RunError, match="checkpoint"):
        train_on(longer, samples, tiny_samples(config, 11, seed=1), folder=tmp_path, resume=True, show_progress=False)
    assert distance(run(tmp_path, config, resume=True).weights, good.weights) == 0


def test_fine_tuning_trains_only_what_is_asked_and_a_resume_remembers(tmp_path: Path) -> None:
    pretrained = run(tmp_path / "first", tiny_config(trainer={"max_epochs": 1}))
    config = tiny_config(trainer={"max_epochs": 1, "select": "last"})
    tuned = run(tmp_path / "tuned", config, start=Start(pretrained.weights, keep_head=True, tuned="edges"))
    longer = tiny_config(trainer={"max_epochs": 2, "select": "last"})
    resumed = run(tmp_path / "tuned", longer, resume=True)
    for name, weight in pretrained.weights.items():
        moved = not torch.equal(weight, resumed.weights[name])
        assert moved == (".pairs." in name or "pair_terms" in name or name.startswith("auxiliary")), name
    assert distance(tuned.weights, resumed.weights) > 0


def test_a_folder_with_a_run_is_not_overwritten_and_settings_must_agree(tmp_path: Path) -> None:
    config = tiny_config(trainer={"max_epochs": 1})
    run(tmp_path, config)
    with pytest.raises(ConfigError, match="run"):
        run(tmp_path, config)
    with pytest.raises(ConfigError, match=r"optimizer\.lr"):
        run(tmp_path, tiny_config(trainer={"max_epochs": 1}, optimizer={"lr": 0.5}), resume=True)
    samples = tiny_samples(config, 20, seed=5)
    with pytest.raises(ConfigError, match="started"):
        train_on(config, samples, samples, folder=tmp_path, resume=True, show_progress=False)


def test_what_cannot_work_is_told_before_it_starts(tmp_path: Path) -> None:
    config = tiny_config()
    with pytest.raises(ConfigError, match="validation"):
        train_on(config, tiny_samples(config, 4), None, folder=tmp_path, show_progress=False)
    with pytest.raises(DataError, match="training"):
        train_on(config, list[Sample](), None, folder=tmp_path, show_progress=False)
    with pytest.raises(ConfigError, match="pair_budget"):
        run(tmp_path, tiny_config(data={"pair_budget": 10}))


def test_no_validation_is_fine_when_nothing_needs_it(tmp_path: Path) -> None:
    config = tiny_config(trainer={"select": "last", "max_epochs": 2}, schedule=ConstantRate())
    result = train_on(config, tiny_samples(config, 9), None, folder=tmp_path, show_progress=False)
    assert result.metrics == {}
    assert result.epoch == 1


KILLED_LOADER = """
import multiprocessing, os, signal, sys
from pathlib import Path
from egt.errors import RunError
from egt.training.callbacks import Callback
from egt.training.run import Run, train_on
from tests.training.tiny import tiny_config, tiny_samples

class Killer(Callback):
    def on_step(self, state, step):
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)

config = tiny_config(data={"num_workers": 1, "batch_size": 1})
samples = tiny_samples(config, 200)
try:
    train_on(config, samples, samples[:2], Path(sys.argv[1]), show_progress=False, callbacks=[Killer()])
except RunError as error:
    print(error, flush=True)
    os._exit(0)
"""


def test_a_killed_loader_is_told_as_a_lack_of_memory(tmp_path: Path) -> None:
    """In a process of its own: torch raises the error wherever the signal meets the code."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED_LOADER, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "memory ran out" in done.stdout, done.stderr
    assert "--resume" in done.stdout
    assert "data.num_workers=0" in done.stdout


def test_best_weights_that_are_gone_are_missed_at_the_start(tmp_path: Path) -> None:
    config = tiny_config(trainer={"max_epochs": 1})
    samples = tiny_samples(config, 8)
    train_on(config, samples, samples, tmp_path, show_progress=False)
    (best,) = (tmp_path / "checkpoints").glob("best-*")
    best.unlink()
    longer = tiny_config(trainer={"max_epochs": 2})
    with pytest.raises(ArtifactError, match="weights"):
        train_on(longer, samples, samples, tmp_path, resume=True, show_progress=False)
