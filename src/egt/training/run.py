"""A complete run: configuration -> data -> trained model -> metrics -> artifact."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from egt.assemble import build_model, build_task
from egt.config.run import RunConfig
from egt.config.run_data import keep_schema, open_labeled, prepare_split, reading_schema
from egt.data.batching.loader import graph_sizes
from egt.data.cleaning import CHANGES, write_changes
from egt.data.encodings.encoding import Sample
from egt.data.source import SPLITS, Progress, Reading, Source
from egt.data.store import Store
from egt.errors import ArtifactError, ConfigError, counted
from egt.inference.artifact import Artifact, save_artifact
from egt.inference.backends import execution, num_devices
from egt.inference.evaluation import Floats, Seen, evaluate, evaluate_answers, labeled_graphs
from egt.inference.uncertainty import calibrate, measure_coverage
from egt.parts.tasks.task import TargetScale
from egt.processes import find_launch, is_first, run_together
from egt.training.callbacks import Callback
from egt.training.checks import (
    Rows,
    check_columns,
    check_labels,
    check_machine,
    check_rows,
    check_same_run,
    check_splits,
    check_threads,
    fit_scale,
    fit_task,
    read_labels,
)
from egt.training.finetune import Start, load_start
from egt.training.held_out import HeldOut, in_order, kept_answers
from egt.training.loop import Job, loop, loop_in_child
from egt.training.memory import Memory
from egt.training.run_folder import (
    ARTIFACT,
    Checkpoints,
    Kept,
    RunProgress,
    check_not_foreign,
    check_unused,
    checkpoints_of,
    hold_folder,
    read_tensors,
    remove_leftovers,
    restore_if_refused,
    run_folder,
    tensors_of,
    try_folder,
    write_run_config,
)

if TYPE_CHECKING:
    from egt.inference.predictions import Predictions
    from egt.inference.predictor import Predictor

_APART = "apart"
"""Among answers by split those for validation rows by weights that other rows have chosen (`Run.held_out`)."""

_MOST_NAMED = 5  # how many unreadable rows of a split are named
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Run:
    """What training leaves.

    Fields:
        folder: has `checkpoints/`, `metrics.csv` and, of a whole run, `config.yaml` and `artifact/`.
        weights: The selected weights by parameter name: the best on validation, or the last.
        epoch: The epoch, from 0, after which they were taken.
        history: a row for each epoch, as in metrics.csv.
        scale: mean and std of the training targets where they were standardized.
        held_out: answers and labels of the validation rows, by weights that other rows have chosen (`CrossFit`); None
            where no epoch was chosen.
        artifact: The trained model with its metrics. Of several processes only the first has metrics and writes it.
        problems: split -> number of rows that could not be read.
        members: The runs of an ensemble; `artifact`, `epoch` and `history` are then those of the first one, with the
            metrics of all. Empty for a single run.
    """

    config: RunConfig
    folder: Path
    weights: Mapping[str, Tensor]
    epoch: int
    history: Sequence[Mapping[str, float]]
    scale: TargetScale | None = None
    held_out: HeldOut | None = None
    artifact: Artifact = None  # type: ignore[assignment]  # until the model is evaluated
    problems: Mapping[str, int] = field(default_factory=dict)
    members: Sequence[Run] = ()

    @property
    def path(self) -> Path:
        """The folder of the artifact."""
        return self.folder / ARTIFACT

    @property
    def metrics(self) -> dict[str, float]:
        """The loss and the scores of the selected weights on the validation split; empty without one."""
        row = next((row for row in self.history if row["epoch"] == self.epoch), {})
        return {name.removeprefix("val_"): value for name, value in row.items() if name.startswith("val_")}

    @property
    def is_first(self) -> bool:
        """Whether this process wrote the artifact."""
        return is_first()

    @cached_property
    def model(self) -> Predictor:
        """The trained model, or the ensemble of models, ready to predict."""
        from egt.inference.predictor import Predictor, load

        return load(self.path) if self.members else Predictor(self.artifact)

    def predict(self, data: Any) -> Predictions:
        """Return the predictions of the trained model for new data: see `Predictor.predict`."""
        return self.model.predict(data)


def train(
    config: RunConfig,
    out: Path | str | None = None,
    *,
    source: Source | None = None,
    resume: bool = False,
    show_progress: bool = True,
    watch: Progress | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train and evaluate a run, and save its artifact; `source` is the data, if it is open already.

    The run folder, `runs/<name>` by default, gets `config.yaml`, `metrics.csv`, `checkpoints/` and `artifact/`;
    `resume` continues the run that is there. `watch` receives the progress of the preparation of graphs, `callbacks`
    each step and epoch.
    """
    folder = run_folder(config.name) if out is None else Path(out)
    check_not_foreign(folder, resume)
    check_machine(config.trainer)
    if source is None:
        try_folder(folder)
    with hold_run(folder, resume):
        if source is None:
            source = open_labeled(config)
        source = config.task.with_targets(source)
        check_rows(config, source.card, is_divided_within=source.is_divided_within)
        config = keep_schema(name_targets(config, source), source)
        if config.trainer.blend:
            from egt.training.baseline import check_blend  # here: most runs are of a network alone

            check_blend(config, source)
        kept = _newest_checkpoint(folder)
        start = None
        if kept is None:
            check_columns(config)
            start = load_start(config)
        memory = Memory(config)
        memory.check_largest_graph(source.card)
        _write_config(config, folder)  # from here on a killed run can be resumed without its options
        if is_first() and source.changes():
            write_changes(source.changes(), folder / CHANGES)
        stores = _prepare(config, source, watch)
        labels = read_labels(config, stores["train"])
        fitted = memory.fit_run(fit_task(config, labels), stores)
        if fitted is not config:
            config = fitted
            _write_config(config, folder)
        run = _train(
            Job(config, stores["train"], stores.get("val", ()), folder, {}, start, show_progress, callbacks),
            labels,
            kept,
        )
        problems = {name: sum(1 for row in store.problems if row.error) for name, store in stores.items()}
        return _evaluate(replace(run, problems=problems), source, stores, labels)


def train_on(
    config: RunConfig,
    training: Sequence[Sample],
    validation: Sequence[Sample] | None,
    folder: Path,
    *,
    resume: bool = False,
    start: Start | None = None,
    show_progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train the model of a run on graphs that are prepared; no artifact is made.

    With `trainer.devices` above 1 this process starts the others and waits for them (a script that calls it needs `if
    __name__ == "__main__":`), unless torchrun or Slurm has started them; `folder` is then on a disk they share.
    `resume` also starts a run where there is nothing to continue. After a `RunError` (interrupted, diverged, disk full)
    the last checkpoint is kept.
    """
    with hold_run(folder, resume):
        kept = _newest_checkpoint(folder)
        job = Job(config, training, validation or (), folder, {}, start, show_progress, callbacks)
        return _train(job, read_labels(config, training), kept)


@contextmanager
def hold_run(folder: Path, resume: bool) -> Iterator[None]:
    """Keep other runs out of the folder, which a new one has to find unused, and restore it if the run is refused.

    Of several processes the first one holds it.
    """
    with ExitStack() as stack:
        if is_first():
            stack.enter_context(hold_folder(folder))
        if not resume:
            check_unused(folder)
        if is_first():
            stack.enter_context(restore_if_refused(folder))
        yield


def name_targets(config: RunConfig, source: Source) -> RunConfig:
    """Return the run with targets and classes called as in its data."""
    if config.data.custom is not None:
        return config
    target = source.card.target
    return config.model_copy(update={"task": config.task.named(target.names, target.class_names)})


def _prepare(config: RunConfig, source: Source, watch: Progress | None) -> dict[str, Store]:
    """Return the splits that have graphs."""
    stores = {}
    for split in SPLITS:
        if not source.card.split_sizes.get(split):
            continue
        store = prepare_split(config, source, split, progress=watch)
        _warn_of_rows(split, [each for each in store.problems if each.error], "is left out")
        _warn_of_rows(split, [each for each in store.problems if not each.error], "is read with a warning")
        if len(store):
            stores[split] = store
    if "train" not in stores:
        raise ConfigError(f"{config.data.source}: no graph of the training split can be read")
    return stores


def _warn_of_rows(split: str, problems: Sequence[Reading], what: str) -> None:
    """Warn of rows that could not be read, or only with a warning: of the first ones, and how many more there are."""
    for each in problems[:_MOST_NAMED]:
        log.warning("%s: row %s (%s) %s: %s", split, each.row + 1, each.id, what, each.error or each.warning)
    if more := len(problems[_MOST_NAMED:]):
        log.warning("%s: so are %s more; `egt data info` counts them", split, counted(more, "row"))


def _write_config(config: RunConfig, folder: Path) -> None:
    if is_first():
        write_run_config(config, folder)


def _newest_checkpoint(folder: Path) -> Kept | None:
    """Return the newest checkpoint, after processes of a killed run that still write one."""
    checkpoints = checkpoints_of(folder)
    if not is_first():
        return checkpoints.latest()
    with hold_folder(checkpoints.folder):
        remove_leftovers(folder)
        return checkpoints.latest()


def _train(job: Job, labels: Sequence[Rows], kept: Kept | None) -> Run:
    """Train from a checkpoint, or from the start, to the end of a run; in as many processes as it asks for."""
    config, checkpoints = job.config, checkpoints_of(job.folder)
    check_splits(config, job.training, job.validation)
    facts = {
        "config": config.model_dump(mode="json"),
        "data": hashlib.sha256(graph_sizes(job.training).tobytes()).hexdigest(),
        "content": [each.fingerprint if isinstance(each, Store) else None for each in (job.training, job.validation)],
        "threads": torch.get_num_threads(),
    }
    if kept is None:
        scale = fit_scale(config, labels)
        facts["scale"] = None if scale is None else scale.to_json()
    else:
        check_same_run(kept[0], facts, job.folder)
        check_threads(kept[0], facts)
        checkpoints.check_best(config, kept[0])
        facts["scale"] = kept[0]["scale"]
    check_labels(config, labels, job.validation)
    job = replace(job, facts=facts)
    devices = num_devices(config.trainer)
    if devices > 1 and find_launch() is None:
        run_together(loop_in_child, devices, {"job": job})
        kept = None
    else:
        kept = loop(job, kept)
    kept = kept or checkpoints.latest()
    if kept is None:
        raise ArtifactError(f"{checkpoints.folder} holds no checkpoint of the run")
    return _select_weights(config, job.folder, checkpoints, *kept)


def _select_weights(
    config: RunConfig, folder: Path, checkpoints: Checkpoints, state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Run:
    """Return the run with the weights that it selects, from its last checkpoint."""
    progress = RunProgress.from_json(state["progress"])
    epoch, weights = len(progress.history) - 1, tensors_of(tensors, "model") | tensors_of(tensors, "average")
    if config.trainer.select == "best" and progress.best is not None:
        epoch, weights = progress.best.epoch, read_tensors(checkpoints.folder / progress.best.file)[1]
    scale = TargetScale.from_json(state["scale"])
    return Run(config, folder, weights, epoch, progress.history, scale, kept_answers(tensors))


def _evaluate(run: Run, source: Source, stores: Mapping[str, Store], labels: Sequence[Rows]) -> Run:
    """Evaluate the trained model and save it; in the other processes of a run, an untrained one stands for it."""
    config = run.config
    if not is_first():
        return replace(run, artifact=Artifact(config, build_model(config)))
    model = build_model(config, backend=execution(config, training=False).backend)
    model.load_state_dict(dict(run.weights))
    model.eval()
    task = build_task(config, run.scale)
    held_out = [name for name in ("val", "test") if name in stores]
    seen = {name: Seen(task) for name in held_out if config.task.answers}
    found = {name: evaluate(model, task, config, stores[name], see=seen.get(name)) for name in held_out}
    answers = {name: each.arrays() for name, each in seen.items()}
    if run.held_out is not None:
        truth = answers["val"][1]
        is_whole = config.model.level == "graph"
        answers[_APART] = (in_order(run.held_out, truth), truth) if is_whole else run.held_out
    molecules, familiar = None, dict[str, Floats]()
    if config.task.answers and reading_schema(config).format == "molecules":
        from egt.inference.familiarity import TrainingMolecules  # here: only molecules have fingerprints

        smiles, training = source.smiles(), stores["train"]
        texts = [] if smiles is None else [str(smiles[row]) for row in training.rows.tolist()]
        molecules = TrainingMolecules.of(training, texts)
        if config.model.level == "graph":
            familiar = {name: molecules.familiarities(stores[name]) for name in held_out}
    sizes = {name: len(store) for name, store in stores.items()}
    data: dict[str, Any] = {
        "card": {**asdict(source.card), "vocabulary": {}, "split_sizes": sizes},
        "fingerprint": source.fingerprint(),
        "scale": None if run.scale is None else run.scale.to_json(),
        "unreadable_rows": run.problems,
        "epoch": run.epoch,
    }
    blend = None
    if found and config.task.answers and (config.trainer.baseline or config.trainer.blend):
        from egt.training.baseline import fit_blend, fit_learners, measure_baseline, why_no_learner  # as in `train`

        learners = fit_learners(config, source, stores)
        baseline = measure_baseline(config, source, stores, labels, learners) if config.trainer.baseline else None
        data |= {} if baseline is None else {"baseline": asdict(baseline)}
        if learners is not None and "val" in answers and not why_no_learner(config, source):
            blend = fit_blend(task, learners, *answers.get(_APART, answers["val"]))
            theirs = {name: learners.answers_with_labels("val" if name == _APART else name) for name in answers}
            joint = {name: (blend.mean(each, theirs[name]), truth) for name, (each, truth) in answers.items()}
            blended = {
                split: evaluate_answers(task, *joint[split], num_graphs=int(each.metrics["num_graphs"]))
                for split, each in found.items()
            }
            data["blend"] = {
                "share": blend.share,
                "kept": config.trainer.blend,
                "metrics": {split: each.metrics for split, each in blended.items()},
                "network": {split: each.metrics for split, each in found.items()},
            }
            if config.trainer.blend:
                answers, found = joint, blended
            else:
                blend = None
    metrics = {name: each.metrics for name, each in found.items()}
    data["metrics_by_target"] = {name: each.by_target for name, each in found.items() if each.by_target}
    calibration = None
    if "val" in answers:
        calibration = calibrate(
            config.task,
            *answers.get(_APART, answers["val"]),
            familiarity=familiar.get("val"),
            transductive=source.is_divided_within,
            num_graphs=labeled_graphs(config, metrics["val"]),
        )
    if calibration is not None and "test" in answers:
        data["coverage"] = measure_coverage(config.task, calibration, *answers["test"], familiar.get("test"))
    artifact = Artifact(config, model, metrics, data, calibration=calibration, molecules=molecules, blend=blend)
    save_artifact(artifact, run.path)
    return replace(run, artifact=artifact, held_out=answers.get(_APART))
