"""YAML <-> RunConfig, and settings as users give them, with errors that say which key is wrong and what was meant.

A setting is `path=value` on the command line, or an entry of a mapping from Python. Those of `overrides.KEY` and
`split` say how custom data is read, `pretrain` what is learned without targets; the others are those of a run.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from egt.config.run import RunConfig, settings_that_affect
from egt.data.custom import open_custom
from egt.data.custom_source import CustomSource
from egt.data.schema import SplitPlan
from egt.errors import ConfigError, DataError
from egt.files import exists, parse_yaml
from egt.graph import Level
from egt.parts.readouts import ReadoutPart
from egt.parts.schedules import SchedulePart
from egt.parts.tasks.task import TaskPart
from egt.registry import Part, PartError, Section

_NO_TEXTS = ("directed", "hydrogens", "conformers", "seed", "fractions", "graph_features")
"""Settings of reading that are not texts."""

_OF_COLUMNS = ("overrides.node_features.", "overrides.edge_features.", "overrides.pair_features.")
"""Settings of a single column each."""

Wanted = Level | Literal["pretrain"]
"""What a run on custom data learns: targets at a level, or what is hidden of the features, for others to start from."""


class Setting(NamedTuple):
    """A setting and its value; a path that ends with + or - adds an entry to a list or takes one away."""

    path: str
    value: Any

    def __str__(self) -> str:
        return f"{self.path}={self.value if isinstance(self.value, str) else json.dumps(self.value, default=str)}"

    @property
    def is_of_reading(self) -> bool:
        """Whether it concerns how custom data is read or what is pre-trained; that is decided when a run begins."""
        return self.path in ("split", "pretrain") or self.path.startswith(("overrides.", "split."))


Settings = Mapping[str, Any] | Sequence[str | Setting] | Sequence[str] | Sequence[Setting]


def parse_settings(given: Settings) -> list[Setting]:
    """Return settings as paths and values. Values from Python stay as they are, texts are read as YAML."""
    if isinstance(given, Mapping):
        return [Setting(path, value) for path, value in given.items()]
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = list_texts(given, "set", _SETTINGS)
    settings = [_parse(each) if isinstance(each, str) else each for each in given]
    if wrong := [each for each in settings if not isinstance(each, Setting)]:
        raise ConfigError(f"set is {wrong!r:.80}; give {_SETTINGS}")
    return settings


_SETTINGS = 'settings, as {"optimizer.lr": 1e-3} or ["optimizer.lr=1e-3"]'


def _parse(text: str) -> Setting:
    path, sign, value = text.partition("=")
    if not sign or not path:
        raise ConfigError(f"--set {text}: write it as path=value, e.g. --set optimizer.lr=1e-3")
    setting = Setting(path, value)
    if setting.is_of_reading:
        key = path.rpartition(".")[2]
        is_text = key not in _NO_TEXTS and not (key in ("smiles", "positions") and value.startswith("["))
        return setting if is_text or path.startswith(_OF_COLUMNS) else Setting(path, parse_yaml(value, f"--set {text}"))
    if path.endswith("-"):  # the kind of an entry
        return setting
    parsed = parse_yaml(value, f"--set: {value[:80]!r} is not a value")
    if isinstance(parsed, str):  # YAML 1.1 reads 1e-3 as a string
        with suppress(ValueError):
            parsed = float(parsed)
    return Setting(path, parsed)


def column_settings(smiles: str | Sequence[str], features: Sequence[str]) -> list[Setting]:
    """Return the columns with SMILES and those with features of whole graphs as settings; none for no columns."""
    names = {"smiles": list_columns(smiles, "smiles"), "graph_features": list_columns(features, "features")}
    return [Setting(f"overrides.{role}", columns) for role, columns in names.items() if columns]


def list_columns(given: Any, argument: str) -> list[str]:
    """Return the names of one column or several, that were given for an argument, as a list."""
    return list_texts(given, argument, "the name of a column, or a list of names")


def list_texts(given: Any, argument: str, meaning: str) -> list[str]:
    """Return one text or several as a list, none for "" or None; a `ConfigError` names the argument and its meaning."""
    if given is None or given == "":
        return []
    texts: list[Any] = [given] if isinstance(given, str) else [*given] if isinstance(given, Iterable) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{argument} is {given!r:.80}; give {meaning}")
    return texts


def nest_reading(settings: Iterable[Setting]) -> dict[str, Any]:
    """Return the settings that concern how custom data is read, nested: {"overrides": ..., "split": ...}."""
    found: dict[str, Any] = {}
    for setting in settings:
        if not setting.is_of_reading:
            continue
        path = "split.kind" if setting.path == "split" else setting.path
        depth = 2 if path.startswith(_OF_COLUMNS) else -1  # the rest is the name of a column, which may have dots
        *sections, key = path.split(".", depth)
        place = found
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {setting}: {section} is a single value, not a section")
        place[key] = setting.value
    return found


def check_reading_only(settings: Settings) -> None:
    """Raise a `DataError` for a setting that does not concern how data is read."""
    if other := [each for each in parse_settings(settings) if not each.is_of_reading]:
        raise DataError(
            f"--set {other[0]}: data is read with overrides.KEY=VALUE and split=KIND; others are for egt train"
        )


def open_data(data: Any, target: Sequence[str], task: Wanted | None, settings: Settings) -> CustomSource:
    """Open custom data as a new run does. Arguments as in `egt.train`; only the settings of reading count."""
    given = nest_reading(parse_settings(settings))
    if task == "pretrain" and target:
        raise ConfigError(f"--task pretrain predicts no column; leave --target {target[0]} out")
    return open_custom(
        data,
        target=list(target) or None,
        level=None if task == "pretrain" else task,
        overrides=given.get("overrides"),
        split=_split(given.get("split", {})),
        labeled=task != "pretrain",
    )


def _split(given: Mapping[str, Any]) -> SplitPlan | str | None:
    """How custom data is divided: `split=scaffold` or a column, `split.seed=1`, `split.fractions=[0.7, 0.1, 0.2]`."""
    kind = given.get("kind")
    if not {*given} - {"kind"} and not isinstance(kind, Mapping):
        return kind
    try:
        return SplitPlan.model_validate(given)
    except ValidationError as error:
        raise ConfigError(
            "split has the settings kind or column, seed (a number) and fractions (three numbers)"
        ) from error


def split_trained(given: Settings) -> tuple[list[Setting], Mapping[str, Any] | None]:
    """Return the settings that a trained model can take: those of how it is computed, and which columns are read."""
    settings = parse_settings(given)
    computing = [each for each in settings if not each.is_of_reading]
    for each in computing:
        section, *names = each.path.split(".")
        if section not in ("data", "trainer") or (section, *names[:1]) in settings_that_affect("data"):
            raise ConfigError(
                f"--set {each}: the model is already trained; only how it is computed (data.batch_size, "
                "data.pair_budget, trainer.backend, ...) and which columns are read (overrides.smiles, "
                "overrides.id) can be changed"
            )
    return computing, nest_reading(settings).get("overrides")


def read_config(path: Path) -> RunConfig:
    """Return the run described by a YAML file."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: no such file; `egt presets show NAME` prints a configuration to start from"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: holds {type(content).__name__}; a configuration is a mapping of sections")
    return parse_config(content, str(path))


def parse_config(content: Mapping[str, Any], where: str) -> RunConfig:
    """Return a checked run; all errors at once, each with its path in the configuration."""
    try:
        return RunConfig.model_validate(migrate(content))
    except ValidationError as error:
        lines = [_line(*problem) for problem in _problems(error, RunConfig, ())]
        found = lines[0] if len(lines) == 1 else "\n  " + "\n  ".join(lines)
        raise ConfigError(f"{where}: {found}{_missing_plugins(content)}") from error


def _missing_plugins(content: Mapping[str, Any]) -> str:
    """Return which packages with parts of this run are not there, for the end of a message."""
    named = content.get("plugins")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list | tuple) else []
    missing = [name for name in names if not (name.isidentifier() and (name in sys.modules or find_spec(name)))]
    return f"; its parts come from {', '.join(missing)}, which is not installed here: install it" if missing else ""


def write_config(config: RunConfig) -> str:
    """Return the whole configuration as YAML; `read_config` gives it back unchanged."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def find_config(name_or_path: str) -> RunConfig:
    """Return a preset by its name, or a YAML file by its path."""
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"} or (exists(path) and path.is_file()):
        return read_config(path)
    preset: RunConfig = import_module("egt.paper.presets").preset(name_or_path)  # by name: the paper stands above
    return preset


def override(config: RunConfig, settings: Settings, where: str = "--set") -> RunConfig:
    """Return the run with some settings replaced, given as {"optimizer.lr": 1e-3} or ["optimizer.lr=1e-3"].

    `path+=value` adds an entry to a list, `path-=kind` takes one away. Another `kind` of task, schedule or readout
    keeps the settings it shares.

    The run is checked as a whole afterwards; `where` begins the message if something is wrong with it.
    """
    content = config.model_dump(mode="json")
    for setting in parse_settings(settings):
        path, value = setting
        if path.endswith(("+", "-")):
            _change_entries(_step_into(content, path[:-1].split("."), setting), setting)
            continue
        *sections, key = path.split(".")
        target = _step_into(content, sections, setting)
        if isinstance(target, dict) and key not in target:
            raise ConfigError(f"--set {setting}: there is no setting {path!r}{_did_you_mean(key, list(target))}")
        if not isinstance(target, dict | list):
            raise ConfigError(f"--set {setting}: {'.'.join(sections)} is a single value, not a section")
        slot: Any = _index(key, target, path, setting) if isinstance(target, list) else key
        if slot == "kind" and isinstance(target, dict):
            _forget_other_kind(target, ".".join(sections), value)
        target[slot] = value
    return parse_config(content, where)


def _change_entries(entries: Any, setting: Setting) -> None:
    """Add an entry (`model.pair_inputs+={kind: random_walk}`; one of the same kind gives way), or take one away."""
    path, value = setting
    if not isinstance(entries, list):
        raise ConfigError(
            f"--set {setting}: {path[:-1]} is not a list; += adds an entry to one, and -= takes one away, as in "
            "model.pair_inputs+=..."
        )
    kind = value if path.endswith("-") else _kind_of(value) or value
    others = [entry for entry in entries if _kind_of(entry) != kind]
    if path.endswith("-") and len(others) == len(entries):
        kinds = [str(_kind_of(entry)) for entry in entries]
        raise ConfigError(f"--set {setting}: there is no entry of kind {value!r}{_did_you_mean(value, kinds)}")
    entries[:] = others if path.endswith("-") else [*others, value]


def _kind_of(entry: Any) -> Any:
    return entry.get("kind") if isinstance(entry, dict) else getattr(entry, "kind", None)


def _forget_other_kind(section: dict[str, Any], path: str, kind: Any) -> None:
    """Drop the settings of a part that a part of another kind does not have."""
    slots: dict[str, type[Part]] = {"task": TaskPart, "schedule": SchedulePart, "model.readout": ReadoutPart}
    slot = slots.get(path)
    part = None if slot is None else slot.registry.find(str(kind))
    if part is not None:
        for name in [name for name in section if name not in part.model_fields]:
            del section[name]


def _step_into(target: Any, sections: Sequence[str], setting: Setting) -> Any:
    """Return the section or list at a path."""
    for k, section in enumerate(sections):
        path = ".".join(sections[: k + 1])
        if isinstance(target, list):
            target = target[_index(section, target, path, setting)]
        elif isinstance(target, dict) and section in target:
            target = target[section]
        else:
            names = list(target) if isinstance(target, dict) else []
            raise ConfigError(f"--set {setting}: there is no section {path!r}{_did_you_mean(section, names)}")
    return target


def _index(text: str, target: list[Any], path: str, setting: Setting) -> int:
    """Return the place of an entry by its number, or by its kind where that is the only one."""
    kinds = [entry.get("kind") if isinstance(entry, dict) else None for entry in target]
    if kinds.count(text) == 1:
        return kinds.index(text)
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) >= len(target):
        known = f" ({', '.join(map(str, kinds))})" if any(kinds) else ""
        raise ConfigError(f"--set {setting}: {path!r} must name one of the entries 0..{len(target) - 1}{known}")
    return int(text)


_CLOSE = 0.7
"""How alike two names are before one is suggested for the other: heads and num_heads are, nope and scope are not."""


def _did_you_mean(word: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, names, n=2, cutoff=_CLOSE)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are: {', '.join(names)}" if names else ""


def _problems(
    error: ValidationError, section: type[Section], place: tuple[str, ...]
) -> Iterator[tuple[ErrorDetails, tuple[str, ...], list[str]]]:
    """Each problem with its path and the settings that exist there; wrong settings of a part are those of the part."""
    for problem in error.errors():
        location = tuple(str(part) for part in problem["loc"])
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, PartError):
            yield from _problems(cause.error, cause.part, (*place, *location))
        else:
            yield problem, (*place, *location), _names_beside(section, location)


def _line(problem: ErrorDetails, location: tuple[str, ...], names: list[str]) -> str:
    path = ".".join(location) or "configuration"
    if problem["type"] == "extra_forbidden":
        return f"{path}: unknown setting{_did_you_mean(location[-1], names)}"
    if problem["type"] == "missing":
        return f"{path}: is missing"
    message, given = problem["msg"].removeprefix("Value error, "), problem["input"]
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
    return f"{path}: {message}{shown}"


def _names_beside(section: type[Section], location: Sequence[str]) -> list[str]:
    """Return the settings of the section that holds the last part of `location`."""
    for part in location[:-1]:
        inner = _sections(section.model_fields[part]) if part in section.model_fields else []
        named = [
            found for found in inner if "kind" in (known := found.model_fields) and known["kind"].default in location
        ]
        if inner:
            section = (named or inner)[0]
    return list(section.model_fields)


def _sections(field: FieldInfo) -> list[type[Section]]:
    def walk(annotation: Any) -> list[type[Section]]:
        if isinstance(annotation, type) and issubclass(annotation, Section):
            return [annotation]
        return [found for inner in getattr(annotation, "__args__", ()) for found in walk(inner)]

    return walk(field.annotation)


_GONE = ("target_mean", "target_std")  # of the schema of custom data: statistics that nothing read


def migrate(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a run, from whichever version; those of this version come back unchanged."""
    data = content.get("data")
    if not isinstance(data, Mapping) or "own_schema" not in data or "custom" in data:
        return content
    schema = data["own_schema"]
    if isinstance(schema, Mapping):
        schema = {name: value for name, value in schema.items() if name not in _GONE}
    kept = {name: value for name, value in data.items() if name != "own_schema"}
    return {**content, "data": {**kept, "custom": schema}, "task": _with_classes(content.get("task"), schema)}


def _with_classes(task: Any, schema: Any) -> Any:
    """Fill in the names of two classes, which were in the schema alone."""
    if not isinstance(task, Mapping) or not isinstance(schema, Mapping) or len(schema.get("classes") or ()) != 2:
        return task
    return {"class_names": schema["classes"], **task} if task.get("kind") == "binary" else task
