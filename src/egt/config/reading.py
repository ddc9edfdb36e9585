"""The settings that say how custom data is read: `overrides.KEY=VALUE`, `split=...`; the others are those of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def as_words(settings: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Settings as on a command line."""
    if not isinstance(settings, Mapping):
        return [settings] if isinstance(settings, str) else list(settings)
    return [f"{path}={value if isinstance(value, str) else json.dumps(value)}" for path, value in settings.items()]


def reads(setting: str) -> bool:
    """Whether a setting concerns how custom data is read; that is decided when a run begins."""
    return setting.startswith(("overrides.", "split=", "split."))


def reading(settings: Sequence[str]) -> dict[str, Any]:
    """The settings that concern how custom data is read, nested."""
    found: dict[str, Any] = {}
    for setting in filter(reads, settings):
        path, _, text = setting.partition("=")
        *sections, key = ("split.kind" if path == "split" else path).split(".")
        place = found
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = yaml.safe_load(text) if key in ("directed", "seed", "fractions") else text
    return found
