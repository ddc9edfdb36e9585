"""`egt.load`: from a folder to a model, or an ensemble of models, in use."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import torch

from egt.config.load import Settings, override, split_trained
from egt.errors import ArtifactError
from egt.files import exists
from egt.inference.artifact import ENSEMBLE, EnsembleArtifact, find_artifact, load_artifact, load_ensemble, member_name
from egt.inference.predictor import Predictor
from egt.processes import ALONE, Processes, device_of

log = logging.getLogger(__name__)


def load(
    path: str | Path,
    *,
    device: str | None = None,
    processes: Processes = ALONE,
    set: Settings = (),
    calibrated: bool = False,
) -> Predictor:
    """Return a trained model, or an ensemble of them, from an artifact or from a run folder that holds one.

    Args:
        path: of the artifact or the run folder.
        device: where to compute, e.g. "cpu" or "cuda"; by default as for `Predictor`.
        processes: that share the work.
        set: settings to change: `overrides.smiles=NAME` and `overrides.id=NAME` name columns of new data; those of
            `data` and `trainer` say how it is computed (`data.pair_budget=100000`).
        calibrated: as for `Predictor`.
    """
    place = torch.device(device) if device else device_of(processes)
    computing, overrides = split_trained(set)
    folder = find_artifact(path)
    found = load_ensemble(folder, place) if exists(folder / ENSEMBLE) else load_artifact(folder, place)
    members = tuple(replace(each, config=override(each.config, computing)) for each in found.members)
    changed = replace(found, members=members) if isinstance(found, EnsembleArtifact) else members[0]
    return Predictor(changed, place, processes, overrides, calibrated=calibrated)


def load_single(path: str | Path, *, set: Settings = ()) -> Predictor:
    """Return a trained model for what looks inside it; an ensemble is refused. Arguments as in `load`."""
    folder = find_artifact(path)
    if exists(folder / ENSEMBLE):
        raise ArtifactError(f"{folder}: is an ensemble; name one of its models, as {folder / member_name(0)}")
    return load(folder, set=set)


def load_first(path: str | Path, *, set: Settings = ()) -> Predictor:
    """Return a trained model, of an ensemble the first one, with a warning. Arguments as in `load`."""
    folder = find_artifact(path)
    if exists(folder / ENSEMBLE):
        folder = folder / member_name(0)
        log.warning("%s: each model of an ensemble has a space of its own; the first one embeds, %s", path, folder)
    return load(folder, set=set)
