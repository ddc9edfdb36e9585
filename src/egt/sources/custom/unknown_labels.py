"""Labels that a schema does not know: other classes, or texts where numbers are predicted. They count as missing."""

from __future__ import annotations

from collections import Counter

from egt.sources.custom.raw import Column, RawData, encode_target
from egt.sources.custom.roles import columns_at
from egt.sources.custom.schema import CustomSchema

_SHOWN = 5


def unknown_labels(raw: RawData, schema: CustomSchema) -> list[str]:
    """Return a warning for each target with labels that are not understood: how many, which, and which would be."""
    columns = _target_columns(raw, schema)
    counts = {name: Counter(encode_target(column, schema.classes)[1]) for name, column in columns.items()}
    return [_warning(name, count, schema) for name, count in counts.items() if count]


def _target_columns(raw: RawData, schema: CustomSchema) -> dict[str, Column]:
    level = "graph" if raw.is_molecules else schema.level
    there = columns_at(raw, level) if schema.targets else {}
    found = {name: there[name] for name in schema.targets if name in there}
    if not raw.is_molecules or schema.level == "graph":
        return found
    from egt.sources.custom.atom_targets import lists_of  # here: most targets are of molecules

    return {name: lists_of(column).values for name, column in found.items()}


def _warning(name: str, count: Counter[str], schema: CustomSchema) -> str:
    values = [f"{value!r} ({times})" for value, times in count.most_common(_SHOWN)]
    more = f", ... {len(count)} in all" if len(count) > _SHOWN else ""
    known = f"one of {', '.join(map(repr, schema.classes[:10]))}" if schema.classes else "a finite number"
    return f"{count.total()} labels of {name!r} are not {known}, and count as missing: {', '.join(values)}{more}"
