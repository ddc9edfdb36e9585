"""Columns that give the answer away under another name: each of their values stands for one class of a target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from egt.sources.custom.raw import Column, Columns, missing_in

MIN_LABELS = 20
"""So many labels agree by no accident, if there are also so many ..."""
MIN_RARE = 10
"""... labels of other classes than the most common one."""
_FIRST = 1000
"""So many labels tell most columns from a copy: long vectors need not be looked at for a whole graph."""


def label_copies(columns: Columns, targets: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return column -> the target that it is one-to-one with, wherever there is a label.

    Args:
        columns: of one level, the targets among them.
        targets: with classes.
        given: columns that the user has decided about; they are left out.
    """
    labeled = {name: known for name in targets if _tells(known := _Labeled(columns[name]))}
    free = {name: column for name, column in columns.items() if name not in targets and name not in given}
    found = {
        name: [target for target, known in labeled.items() if known.is_copied_by(column)]
        for name, column in free.items()
    }
    return {name: copied[0] for name, copied in found.items() if copied}


class _Labeled:
    """The labels of a target.

    Args:
        column: of the target.
    """

    def __init__(self, column: Column) -> None:
        self.num_rows, self.rows = len(column), np.flatnonzero(~missing_in(column))
        self.labels = _values(column[self.rows])

    def is_copied_by(self, column: Column) -> bool:
        """Return whether a column has a value for every label, another one for each class."""
        return len(column) == self.num_rows and self._agrees(column, _FIRST) and self._agrees(column, None)

    def _agrees(self, column: Column, first: int | None) -> bool:
        """Return the same of the first labels only, or of all."""
        cells = column[self.rows[:first]]
        if missing_in(cells).any():
            return False
        pairs = {*zip(_values(cells), self.labels[:first], strict=True)}
        return len(pairs) == len({value for value, _ in pairs}) == len({label for _, label in pairs})


def _tells(known: _Labeled) -> bool:
    """Return whether there are enough labels to tell a copy from an accident."""
    counts = Counter(known.labels)
    total = counts.total()
    return total >= max(MIN_LABELS, 2 * len(counts)) and total - max(counts.values()) >= MIN_RARE


def _values(column: Column) -> list[Hashable]:
    """Return the values of a column; a vector is one value."""
    return [*map(tuple, column.tolist())] if column.ndim == 2 else column.tolist()
