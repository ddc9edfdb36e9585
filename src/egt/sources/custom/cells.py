"""What the cells of a text file mean: numbers, true and false, missing values, and everything else as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from egt.sources.custom.raw import Column, column_of_numbers, is_exact, objects

MISSING_TEXTS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
"""The cells of a text file that mean "no value"; `Na` is sodium and does not."""

_BOOLEANS = {"true": 1.0, "false": 0.0}
_CODE = re.compile(r"[+-]?(0\d+|\d{16,})")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")


def column_of_texts(cells: Sequence[str], *, decimal_comma: bool = False) -> Column:
    """A column of a text file: numbers if every cell that is there is one, or true or false; else texts.

    Codes stay texts, though they look like numbers: whole numbers with leading zeros (0042), and those with so many
    digits that no float64 holds them exactly.

    Args:
        cells: one text per row.
        decimal_comma: whether 1,5 is a number where a column has no other spelling of numbers.
    """
    present = [None if (cell := raw.strip()) in MISSING_TEXTS else cell for raw in cells]
    known = [cell for cell in present if cell is not None]
    if known and all(cell.lower() in _BOOLEANS for cell in known):
        return np.array([np.nan if cell is None else _BOOLEANS[cell.lower()] for cell in present])
    try:
        numbers = column_of_numbers(pa.array(present, pa.string()).cast(pa.float64()))
    except pa.ArrowInvalid:
        if decimal_comma and all(_DECIMAL_COMMA.fullmatch(cell) for cell in known):
            return np.array([np.nan if cell is None else float(cell.replace(",", ".")) for cell in present])
        return objects(present)
    return objects(present) if any(_is_code(cell) for cell in known) else numbers


def _is_code(cell: str) -> bool:
    if not _CODE.fullmatch(cell):
        return False
    return cell.lstrip("+-").startswith("0") or len(cell) > 300 or not is_exact(int(cell))
