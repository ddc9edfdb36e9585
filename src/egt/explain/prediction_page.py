"""Predictions for a split beside the truth: plots and the rows with the largest errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egt.charts import curve_chart, matrix_chart, parity_chart, precision_recall, roc
from egt.config.run import RunConfig
from egt.data.source import Progress
from egt.errors import counted
from egt.inference.predictions import Prediction
from egt.inference.predictor import load
from egt.pages import Sheet, figure

_MOST_TARGETS, _MOST_CLASSES, _WORST = 6, 20, 15


@dataclass(frozen=True, eq=False)
class Answers:
    """Predictions with their targets, row by row.

    Fields:
        names: (rows) the name of the graph of each row, with its node or edge.
        truth: (rows, T) targets, NaN where missing or only a bound.
        predicted: (rows, outputs) values or probabilities.
    """

    config: RunConfig
    names: list[str]
    truth: NDArray[np.float64]
    predicted: NDArray[np.float64]

    @property
    def numbers(self) -> NDArray[np.float64]:
        """(rows, T) predictions of targets that are numbers."""
        return self.config.task.centers_and_units(self.predicted)[0]

    @property
    def classes(self) -> NDArray[np.float64] | None:
        """(rows, T, C) probabilities of targets that are classes; None for numbers."""
        return self.config.task.class_probabilities(self.predicted)

    def class_names(self, count: int) -> list[str]:
        """Return the names of the first classes."""
        return [str(self.config.task.label(k)) for k in range(count)]


def read_answers(folder: Path, split: str = "test", watch: Progress | None = None) -> Answers:
    """Predict a split with the model in a folder, beside its targets.

    Raises:
        EgtError: the data of the run or its model is not there.
    """
    model = load(folder)
    task = model.config.task
    names, truth, predicted = [], [np.empty((0, len(task.names)))], [np.empty((0, task.num_outputs))]
    for answer in model.predict_split(split, watch=watch):
        if answer.values is not None and answer.truth is not None:
            predicted.append(answer.values.astype(np.float64))
            truth.append(task.measured(answer.truth.astype(np.float64)))
            names += _row_names(answer, model.config.model.level)
    return Answers(model.config, names, np.concatenate(truth), np.concatenate(predicted))


def _row_names(answer: Prediction, level: str) -> list[str]:
    if level == "graph":
        return [answer.id]
    if answer.pairs is not None:
        return [f"{answer.id}, {i} -> {j}" for i, j in answer.pairs.T.tolist()]
    assert answer.values is not None  # rows that could not be read are left out
    nodes = range(len(answer.values)) if answer.nodes is None else answer.nodes.tolist()
    return [f"{answer.id}, node {k}" for k in nodes]


def plots(answers: Answers) -> str:
    """Return parity plots, or ROC and precision-recall curves and confusion matrices, as HTML."""
    classes = answers.classes
    if not answers.names:
        figures = []
    elif classes is None:
        figures = _parity(answers)
    elif classes.shape[2] == 2:
        figures = _curves(answers, classes[..., 1])
    else:
        figures = _confusion(answers, classes[:, 0])
    return f'<div class="row">{"".join(figures)}</div>' if figures else "<p>There is nothing to draw.</p>"


def _parity(answers: Answers) -> list[str]:
    figures = []
    for k, name in enumerate(answers.config.task.names[:_MOST_TARGETS]):
        known = ~np.isnan(answers.truth[:, k])
        if known.any():
            truth, predicted = answers.truth[known, k], answers.numbers[known, k]
            spread = np.square(truth - truth.mean()).sum()
            share = 1 - np.square(truth - predicted).sum() / spread if spread else float("nan")
            error = np.abs(truth - predicted).mean()
            caption = f"{name}: {counted(known.sum(), 'row')}, mean absolute error {error:.4g}, R² {share:.3f}"
            figures.append(figure(parity_chart(truth, predicted, name), caption))
    return figures


def _curves(answers: Answers, positive: NDArray[np.float64]) -> list[str]:
    """Draw targets with two classes. positive: (rows, T) probabilities of the second one."""
    rates, precisions, matrices = {}, {}, []
    for k, name in enumerate(answers.config.task.names[:_MOST_TARGETS]):
        known = ~np.isnan(answers.truth[:, k])
        labels, scores = answers.truth[known, k] > 0.5, positive[known, k]
        if labels.all() or not labels.any():
            continue
        rates[name], precisions[name] = roc(scores, labels), precision_recall(scores, labels)
        chart = matrix_chart(_counts(labels, scores >= 0.5, 2), answers.class_names(2))
        matrices.append(figure(chart, f"{name}: true class (rows) and predicted class at a probability of one half"))
    if not rates:
        return []
    return [
        figure(curve_chart(rates, "false positive rate", "true positive rate", diagonal=True), "ROC curve"),
        figure(curve_chart(precisions, "recall", "precision"), "Precision over recall"),
        *matrices,
    ]


def _confusion(answers: Answers, classes: NDArray[np.float64]) -> list[str]:
    """Draw a target with several classes. classes: (rows, C)."""
    count = classes.shape[1]
    if count > _MOST_CLASSES:
        return []
    known = ~np.isnan(answers.truth[:, 0])
    counts = _counts(answers.truth[known, 0], classes[known].argmax(1), count)
    return [figure(matrix_chart(counts, answers.class_names(count)), "True class (rows) and predicted class (columns)")]


def _counts(truth: NDArray[np.generic], predicted: NDArray[np.generic], count: int) -> NDArray[np.int64]:
    """Return the confusion matrix of class numbers, (C, C)."""
    return np.bincount(truth.astype(int) * count + predicted.astype(int), minlength=count**2).reshape(count, count)


def worst(answers: Answers) -> Sheet:
    """Return the rows with the largest errors: of the number, or of the probability of the true class."""
    truth, classes = answers.truth, answers.classes
    labels = np.nan_to_num(truth).astype(int)
    if classes is None:
        numbers = answers.numbers
        error = np.abs(numbers - truth)
    else:
        names = answers.class_names(classes.shape[2])
        error = 1 - np.take_along_axis(classes, labels[..., None], 2)[..., 0]
    order = np.argsort(np.where(np.isnan(truth), np.inf, -np.nan_to_num(error, nan=np.inf)), axis=None, kind="stable")
    rows = []
    for place in order[: min(_WORST, np.count_nonzero(~np.isnan(truth)))].tolist():
        row, k = divmod(place, truth.shape[1])
        if classes is None:
            texts = f"{truth[row, k]:.5g}", f"{numbers[row, k]:.5g}"
        else:
            texts = names[labels[row, k]], names[classes[row, k].argmax()]
        rows.append((answers.names[row], answers.config.task.names[k], *texts, f"{error[row, k]:.4g}"))
    measure = "error" if classes is None else "missing probability"
    return Sheet("Worst-predicted rows", ("row", "target", "true", "predicted", measure), rows)
