"""Several runs as one: an ensemble of seeds, or cross-validation. Its members are ordinary runs in sub-folders.

A member that is done is only evaluated again when the whole is resumed; one that was stopped continues. Members of
other seeds share the splits and the prepared graphs. Of K folds, member k is tested on part k of the data and validated
on the part before it, so that every row is tested once, by the model that has not seen it.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from egt.config.run import RunConfig
from egt.config.run_data import open_labeled, prepare_split
from egt.data.schema import Fold
from egt.data.source import Progress, Source
from egt.errors import ConfigError, RunError, counted
from egt.files import exists, write_atomically
from egt.inference.artifact import Artifact, EnsembleArtifact, Kind, member_name, save_ensemble
from egt.inference.evaluation import evaluate_answers, labeled_graphs
from egt.inference.predictor import Predictor
from egt.inference.uncertainty import (
    Calibration,
    bounds_of,
    calibrate,
    describe_bounds,
    measure_coverage,
)
from egt.parts.tasks.task import TaskPart
from egt.processes import is_first
from egt.training.callbacks import Callback
from egt.training.checks import check_columns
from egt.training.held_out import HeldOut
from egt.training.run import Run, hold_run, train
from egt.training.run_folder import CONFIG, MEMBERS, check_not_foreign, remove_leftovers, try_folder, write_run_config

log = logging.getLogger(__name__)
_LEAST: Mapping[Kind, int] = {"seeds": 2, "folds": 3}  # as many members make sense


@dataclass(frozen=True)
class Members:
    """How many runs, and how they differ: in their seeds, or also in the part of the data that each leaves out."""

    kind: Kind
    count: int

    def __post_init__(self) -> None:
        if self.count < _LEAST[self.kind]:
            raise ConfigError(f"{self}: at least {_LEAST[self.kind]} runs are needed")

    def __str__(self) -> str:
        return f"{'--ensemble' if self.kind == 'seeds' else '--folds'} {self.count}"

    def config(self, config: RunConfig, number: int) -> RunConfig:
        """Return the configuration of a member."""
        first = number == 0 or self.kind == "folds"  # members of other seeds share their rows, and so the baseline
        baseline = config.trainer.baseline and first
        config = config.replace(seed=config.seed + number, trainer={"baseline": baseline})
        return config if self.kind == "seeds" else _leave_out_fold(config, self, number)


def _leave_out_fold(config: RunConfig, members: Members, number: int) -> RunConfig:
    schema = config.data.custom
    if schema is None or schema.split.kind == "column":
        raise ConfigError(
            f"{members}: {config.data.source} has splits of its own; "
            + ("use --ensemble" if schema is None else "split it again with --set split=random, or use --ensemble")
        )
    split = schema.split.model_copy(update={"fold": Fold(number=number, of=members.count)})
    return config.replace(data={"custom": schema.model_copy(update={"split": split})})


def choose_members(folder: Path, ensemble: int | None, folds: int | None, *, resume: bool) -> Members | None:
    """Return the members that the options ask for, or those of the run that is continued; None for a single run."""
    if ensemble is not None and folds is not None:
        raise ConfigError("--ensemble and --folds exclude each other: folds are an ensemble too")
    wanted = None if ensemble is None else Members("seeds", ensemble)
    wanted = wanted if folds is None else Members("folds", folds)
    if not resume or not (exists(folder / MEMBERS) or exists(folder / CONFIG)):
        return wanted
    found = None
    if exists(folder / MEMBERS):
        try:
            found = Members(**json.loads((folder / MEMBERS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{folder / MEMBERS} cannot be read ({error}); start again in another folder") from error
    if wanted is not None and wanted != found:
        raise ConfigError(
            f"{folder} holds a run with {found or 'a single model'}, not with {wanted}; continue it with "
            f"`egt train {folder} --resume`, or choose another folder (--out)"
        )
    return found


def train_members(
    config: RunConfig,
    folder: Path,
    members: Members,
    *,
    source: Source | None = None,
    resume: bool = False,
    show_progress: bool = True,
    watch: Progress | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train all members one after another, and save their artifact. Arguments as in `egt.training.run.train`."""
    configs = [members.config(config, number) for number in range(members.count)]
    check_not_foreign(folder, resume)
    if source is None:
        try_folder(folder)
    with hold_run(folder, resume):
        if not resume:
            check_columns(config, spread=True)
        if source is None:
            source = open_labeled(config)
        num_rows = sum(source.card.split_sizes.values())
        # Nodes or edges of one graph are counted where it is divided.
        if members.kind == "folds" and num_rows < members.count and not source.is_divided_within:
            fewer = ", or ask for fewer folds" if members.count > _LEAST["folds"] else ""
            raise ConfigError(
                f"{members}: {config.data.source} has {counted(num_rows, 'row')}, and each of the {members.count} "
                f"folds needs one; give more rows{fewer}"
            )
        schemas = [own.data.custom for own in configs]
        sources = [source if schema is None else source.redivided(schema.split) for schema in schemas]
        if members.kind == "folds" and not all(each.card.split_sizes.get("test") for each in sources):
            raise ConfigError(f"{members}: {config.data.source} has too few rows for so many parts; ask for fewer")
        if is_first():
            remove_leftovers(folder)
            with write_atomically(folder / MEMBERS) as draft:  # before what makes it a run, of a single model otherwise
                draft.write_text(json.dumps(asdict(members)) + "\n", encoding="utf-8")
            write_run_config(config, folder)
        runs = []
        for number, (own, data) in enumerate(zip(configs, sources, strict=True)):
            log.info("%s: run %d of %d", config.name, number + 1, members.count)
            run = train(
                own,
                folder / member_name(number),
                source=data,
                resume=resume,
                show_progress=show_progress,
                watch=watch,
                callbacks=callbacks,
            )
            runs.append(run)
        whole = replace(runs[0], folder=folder, members=runs)
        if not is_first():
            return whole
        joined = _join(members, runs, sources)
        save_ensemble(joined, [each.path for each in runs], whole.path)
        about = {**whole.artifact.data, **joined.data}
        about.pop("blend", None)  # of the first member
        artifact = replace(whole.artifact, metrics=joined.metrics, data=about, calibration=joined.calibration)
        return replace(whole, artifact=artifact)


def _join(members: Members, done: Sequence[Run], sources: Sequence[Source]) -> EnsembleArtifact:
    """Return the ensemble of all members with its metrics and its calibration."""
    models = tuple(each.artifact for each in done)
    data: dict[str, Any] = {"member_metrics": summarize([model.metrics for model in models])}
    plain = EnsembleArtifact(members.kind, models, data=data)
    about: dict[str, Any] = {"transductive": sources[0].is_divided_within}
    if members.kind == "seeds":
        return _calibrate(plain, sources[0], about, [each.held_out for each in done])
    data |= _mean_baseline(models)
    held_out = [
        _predict_held_out(Predictor(model), source, "test") for model, source in zip(models, sources, strict=True)
    ]
    metrics = {"test": _mean_metrics([model.metrics["test"] for model in models])}
    num_graphs = labeled_graphs(models[0].config, metrics["test"])
    part, about = models[0].config.task, {**about, "folds": members.count, "num_graphs": num_graphs}
    calibration = calibrate(part, *_concatenate(held_out), **about)
    if calibration is not None:
        data["coverage"] = _cross_coverage(part, calibration, held_out)
    return replace(plain, metrics=metrics, calibration=calibration)


def _mean_baseline(models: Sequence[Artifact]) -> dict[str, Any]:
    """Return the mean of the baselines of folds, if they have any."""
    found = [model.data["baseline"] for model in models if "baseline" in model.data]
    if not found:
        return {}
    names = " or ".join(dict.fromkeys(each["name"] for each in found))
    metrics = {"test": _mean_metrics([each["metrics"]["test"] for each in found])}
    return {"baseline": {"name": names, "metrics": metrics, "seconds": sum(each["seconds"] for each in found)}}


def _calibrate(
    plain: EnsembleArtifact, source: Source, about: Mapping[str, Any], held_out: Sequence[HeldOut | None]
) -> EnsembleArtifact:
    """Return an ensemble of seeds with the metrics and the calibration of its averaged answers.

    held_out: what each member has for calibration (`Run.held_out`), the same rows in the same order.
    """
    model = Predictor(plain)
    part, known = model.task.part, plain.members[0].metrics
    seen = {split: _predict_held_out(model, source, split) for split in ("val", "test") if split in known}
    metrics = {
        split: evaluate_answers(model.task, *each, num_graphs=int(known[split]["num_graphs"])).metrics
        for split, each in seen.items()
    }
    calibration = None
    if "val" in seen:
        apart = [each for each in held_out if each is not None]
        if len(apart) == len(held_out):
            seen["val"] = np.mean([answers for answers, _ in apart], axis=0), apart[0][1]
        calibration = calibrate(part, *seen["val"], **about, num_graphs=labeled_graphs(model.config, known["val"]))
    data = dict(plain.data)
    if calibration is not None and "test" in seen:
        data["coverage"] = measure_coverage(part, calibration, *seen["test"])
    return replace(plain, metrics=metrics, data=data, calibration=calibration)


def _predict_held_out(model: Predictor, source: Source, split: str) -> HeldOut:
    """Return answers and labels of a split whose graphs are prepared already."""
    store, texts = prepare_split(model.config, source, split), source.smiles()
    smiles = None if texts is None else [str(texts[row]) for row in store.rows.tolist()]
    values, truth = [], []
    for sample, answer in zip(store, model.answers(store, smiles), strict=True):
        if isinstance(answer, str):
            raise RunError(f"graph {sample.graph.id!r} of the {split} split: {answer}")
        values.append(answer[0].astype(np.float64))
        truth.append(np.atleast_2d(getattr(sample.graph, f"{model.task.level}_targets")))
    return np.concatenate(values), np.concatenate(truth)


def _concatenate(parts: Sequence[HeldOut]) -> HeldOut:
    return np.concatenate([values for values, _ in parts]), np.concatenate([truth for _, truth in parts])


def _cross_coverage(part: TaskPart, calibration: Calibration, folds: Sequence[HeldOut]) -> dict[str, Any]:
    """Return how often intervals or sets that the other folds calibrate hold the labels of each fold.

    Labels of a fold that the others cannot calibrate, because they have none, are left out.
    """
    bounds, labels = [], []
    for number, (values, truth) in enumerate(folds):
        others = calibrate(part, *_concatenate([*folds[:number], *folds[number + 1 :]]))
        if others is not None:
            bounds.append(bounds_of(part, others, values))
            labels.append(truth)
    if not bounds:
        return {}
    all_bounds: Any = np.concatenate(bounds)  # all intervals, or all sets
    return describe_bounds(part, all_bounds, np.concatenate(labels), calibration)


def summarize(metrics: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the mean and the sample deviation of each metric of each split over runs."""
    return {
        split: {
            name: {"mean": fmean(values), "std": float(np.std(values, ddof=1))}
            for name in metrics[0][split]
            if not name.startswith("num_")
            for values in [[each[split][name] for each in metrics]]
        }
        for split in metrics[0]
    }


def _mean_metrics(folds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over the folds that define it, and on how many labels and graphs they stand."""
    found = {}
    for name in folds[0]:
        values = [fold[name] for fold in folds if not math.isnan(fold[name])]
        is_count = name in ("num_labels", "num_bounds", "num_graphs")
        found[name] = sum(values) if is_count else fmean(values) if values else math.nan
    return found
