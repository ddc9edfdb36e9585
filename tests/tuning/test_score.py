"""Trials are compared by what selects the epoch of a run."""

from __future__ import annotations

import math

import egt
from egt.config.load import override
from egt.training.state import higher_is_better, measure, score

ROW = {"val_loss": 0.5, "val_accuracy": 0.9, "val_mae": 0.4}


def test_the_loss_or_the_metric_of_the_task_decides() -> None:
    loss = egt.preset("zinc-100k")
    assert (measure(loss), higher_is_better(loss), score(loss, ROW)) == ("loss", False, 0.5)
    metric = override(loss, ["trainer.select_by=metric"])
    assert (measure(metric), higher_is_better(metric), score(metric, ROW)) == ("mae", False, 0.4)


def test_a_metric_without_labels_is_the_worst() -> None:
    hiv = override(egt.preset("molhiv-larger"), ["trainer.select_by=metric"])
    assert higher_is_better(hiv)
    assert score(hiv, {f"val_{measure(hiv)}": math.nan}) == -math.inf
    zinc = override(egt.preset("zinc-100k"), ["trainer.select_by=metric"])
    assert score(zinc, {"val_mae": math.nan}) == math.inf
