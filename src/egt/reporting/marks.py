"""How a run differs from the paper's, and from other runs: a reduced budget, other settings, other data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from egt.config.presets import preset, starts_from
from egt.config.run import RunConfig
from egt.errors import ConfigError
from egt.reporting.record import RunRecord, config_of

SettingPath = tuple[str, ...]
"""Of a setting: its section and its name."""
_TECHNICAL = {
    ("seed",),
    ("data", "num_workers"),
    ("data", "pair_budget"),
    ("trainer", "accelerator"),
    ("trainer", "backend"),
    ("trainer", "checkpoint_minutes"),
    ("trainer", "compile"),
    ("trainer", "devices"),
    ("trainer", "num_nodes"),
    ("trainer", "recompute"),
    ("trainer", "strategy"),
    ("trainer", "trackers"),
}
"""Settings that do not change what is measured, or only by chance."""
_TOLD = {
    ("name",),
    ("start",),
    ("plugins",),
    ("data", "options"),
    ("data", "train_share"),
    ("task", "names"),
    ("task", "class_names"),
    ("trainer", "max_epochs"),
    ("trainer", "max_steps"),
}
"""Settings of a run of the paper that are told in words of their own."""
_SCALED = {("schedule", "patience"), ("schedule", "warmup_steps"), ("schedule", "total_steps")}
"""Settings that only follow the length of a run."""
_FOLD = ("data", "custom", "split", "fold", "number")
"""What the runs of a cross-validation differ in."""


def marks(record: RunRecord) -> list[str]:
    """Return why a run is not the paper's: a reduced budget, other settings, other data; each in plain words."""
    return [*_budget_marks(record), *_setting_marks(record), *_data_marks(record)]


def short_mark(record: RunRecord) -> str:
    """Return the same in a few words; "" for a run as the paper's."""
    words = {
        "reduced budget": _budget_marks(record),
        "changed settings": _setting_marks(record),
        "substitute data": _data_marks(record),
    }
    return ", ".join(word for word, found in words.items() if found)


def recipe(record: RunRecord) -> dict[SettingPath, Any]:
    """Return the settings that all seeds and folds of a run share."""
    return {path: value for path, value in _flat(record.config).items() if path not in _TECHNICAL | {_FOLD}}


def _whole(record: RunRecord) -> RunConfig | None:
    """Return the preset that a run follows; None if there is none, or nothing to learn."""
    try:
        return preset(record.preset) if record.preset and record.parameters else None
    except ConfigError:
        return None


def _budget_marks(record: RunRecord) -> list[str]:
    whole, trainer = _whole(record), record.config.get("trainer", {})
    if whole is None:
        return []
    found = []
    for name, words in (("max_epochs", "epochs"), ("max_steps", "steps")):
        full, own = getattr(whole.trainer, name), trainer.get(name)
        if own is not None and full is not None and own != full:
            found.append(f"{own:,} of {full:,} {words}")
        elif own is not None and full is None:
            found.append(f"stopped after {own:,} {words}")
    share = _train_share(record)
    return found + ([f"{share:.3g} of the training graphs"] if share < 1 else [])


def _setting_marks(record: RunRecord) -> list[str]:
    whole = _whole(record)
    if whole is None:
        return []
    own, paper = (_flat(config.model_dump(mode="json")) for config in (config_of(record), whole))
    ignored = _TECHNICAL | _TOLD | (_SCALED if any("of" in mark for mark in _budget_marks(record)) else set())
    changed = [path for path in {**own, **paper} if own.get(path) != paper.get(path) and path not in ignored]
    found = [f"{'.'.join(path)}={own.get(path)}" for path in changed if path[:2] != ("data", "custom")]
    return found + _start_marks(record)


def _start_marks(record: RunRecord) -> list[str]:
    start, paper = record.config.get("start"), starts_from(record.preset)
    if start is None:
        return [f"from random weights, not those of {paper}"] if paper else []
    return [] if start["name"] == paper else [f"starts from {start['name']}"]


def _data_marks(record: RunRecord) -> list[str]:
    from egt.sources.benchmarks.benchmark import BENCHMARKS

    found = ["generated graphs, not the published files"] if "Generated with seed" in record.data_notes else []
    if "Superpixels made" in record.data_notes:
        found.append("superpixels made here, not the published files")
    if "JPEG" in record.data_notes:
        found.append("images from JPEG files, not the original ones")
    source = record.config.get("data", {}).get("source", "")
    if record.preset and source in BENCHMARKS:
        sizes = BENCHMARKS.get(source).card.split_sizes
        for split, size in record.split_sizes.items():
            expected = sizes.get(split, size)
            if size < 0.98 * expected * (_train_share(record) if split == "train" else 1):
                found.append(f"{size:,} of {expected:,} {split} graphs")
    return found


def _train_share(record: RunRecord) -> float:
    return float(record.config.get("data", {}).get("train_share", 1.0))


def _flat(content: Mapping[str, Any], above: SettingPath = ()) -> dict[SettingPath, Any]:
    """Return the settings by their paths."""
    flat: dict[SettingPath, Any] = {}
    for name, value in content.items():
        path = (*above, name)
        flat |= _flat(value, path) if isinstance(value, Mapping) and path not in _TECHNICAL | _TOLD else {path: value}
    return flat
