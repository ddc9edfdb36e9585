"""What a model says about a split of its data, beside the truth: plots and the rows it gets most wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egt.config.run import RunConfig
from egt.inference.loading import load
from egt.inference.run_data import open_source
from egt.reporting.axes import curve_chart, matrix_chart, parity_chart, precision_recall, roc
from egt.reporting.page import figure
from egt.reporting.sheet import Sheet
from egt.sources.source import Progress, read_all

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


def read_answers(folder: Path, split: str = "test", watch: Progress | None = None) -> Answers:
    """Predict a split with the model in a folder, and read its targets.

    Raises:
        EgtError: the data of the run or its model is not there.
    """
    model = load(folder)
    source, level = open_source(model.config), model.config.model.level
    readings = {reading.row: reading.graph for reading in read_all(source, source.records(split))}
    names, truth, said = [], [], []
    for answer in model.predict_split(split, watch=watch):
        graph = readings.get(answer.row)
        targets = None if graph is None else getattr(graph, f"{level}_targets")
        if answer.values is None or targets is None:
            continue
        said.append(answer.values.astype(np.float64))
        truth.append(np.asarray(targets, np.float64).reshape(len(answer.values), -1))
        names += _row_names(answer.id, level, answer.pairs, len(answer.values))
    width = len(model.config.task.names)
    empty = np.empty((0, width)), np.empty((0, model.config.task.num_outputs))
    return Answers(model.config, names, np.concatenate([empty[0], *truth]), np.concatenate([empty[1], *said]))


def plots(answers: Answers) -> str:
    """Return what suits the task: parity plots, or ROC and precision-recall curves and a confusion matrix, as HTML."""
    kind = answers.config.task.kind
    drawn = {"regression": _parity, "gaussian": _parity, "binary": _curves, "multiclass": _classes}.get(kind)
    figures = drawn(answers) if drawn is not None and len(answers.names) else []
    return f'<div class="row">{"".join(figures)}</div>' if figures else "<p>There is nothing to draw.</p>"


def worst(answers: Answers) -> Sheet:
    """Return the rows with the largest errors: of the value, or of the probability of what is true."""
    task = answers.config.task
    rows: list[tuple[float, tuple[str, ...]]] = []
    for k, target in enumerate(task.names):
        known = np.flatnonzero(~np.isnan(answers.truth[:, k]))
        truth = answers.truth[known, k]
        if task.kind == "multiclass":
            said = answers.said[known].argmax(1).astype(np.float64)
            error = 1 - answers.said[known, truth.astype(int)]
        else:
            said = answers.said[known, k]
            error = np.abs(said - truth)
        for row in np.argsort(-error)[:_WORST].tolist():
            name = answers.names[known[row]]
            texts = (name, target, f"{truth[row]:.5g}", f"{said[row]:.5g}", f"{error[row]:.4g}")
            rows.append((float(error[row]), texts))
    rows.sort(key=lambda row: -row[0])
    error_name = "missing probability" if task.kind in ("binary", "multiclass") else "error"
    return Sheet(
        "Worst-predicted rows", ("row", "target", "true", "predicted", error_name), [r for _, r in rows[:_WORST]]
    )


def _row_names(graph: str, level: str, pairs: NDArray[np.int64] | None, count: int) -> list[str]:
    if level == "graph":
        return [graph]
    if pairs is not None:
        return [f"{graph}, {i} -> {j}" for i, j in pairs.T.tolist()]
    return [f"{graph}, node {k}" for k in range(count)]


def _parity(answers: Answers) -> list[str]:
    figures = []
    for k, name in enumerate(answers.config.task.names[:_MOST_TARGETS]):
        known = ~np.isnan(answers.truth[:, k])
        if known.any():
            truth, said = answers.truth[known, k], answers.said[known, k]
            spread = np.square(truth - truth.mean()).sum()
            share = 1 - np.square(truth - said).sum() / spread if spread else float("nan")
            caption = (
                f"{name}: {known.sum():,} rows, mean absolute error {np.abs(truth - said).mean():.4g}, R² {share:.3f}"
            )
            figures.append(figure(parity_chart(truth, said, name), caption))
    return figures


def _curves(answers: Answers) -> list[str]:
    rates, precisions = {}, {}
    figures = []
    for k, name in enumerate(answers.config.task.names[:_MOST_TARGETS]):
        known = ~np.isnan(answers.truth[:, k])
        labels, scores = answers.truth[known, k] > 0.5, answers.said[known, k]
        if labels.all() or not labels.any():
            continue
        rates[name], precisions[name] = roc(scores, labels), precision_recall(scores, labels)
        counts = np.array([[(~labels & (scores < 0.5)).sum(), (~labels & (scores >= 0.5)).sum()],
                           [(labels & (scores < 0.5)).sum(), (labels & (scores >= 0.5)).sum()]])  # fmt: skip
        caption = f"{name}: true class (rows) and what was said at a probability of one half"
        figures.append(figure(matrix_chart(counts, ("no", "yes")), caption))
    if not rates:
        return []
    return [
        figure(curve_chart(rates, "false positive rate", "true positive rate", diagonal=True), "ROC curve"),
        figure(curve_chart(precisions, "recall", "precision"), "Precision over recall"),
        *figures,
    ]


def _classes(answers: Answers) -> list[str]:
    task, count = answers.config.task, answers.config.task.num_outputs
    known = ~np.isnan(answers.truth[:, 0])
    truth, said = answers.truth[known, 0].astype(int), answers.said[known].argmax(1)
    figures = []
    if count == 2 and 0 < truth.sum() < len(truth):
        scores = answers.said[known, 1]
        figures.append(figure(curve_chart({task.names[0]: roc(scores, truth == 1)}, "false positive rate",
                                          "true positive rate", diagonal=True), "ROC curve"))  # fmt: skip
        figures.append(figure(curve_chart({task.names[0]: precision_recall(scores, truth == 1)}, "recall", "precision"),
                              "Precision over recall"))  # fmt: skip
    if count <= _MOST_CLASSES:
        matrix = np.bincount(truth * count + said, minlength=count**2).reshape(count, count)
        names = getattr(task, "class_names", ()) or tuple(str(k) for k in range(count))
        figures.append(figure(matrix_chart(matrix, names), "True class (rows) and what was said (columns)"))
    return figures
