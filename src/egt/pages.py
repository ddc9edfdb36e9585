"""A page that stands alone: text, tables and inline charts in one HTML file.

A table of texts that can be shown as Markdown, HTML or CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import fill

from egt.files import write_result

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5c6674; --paper: #ffffff; --line: #d9dee6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebf1; --soft: #9fabbb; --paper: #14181f; --line: #303846; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
       margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.lead { color: var(--soft); margin-top: 0; } .row { display: flex; flex-wrap: wrap; gap: 1.5rem; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .9rem; max-width: 24rem; }
table { border-collapse: collapse; }
/* A wide table grows to both sides of the text, up to the window, and only then scrolls. */
.wide { overflow-x: auto; position: relative; left: 50%; transform: translateX(-50%); width: max-content;
        min-width: 100%; max-width: calc(100vw - 2.4rem); }
td, th { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
pre { background: color-mix(in srgb, var(--line) 40%, transparent); padding: .8rem 1rem; border-radius: 6px;
      overflow-x: auto; }
svg { max-width: 100%; height: auto; } svg text { font-size: 12px; } svg text:not([fill]) { fill: var(--ink); }
.card { display: flex; flex-wrap: wrap; gap: .8rem; padding: .8rem 0; border-bottom: 1px solid var(--line); }
.card figure:first-child { border-right: 2px solid var(--line); padding-right: .8rem; }
.card svg { background: #fff; border-radius: 6px; } .card figcaption { max-width: 14.5rem; overflow-wrap: anywhere; }
details { margin-top: 2.2rem; } summary { font-size: 1.15rem; font-weight: bold; cursor: pointer; }
.grid { stroke: var(--line); } .edge { stroke: var(--soft); stroke-opacity: .10; }
.edge.hot { stroke: #d65c1c; stroke-opacity: .55; }
"""


def page(title: str, lead: str, sections: Sequence[tuple[str, str]]) -> str:
    """Return an HTML page: a title, one sentence below it, and sections (heading, HTML)."""
    body = "".join(f"<h2>{escape(heading)}</h2>\n{content}\n" for heading, content in sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f'<body><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>\n{body}</body></html>\n'
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of plain texts."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(heading: str, content: str) -> str:
    """Return HTML that a click on its heading opens."""
    return f"<details><summary>{escape(heading)}</summary>{content}</details>"


def figure(drawing: str, caption: str) -> str:
    """Return a drawing with a caption."""
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def write_page(path: Path, content: str) -> None:
    """Write a page."""
    with write_result(path) as draft:
        draft.write_text(content, encoding="utf-8")


@dataclass(frozen=True)
class Sheet:
    """A table of texts, with a title above and notes below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def markdown(self, level: int = 2) -> str:
        """Return the table as Markdown; `level` is that of its heading, 0 leaves it out."""
        heading = f"{'#' * level} {self.title}\n\n" if level else ""
        lines = [_line(self.columns), _line(["---"] * len(self.columns)), *(_line(row) for row in self.rows)]
        notes = "".join("\n" + fill(note, 120, initial_indent="- ", subsequent_indent="  ") for note in self.notes)
        return heading + "\n".join(lines) + ("\n" + notes if notes else "") + "\n"

    def only(self, columns: Sequence[str]) -> Sheet:
        """Return the table with some of its columns; all if it lacks one of them."""
        if not {*columns} <= {*self.columns}:
            return self
        places = [list(self.columns).index(column) for column in columns]
        return Sheet(self.title, columns, [[row[k] for k in places] for row in self.rows], self.notes)

    def filled(self) -> Sheet:
        """Return the table without columns that say nothing about any row."""
        kept = [name for k, name in enumerate(self.columns) if any(row[k] != "-" for row in self.rows)]
        return self.only(kept)

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
