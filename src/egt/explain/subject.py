"""The graph that is explained, as its data describes it: the molecule, and what its nodes are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from egt.config.run_data import open_new, open_source
from egt.data.source import ALL, SPLITS
from egt.errors import DataError
from egt.graph import Graph, IntArray
from egt.inference.predictor import Predictor


@dataclass(frozen=True, eq=False)
class Subject:
    """The graph that is explained, in the user's terms.

    Fields:
        graph: the graph.
        smiles: of a molecule; None for other graphs.
        names: of the nodes.
        pairs: (2, R) the edges or query pairs that an edge model answers about.
    """

    graph: Graph
    smiles: str | None
    names: list[str]
    pairs: IntArray


def read_subject(model: Predictor, data: Any, row: int) -> Subject:
    """Read one row of some data; arguments as for `explain`."""
    known = isinstance(data, str) and data in SPLITS
    source = open_source(model.config) if known else open_new(model.config, data, model.overrides)
    records = source.records(data if known else ALL)
    if not 0 <= row < len(records):
        raise DataError(f"--row {row}: the rows of the input are 0..{len(records) - 1}")
    reading = source.read(records[row])
    graph = reading.graph
    if graph is None:
        raise DataError(f"row {row} ({reading.id}): {reading.error}")
    column = source.smiles()
    smiles = None if column is None else str(column[reading.row])
    pairs = graph.edge_index if graph.query_index is None else graph.query_index
    return Subject(graph, smiles, _node_names(graph, smiles, list(source.names(reading.row))), pairs)


def _node_names(graph: Graph, smiles: str | None, names: list[str]) -> list[str]:
    """Return what nodes are called: atoms by element and number, else their own names or numbers."""
    if smiles is None:
        return names or [str(k) for k in range(graph.num_nodes)]
    from egt.data.molecules import parse_smiles

    [(molecule, _)] = parse_smiles([smiles])
    return [f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in molecule.GetAtoms()]
