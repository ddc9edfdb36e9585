"""Why a model says what it says about one graph: the importance of its parts, and whether to believe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.config.preparation import preparation
from egt.errors import ConfigError, DataError
from egt.explain.analysis import Columns
from egt.explain.faithfulness import Faithfulness, faithfulness, untrained_twins
from egt.explain.importance import Importance, Question, edges_of, integrated_gradients, readers_of, rollout
from egt.explain.subject import Subject, read_subject
from egt.graph import IntArray
from egt.inference.attention_capture import attentions
from egt.inference.backends import execution, too_large
from egt.inference.forward import rows_per_graph
from egt.inference.predictor import Predictor

DRAWS = 50
"""How often random parts are masked for each method, unless told otherwise."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """What was found about one number of a prediction.

    Fields:
        subject: the graph.
        target: what was predicted, in words.
        value: the prediction; of a class its log-odds, which do not saturate as probabilities do.
        without: the same for no input at all (every embedding zero).
        pair_index: (2, P) the nodes of each pair.
        edges: (2, E) the edges, without direction.
        importance: method -> what it says.
        of_edges: method -> (E,) the importance of the edges.
        scores: method -> whether to believe it, about nodes and about edges.
        of_class: whether the prediction is a class.
    """

    subject: Subject
    target: str
    value: float
    without: float
    pair_index: IntArray
    edges: IntArray
    importance: Mapping[str, Importance]
    of_edges: Mapping[str, NDArray[np.float64]]
    scores: Mapping[str, tuple[Faithfulness, Faithfulness]]
    of_class: bool = False

    @property
    def probability(self) -> float | None:
        """The probability of the class that is explained; None where a number is predicted."""
        return float(1 / (1 + np.exp(-self.value))) if self.of_class else None

    @property
    def said(self) -> str:
        """What is explained, in words."""
        if self.probability is None:
            return f"{self.target} {self.value:.4g}"
        return f"{self.target} {self.value:.4g} (probability {self.probability:.4g})"

    @property
    def believed(self) -> list[str]:
        """The methods whose ranking of the nodes can be believed."""
        return [method for method in self.scores if not any(parts == "nodes" for parts, _ in self.doubts(method))]

    def doubts(self, method: str) -> list[tuple[str, str]]:
        """Return why a method should not be believed: about which parts, and the reason in words."""
        found = [(score.parts, reason) for score in self.scores[method] for reason in score.doubts]
        if not self.importance[method].adds_up:
            gap = f"its values miss what they explain by {100 * abs(self.importance[method].gap):.0f}% of their size"
            found += [(score.parts, gap) for score in self.scores[method]]
        return found

    @property
    def verdict(self) -> str:
        """Whether to believe the picture, in one line."""
        if not self.believed:
            return "Do not believe these pictures: no method tells which nodes this prediction rests on."
        others = [method for method in self.scores if method not in self.believed]
        doubt = f"; do not believe {', '.join(others)}" if others else ""
        return f"The ranking of nodes by {' and '.join(self.believed)} is faithful to the model{doubt}."

    def node_columns(self) -> Columns:
        """Return a row for each node."""
        names = {"node": list(range(self.subject.graph.num_nodes)), "name": self.subject.names}
        return {**names, **{method: found.nodes.tolist() for method, found in self.importance.items()}}

    def edge_columns(self) -> Columns:
        """Return a row for each edge."""
        return {**self._ends(self.edges), **{method: values.tolist() for method, values in self.of_edges.items()}}

    def pair_columns(self) -> Columns:
        """Return a row for each pair of different nodes, i being who looks."""
        kept = self.pair_index[0] != self.pair_index[1]
        values = {method: found.pairs[kept].tolist() for method, found in self.importance.items()}
        return {**self._ends(self.pair_index[:, kept]), **values}

    def _ends(self, ends: IntArray) -> dict[str, list[Any]]:
        names = self.subject.names
        i, j = ends.tolist()
        return {"i": i, "j": j, "i_name": [names[k] for k in i], "j_name": [names[k] for k in j]}


def explain(
    model: Predictor, data: Any, *, row: int = 0, of: int = 0, target: str | None = None, draws: int = DRAWS
) -> Explanation:
    """Explain one number of a prediction.

    Args:
        model: a trained model.
        data: as for `Predictor.predict`, or the name of a split of the data that the model was trained on.
        row: of the data.
        of: the node, edge or query pair whose prediction is explained; 0 for models that answer for whole graphs.
        target: its name, or that of a class; by default the first target, or the class that is predicted.
        draws: how often random parts are masked for the score.
    """
    if draws < 1:
        raise ConfigError(f"--draws {draws}: at least one random mask is needed to compare with")
    subject = read_subject(model, data, row)
    if why := too_large(model.config, subject.graph.num_nodes, model.device):
        raise DataError(f"row {row}: {why}")
    sample = preparation(model.config)(subject.graph)
    layout = execution(model.config, model.device, training=False).layout
    question = Question(model.model, model.task, sample, layout, row=of)
    column, name = _asked(model, question, target)
    question = replace(question, column=column)
    pair_index = question.pair_index
    edges, members = edges_of(subject.graph, pair_index)
    [attention] = attentions(model.model, model.config, [sample])
    readers = readers_of(attention, model.task.level, of, subject.pairs)
    found = {each.method: each for each in (integrated_gradients(question), rollout(attention, readers))}
    of_edges = {method: each.of_edges(members) for method, each in found.items()}
    twins = [twin.to(model.device) for twin in untrained_twins(model.config, model.model.backend)]
    by_node = {method: each.nodes for method, each in found.items()}
    of_nodes = faithfulness(question, twins, "nodes", by_node, draws)
    and_edges = faithfulness(question, twins, "edges", of_edges, draws, members)
    scores = {method: (of_nodes[method], and_edges[method]) for method in found}
    of_class = model.config.task.has_classes
    return Explanation(subject, name, *question.ends(), pair_index, edges, found, of_edges, scores, of_class)


def _asked(model: Predictor, question: Question, target: str | None) -> tuple[int, str]:
    """Return the column of the prediction that is explained, and what it is called."""
    task = model.config.task
    [rows] = rows_per_graph([question.sample], np.array([0]), model.task.level)
    if not 0 <= question.row < rows:
        raise DataError(f"--of {question.row}: the prediction has rows 0..{rows - 1}, one per {model.task.level}")
    several = task.has_classes and task.num_outputs > len(task.names)  # an output for each class of one target
    classes = task.num_outputs if several else 0
    names = [str(task.label(k)) for k in range(classes)] if classes else list(task.names)
    if target is not None:
        if target not in names:
            raise DataError(f"--target {target}: the model predicts {', '.join(names)}")
        column = names.index(target)
    else:
        column = _most_likely(question, classes) if classes else 0
    return column, f"log-odds of {names[column]}" if task.has_classes else names[column]


def _most_likely(question: Question, classes: int) -> int:
    ones = [np.ones((1, size), np.float32) for size in (question.sample.graph.num_nodes, question.pair_index.shape[1])]
    return int(np.argmax([replace(question, column=k).values(*ones)[0] for k in range(classes)]))
