"""Lists of SMILES: `.smi` and `.txt` files with a molecule a line, and a name behind it where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from egt.data.custom.columns import FORMATS, Format, RawData, Table, digest_of_files, objects
from egt.data.formats.tables import molecules_of, open_text, read_delimited
from egt.errors import DataError

SUFFIXES = (".smi", ".smi.gz", ".smiles", ".txt", ".txt.gz")


@FORMATS.register("smiles-list")
class SmilesList(Format):
    """A text file with a SMILES a line, or a table with another name."""

    what = f"a list of SMILES ({', '.join(SUFFIXES)})"

    @staticmethod
    def fits(data: Any) -> bool:
        """Return whether this is a file with such a name."""
        return isinstance(data, Path) and data.is_file() and data.name.lower().endswith(SUFFIXES)

    @staticmethod
    def read(data: Any) -> RawData:
        """Return the molecules; a file whose first line has commas, semicolons or tabs between names is a table."""
        with open_text(data) as file:
            first = file.readline()
        table = read_delimited(data) if _is_header(first) else _lines(data)
        return molecules_of(table, str(data), digest_of_files([data]))


def _is_header(line: str) -> bool:
    """Return whether a line names columns: it has a delimiter that no SMILES has, and a word with `smiles` in it."""
    return any(sign in line for sign in ",;\t|") and "smi" in line.lower()


def _lines(path: Path) -> Table:
    """Read a molecule and, after it, its name from each line; a first line that says `smiles` is skipped."""
    with open_text(path) as file:
        lines = [line.split(maxsplit=1) for line in file]
    while lines and not lines[-1]:  # the file ends with them
        lines.pop()
    if lines and lines[0] and lines[0][0].lower() in ("smiles", "smi"):
        lines = lines[1:]
    if not lines:
        raise DataError(f"{path}: the file is empty; it needs a SMILES a line")
    smiles = [words[0] if words else None for words in lines]
    names = [words[1].strip() if len(words) > 1 else None for words in lines]
    columns = {"smiles": objects(smiles)} | ({"name": objects(names)} if any(names) else {})
    return Table(columns, len(lines), {})
