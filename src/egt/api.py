"""The front door: `egt.train` does what `egt train` does, for files, presets, configurations and Python objects.

What a run is (a new one, a resumed one, one that starts from another model's weights) is decided here; how it is
trained is decided in `egt.training`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egt.config.defaults import infer_run, node_recipes
from egt.config.load import (
    Setting,
    Settings,
    Wanted,
    column_settings,
    find_config,
    list_columns,
    nest_reading,
    open_data,
    override,
    parse_settings,
    read_config,
)
from egt.config.run import RunConfig, StartConfig
from egt.config.run_data import open_source
from egt.data.schema import CustomSchema
from egt.data.source import Progress, Source
from egt.errors import ConfigError, DataError
from egt.files import exists
from egt.inference.artifact import find_artifact
from egt.processes import find_launch, refuse_import
from egt.training.finetune import describe_start, with_model_of
from egt.training.recipes import choose_recipe
from egt.training.run import Run
from egt.training.run import train as train_run
from egt.training.run_folder import CONFIG, MEMBERS, run_folder, try_folder

if TYPE_CHECKING:
    from egt.training.callbacks import Callback
    from egt.training.finetune import Tuned

__all__ = ["Request", "Run", "configured", "train"]
log = logging.getLogger(__name__)


def train(
    data: Any,
    target: str | Sequence[str] | None = None,
    *,
    task: Wanted | None = None,
    smiles: str | Sequence[str] = (),
    features: Sequence[str] = (),
    set: Settings = (),
    out: Path | str | None = None,
    start: str | Path | None = None,
    keep_head: bool = False,
    freeze_below: int = 0,
    tune: Tuned = "all",
    ensemble: int | None = None,
    folds: int | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    watch: Progress | None = None,
    show: Callable[[CustomSchema], None] | None = None,
) -> Run:
    """Train a model, evaluate it and save it as an artifact: what `egt train` does.

    Args:
        data: a preset (`egt presets`), a run.yaml or a `RunConfig`; or your own data: the path of a file or folder
            (docs/data.md), a pandas or Polars frame, `Graph`s, NetworkX graphs or PyG data.
        target: column(s) of your own data to predict, or patterns such as `NR-*`.
        task: level of your own data to predict, if it does not follow from the target; "link" predicts missing edges,
            "pair" a matrix over all pairs of nodes, and "pretrain" needs no target: it makes a model to start from
            (`start`).
        smiles: the column of your own data that holds the SMILES, if its name does not say so; several are components
            of one graph, such as solute and solvent.
        features: numeric columns of your own data that describe a whole row (temperature, descriptors), or patterns.
        set: settings to change, as {"optimizer.lr": 1e-3} or ["optimizer.lr=1e-3"]. For your own data also
            split=scaffold and overrides.KEY=VALUE (docs/data.md).
        out: the run folder; runs/NAME by default.
        start: start from the weights of this artifact or run folder; its last linear map is re-initialized. Molecules
            start from the pre-trained model `molecules`, unless this is "none" or `set` changes the model.
        keep_head: with `start`: keep the last linear map as well.
        freeze_below: with `start`: leave the embeddings and the layers below this one unchanged.
        tune: with `start`: "edges" trains the edge channel only, and keeps the head.
        ensemble: train this many models with different seeds, whose answers are averaged.
        folds: cross-validation: train this many models, each of which leaves out a different part of your own data.
        resume: continue the run in the run folder.
        callbacks: receive each step and epoch.
        progress: show a progress bar while training.
        watch: receives the progress of the preparation of graphs.
        show: receives what was inferred about your data, before training begins.
    """
    refuse_import()
    if start in (None, _NONE) and (keep_head or freeze_below or tune != "all"):
        raise ConfigError("--keep-head, --freeze-below and --tune need a model to start from; name it with --from")
    request = Request.of(data, target, task, smiles, features, set, out)
    old_folder = request.find_run() if resume else None
    folder, config, source = request.new_run(show) if old_folder is None else request.old_run(old_folder)
    settings = [each for each in request.settings if config.data.custom is None or not each.is_of_reading]
    trained = None
    if start is None and old_folder is None and request.wants_answers and starts_pretrained(config, settings):
        start = PRETRAINED
        log.warning("starts from the pre-trained model %s (--from none starts from random weights)", start)
    if start is not None and start != _NONE:
        wanted = describe_start(str(start), keep_head=keep_head, freeze_below=freeze_below, tune=tune)
        if old_folder is not None:
            _check_same_start(wanted, folder, config)
        elif source is not None:
            trained = read_config(find_artifact(start) / CONFIG)
        config = config.model_copy(update={"start": wanted})
    inferred = config
    config = override(config, settings) if trained is None else with_model_of(config, trained, settings)
    if old_folder is None and start in (None, _NONE) and source is not None and request.wants_answers:
        config = _choose_recipe(inferred, config, settings, source, watch)
    options: dict[str, Any] = {
        "source": source,
        "resume": resume,
        "show_progress": progress,
        "watch": watch,
        "callbacks": callbacks,
    }
    if ensemble is not None or folds is not None or exists(folder / MEMBERS):
        from egt.training.ensemble import choose_members, train_members  # here: only they need the predictor

        members = choose_members(folder, ensemble, folds, resume=resume)
        if members is not None:
            return _warn_if_worse(train_members(config, folder, members, **options))
    return _warn_if_worse(train_run(config, folder, **options))


_OF_RECIPES = ("model.", "data.pieces", "data.layout")


def _choose_recipe(
    inferred: RunConfig, config: RunConfig, settings: Sequence[Setting], source: Any, watch: Progress | None
) -> RunConfig:
    """Return the recipe that validation chooses, where there are several and the settings leave the choice.

    inferred: the run without the settings. config: the run with them.
    """
    if any(each.path.startswith(_OF_RECIPES) for each in settings):
        return config
    recipes = node_recipes(inferred, source)
    if not recipes:
        return config
    if find_launch() is not None:
        log.warning(
            "recipes are not compared in processes that were started from outside; take %s", next(iter(recipes))
        )
        return config
    return choose_recipe({name: override(each, settings) for name, each in recipes.items()}, source, watch)


def _warn_if_worse(run: Run) -> Run:
    """Return the run, after a warning where its baseline is better on the last split by the metric that decides."""
    artifact, baseline = run.artifact, run.artifact.data.get("baseline")
    if baseline is None or artifact.config.trainer.blend:
        return run
    task, split = artifact.config.task, list(artifact.metrics)[-1]
    ours = artifact.metrics[split][task.deciding_metric]
    other = baseline["metrics"].get(split, {}).get(task.deciding_metric, math.nan)
    if (ours < other) if task.higher_is_better else (ours > other):
        log.warning(
            "%s %s: the %s is better (%.4g) than this model (%.4g); try --ensemble 5, `egt tune`, more data or other "
            "features",
            *(split, task.deciding_metric, baseline["name"], other, ours),
        )
    return run


PRETRAINED, _NONE = "molecules", "none"
"""The model of the package that molecules start from, and the name of random weights."""


def starts_pretrained(config: RunConfig, settings: Sequence[Setting]) -> bool:
    """Return whether a run is of molecules as the pre-trained model reads them, and no other model is asked for."""
    schema = config.data.custom
    if schema is None or any(each.path.startswith("model.") for each in settings):
        return False
    return schema.format == "molecules" and schema.vocabulary == "ogb" and schema.canonical and not schema.hydrogens


def configured(
    data: Any,
    target: str | Sequence[str] | None = None,
    *,
    task: Wanted | None = None,
    smiles: str | Sequence[str] = (),
    features: Sequence[str] = (),
    set: Settings = (),
) -> RunConfig:
    """Return the configuration that `train` would start from, without training or writing. Arguments as there."""
    request = Request.of(data, target, task, smiles, features, set, None)
    if not request.is_custom:
        return override(request.given_config(), request.settings)
    source = open_data(data, request.target, task, request.settings)
    return override(request.infer(source), [each for each in request.settings if not each.is_of_reading])


@dataclass(frozen=True)
class Request:
    """What the caller of `train` asks for; arguments as there."""

    data: Any
    target: list[str]
    task: Wanted | None
    settings: list[Setting]
    out: Path | None

    @classmethod
    def of(
        cls,
        data: Any,
        target: Any,
        task: Wanted | None,
        smiles: str | Sequence[str],
        features: Sequence[str],
        set: Settings,
        out: Path | str | None,
    ) -> Request:
        """Return arguments as users give them in one form."""
        target = list_columns(target, "target")
        settings = [*parse_settings(set), *column_settings(smiles, features)]
        return cls(data, target, task, settings, None if out is None else Path(out))

    @property
    def path(self) -> Path | None:
        """The path, or the name of a preset; None for objects."""
        return Path(self.data) if isinstance(self.data, str | Path) else None

    @property
    def is_custom(self) -> bool:
        """Whether data is given, and not a configuration or a preset."""
        path = self.path
        if path is None:
            return not isinstance(self.data, RunConfig)
        if path.suffix in (".yaml", ".yml"):
            return False
        if exists(path):
            return True
        if path.suffix or path.parent != Path("."):
            raise DataError(f"{path}: there is no such file or folder")
        return False

    @property
    def wants_answers(self) -> bool:
        """Whether targets of data are to be predicted."""
        return self.is_custom and self.task != "pretrain"

    @property
    def name(self) -> str:
        """The name of a run on custom data."""
        return _stem(self.path.resolve().name) if self.path else "custom"

    def new_run(self, show: Callable[[CustomSchema], None] | None) -> tuple[Path, RunConfig, Source | None]:
        """Return the folder, the configuration and, if it is open already, the data of a new run."""
        if not self.is_custom:
            config = self.given_config()
            return self.out or run_folder(config.name), config, None
        folder = self.out or run_folder(self.name)
        try_folder(folder)
        source = open_data(self.data, self.target, self.task, self.settings)
        if show is not None:
            show(source.schema)
        for warning in source.warnings():
            log.warning("%s", warning)
        return folder, self.infer(source), source

    def given_config(self) -> RunConfig:
        """Return the configuration that is given, or that of a preset."""
        if self.target or self.task is not None:
            raise ConfigError("--target and --task are for custom data; a preset or run.yaml says what it predicts")
        return self.data if isinstance(self.data, RunConfig) else find_config(str(self.data))

    def infer(self, source: Any) -> RunConfig:
        """Return the configuration that fits custom data."""
        where = str(self.path.resolve()) if self.path else "memory"
        learned = nest_reading(self.settings).get("pretrain")
        if learned is not None and self.task != "pretrain":
            raise ConfigError("--set pretrain says what is learned without targets; it needs --task pretrain")
        return infer_run(source, where, self.name, pretrain=self.task == "pretrain", learned=learned)

    def find_run(self) -> Path | None:
        """Return the folder of the run that is to be continued, if there is one."""
        if isinstance(self.data, RunConfig):
            return None  # it says everything; training compares it with the checkpoint
        folders = [Path("runs", "custom")]
        if self.path is not None:
            folders = [self.path, Path("runs", _stem(self.path.name)), Path("runs", self.path.name)]
        folders = folders if self.out is None else [self.out]
        return next((folder for folder in folders if exists(folder / CONFIG)), None)

    def old_run(self, folder: Path) -> tuple[Path, RunConfig, Source | None]:
        """Return what `new_run` does, of the run in a folder, after a check that it is the one that is asked for."""
        config = read_config(folder / CONFIG)
        self._check_same(folder, config)
        in_memory = self.path is None and config.data.custom is not None
        return folder, config, open_source(config, self.data) if in_memory else None

    def _check_same(self, folder: Path, config: RunConfig) -> None:
        schema = config.data.custom
        if schema is None and (self.target or self.task is not None):
            raise ConfigError(f"--target and --task are for custom data; {folder} holds a run of {config.name}")
        pairs: list[tuple[str, str]] = []  # what is asked for, and what the run has
        if self.path is not None and self.path.resolve() != folder.resolve():  # else the run itself is named
            if self.is_custom:
                pairs.append((str(self.path.resolve()), config.data.source))
            elif folder != Path("runs", self.path):
                name = [setting for setting in self.settings if setting.path == "name"]
                pairs.append((override(find_config(str(self.path)), name).name, override(config, name).name))
        if schema is not None and self.target and not _same_columns(schema.targets, self.target):
            pairs.append((f"--target {' '.join(self.target)}", f"--target {' '.join(schema.targets)}"))
        if schema is not None and self.task is not None:
            pairs.append((f"--task {self.task}", f"--task {schema.level if config.task.answers else 'pretrain'}"))
        for given, found in pairs:
            if given != found:
                raise ConfigError(
                    f"{folder} holds a run of {found}, not of {given}; continue it with "
                    f"`egt train {folder} --resume`, or choose another folder (--out)"
                )


def _same_columns(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether the patterns of a target can stand for these columns: each for some, and together for all."""
    found = [[name for name in names if name == pattern or fnmatchcase(name, pattern)] for pattern in patterns]
    return all(found) and {name for some in found for name in some} == {*names}


def _stem(name: str) -> str:
    return name.split(".")[0] or "custom"


def _check_same_start(given: StartConfig, folder: Path, config: RunConfig) -> None:
    """Check that the run in the folder started as asked for, from wherever the same weights are now."""
    old = config.start
    if old is None or old.model_copy(update={"artifact": given.artifact}) != given:
        before = "random weights" if old is None else _start_options(old)
        raise ConfigError(
            f"{folder} holds a run that started from {before}, not from {_start_options(given)}; "
            f"continue it with `egt train {folder} --resume`, or choose another folder (--out)"
        )


def _start_options(start: StartConfig) -> str:
    """Return the options of the command line behind a start."""
    options = [f"--tune {start.tune}"] if start.tune != "all" else []
    options += [f"--freeze-below {start.freeze_below}"] if start.freeze_below else []
    options += ["--keep-head"] if start.keep_head else []
    return " ".join([start.artifact, f"(sha256 {start.sha256[:8]})", *options])
