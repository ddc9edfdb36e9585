"""Predictions as the file that OGB's leaderboard takes: an .npz archive with one array, `y_pred`."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from egt.errors import ConfigError, DataError, counted
from egt.files import write_atomically
from egt.inference.predictions import Predictions

log = logging.getLogger(__name__)


def save_submission(predictions: Predictions, path: Path) -> None:
    """Write `y_pred`, (molecules,) float32, as `PCQM4Mv2Evaluator.save_test_submission` of OGB does.

    The official names are `y_pred_pcqm4m-v2_test-dev.npz` (147,037 molecules, our split "test") and
    `y_pred_pcqm4m-v2_test-challenge.npz` (147,432 molecules, "test-challenge").
    A molecule that could not be read gets the mean of the others, with a warning.
    """
    config = predictions.config
    if config.model.level != "graph" or config.task.num_outputs != 1:
        raise ConfigError(f"{path}: an .npz file holds one number per graph; write a .csv file for this model")
    values = np.array([np.nan if p.values is None else p.values[0, 0] for p in predictions], dtype=np.float32)
    missing = np.isnan(values)
    if missing.all():
        raise DataError(f"{path}: no molecule could be read (of {len(values)})")
    if missing.any():
        log.warning("%s could not be read: the mean of the others is used", counted(missing.sum(), "molecule"))
        values[missing] = values[~missing].mean()
    try:
        with write_atomically(path) as draft:
            np.savez_compressed(draft, y_pred=values)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from error
