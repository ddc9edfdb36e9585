"""Calibration rests on answers that the rows have not chosen; everything else of a run stays as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from egt.inference.evaluation import Seen
from egt.parts.tasks.regression import Regression
from egt.parts.tasks.task import Task
from egt.processes import ALONE
from egt.training.held_out import CrossFit, in_order, kept_answers
from egt.training.run import train_on
from egt.training.run_folder import checkpoints_of
from tests.training.tiny import tiny_config, tiny_samples

LABELS = [0.0, 1.0, 2.0, 3.0]


def cross_fit() -> CrossFit:
    config = tiny_config(task={"names": ["y"], "auxiliary": []})
    return CrossFit(config, Task(Regression(names=("y",)), "graph"))


def observe(kept: CrossFit, *answers: float) -> None:
    seen = Seen(kept.task)
    backwards = np.arange(len(LABELS))[::-1]  # the order of the batches does not matter
    seen(backwards.copy(), torch.tensor(answers).flip(0)[:, None], torch.tensor(LABELS).flip(0)[:, None])
    kept.observe(seen, ALONE)


def test_each_half_is_answered_by_the_weights_that_are_best_on_the_other() -> None:
    kept = cross_fit()
    observe(kept, 5.0, 5.0, 5.0, 5.0)
    observe(kept, 0.0, 9.0, 2.0, 9.0)  # right on the rows 0 and 2 alone
    observe(kept, 7.0, 1.0, 7.0, 3.0)  # right on the others
    answers, labels = kept_answers(kept.tensors()) or (None, None)
    assert answers is not None
    assert labels is not None
    assert labels[:, 0].tolist() == [1.0, 3.0, 0.0, 2.0]
    assert np.abs(answers - labels)[:, 0].tolist() == [8.0, 6.0, 7.0, 5.0]


def test_answers_are_found_again_in_the_order_of_the_rows() -> None:
    labels = np.array([2.0, 0.0, 1.0, 1.0, 1.0, 7.0, 1.0])[:, None]
    kept = CrossFit(tiny_config(task={"names": ["y"], "auxiliary": []}), Task(Regression(names=("y",)), "graph"))
    seen, answers = Seen(kept.task), 10.0 * torch.arange(7)[:, None]
    seen(np.arange(7), answers, torch.from_numpy(labels))
    kept.observe(seen, ALONE)
    found = kept_answers(kept.tensors())
    assert found is not None
    assert found[0].ravel().tolist() != answers.ravel().tolist()
    assert in_order(found, labels).ravel().tolist() == answers.ravel().tolist()


def test_what_a_checkpoint_keeps_goes_on() -> None:
    kept, again = cross_fit(), cross_fit()
    observe(kept, 0.5, 1.5, 2.5, 3.5)
    again.restore(kept.rows, kept.tensors())
    for each in (kept, again):
        observe(each, 0.0, 9.0, 2.0, 9.0)
    assert kept.rows == again.rows
    assert all(torch.equal(value, again.tensors()[name]) for name, value in kept.tensors().items())


def test_the_answers_are_of_all_validation_rows_and_survive_an_interruption(tmp_path: Path) -> None:
    config = tiny_config(task={"auxiliary": []})
    training, validation = tiny_samples(config, 24), tiny_samples(config, 10, seed=1)
    whole = train_on(config, training, validation, tmp_path / "whole", show_progress=False)
    assert whole.held_out is not None
    answers, labels = whole.held_out
    assert answers.shape == labels.shape == (10, 2)
    shorter = config.model_copy(update={"trainer": config.trainer.model_copy(update={"max_epochs": 2})})
    train_on(shorter, training, validation, tmp_path / "parts", show_progress=False)
    assert checkpoints_of(tmp_path / "parts").latest() is not None
    resumed = train_on(config, training, validation, tmp_path / "parts", resume=True, show_progress=False)
    assert resumed.held_out is not None
    np.testing.assert_array_equal(resumed.held_out[0], answers)


def test_the_last_weights_are_chosen_by_no_row(tmp_path: Path) -> None:
    config = tiny_config(task={"auxiliary": []}, trainer={"select": "last", "max_epochs": 1})
    training, validation = tiny_samples(config, 16), tiny_samples(config, 6, seed=1)
    assert train_on(config, training, validation, tmp_path, show_progress=False).held_out is None
