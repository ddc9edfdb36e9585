"""What a model says about a split of its data, beside the truth: plots and the rows it gets most wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egt.charts import curve_chart, matrix_chart, parity_chart, precision_recall, roc
from egt.config.run import RunConfig
from egt.data.source import Progress
from egt.errors import counted
from egt.inference.loading import load
from egt.inference.predictions import Prediction
from egt.pages import Sheet, figure

_MOST_TARGETS, _MOST_CLASSES, _WORST = 6, 20, 15


@dataclass(frozen=True, eq=False)
class Answers:
    """Predictions with their targets, row by row.

    Fields:
        config: of the run.
        names: (rows) the graph of each row, with its node or edge.
        truth: (rows, T) targets, NaN where missing.
        said: (rows, outputs) values or probabilities.
    """

    config: RunConfig
    names: list[str]
    truth: NDArray[np.float64]
    said: NDArray[np.float64]

    @property
    def numbers(self) -> NDArray[np.float64]:
        """(rows, T) what is said of targets that are numbers."""
        return self.config.task.centers_and_units(self.said)[0]

    @property
    def classes(self) -> NDArray[np.float64] | None:
        """(rows, T, C) what is said of targets that are classes; None for numbers."""
        return self.config.task.class_probabilities(self.said)

    def class_names(self, count: int) -> tuple[str, ...]:
        """Return what the first classes are called."""
        return tuple(str(self.config.task.label(k)) for k in range(count))


def read_answers(folder: Path, split: str = "test", watch: Progress | None = None) -> Answers:
    """Predict a split with the model in a folder, beside its targets.

    Raises:
        EgtError: the data of the run or its model is not there.
    """
    model = load(folder)
    names, truth, said = [], [], []
    for answer in model.predict_split(split, watch=watch):
        if answer.values is None or answer.truth is None:
            continue
        said.append(answer.values.astype(np.float64))
        truth.append(answer.truth.astype(np.float64))
        names += _row_names(answer, model.config.model.level, len(answer.values))
    width = len(model.config.task.names)
    empty = np.empty((0, width)), np.empty((0, model.config.task.num_outputs))
    return Answers(model.config, names, np.concatenate([empty[0], *truth]), np.concatenate([empty[1], *said]))


def plots(answers: Answers) -> str:
    """Return what suits the task: parity plots, or ROC and precision-recall curves and a confusion matrix, as HTML."""
    figures: list[str] = []
    if len(answers.names):
        figures = _parity(answers) if answers.classes is None else _of_classes(answers, answers.classes)
    return f'<div class="row">{"".join(figures)}</div>' if figures else "<p>There is nothing to draw.</p>"


def worst(answers: Answers) -> Sheet:
    """Return the rows with the largest errors: of the number, or of the probability of what is true."""
    rows: list[tuple[float, tuple[str, ...]]] = []
    for k, target in enumerate(answers.config.task.names):
        known = np.flatnonzero(~np.isnan(answers.truth[:, k]))
        error, texts = _errors(answers, k, known)
        for row in np.argsort(-error)[:_WORST].tolist():
            cells = (answers.names[known[row]], target, *texts(row), f"{error[row]:.4g}")
            rows.append((float(error[row]), cells))
    rows.sort(key=lambda row: -row[0])
    error_name = "error" if answers.classes is None else "missing probability"
    return Sheet(
        "Worst-predicted rows", ("row", "target", "true", "predicted", error_name), [r for _, r in rows[:_WORST]]
    )


def _errors(
    answers: Answers, k: int, known: NDArray[np.int64]
) -> tuple[NDArray[np.float64], Callable[[int], tuple[str, str]]]:
    """Return the errors of a target in the rows that have a label, and what spells out the truth and the answer."""
    truth, classes = answers.truth[known, k], answers.classes
    if classes is None:
        said = answers.numbers[known, k]
        return np.abs(said - truth), lambda row: (f"{truth[row]:.5g}", f"{said[row]:.5g}")
    names = answers.class_names(classes.shape[2])
    true, best = truth.astype(int), classes[known, k].argmax(1)
    error = 1 - classes[known, k, true]
    return error, lambda row: (names[true[row]], names[best[row]])


def _row_names(answer: Prediction, level: str, count: int) -> list[str]:
    if level == "graph":
        return [answer.id]
    if answer.pairs is not None:
        return [f"{answer.id}, {i} -> {j}" for i, j in answer.pairs.T.tolist()]
    nodes = range(count) if answer.nodes is None else answer.nodes.tolist()
    return [f"{answer.id}, node {k}" for k in nodes]


def _parity(answers: Answers) -> list[str]:
    figures = []
    for k, name in enumerate(answers.config.task.names[:_MOST_TARGETS]):
        known = ~np.isnan(answers.truth[:, k])
        if known.any():
            truth, said = answers.truth[known, k], answers.numbers[known, k]
            spread = np.square(truth - truth.mean()).sum()
            share = 1 - np.square(truth - said).sum() / spread if spread else float("nan")
            error = np.abs(truth - said).mean()
            caption = f"{name}: {counted(known.sum(), 'row')}, mean absolute error {error:.4g}, R² {share:.3f}"
            figures.append(figure(parity_chart(truth, said, name), caption))
    return figures


def _of_classes(answers: Answers, classes: NDArray[np.float64]) -> list[str]:
    return _curves(answers, classes) if classes.shape[2] == 2 else _confusion(answers, classes)


def _curves(answers: Answers, classes: NDArray[np.float64]) -> list[str]:
    """Draw targets with two classes. classes: (rows, T, 2)."""
    rates, precisions = {}, {}
    figures = []
    for k, name in enumerate(answers.config.task.names[:_MOST_TARGETS]):
        known = ~np.isnan(answers.truth[:, k])
        labels, scores = answers.truth[known, k] > 0.5, classes[known, k, 1]
        if labels.all() or not labels.any():
            continue
        rates[name], precisions[name] = roc(scores, labels), precision_recall(scores, labels)
        counts = np.array([[(~labels & (scores < 0.5)).sum(), (~labels & (scores >= 0.5)).sum()],
                           [(labels & (scores < 0.5)).sum(), (labels & (scores >= 0.5)).sum()]])  # fmt: skip
        caption = f"{name}: true class (rows) and what was said at a probability of one half"
        figures.append(figure(matrix_chart(counts, answers.class_names(2)), caption))
    if not rates:
        return []
    return [
        figure(curve_chart(rates, "false positive rate", "true positive rate", diagonal=True), "ROC curve"),
        figure(curve_chart(precisions, "recall", "precision"), "Precision over recall"),
        *figures,
    ]


def _confusion(answers: Answers, classes: NDArray[np.float64]) -> list[str]:
    """Draw a target with several classes. classes: (rows, 1, C)."""
    count = classes.shape[2]
    if count > _MOST_CLASSES:
        return []
    known = ~np.isnan(answers.truth[:, 0])
    truth, said = answers.truth[known, 0].astype(int), classes[known, 0].argmax(1)
    matrix = np.bincount(truth * count + said, minlength=count**2).reshape(count, count)
    chart = matrix_chart(matrix, answers.class_names(count))
    return [figure(chart, "True class (rows) and what was said (columns)")]
