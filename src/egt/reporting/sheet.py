"""A table of texts that can be shown as Markdown, HTML or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from egt.reporting.page import table


@dataclass(frozen=True)
class Sheet:
    """A table.

    Fields:
        title: above it.
        columns: their names.
        rows: their texts.
        notes: below it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def markdown(self, level: int = 2) -> str:
        """Return the table as Markdown; `level` is that of its heading, 0 leaves it out."""
        heading = f"{'#' * level} {self.title}\n\n" if level else ""
        lines = [_line(self.columns), _line(["---"] * len(self.columns)), *(_line(row) for row in self.rows)]
        notes = "".join(f"\n- {note}" for note in self.notes)
        return heading + "\n".join(lines) + ("\n" + notes if notes else "") + "\n"

    def plain(self) -> Sheet:
        """Return the table without the emphasis of Markdown."""
        rows = [[cell.replace("**", "") for cell in row] for row in self.rows]
        return Sheet(self.title, self.columns, rows, self.notes)

    def only(self, columns: Sequence[str]) -> Sheet:
        """Return the table with some of its columns; all if it lacks one of them."""
        if not {*columns} <= {*self.columns}:
            return self
        places = [list(self.columns).index(column) for column in columns]
        return Sheet(self.title, columns, [[row[k] for k in places] for row in self.rows], self.notes)

    def html(self) -> str:
        """Return the table as HTML, without its title."""
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return f'<div class="wide">{table(self.columns, self.rows)}</div>' + (f"<ul>{notes}</ul>" if notes else "")

    def csv(self) -> str:
        """Return the table as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
