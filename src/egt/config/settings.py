"""Settings as users give them: `path=value` on the command line, or a mapping of values from Python.

Those of `overrides.KEY` and `split` say how custom data is read; the others are those of a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from egt.config.run import settings_that_affect
from egt.data.custom import open_custom
from egt.data.custom_source import CustomSource
from egt.data.schema import SplitPlan
from egt.errors import ConfigError, DataError
from egt.files import parse_yaml
from egt.graph import Level

_NO_TEXTS = ("directed", "seed", "fractions", "graph_features")
"""Settings of reading that are not texts."""

_OF_COLUMNS = ("overrides.node_features.", "overrides.edge_features.")
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
        """Whether it concerns how custom data is read; that is decided when a run begins."""
        return self.path == "split" or self.path.startswith(("overrides.", "split."))


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
        is_text = key not in _NO_TEXTS and not (key == "smiles" and value.startswith("["))
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
