"""`egt train`: from a preset, a configuration or own data to an artifact."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import ValidationError

from egt.cli.bars import Bars
from egt.cli.output import print_json, print_table, say
from egt.config.load import find_config, override, read_config
from egt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from egt.config.run import RunConfig, StartConfig
    from egt.sources.custom import CustomSource, SplitPlan
    from egt.training.complete import Outcome

Many = Parameter(consume_multiple=True, negative="")
Flag = Parameter(negative="")


def train(
    what: str,
    *,
    target: Annotated[tuple[str, ...], Many] = (),
    task: Literal["graph", "node", "edge", "link"] | None = None,
    settings: Annotated[tuple[str, ...], Parameter(name="--set", consume_multiple=True, negative="")] = (),
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    start: Annotated[str | None, Parameter(name="--from")] = None,
    keep_head: Annotated[bool, Flag] = False,
    freeze_below: int = 0,
    tune: Literal["all", "edges"] = "all",
    resume: Annotated[bool, Flag] = False,
    json: Annotated[bool, Flag] = False,
) -> None:
    """Train a model, evaluate it and save it as an artifact.

    Args:
        what: A preset (`egt presets`), a run.yaml, or your own data: a .csv of SMILES, a .jsonl of graphs, a folder.
        target: Column(s) of own data to predict, or patterns as `NR-*`.
        task: Level of own data to predict, where it cannot be told from the target; `link` predicts missing edges.
        settings: Settings to change, as path=value (optimizer.lr=1e-3). For own data also split=scaffold and
            overrides.KEY=VALUE (docs/data.md).
        out: The run folder; runs/NAME by default.
        start: Start from the weights of this artifact; its last linear map starts anew.
        keep_head: With --from: keep the last linear map as well.
        freeze_below: With --from: leave the embeddings and the layers below this one as they are.
        tune: With --from: `edges` trains the edge channel only, and keeps the head.
        resume: Continue the run in the run folder.
        json: Print one JSON object as the last line.
    """
    from egt.training.folder import try_folder
    from egt.training.processes import is_first

    _show_log(is_first())
    if start is None and (keep_head or freeze_below or tune != "all"):
        raise ConfigError("--keep-head, --freeze-below and --tune need a model to start from; name it with --from")
    source: CustomSource | None = None
    kept = _kept_config(what, out) if resume else None
    if kept is not None:
        folder, config = kept
        _check_same_run(what, target, task, settings, folder, config)
        try_folder(folder)
        if config.data.custom is not None:  # how the data is read was decided when the run began
            settings = tuple(setting for setting in settings if not _about_reading(setting))
    elif _is_own(what):
        folder = out or Path("runs", _stem(Path(what).resolve().name))
        try_folder(folder)
        source, config = _custom_run(what, target, task, settings, show=is_first())
        settings = tuple(setting for setting in settings if not _about_reading(setting))
    else:
        if target or task is not None:
            raise ConfigError("--target and --task are for own data; a preset or run.yaml says what it predicts")
        config = find_config(what)
        folder = out or Path("runs", config.name)
    if start is not None:
        from egt.training.finetune import describe_start

        given = describe_start(start, keep_head=keep_head, freeze_below=freeze_below, tune=tune)
        if kept is not None:
            _check_same_start(given, folder, config)
        config = config.model_copy(update={"start": given})
    like = start is not None and source is not None
    config = _like(config, start or "", settings) if like else override(config, settings)

    from egt.training.complete import fit

    with Bars() as bars:
        outcome = fit(config, folder, source=source, resume=resume, watch=bars if is_first() else None)
    if outcome.is_first:
        _report(outcome, json)


def _show_log(first: bool) -> None:
    """Warnings, and without a terminal, which would show a bar, a line for each epoch; from one process of several."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING if first else logging.ERROR)
    logging.getLogger("egt.training.run").setLevel(logging.NOTSET if sys.stderr.isatty() else logging.INFO)


def _is_own(what: str) -> bool:
    """Whether the argument names data, and not a configuration or a preset."""
    path = Path(what)
    if path.suffix in (".yaml", ".yml"):
        return False
    if path.exists():
        return True
    if path.suffix or path.parent != Path("."):
        raise DataError(f"{what}: there is no such file or folder")
    return False


def _kept_config(what: str, out: Path | None) -> tuple[Path, RunConfig] | None:
    """The folder and the configuration of the run that is to be continued, if there is one."""
    name = Path(what).name
    for folder in [out] if out is not None else [Path(what), Path("runs", _stem(name)), Path("runs", name)]:
        if (folder / "config.yaml").is_file():
            return folder, read_config(folder / "config.yaml")
    return None


def _check_same_run(
    what: str, target: tuple[str, ...], task: str | None, settings: tuple[str, ...], folder: Path, config: RunConfig
) -> None:
    """The run in the folder has to be the one that the command describes."""
    schema = config.data.custom
    if schema is None and (target or task is not None):
        raise ConfigError(f"--target and --task are for own data; {folder} holds a run of {config.name}")
    pairs: list[tuple[str, str]] = []  # what the command says, and what the run has
    if Path(what).resolve() != folder.resolve():  # else the run itself is named
        if _is_own(what):
            pairs.append((str(Path(what).resolve()), config.data.source))
        elif folder != Path("runs", what):
            name = [setting for setting in settings if setting.startswith("name=")]
            pairs.append((override(find_config(what), name).name, override(config, name).name))
    if schema is not None and target and not _same_columns(schema.targets, target):
        pairs.append((f"--target {' '.join(target)}", f"--target {' '.join(schema.targets)}"))
    if schema is not None and task is not None:
        pairs.append((f"--task {task}", f"--task {schema.level}"))
    for given, kept in pairs:
        if given != kept:
            raise ConfigError(
                f"{folder} holds a run of {kept}, not of {given}; continue it with "
                f"`egt train {folder} --resume`, or choose another folder (--out)"
            )


def _same_columns(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether the patterns of --target can stand for these columns: each for some, and together for all."""
    found = [[name for name in names if name == pattern or fnmatchcase(name, pattern)] for pattern in patterns]
    return all(found) and {name for some in found for name in some} == set(names)


def _custom_run(
    what: str, target: tuple[str, ...], task: Any, settings: tuple[str, ...], *, show: bool
) -> tuple[CustomSource, RunConfig]:
    from egt.config.custom import infer_config
    from egt.sources.custom import open_custom

    reading = _reading(settings)
    split = _split(reading.get("split", {}))
    source = open_custom(what, target=list(target) or None, level=task, overrides=reading.get("overrides"), split=split)
    if show:
        rows = [(name, decision, _how(change)) for name, decision, change in source.schema.rows()]
        print_table(f"{what}: what was understood", ("what", "decision", "change it with"), rows, to_error=True)
    path = Path(what).resolve()
    return source, infer_config(source.schema, source.card, str(path), _stem(path.name))


def _about_reading(setting: str) -> bool:
    return setting.startswith(("overrides.", "split=", "split."))


def _reading(settings: tuple[str, ...]) -> dict[str, Any]:
    """The settings that concern how own data is read, nested."""
    import yaml

    found: dict[str, Any] = {}
    for setting in filter(_about_reading, settings):
        path, _, text = setting.partition("=")
        *sections, key = ("split.kind" if path == "split" else path).split(".")
        place = found
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = yaml.safe_load(text) if key in ("directed", "seed", "fractions") else text
    return found


def _split(given: dict[str, Any]) -> SplitPlan | str | None:
    """How own data is divided: `split=scaffold` or a column, `split.seed=1`, `split.fractions=[0.7, 0.1, 0.2]`."""
    from egt.sources.custom import SplitPlan

    if not set(given) - {"kind"}:
        return given.get("kind")
    try:
        return SplitPlan.model_validate(given)
    except ValidationError as error:
        raise ConfigError("split has the settings kind, seed (a number) and fractions (three numbers)") from error


def _how(change: str) -> str:
    """The command-line option behind a decision of the schema."""
    if not change:
        return ""
    return {"level": "--task", "target": "--target"}.get(change, f"--set {change}=...")


def _stem(name: str) -> str:
    return name.split(".")[0] or "own"


def _like(config: RunConfig, start: str, settings: tuple[str, ...]) -> RunConfig:
    """The run of own data with the model of the artifact it starts from; its own features, where these differ."""
    from egt.inference.predictor import find_artifact
    from egt.training.finetune import with_model_of

    return with_model_of(config, read_config(find_artifact(start) / "config.yaml"), settings)


def _check_same_start(given: StartConfig, folder: Path, config: RunConfig) -> None:
    """The run in the folder has to have started as the command says, from wherever the same weights are now."""
    kept = config.start
    if kept is None or kept.model_copy(update={"artifact": given.artifact}) != given:
        before = "random weights" if kept is None else _in_words(kept)
        raise ConfigError(
            f"{folder} holds a run that started from {before}, not from {_in_words(given)}; "
            f"continue it with `egt train {folder} --resume`, or choose another folder (--out)"
        )


def _in_words(start: StartConfig) -> str:
    """The options of the command line behind a start."""
    options = [f"--tune {start.tune}"] if start.tune != "all" else []
    options += [f"--freeze-below {start.freeze_below}"] if start.freeze_below else []
    options += ["--keep-head"] if start.keep_head else []
    return " ".join([start.artifact, f"(sha256 {start.sha256[:8]})", *options])


def _report(outcome: Outcome, json: bool) -> None:
    metrics = outcome.artifact.metrics
    parameters = outcome.artifact.model.num_parameters()
    if json:
        content = {
            "artifact": str(outcome.path),
            "metrics": metrics,
            "epoch": outcome.epoch,
            "parameters": parameters,
            "unreadable_rows": dict(outcome.problems),
        }
        print_json(content)
        return
    rows = []
    for split, values in metrics.items():
        basis = f"{values['num_labels']:.0f} labels of {values['num_graphs']:.0f} graphs"
        rows += [(split, name, f"{value:.5g}", basis) for name, value in values.items() if not name.startswith("num_")]
    print_table(
        f"{outcome.artifact.config.name}: {parameters:,} parameters, weights of epoch {outcome.epoch + 1}",
        ("split", "metric", "value", "on"),
        rows,
    )
    bad = sum(outcome.problems.values())
    if bad:
        say(f"{bad} rows could not be read and were left out")
    say(
        f"wrote {outcome.path}\nnext: egt evaluate {outcome.path}   or   egt predict {outcome.path} NEW_DATA -o out.csv"
    )
