"""From prepared graphs to predictions, each with what stands beside it: the molecule, names, kept columns, labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from egt.data.source import Progress, Reading, Source
from egt.data.store import Prepared
from egt.errors import DataError, counted
from egt.graph import Graph, Level
from egt.inference.predictions import Answer, Prediction

if TYPE_CHECKING:
    from egt.inference.predictor import Predictor


class Answering:
    """Prepared graphs -> predictions; arguments as for `Predictor.predict_source`."""

    def __init__(
        self,
        model: Predictor,
        source: Source,
        split: str,
        keep: Sequence[str],
        interval: float | None,
        dropout_samples: int,
        *,
        with_truth: bool,
    ) -> None:
        self.model, self.source, self.split = model, source, split
        self.interval, self.dropout_samples, self.with_truth = interval, dropout_samples, with_truth
        self.beside = Beside(source, keep, model.task.level if with_truth else None)

    def __call__(self, part: Prepared, watch: Progress | None = None) -> list[Prediction]:
        """Return the prediction for each record, in order."""
        found = self.model.answers(part.samples, watch, self.dropout_samples)
        answers = dict(zip(part.rows, found, strict=True))
        graphs = {row: sample.graph for row, sample in zip(part.rows, part.samples, strict=True)}
        problems = {problem.row: problem for problem in part.problems}
        unlike = self.model.unlike(part, answers)
        return [
            self._prediction(row, answers.get(row), graphs.get(row), problems.get(row), unlike.get(row, []))
            for row in rows_of(part)
        ]

    def _prediction(
        self, row: int, answer: Answer | None, graph: Graph | None, problem: Reading | None, far: list[str]
    ) -> Prediction:
        """Return the prediction for a record, of which the answer and the graph, or the problem, may be missing.

        far: warnings of its rows that are unlike training.
        """
        whole = self.model.task.level == "graph"
        if answer is None:
            assert problem is not None  # `rows_of` has checked it
            answer = problem.error
        name = (graph.id or str(row)) if graph is not None else problem.id if problem is not None else ""
        warnings = ("" if problem is None else problem.warning, *(far if whole else []))
        fields = {
            "warning": "; ".join(filter(None, warnings)),
            "row_warnings": [] if whole else far,
            **self.beside(row, graph),
            **self.model.fields(answer, self.interval),
        }
        found = Prediction(row, name, **fields)
        chosen = self.source.rows_in(self.split, row) if self.with_truth else None
        return found if chosen is None else found.only(chosen)


class Beside:
    """What stands beside the answer for a row: the molecule, the names of nodes, kept columns, labels.

    Args:
        source: the data.
        keep: columns to keep.
        level: whose labels are wanted; None for no labels.
    """

    def __init__(self, source: Source, keep: Sequence[str], level: Level | None) -> None:
        self.source, self.level = source, level
        self.smiles = source.smiles()
        self.columns = {**source.components(), **source.columns(keep)}

    def __call__(self, row: int, graph: Graph | None) -> dict[str, Any]:
        """Return the fields of its `Prediction`."""
        truth = None if graph is None or self.level is None else getattr(graph, f"{self.level}_targets")
        return {
            "smiles": None if self.smiles is None else str(self.smiles[row]),
            "truth": None if truth is None else np.atleast_2d(truth),
            "names": () if graph is None else self.source.names(row),
            "kept": {name: column[row] for name, column in self.columns.items()},
        }


def rows_of(part: Prepared) -> list[int]:
    """Return the rows of some records in order; each has either a graph or an error."""
    rows = sorted({*part.rows, *(problem.row for problem in part.problems)})
    if len(rows) != part.num_records:
        raise DataError(f"{counted(part.num_records, 'row')} given, but {len(rows)} read")
    return rows
