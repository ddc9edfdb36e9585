"""How commands print: tables for people on standard output, or one JSON object as its last line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on one line of standard output."""
    sys.stdout.write(json.dumps(_plain(content)) + "\n")


def _plain(value: Any) -> Any:
    """The same value as strict JSON has it: a metric without labels is null, not NaN."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, to_error: bool = False) -> None:
    """A table for a person to read, on standard output or, beside a result, on standard error."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as it is: brackets are no markup
    Console(stderr=to_error).print(table)


def say(message: str) -> None:
    """A remark beside the result, on standard error."""
    print(message, file=sys.stderr)
