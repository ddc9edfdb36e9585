"""The settings that say how custom data is read: `overrides.KEY=VALUE`, `split=...`; the others are those of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from egt.data.custom import open_custom
from egt.data.custom_source import CustomSource
from egt.data.schema import SplitPlan
from egt.errors import ConfigError, DataError
from egt.files import parse_yaml
from egt.graph import Level

_PARSED = ("directed", "seed", "fractions", "graph_features")
"""Settings that are not texts."""

_OF_COLUMNS = ("overrides.node_features.", "overrides.edge_features.")
"""Settings of a single column each."""

Wanted = Level | Literal["pretrain"]
"""What a run on custom data learns: targets at a level, or to tell what is hidden, for others to start from."""


def as_words(settings: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Return settings as on a command line."""
    if not isinstance(settings, Mapping):
        return texts_of(settings, "set", 'settings, as {"optimizer.lr": 1e-3} or ["optimizer.lr=1e-3"]')
    return [f"{path}={value if isinstance(value, str) else json.dumps(value)}" for path, value in settings.items()]


def naming(smiles: str | Sequence[str], features: Sequence[str]) -> list[str]:
    """Return the columns with SMILES and those with features of whole graphs as settings; none for no columns."""
    columns = "the name of a column, or a list of names"
    given = {"smiles": texts_of(smiles, "smiles", columns), "graph_features": texts_of(features, "features", columns)}
    return as_words({f"overrides.{role}": names for role, names in given.items() if names})


def texts_of(given: Any, argument: str, meaning: str) -> list[str]:
    """Return one text or several as a list, none for "" or None.

    Args:
        given: what a user gave for them.
        argument: of the function that they were given to.
        meaning: what has to be given.

    Raises:
        ConfigError: something else is given.
    """
    if given is None or given == "":
        return []
    texts: list[Any] = [given] if isinstance(given, str) else [*given] if isinstance(given, Iterable) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{argument} is {given!r:.80}; give {meaning}")
    return texts


def reads(setting: str) -> bool:
    """Return whether a setting concerns how custom data is read; that is decided when a run begins."""
    return setting.startswith(("overrides.", "split=", "split."))


def reading(settings: Sequence[str]) -> dict[str, Any]:
    """Return the settings that concern how custom data is read, nested."""
    found: dict[str, Any] = {}
    for setting in filter(reads, settings):
        path, _, text = setting.partition("=")
        depth = 2 if path.startswith(_OF_COLUMNS) else -1  # the rest is the name of a column, which may have dots
        *sections, key = ("split.kind" if path == "split" else path).split(".", depth)
        place = found
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {setting}: {section} is a single value, not a section")
        several = key == "smiles" and text.startswith("[")
        place[key] = parse_yaml(text, f"--set {setting}") if key in _PARSED or several else text
    return found


def check_reads(settings: Sequence[str]) -> None:
    """Raise a `DataError` for a setting that does not concern how data is read."""
    if other := [each for each in settings if not reads(each)]:
        raise DataError(
            f"--set {other[0]}: data is read with overrides.KEY=VALUE and split=KIND; others are for egt train"
        )


def open_data(data: Any, target: Sequence[str], task: Wanted | None, settings: Sequence[str]) -> CustomSource:
    """Open custom data as a new run does. Arguments as in `egt.train`; only the settings of reading count."""
    asked = reading(settings)
    if task == "pretrain" and target:
        raise ConfigError(f"--task pretrain predicts no column; leave --target {target[0]} out")
    return open_custom(
        data,
        target=list(target) or None,
        level=None if task == "pretrain" else task,
        overrides=asked.get("overrides"),
        split=_split(asked.get("split", {})),
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


def settings_of_trained(given: Sequence[str] | Mapping[str, Any]) -> tuple[Sequence[str], Mapping[str, Any] | None]:
    """Return the settings of a trained model: those that say how it is computed, and which columns are read."""
    words = as_words(given)
    return _computing([each for each in words if not reads(each)]), reading(words).get("overrides")


def _computing(settings: Sequence[str]) -> Sequence[str]:
    """Return settings that a trained model can take: the others have decided its weights."""
    for each in settings:
        if not each.startswith(("data.", "trainer.")) or each.startswith(("data.custom", "data.source")):
            raise ConfigError(
                f"--set {each}: the model is already trained; only how it is computed (data.batch_size, "
                "data.pair_budget, trainer.backend, ...) and which columns are read (overrides.smiles, "
                "overrides.id) can be changed"
            )
    return settings
