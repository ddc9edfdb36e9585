"""Settings as earlier versions wrote them into files, spelled as today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GONE = ("target_mean", "target_std")
"""Of the schema of custom data: statistics that nothing read."""


def migrate(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a run, from whichever version; those of this version come back unchanged."""
    data = content.get("data")
    if not isinstance(data, Mapping) or "own_schema" not in data or "custom" in data:
        return content
    schema = data["own_schema"]
    if isinstance(schema, Mapping):
        schema = {name: value for name, value in schema.items() if name not in _GONE}
    kept = {name: value for name, value in data.items() if name != "own_schema"}
    return {**content, "data": {**kept, "custom": schema}, "task": _with_classes(content.get("task"), schema)}


def _with_classes(task: Any, schema: Any) -> Any:
    """The names of two classes were in the schema alone."""
    if not isinstance(task, Mapping) or not isinstance(schema, Mapping) or len(schema.get("classes") or ()) != 2:
        return task
    return {"class_names": schema["classes"], **task} if task.get("kind") == "binary" else task
