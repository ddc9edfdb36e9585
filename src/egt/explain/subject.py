"""The graph that is explained, as its data describes it: the molecule, and what its nodes are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from egt.config.run_data import open_new, open_source
from egt.data.custom.custom_source import CustomSource
from egt.data.molecule_source import MoleculeSource
from egt.data.share import TrainShare
from egt.data.source import ALL, SPLITS, Source
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
    column = smiles_column(source)
    smiles = None if column is None else str(column[reading.row])
    pairs = graph.edge_index if graph.query_index is None else graph.query_index
    return Subject(graph, smiles, _node_names(graph, smiles, names_of(source, reading.row)), pairs)


def smiles_column(source: Source) -> Sequence[Any] | None:
    """Return the SMILES of all rows of a source, to be read with `str`; None when they are no molecules."""
    whole = source.whole if isinstance(source, TrainShare) else source
    if isinstance(whole, MoleculeSource):
        found: Sequence[Any] = whole.load(*whole.files).smiles
        return found
    return whole.smiles() if isinstance(whole, CustomSource) else None


def components_of(source: Source) -> dict[str, list[str]]:
    """Return column -> SMILES of all rows that have several molecules; empty for other data."""
    return source.components() if isinstance(source, CustomSource) else {}


def names_of(source: Source, row: int) -> list[str]:
    """Return what the data calls the nodes of a row; empty where they are numbered."""
    return list(source.names(row)) if isinstance(source, CustomSource) else []


def _node_names(graph: Graph, smiles: str | None, names: list[str]) -> list[str]:
    """Return what nodes are called: atoms by element and number, else their own names or numbers."""
    if smiles is None:
        return names or [str(k) for k in range(graph.num_nodes)]
    from egt.data.molecules import parse_smiles

    [(molecule, _)] = parse_smiles([smiles])
    return [f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in molecule.GetAtoms()]
