"""The front door: `egt.train` does what `egt train` does, for files, presets, configurations and Python objects.

What a run is (a new one, a resumed one, one that starts from another model's weights) is decided here; how it is
trained is decided in `egt.training`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egt.config.defaults import infer_config
from egt.config.load import find_config, override, read_config
from egt.config.reading import Wanted, as_words, naming, open_data, reads, texts_of
from egt.config.run import RunConfig, StartConfig
from egt.config.run_data import open_source
from egt.data.custom_source import CustomSource
from egt.data.schema import CustomSchema
from egt.data.source import Progress, Source
from egt.errors import ConfigError, DataError
from egt.files import exists
from egt.training.run import Run
from egt.training.run import train as train_run
from egt.training.run_folder import CONFIG, MEMBERS, run_folder, try_folder

if TYPE_CHECKING:
    from egt.training.callbacks import Callback
    from egt.training.finetune import Tuned

log = logging.getLogger(__name__)

Settings = Sequence[str] | Mapping[str, Any]


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
            and "pretrain" needs no target: it makes a model to start from (`start`).
        smiles: the column of your own data that holds the SMILES, if its name does not say so; several are components
            of one graph, such as solute and solvent.
        features: numeric columns of your own data that describe a whole row (temperature, descriptors), or patterns.
        set: settings to change, as {"optimizer.lr": 1e-3} or ["optimizer.lr=1e-3"]. For your own data also
            split=scaffold and overrides.KEY=VALUE (docs/data.md).
        out: the run folder; runs/NAME by default.
        start: start from the weights of this artifact or run folder; its last linear map is re-initialized.
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
    if start is None and (keep_head or freeze_below or tune != "all"):
        raise ConfigError("--keep-head, --freeze-below and --tune need a model to start from; name it with --from")
    asked = _Asked(
        data, _names(target), task, [*as_words(set), *naming(smiles, features)], None if out is None else Path(out)
    )
    kept = asked.kept() if resume else None
    folder, config, source = asked.begun(*kept) if kept is not None else asked.new(show)
    settings = asked.settings if config.data.custom is None else [each for each in asked.settings if not reads(each)]
    inferred = source is not None and kept is None
    if start is not None:
        from egt.training.finetune import describe_start

        given = describe_start(str(start), keep_head=keep_head, freeze_below=freeze_below, tune=tune)
        if kept is not None:
            _check_same_start(given, folder, config)
        config = config.model_copy(update={"start": given})
    if start is not None and inferred:
        from egt.inference.artifact import find_artifact
        from egt.training.finetune import with_model_of

        config = with_model_of(config, read_config(find_artifact(start) / CONFIG), settings)
    else:
        config = override(config, settings)
    options: dict[str, Any] = {
        "source": source,
        "resume": resume,
        "show_progress": progress,
        "watch": watch,
        "callbacks": callbacks,
    }
    if ensemble is not None or folds is not None or exists(folder / MEMBERS):
        from egt.training.ensemble import choose_members, train_members  # here: most runs are of one model

        members = choose_members(folder, ensemble, folds, resume=resume)
        if members is not None:
            return train_members(config, folder, members, **options)
    return train_run(config, folder, **options)


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
    asked = _Asked(data, _names(target), task, [*as_words(set), *naming(smiles, features)], None)
    if not asked.is_custom:
        return override(asked.given(), asked.settings)
    source = open_data(data, asked.target, task, asked.settings)
    return override(asked.inferred(source), [each for each in asked.settings if not reads(each)])


@dataclass(frozen=True)
class _Asked:
    """What the caller of `train` asks for; arguments as there."""

    data: Any
    target: list[str]
    task: Wanted | None
    settings: list[str]
    out: Path | None

    def new(self, show: Callable[[CustomSchema], None] | None) -> tuple[Path, RunConfig, Source | None]:
        """Return the folder, the configuration and, if it is open already, the data of a new run."""
        if not self.is_custom:
            config = self.given()
            return self.out or run_folder(config.name), config, None
        folder = self.out or run_folder(self.name)
        try_folder(folder)
        source = open_data(self.data, self.target, self.task, self.settings)
        if show is not None:
            show(source.schema)
        for warning in source.warnings():
            log.warning("%s", warning)
        return folder, self.inferred(source), source

    def given(self) -> RunConfig:
        """Return the configuration that is given, or that of a preset."""
        if self.target or self.task is not None:
            raise ConfigError("--target and --task are for custom data; a preset or run.yaml says what it predicts")
        return self.data if isinstance(self.data, RunConfig) else find_config(str(self.data))

    def inferred(self, source: CustomSource) -> RunConfig:
        """Return the configuration that fits custom data."""
        where = str(self.path.resolve()) if self.path else "memory"
        run = infer_config(source.schema, source.card, where, self.name)
        if self.task == "pretrain":
            from egt.config.defaults import for_pretraining  # here: most runs have a target

            return for_pretraining(run, source.schema)
        if source.schema.level != "node":
            return run
        from egt.config.defaults import (  # here: most runs are of many graphs
            for_one_graph,
            for_pieces,
            is_large,
            is_one_graph,
        )

        run = for_one_graph(run, source) if is_one_graph(source.schema, source.card) else run
        return for_pieces(run, source) if is_large(source.card) else run

    @property
    def name(self) -> str:
        """The name of a run on custom data."""
        return _stem(self.path.resolve().name) if self.path else "custom"

    def kept(self) -> tuple[Path, RunConfig] | None:
        """Return the folder and the configuration of the run that is to be continued, if there is one."""
        if isinstance(self.data, RunConfig):
            return None  # it says everything; training compares it with the checkpoint
        folders = [Path("runs", "custom")]
        if self.path is not None:
            folders = [self.path, Path("runs", _stem(self.path.name)), Path("runs", self.path.name)]
        for folder in folders if self.out is None else [self.out]:
            if exists(folder / CONFIG):
                return folder, read_config(folder / CONFIG)
        return None

    def begun(self, folder: Path, config: RunConfig) -> tuple[Path, RunConfig, Source | None]:
        """Return the run that was begun in a folder, checked to be the one that is asked for."""
        self._check_same(folder, config)
        in_memory = self.path is None and config.data.custom is not None
        return folder, config, open_source(config, self.data) if in_memory else None

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

    def _check_same(self, folder: Path, config: RunConfig) -> None:
        schema = config.data.custom
        if schema is None and (self.target or self.task is not None):
            raise ConfigError(f"--target and --task are for custom data; {folder} holds a run of {config.name}")
        pairs: list[tuple[str, str]] = []  # what is asked for, and what the run has
        if self.path is not None and self.path.resolve() != folder.resolve():  # else the run itself is named
            if self.is_custom:
                pairs.append((str(self.path.resolve()), config.data.source))
            elif folder != Path("runs", self.path):
                name = [setting for setting in self.settings if setting.startswith("name=")]
                pairs.append((override(find_config(str(self.path)), name).name, override(config, name).name))
        if schema is not None and self.target and not _same_columns(schema.targets, self.target):
            pairs.append((f"--target {' '.join(self.target)}", f"--target {' '.join(schema.targets)}"))
        if schema is not None and self.task is not None:
            pairs.append((f"--task {self.task}", f"--task {schema.level if config.task.answers else config.task.kind}"))
        for given, kept in pairs:
            if given != kept:
                raise ConfigError(
                    f"{folder} holds a run of {kept}, not of {given}; continue it with "
                    f"`egt train {folder} --resume`, or choose another folder (--out)"
                )


def _names(target: str | Sequence[str] | None) -> list[str]:
    return texts_of(target, "target", "the name of a column, or a list of names")


def _same_columns(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether the patterns of a target can stand for these columns: each for some, and together for all."""
    found = [[name for name in names if name == pattern or fnmatchcase(name, pattern)] for pattern in patterns]
    return all(found) and {name for some in found for name in some} == {*names}


def _stem(name: str) -> str:
    return name.split(".")[0] or "custom"


def _check_same_start(given: StartConfig, folder: Path, config: RunConfig) -> None:
    """Check that the run in the folder started as asked for, from wherever the same weights are now."""
    kept = config.start
    if kept is None or kept.model_copy(update={"artifact": given.artifact}) != given:
        before = "random weights" if kept is None else _start_options(kept)
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
