"""The recipe for classes of nodes: each candidate trains for a short time, and validation chooses the one to go on."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from egt.config.run import RunConfig
from egt.config.run_data import prepare_split
from egt.data.source import Progress, Source
from egt.errors import log_from
from egt.training.checks import fit_task, read_labels
from egt.training.run import train_on

log = logging.getLogger(__name__)

_STEPS = 40  # how long a candidate trains: a fifth of most runs on one graph


def choose_recipe(candidates: Mapping[str, RunConfig], source: Source, watch: Progress | None = None) -> RunConfig:
    """Return the candidate (by name) that is best on validation after a few steps, the first of equal ones.

    All of them are runs on the same data, with the same task.
    """
    began, scores = time.monotonic(), dict[str, float]()
    for name, config in candidates.items():
        scores[name] = _try(config, source, watch)
    sign = 1 if next(iter(candidates.values())).task.higher_is_better else -1
    best = max(scores, key=lambda name: sign * scores[name])
    log.warning(
        "recipe: %s, best on validation after up to %d steps each (%s: %s; %.0f s; settings of model choose by hand)",
        *(best, _STEPS, candidates[best].task.deciding_metric),
        ", ".join(f"{name} {value:.4g}" for name, value in scores.items()),
        time.monotonic() - began,
    )
    return candidates[best]


def _try(config: RunConfig, source: Source, watch: Progress | None) -> float:
    """Return the best validation score in a short training of a candidate."""
    steps = min(_STEPS, config.trainer.max_steps or _STEPS)
    config = config.replace(trainer={"max_steps": steps, "patience": None, "trackers": (), "devices": 1})
    training, validation = (prepare_split(config, source, split, progress=watch) for split in ("train", "val"))
    config = fit_task(config, read_labels(config, training))
    with TemporaryDirectory() as folder, log_from("egt.training.callbacks", logging.WARNING):  # no lines of epochs
        run = train_on(config, training, validation, Path(folder) / "trial", show_progress=False)
    values = [row[f"val_{config.task.deciding_metric}"] for row in run.history]
    return max(values) if config.task.higher_is_better else min(values)
