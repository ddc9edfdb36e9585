"""`egt train`: from a preset, a configuration or own data to an artifact."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from egt.cli.bars import Bars
from egt.cli.output import print_json, print_table, say
from egt.config.load import find_config, override, read_config
from egt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from egt.config.run import RunConfig
    from egt.sources.own import OwnSource
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
    _show_log()
    source: OwnSource | None = None
    kept = _kept_config(what, out) if resume else None
    if kept is not None:
        folder, config = kept
    elif _is_own(what):
        source, config = _own_run(what, target, task, settings)
        settings = tuple(setting for setting in settings if not _about_reading(setting))
        folder = out or Path("runs", config.name)
    else:
        if target or task is not None:
            raise ConfigError("--target and --task are for own data; a preset or run.yaml says what it predicts")
        config = find_config(what)
        folder = out or Path("runs", config.name)
    if start is not None and source is not None:
        config = _like(config, start)
    config = override(config, settings)

    from egt.training.complete import fit

    with Bars() as bars:
        outcome = fit(
            config,
            folder,
            source=source,
            resume=resume,
            start_from=None if start is None else _start(start, config, keep_head, freeze_below, tune),
            watch=bars,
        )
    if outcome.is_first:
        _report(outcome, json)


def _show_log() -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING)


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


def _own_run(what: str, target: tuple[str, ...], task: Any, settings: tuple[str, ...]) -> tuple[OwnSource, RunConfig]:
    from egt.config.own import own_config
    from egt.sources.own import open_own

    reading = _reading(settings)
    split = reading.pop("split", None)
    source = open_own(what, target=list(target) or None, level=task, overrides=reading.get("overrides"), split=split)
    rows = [(name, decision, _how(change)) for name, decision, change in source.schema_table()]
    print_table(f"{what}: what was understood", ("what", "decision", "change it with"), rows, to_error=True)
    path = Path(what).resolve()
    return source, own_config(source.own_schema, source.card, str(path), _stem(path.name))


def _about_reading(setting: str) -> bool:
    return setting.startswith(("overrides.", "split="))


def _reading(settings: tuple[str, ...]) -> dict[str, Any]:
    """The settings that concern how own data is read, nested."""
    import yaml

    found: dict[str, Any] = {}
    for setting in filter(_about_reading, settings):
        path, _, text = setting.partition("=")
        *sections, key = path.split(".")
        place = found
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = yaml.safe_load(text) if key == "directed" else text
    return found


def _how(change: str) -> str:
    """The command-line option behind a decision of the schema."""
    if not change:
        return ""
    return {"level": "--task", "target": "--target"}.get(change, f"--set {change}=...")


def _stem(name: str) -> str:
    return name.split(".")[0] or "own"


def _like(config: RunConfig, start: str) -> RunConfig:
    """The run of own data with the model of the artifact it starts from; its own features, where these differ."""
    from egt.inference.predictor import find_artifact
    from egt.training.finetune import with_model_of

    return with_model_of(config, read_config(find_artifact(start) / "config.yaml"))


def _start(start: str, config: RunConfig, keep_head: bool, freeze_below: int, tune: Literal["all", "edges"]) -> Any:
    from egt.artifact.artifact import load_artifact
    from egt.inference.predictor import find_artifact
    from egt.training.finetune import start_of

    artifact = load_artifact(find_artifact(start))
    return start_of(artifact, config, keep_head=keep_head, freeze_below=freeze_below, tuned=tune)


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
