"""Why a model predicts what it predicts for one graph: the importance of its parts, and whether to believe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.charts import edges_to_draw, spring_positions
from egt.config.run_data import open_new, open_source, preparation
from egt.data.molecules import parse_smiles, require_rdkit
from egt.data.source import ALL, SPLITS
from egt.errors import ConfigError, DataError
from egt.explain.analysis import Columns
from egt.explain.importance import (
    Faithfulness,
    Floats,
    Importance,
    Question,
    edges_of,
    faithfulness,
    integrated_gradients,
    readers_of,
    rollout,
    untrained_twins,
)
from egt.graph import Graph, IntArray
from egt.inference.attention_capture import attentions
from egt.inference.backends import execution, too_large
from egt.inference.forward import rows_per_graph
from egt.inference.predictor import Predictor
from egt.parts.tasks.task import TaskPart

_BOND_LENGTH, _LEAST_DISTANCE = 1.5, 1.0  # in a drawing: of a bond, and of two nodes that do not touch


@dataclass(frozen=True, eq=False)
class Subject:
    """The graph that is explained.

    Fields:
        smiles: The molecule; None for other graphs.
        pairs: (2, R) the edges or query pairs that an edge model predicts.
    """

    graph: Graph
    smiles: str | None
    names: list[str]
    pairs: IntArray

    @classmethod
    def of(cls, graph: Graph, smiles: str | None, names: Sequence[str]) -> Subject:
        """Return a graph with the names of its atoms, or with the names that its data has for nodes."""
        shown = list(names) or [str(k) for k in range(graph.num_nodes)]
        if smiles is not None:
            atoms = _atom_names(_molecule(smiles))
            smiles, shown = (smiles, atoms) if len(atoms) == graph.num_nodes else (None, shown)  # hydrogens are nodes
        return cls(graph, smiles, shown, graph.edge_index if graph.query_index is None else graph.query_index)

    @property
    def words(self) -> tuple[str, str]:
        """The words for nodes and edges."""
        return ("nodes", "edges") if self.smiles is None else ("atoms", "bonds")


def read_subject(model: Predictor, data: Any, row: int) -> Subject:
    """Read one row of some data; arguments as for `explain`."""
    is_split = isinstance(data, str) and data in SPLITS
    source = open_source(model.config) if is_split else open_new(model.config, data, model.overrides)
    records = source.records(data if is_split else ALL)
    if not 0 <= row < len(records):
        raise DataError(f"--row {row}: the rows of the input are 0..{len(records) - 1}")
    reading = source.read(records[row])
    graph = reading.graph
    if graph is None:
        raise DataError(f"row {row} ({reading.id}): {reading.error}")
    column = source.smiles()
    smiles = None if column is None else str(column[reading.row])
    return Subject.of(graph, smiles, source.names(reading.row))


@dataclass(frozen=True)
class Drawing:
    """A graph to draw, which the page does itself.

    Fields:
        x, y: (N,) positions of the nodes, y downwards.
        labels: (N,) the text on a node; "" for a carbon atom.
        names: (N,) the names of the nodes.
        edges: (i, j, order) for each edge, i < j; the order of a bond, 1 for other edges.
        wedges: (i, j, toward) for each bond from a stereo center i that points out of the plane, toward the reader
            or away.
    """

    x: list[float]
    y: list[float]
    labels: list[str]
    names: list[str]
    edges: list[tuple[int, int, float]]
    wedges: list[tuple[int, int, bool]]


def draw(graph: Graph, smiles: str | None, names: Sequence[str], vocabulary: Sequence[str] = ()) -> Drawing:
    """Place the nodes of a graph: a molecule as chemists draw it, any other graph by springs.

    `names` are those of the nodes, empty where they are numbered; `vocabulary` has the meanings of their first
    category.
    """
    if smiles is not None:
        return _draw_molecule(smiles)
    positions = spring_positions(graph)
    positions = positions * _scale(graph, positions)
    kinds = [""] * graph.num_nodes
    if graph.node_categories.shape[1] == 1 and any(word[:1].isalpha() for word in vocabulary):
        words = dict(enumerate(word.replace(" ", "") for word in vocabulary))
        kinds = [words.get(k, "?") for k in graph.node_categories[:, 0].tolist()]
    shown = list(names) or [f"{kind} {k}".strip() for k, kind in enumerate(kinds)]
    edges = [(i, j, 1.0) for i, j in edges_to_draw(graph)]
    return Drawing(*_round(positions), kinds if any(kinds) else shown, shown, edges, [])


def _scale(graph: Graph, positions: NDArray[np.float64]) -> float:
    """Return a factor that makes most edges as long as bonds, or a little longer if nodes would touch."""
    ends = positions[graph.edge_index]
    lengths = np.linalg.norm(ends[0] - ends[1], axis=1)
    common = _BOND_LENGTH / max(float(np.median(lengths)) if len(lengths) else 1.0, 0.05)
    between = np.linalg.norm(positions[:, None] - positions, axis=2)[np.triu_indices(len(positions), 1)]
    nearest = float(between.min(initial=np.inf))
    return min(max(common, _LEAST_DISTANCE / max(nearest, 1e-9)), 2.5 * common)


def _draw_molecule(smiles: str) -> Drawing:
    from rdkit.Chem import rdDepictor

    Chem = require_rdkit()
    molecule = _molecule(smiles)
    rdDepictor.Compute2DCoords(molecule)
    positions = molecule.GetConformer().GetPositions()[:, :2] * [1, -1]
    drawn = Chem.Mol(molecule)
    with Chem.rdBase.BlockLogs():
        try:
            Chem.Kekulize(drawn)
        except Chem.KekulizeException:  # a ring without such a form: its bonds have the order 1.5
            drawn = Chem.Mol(molecule)
    Chem.WedgeMolBonds(drawn, drawn.GetConformer())
    edges, wedges = [], []
    for bond in drawn.GetBonds():
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        edges.append((min(i, j), max(i, j), bond.GetBondTypeAsDouble()))
        if bond.GetBondDir() in (Chem.BondDir.BEGINWEDGE, Chem.BondDir.BEGINDASH):
            wedges.append((i, j, bond.GetBondDir() == Chem.BondDir.BEGINWEDGE))
    labels = [_atom_label(atom) for atom in molecule.GetAtoms()]
    return Drawing(*_round(positions), labels, _atom_names(molecule), edges, wedges)


def _molecule(smiles: str) -> Any:
    [(molecule, _)] = parse_smiles([smiles])
    return molecule


def _atom_names(molecule: Any) -> list[str]:
    return [f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in molecule.GetAtoms()]


def _atom_label(atom: Any) -> str:
    """Return the element with its hydrogens and charge; a plain carbon has none."""
    charge = atom.GetFormalCharge()
    if atom.GetSymbol() == "C" and not charge and atom.GetDegree():
        return ""
    hydrogens = atom.GetTotalNumHs()
    count = str(hydrogens).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")) if hydrogens > 1 else ""
    sign = ("⁺" if charge > 0 else "⁻") * min(abs(charge), 3)
    return f"{atom.GetSymbol()}{'H' if hydrogens else ''}{count}{sign}"


def _round(positions: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    x, y = positions.round(3).T.tolist()
    return x, y


DRAWS = 50  # the number of random masks for each method, unless given


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
    of_class = explains_class(model.config.task, column)
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
    return column, f"log-odds of {names[column]}" if explains_class(task, column) else names[column]


def explains_class(task: TaskPart, column: int) -> bool:
    """Return whether an output of a task is about a class; each target of a mixed one has one output."""
    if len(task.pieces) == 1:
        return task.pieces[0].part.has_classes
    return any(piece.part.has_classes for piece in task.pieces if piece.targets.start <= column < piece.targets.stop)
