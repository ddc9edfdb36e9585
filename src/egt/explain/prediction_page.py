"""Predictions for a split beside the truth: plots, the rows with the largest errors, and molecules as drawings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egt.charts import curve_chart, matrix_chart, molecule_drawing, parity_chart, precision_recall, roc
from egt.config.run import RunConfig
from egt.config.run_data import open_source, prepare_split, reading_schema
from egt.data.fingerprints import fingerprints, tanimoto
from egt.data.source import Progress, Source
from egt.data.store import Store
from egt.errors import counted
from egt.graph import IntArray
from egt.inference.predictions import Prediction
from egt.inference.predictor import Predictor, load
from egt.pages import Sheet, figure
from egt.parts.tasks.scores import confusion_matrix, r2

_MOST_TARGETS, _MOST_CLASSES, _WORST = 6, 20, 15
_DRAWN, _NEIGHBORS = 6, 3
_SIZE = (200, 150)

_MOST_ROWS = 20_000
"""Graphs of a split that are predicted, its first ones; and training molecules among which neighbors are looked for,
those drawn at random."""


@dataclass(frozen=True, eq=False)
class Molecules:
    """The prepared molecules of a split, with their SMILES and labels."""

    config: RunConfig
    store: Store
    smiles: Sequence[str]

    @classmethod
    def of(cls, config: RunConfig, source: Source, split: str) -> Molecules | None:
        """Return the molecules of a split of the data of a run; None of other graphs."""
        texts = source.smiles()
        if texts is None or not len(source.records(split)):
            return None
        store = prepare_split(config, source, split)
        return cls(config, store, [str(texts[row]) for row in store.rows.tolist()])

    @cached_property
    def _compared(self) -> tuple[IntArray, NDArray[np.bool_]]:
        """Positions of the molecules that others are compared with, and (n, BITS) their fingerprints."""
        places = np.sort(np.random.default_rng(0).permutation(len(self.store))[:_MOST_ROWS])
        return places, fingerprints([self.store[k].graph for k in places.tolist()])

    def position(self, row: int) -> int:
        """Return where the molecule of a row of the source is."""
        return int(np.searchsorted(self.store.rows, row))

    def nearest(self, other: Molecules, place: int) -> list[tuple[int, float]]:
        """Return the molecules that are most similar to one of another split, with their similarity."""
        places, bits = self._compared
        similarity = tanimoto(fingerprints([other.store[place].graph]), bits)[0]
        order = np.argsort(-similarity, kind="stable")[:_NEIGHBORS].tolist()
        return [(int(places[k]), float(similarity[k])) for k in order]

    def figure(self, place: int, words: Sequence[str]) -> str:
        """Return a molecule as HTML: its drawing, and words below it, one in a line."""
        sample = self.store[place]
        schema = reading_schema(self.config)
        name = sample.graph.id if schema.id else f"row {int(self.store.rows[place]) + 1}"
        lines = "<br>".join(map(escape, (name, *words)))
        return f"<figure>{molecule_drawing(self.smiles[place], *_SIZE)}<figcaption>{lines}</figcaption></figure>"

    def label(self, place: int, target: str) -> str:
        """Return what was measured of a molecule, in words."""
        targets = self.store[place].graph.graph_targets
        found = "" if targets is None else self.config.task.true_columns(targets)[f"{target}_true"]
        if found == "":
            return "not measured"
        return f"{found:.5g}" if isinstance(found, float) else str(found)


@dataclass(frozen=True, eq=False)
class Answers:
    """Predictions with their targets, row by row.

    Fields:
        names: (rows) the name of the graph of each row, with its node or edge.
        truth: (rows, T) targets, NaN where missing or only a bound.
        predicted: (rows, outputs) values or probabilities.
        rows: (rows) the row of the data.
        familiarity: (rows) how similar the nearest training molecule is, NaN where that is not known.
        tested, trained: the molecules of this split and those of training; None of other graphs.
        left_out: how many rows of the split were not predicted, because there are many.
    """

    config: RunConfig
    names: list[str]
    truth: NDArray[np.float64]
    predicted: NDArray[np.float64]
    rows: Sequence[int] = ()
    familiarity: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    tested: Molecules | None = None
    trained: Molecules | None = None
    left_out: int = 0

    @property
    def pieces(self) -> list[Answers]:
        """The answers for targets of one kind each: numbers, or classes."""
        if len(self.config.task.pieces) == 1:
            return [self]
        return [
            replace(
                self,
                config=self.config.model_copy(update={"task": piece.part}),
                truth=self.truth[:, piece.targets],
                predicted=self.predicted[:, piece.targets],
            )
            for piece in self.config.task.pieces
        ]

    @property
    def numbers(self) -> NDArray[np.float64]:
        """(rows, T) predictions of targets that are numbers."""
        return self.config.task.centers_and_units(self.predicted)[0]

    @property
    def classes(self) -> NDArray[np.float64] | None:
        """(rows, T, C) probabilities of targets that are classes; None for numbers."""
        return self.config.task.class_probabilities(self.predicted)

    @property
    def errors(self) -> NDArray[np.float64]:
        """(rows, T) how far off a number is, or the probability that the true class lacks; NaN without a label."""
        classes = self.classes
        if classes is None:
            return np.abs(self.numbers - self.truth)
        labels = np.nan_to_num(self.truth).astype(int)
        found: NDArray[np.float64] = 1 - np.take_along_axis(classes, labels[..., None], 2)[..., 0]
        return np.where(np.isnan(self.truth), np.nan, found)

    def class_names(self, count: int) -> list[str]:
        """Return the names of the first classes."""
        return [str(self.config.task.label(k)) for k in range(count)]

    def labels_as_text(self, row: int, target: int) -> tuple[str, str]:
        """Return the true and the predicted label as texts."""
        truth, classes = self.truth[row, target], self.classes
        if classes is None:
            return "" if np.isnan(truth) else f"{truth:.4g}", f"{self.numbers[row, target]:.4g}"
        names = self.class_names(classes.shape[2])
        return "" if np.isnan(truth) else names[int(truth)], names[classes[row, target].argmax()]


def read_answers(folder: Path, split: str = "test", watch: Progress | None = None) -> Answers:
    """Predict a split with the model in a folder, beside its targets; of folds, each with its own model."""
    model = load(folder)
    if model.artifact.kind != "folds":
        return _answers(model, split, watch)
    parts = [_answers(member, split, watch) for member in model.members]
    return Answers(
        model.config,
        [name for part in parts for name in part.names],
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.predicted for part in parts]),
        left_out=sum(part.left_out for part in parts),
    )


def _answers(model: Predictor, split: str, watch: Progress | None) -> Answers:
    config, task, left_out = model.config, model.config.task, 0
    tested = trained = None
    if config.model.level == "graph":
        source = open_source(config)
        left_out = max(0, len(source.records(split)) - _MOST_ROWS)
        found = model.predict_rows(source, split, 0, _MOST_ROWS)
        if config.data.custom is not None:
            tested, trained = Molecules.of(config, source, split), Molecules.of(config, source, "train")
    else:
        found = model.predict_split(split, watch=watch)
    names, truth, predicted = list[str](), [np.empty((0, len(task.names)))], [np.empty((0, task.num_outputs))]
    rows, familiarity = list[int](), list[float]()
    for answer in found:
        if answer.values is not None and answer.truth is not None:
            predicted.append(answer.values.astype(np.float64))
            truth.append(task.measured(answer.truth.astype(np.float64)))
            names += _row_names(answer, config.model.level)
            rows += [answer.row] * len(answer.values)
            familiarity += [np.nan if answer.familiarity is None else answer.familiarity] * len(answer.values)
    joined = np.concatenate(truth), np.concatenate(predicted)
    return Answers(config, names, *joined, rows, np.array(familiarity), tested, trained, left_out)


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
    more = f"<p>The first {len(answers.names):,} rows; {answers.left_out:,} more are not drawn.</p>" * bool(
        answers.left_out
    )
    figures = [each for piece in answers.pieces for each in _figures(piece)] if answers.names else []
    return f'{more}<div class="row">{"".join(figures)}</div>' if figures else "<p>There is nothing to draw.</p>"


def _figures(answers: Answers) -> list[str]:
    classes = answers.classes
    if classes is None:
        return _parity(answers)
    return _curves(answers, classes[..., 1]) if classes.shape[2] == 2 else _confusion(answers, classes[:, 0])


def _parity(answers: Answers) -> list[str]:
    figures = []
    for k, name in enumerate(answers.config.task.names[:_MOST_TARGETS]):
        known = ~np.isnan(answers.truth[:, k])
        if known.any():
            truth, predicted = answers.truth[known, k], answers.numbers[known, k]
            error = np.abs(truth - predicted).mean()
            share = r2(predicted, truth)
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
        chart = matrix_chart(confusion_matrix(labels, scores >= 0.5, 2), answers.class_names(2))
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
    counts = confusion_matrix(answers.truth[known, 0].astype(int), classes[known].argmax(1), count)
    return [figure(matrix_chart(counts, answers.class_names(count)), "True class (rows) and predicted class (columns)")]


def worst(answers: Answers) -> list[tuple[str, str]]:
    """Return the rows with the largest errors, and the molecules least like training, as sections: heading, HTML."""
    sections = []
    for piece in answers.pieces:
        order = _worst_places(piece)
        of = f" ({', '.join(piece.config.task.names[:_MOST_TARGETS])})" if len(answers.pieces) > 1 else ""
        content = _cards(piece, order[:_DRAWN]) if piece.tested is not None else worst_sheet(piece).html()
        sections.append((f"Largest errors{of}", content))
    known = np.flatnonzero(~np.isnan(answers.familiarity))
    if answers.tested is not None and len(known):
        far = known[np.argsort(answers.familiarity[known], kind="stable")][:_DRAWN].tolist()
        content = _cards(answers.pieces[0], [(row, 0) for row in far])
        sections.append(("Least like the training molecules", content))
    return sections


def _worst_places(answers: Answers) -> list[tuple[int, int]]:
    """Return the rows and targets with labels, largest error first: of several numbers, in units of their spread."""
    errors = answers.errors
    if answers.classes is None and errors.shape[1] > 1:
        count = np.maximum((~np.isnan(answers.truth)).sum(0), 1)
        mean = np.nansum(answers.truth, axis=0) / count
        spread = np.sqrt(np.nansum(np.square(answers.truth - mean), axis=0) / count)
        errors = errors / np.where(spread > 0, spread, 1)
    order = np.argsort(np.where(np.isnan(errors), np.inf, -np.nan_to_num(errors)), axis=None, kind="stable")
    width = errors.shape[1]
    return [divmod(place, width) for place in order[: np.count_nonzero(~np.isnan(errors))].tolist()]


def worst_sheet(answers: Answers) -> Sheet:
    """Return the rows with the largest errors: of the number, or of the probability of the true class."""
    rows, names = [], answers.config.task.names
    for row, k in _worst_places(answers)[:_WORST]:
        rows.append((answers.names[row], names[k], *answers.labels_as_text(row, k), f"{answers.errors[row, k]:.4g}"))
    measure = "error" if answers.classes is None else "missing probability"
    return Sheet("Worst-predicted rows", ("row", "target", "true", "predicted", measure), rows)


def _cards(answers: Answers, places: Sequence[tuple[int, int]]) -> str:
    """Return molecules, each beside those of training that are most similar to it, as HTML. places: (row, target)."""
    tested, trained, cards = answers.tested, answers.trained, []
    assert tested is not None
    assert trained is not None
    for row, target in places:
        name, place = answers.config.task.names[target], tested.position(answers.rows[row])
        classes = answers.classes
        chance = "" if classes is None else f" ({classes[row, target].max():.0%})"
        words = [f"{name}: {tested.label(place, name)}", f"predicted {answers.labels_as_text(row, target)[1]}{chance}"]
        figures = [
            trained.figure(k, [f"{name}: {trained.label(k, name)}", f"similarity {similarity:.2f}"])
            for k, similarity in trained.nearest(tested, place)
        ]
        cards.append(f'<div class="card">{tested.figure(place, words)}{"".join(figures)}</div>')
    numbered = "" if reading_schema(answers.config).id else " Row 1 is the first below the names of the columns."
    return f"<p>{_LEGEND}{numbered}</p>{''.join(cards)}" if cards else "<p>None.</p>"


_LEGEND = (
    "Left the molecule, beside it the training molecules that are most similar to it, with their measured labels. "
    "Similarity is Tanimoto's of circular fragments: 1 has the same fragments, 0 none in common."
)
