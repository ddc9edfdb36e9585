"""YAML <-> RunConfig, with errors that say which key is wrong and what was meant."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from egt.config.run import RunConfig
from egt.config.settings import Setting, Settings, parse_settings
from egt.errors import ConfigError
from egt.files import exists, parse_yaml
from egt.parts.readouts import ReadoutPart
from egt.parts.schedules import SchedulePart
from egt.parts.tasks.task import TaskPart
from egt.registry import Part, PartError, Section


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
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) >= len(target):
        raise ConfigError(f"--set {setting}: {path!r} must name one of the entries 0..{len(target) - 1}")
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


_GONE = ("target_mean", "target_std")
"""Of the schema of custom data: statistics that nothing read."""


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
