"""Which rows, or which nodes or edges of one graph, belong to train, val and test."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egt.data.custom.columns import Column, Columns, RawData, RawGraph, encode_target, text_of
from egt.data.custom.schema import CustomSchema, Fold
from egt.data.molecules import RDKIT_ERRORS, parse_or_none, require_rdkit
from egt.errors import DataError
from egt.graph import IntArray

logger = logging.getLogger(__name__)

Codes = NDArray[np.int8]
"""train (0), val (1), test (2) or none of them (-1)."""

Fractions = tuple[float, float, float]

Shares = Fractions | Fold

SPLIT_WORDS = {
    "train": 0, "training": 0,
    "val": 1, "valid": 1, "validation": 1, "dev": 1,
    "test": 2, "testing": 2,
}  # fmt: skip
"""How a split column may call the splits; upper and lower case are the same."""


@dataclass(frozen=True, eq=False)
class Division:
    """The split of the data: either whole rows, or parts of each graph, which then is in every split.

    Fields:
        rows: (R,) the split of each row; empty when graphs are divided within.
        parts: row -> (N,) or (E,) the split of its nodes or listed edges.
    """

    rows: Codes
    parts: Mapping[int, Codes]

    @property
    def within(self) -> bool:
        """Whether the nodes or edges of each graph are divided, and not the graphs."""
        return not len(self.rows)


def divide(raw: RawData, schema: CustomSchema) -> Division:
    """Divide the data as the schema's split plan says.

    At node and edge level one graph, or graphs with a split column of their own, are divided within: each split holds
    the same graph and scores its own nodes or edges (transductive learning). Otherwise whole graphs are divided.
    """
    within = (
        {row: graph for row, graph in enumerate(raw.graphs) if graph is not None} if _is_within(raw, schema) else {}
    )
    if within:
        parts = {row: _parts(graph, schema, raw.where) for row, graph in within.items()}
        if not any((codes == 0).any() for codes in parts.values()):
            raise DataError(f"{raw.where}: no {schema.level} is in the training split")
        return Division(np.zeros(0, np.int8), parts)
    codes = _rows(raw, schema)
    bad = np.array(sorted(raw.problems), dtype=np.int64)
    codes[bad] = np.maximum(codes[bad], 0)  # a bad row that names no split is reported with the training rows
    if (codes < 0).any():
        logger.warning("%s: %d rows with an empty split cell are in no split", raw.where, int((codes < 0).sum()))
    if not (codes == 0).any():
        raise DataError(f"{raw.where}: no row is in the training split; it needs rows that say train")
    return Division(codes, {})


def target_matrix(columns: Columns, schema: CustomSchema, num_rows: int) -> NDArray[np.float64]:
    """(n, T) targets as numbers and class ids; NaN where a label is missing or the column is not there."""
    matrix = np.full((num_rows, len(schema.targets)), np.nan)
    for position, name in enumerate(schema.targets):
        if name in columns:
            matrix[:, position] = encode_target(columns[name], schema.classes)[0]
    return matrix


def level_columns(graph: RawGraph, level: str) -> Columns:
    """Return the columns of the nodes, or of the listed edges."""
    return graph.nodes if level == "node" else graph.edge_columns


def _is_within(raw: RawData, schema: CustomSchema) -> bool:
    graphs = [graph for graph in raw.graphs if graph is not None]
    if schema.level == "link":
        return len(raw.graphs) == 1 and schema.split.kind != "column"
    if schema.level == "graph":
        return False
    if schema.split.kind == "column":
        return any(schema.split.column in level_columns(graph, schema.level) for graph in graphs)
    return len(raw.graphs) == 1


def _rows(raw: RawData, schema: CustomSchema) -> Codes:
    plan = schema.split
    match plan.kind:
        case "column":
            return column_split(_column(raw, plan.column), f"{raw.where}: column {plan.column!r}")
        case "scaffold":
            return scaffold_split(_column(raw, schema.smiles).tolist(), plan.shares)
        case "stratified":
            if schema.level != "graph":
                raise DataError(f"{raw.where}: whole graphs cannot be stratified by {schema.level}s; choose random")
            return _stratified(target_matrix(raw.table, schema, raw.num_rows), schema, raw.where)
        case _:
            return random_split(raw.num_rows, plan.shares, plan.seed)


def _column(raw: RawData, name: str) -> Column:
    if name not in raw.table:
        raise DataError(f"{raw.where}: there is no column {name!r} to split by; there are {', '.join(raw.table)}")
    return raw.table[name]


def _parts(graph: RawGraph, schema: CustomSchema, where: str) -> Codes:
    plan = schema.split
    if schema.level == "link":
        directed = schema.is_directed(graph.directed)
        return link_codes(graph.edges, graph.num_nodes, plan.shares, plan.seed, directed=directed)
    columns = level_columns(graph, schema.level)
    count = graph.num_nodes if schema.level == "node" else graph.edges.shape[1]
    if plan.kind == "column":
        if plan.column not in columns:
            return np.full(count, -1, np.int8)
        return column_split(columns[plan.column], f"{where}: {schema.level} column {plan.column!r}")
    targets = target_matrix(columns, schema, count)
    labeled = ~np.isnan(targets).all(axis=1)
    codes = np.full(count, -1, np.int8)
    if plan.kind == "stratified":
        codes[labeled] = _stratified(targets[labeled], schema, where)
    elif schema.level == "edge":
        directed = schema.is_directed(graph.directed)
        codes[labeled] = link_codes(graph.edges[:, labeled], graph.num_nodes, plan.shares, plan.seed, directed=directed)
    else:
        codes[labeled] = random_split(int(labeled.sum()), plan.shares, plan.seed)
    return codes


def _stratified(targets: NDArray[np.float64], schema: CustomSchema, where: str) -> Codes:
    if targets.shape[1] != 1:
        raise DataError(f"{where}: a stratified split needs one target, there are {targets.shape[1]}; choose random")
    continuous = schema.kind == "regression"
    return stratified_split(targets[:, 0], schema.split.shares, schema.split.seed, continuous=continuous)


def random_split(count: int, shares: Shares, seed: int) -> Codes:
    """(count,) codes: a shuffled list cut at the fractions, or into folds."""
    return _cut(np.random.default_rng(seed).permutation(count), shares)


def stratified_split(labels: NDArray[np.float64], shares: Shares, seed: int, *, continuous: bool) -> Codes:
    """(n,) codes with each class (or tenth of a continuous range) in every split at the same share.

    Args:
        labels: (n,) class ids or numbers; missing labels (NaN) are a group of their own.
        shares: fractions of train, val and test, or a fold.
        seed: of the shuffles.
        continuous: labels are numbers to be grouped by their deciles.
    """
    groups = labels
    if continuous:
        present = labels[~np.isnan(labels)]
        edges = np.quantile(present, np.linspace(0.1, 0.9, 9)) if len(present) else np.zeros(0)
        groups = np.where(np.isnan(labels), np.nan, np.searchsorted(edges, labels))
    codes = np.full(len(labels), -1, dtype=np.int8)
    generator = np.random.default_rng(seed)
    for group in np.unique(groups):
        members = np.flatnonzero(np.isnan(groups) if np.isnan(group) else groups == group)
        codes[members] = _cut(generator.permutation(len(members)), shares)
    return codes


def scaffold_split(smiles: Sequence[str | None], shares: Shares) -> Codes:
    """(n,) codes such that molecules with one Bemis-Murcko scaffold stay together.

    The largest scaffolds come first (of equal ones the later first), and each goes to train while it fits, else to
    val, else to test; of folds to the smallest one. Nothing here is random. Rows that RDKit cannot read stand alone.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for row, scaffold in enumerate(_scaffolds(smiles)):
        groups[f"row {row}" if scaffold is None else scaffold].append(row)
    ordered = sorted(groups.values(), key=lambda rows: (len(rows), rows[0]), reverse=True)
    if isinstance(shares, Fold):
        return _fold_codes(_packed(ordered, shares.of), shares)
    train_limit, val_limit = shares[0] * len(smiles), (shares[0] + shares[1]) * len(smiles)
    codes = np.full(len(smiles), 2, dtype=np.int8)
    num_train = num_val = 0
    for members in ordered:
        if num_train + len(members) <= train_limit:
            codes[members] = 0
            num_train += len(members)
        elif num_train + num_val + len(members) <= val_limit:
            codes[members] = 1
            num_val += len(members)
    return codes


def _packed(groups: Sequence[Sequence[int]], count: int) -> list[NDArray[np.int64]]:
    """Return so many pieces of whole groups, each group in the piece that was smallest before it."""
    pieces: list[list[int]] = [[] for _ in range(count)]
    for group in groups:
        min(pieces, key=len).extend(group)
    return [np.array(piece, dtype=np.int64) for piece in pieces]


def column_split(column: Column, where: str) -> Codes:
    """(n,) codes of a split column; an empty cell is in no split.

    Raises:
        DataError: for a word that is no split.
    """
    codes = np.full(len(column), -1, dtype=np.int8)
    for row, value in enumerate(column):
        if value is None or value != value:
            continue
        word = text_of(value).strip().lower()
        if word not in SPLIT_WORDS:
            raise DataError(f"{where}: {word!r} in row {row + 1} is no split; allowed are {', '.join(SPLIT_WORDS)}")
        codes[row] = SPLIT_WORDS[word]
    return codes


def is_split_column(column: Column) -> bool:
    """Return whether a column holds names of splits and nothing else."""
    if column.dtype != object:
        return False
    words = {str(value).strip().lower() for value in column if value is not None}
    return bool(words) and words <= SPLIT_WORDS.keys()


def _cut(order: NDArray[np.int64], shares: Shares) -> Codes:
    if isinstance(shares, Fold):
        return _fold_codes(np.array_split(order, shares.of), shares)
    ends = np.rint(np.cumsum(shares) * len(order)).astype(np.int64)
    codes = np.full(len(order), 2, dtype=np.int8)
    codes[order[: ends[0]]] = 0
    codes[order[ends[0] : ends[1]]] = 1
    return codes


def _fold_codes(pieces: Sequence[NDArray[np.int64]], fold: Fold) -> Codes:
    """(n,) codes: the piece of the fold is the test, the one before it val."""
    codes = np.zeros(sum(map(len, pieces)), dtype=np.int8)
    codes[pieces[fold.number - 1]] = 1
    codes[pieces[fold.number]] = 2
    return codes


def _scaffolds(smiles: Sequence[str | None]) -> list[str | None]:
    require_rdkit()
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    scaffolds: list[str | None] = []
    with rdBase.BlockLogs():
        for text in smiles:
            molecule = None if text is None else parse_or_none(text)
            try:
                scaffolds.append(None if molecule is None else MurckoScaffoldSmiles(mol=molecule))  # type: ignore[no-untyped-call]
            except RDKIT_ERRORS:
                scaffolds.append(None)
    return scaffolds


def link_codes(edges: IntArray, num_nodes: int, shares: Shares, seed: int, *, directed: bool) -> Codes:
    """(E,) the split of each edge, whatever the order of the list; both directions of an undirected one go together.

    Self-loops are never held out: they belong to training.
    """
    codes = np.zeros(edges.shape[1], dtype=np.int8)
    between = edges[0] != edges[1]
    group, num_groups = link_groups(edges[:, between], num_nodes, directed)
    codes[between] = random_split(num_groups, shares, seed)[group]
    return codes


def link_groups(edges: IntArray, num_nodes: int, directed: bool) -> tuple[IntArray, int]:
    """(E,) the number of the link of each edge, and how many links there are."""
    i, j = edges if directed else (np.minimum(*edges), np.maximum(*edges))
    distinct, group = np.unique(i * num_nodes + j, return_inverse=True)
    return group, len(distinct)
