"""Why a model predicts what it predicts for one graph: the importance of its parts, and whether to believe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from egt.config.run_data import preparation
from egt.errors import ConfigError, DataError
from egt.explain.analysis import Columns
from egt.explain.faithfulness import Faithfulness, faithfulness, untrained_twins
from egt.explain.importance import Floats, Importance, Question, edges_of, integrated_gradients, readers_of, rollout
from egt.explain.subject import Subject, read_subject
from egt.graph import IntArray
from egt.inference.attention_capture import attentions
from egt.inference.backends import execution, too_large
from egt.inference.forward import rows_per_graph
from egt.inference.predictor import Predictor

DRAWS = 50
"""The number of random masks for each method, unless given."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of one number of a prediction.

    Fields:
        target: The name of the target, or of the class.
        value: The prediction; of a class its log-odds, which do not saturate as probabilities do.
        without: The same for no input at all (every embedding zero).
        pair_index: (2, P) the nodes of each pair.
        edges: (2, E) the edges, without direction.
        importance: Method -> the importance of nodes and pairs.
        of_edges: Method -> (E,) the importance of the edges.
        scores: Method -> its faithfulness about nodes and about edges.
        of_class: Whether the prediction is a class.
    """

    subject: Subject
    target: str
    value: float
    without: float
    pair_index: IntArray
    edges: IntArray
    importance: Mapping[str, Importance]
    of_edges: Mapping[str, Floats]
    scores: Mapping[str, tuple[Faithfulness, Faithfulness]]
    of_class: bool = False

    @property
    def probability(self) -> float | None:
        """The probability of the class that is explained; None where a number is predicted."""
        return float(1 / (1 + np.exp(-self.value))) if self.of_class else None

    @property
    def title(self) -> str:
        """The prediction in words."""
        probability = "" if self.probability is None else f" (probability {self.probability:.4g})"
        return f"{self.target} {self.value:.4g}{probability}"

    @property
    def believed(self) -> list[str]:
        """The methods whose ranking of the nodes can be believed."""
        return [method for method in self.scores if not any(parts == "nodes" for parts, _ in self.doubts(method))]

    def doubts(self, method: str) -> list[tuple[str, str]]:
        """Return the reasons not to believe a method, each with the parts that it is about."""
        doubts = [(score.parts, reason) for score in self.scores[method] for reason in score.doubts]
        if not self.importance[method].adds_up:
            gap = f"its values miss what they explain by {100 * abs(self.importance[method].gap):.0f}% of their size"
            doubts += [(score.parts, gap) for score in self.scores[method]]
        return doubts

    @property
    def verdict(self) -> str:
        """Whether to believe the picture, in one line."""
        word = self.subject.words[0]
        if not self.believed:
            return f"Do not believe these pictures: no method shows which {word} this prediction rests on."
        others = [method for method in self.scores if method not in self.believed]
        doubt = f"; do not believe {', '.join(others)}" if others else ""
        return f"The ranking of {word} by {' and '.join(self.believed)} is faithful to the model{doubt}."

    def columns(self) -> dict[str, Columns]:
        """Return tables with a row for each node, edge, and pair of different nodes (i is the query)."""
        nodes: Columns = {"node": list(range(self.subject.graph.num_nodes)), "name": self.subject.names}
        apart = self.pair_index[0] != self.pair_index[1]
        of_pairs = {method: found.pairs[apart] for method, found in self.importance.items()}
        return {
            "nodes": {**nodes, **{method: found.nodes.tolist() for method, found in self.importance.items()}},
            "edges": self._table(self.edges, self.of_edges),
            "pairs": self._table(self.pair_index[:, apart], of_pairs),
        }

    def _table(self, ends: IntArray, values: Mapping[str, Floats]) -> dict[str, list[Any]]:
        names = self.subject.names
        i, j = ends.tolist()
        columns = {"i": i, "j": j, "i_name": [names[k] for k in i], "j_name": [names[k] for k in j]}
        return {**columns, **{method: part.tolist() for method, part in values.items()}}


def explain(
    model: Predictor, data: Any, *, row: int = 0, of: int = 0, target: str | None = None, draws: int = DRAWS
) -> Explanation:
    """Explain one number of a prediction.

    Args:
        model: A trained model.
        data: As for `Predictor.predict`, or the name of a split of its training data.
        row: The row of the data.
        of: The node, edge or query pair whose prediction is explained; 0 for models of whole graphs.
        target: The name of a target or class; by default the first target, or the class that is predicted.
        draws: The number of random masks for the score.
    """
    if draws < 1:
        raise ConfigError(f"--draws {draws}: at least one random mask is needed to compare with")
    return explain_subject(model, read_subject(model, data, row), of=of, target=target, draws=draws)


def explain_subject(
    model: Predictor, subject: Subject, *, of: int = 0, target: str | None = None, draws: int = DRAWS
) -> Explanation:
    """Explain one number of the prediction for a graph. Arguments as for `explain`."""
    if why := too_large(model.config, subject.graph.num_nodes, model.device):
        raise DataError(f"{subject.smiles or subject.graph.id or 'this graph'}: {why}")
    sample = preparation(model.config)(subject.graph)
    layout = execution(model.config, model.device, training=False).layout
    question = Question(model.model, model.task, sample, layout, row=of)
    column, name = _choose_column(model, question, target)
    question = replace(question, column=column)
    pair_index = question.pair_index
    edges, members = edges_of(subject.graph, pair_index)
    [attention] = attentions(model.model, model.config, [sample])
    readers = readers_of(attention, model.task.level, of, subject.pairs)
    found = {each.method: each for each in (integrated_gradients(question), rollout(attention, readers))}
    of_edges = {method: each.of_edges(members) for method, each in found.items()}
    twins = [twin.to(model.device) for twin in untrained_twins(model.config, model.model.backend)]
    by_node = {method: each.nodes for method, each in found.items()}
    of_nodes = faithfulness(question, twins, "nodes", subject.words[0], by_node, draws)
    and_edges = faithfulness(question, twins, "edges", subject.words[1], of_edges, draws, members)
    scores = {method: (of_nodes[method], and_edges[method]) for method in found}
    of_class = model.config.task.has_classes
    return Explanation(subject, name, *question.ends(), pair_index, edges, found, of_edges, scores, of_class)


def _choose_column(model: Predictor, question: Question, target: str | None) -> tuple[int, str]:
    """Return the column of the prediction to explain, and its name."""
    task = model.config.task
    [rows] = rows_per_graph([question.sample], np.array([0]), model.task.level)
    if not 0 <= question.row < rows:
        raise DataError(f"--of {question.row}: the prediction has rows 0..{rows - 1}, one per {model.task.level}")
    several = task.has_classes and task.num_outputs > len(task.names)  # an output for each class of one target
    names = [str(task.label(k)) for k in range(task.num_outputs)] if several else list(task.names)
    column = 0
    if target is not None:
        if target not in names:
            raise DataError(f"--target {target}: the model predicts {', '.join(names)}")
        column = names.index(target)
    elif several:
        column = int(np.argmax([replace(question, column=k).ends()[0] for k in range(len(names))]))
    return column, f"log-odds of {names[column]}" if task.has_classes else names[column]
