"""Which rows, or which nodes or edges of one graph, belong to train, val and test; hidden edges to be predicted.

For link prediction a hidden edge is taken out of `edge_index` (both directions of an undirected one) before anything
else sees the graph, so no feature or encoding can reveal it: the edges of a graph and its query pairs are disjoint.

- One graph: its edges are divided into train, val and test. The val and test graphs show all training edges and ask
  for theirs. The training edges are divided again into `folds` parts; training graph k hides part k and asks for it.
  So every training edge is learned from once per epoch, and the share of hidden edges is like that in validation.
- Many graphs: the graphs are divided, and each one hides the same share of its own edges (`hide_links`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from egt.data.columns import Column, Columns, RawData, RawGraph, encode_target, text_of
from egt.data.molecule_features import RDKIT_ERRORS
from egt.data.molecules import parse_or_none, require_rdkit
from egt.data.schema import CustomSchema, Fold
from egt.data.source import SPLITS
from egt.errors import DataError
from egt.graph import Graph, IntArray

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

FOLDS = 10

HIDDEN_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Division:
    """The split of the data: either whole rows, or parts of each graph, which then is in every split."""

    rows: Codes  # (R,) the split of each row; empty when graphs are divided within
    parts: Mapping[int, Codes]  # row -> (N,) or (E,) the split of its nodes or listed edges

    @property
    def within(self) -> bool:
        """Whether the nodes or edges of each graph are divided, and not the graphs."""
        return not len(self.rows)


def divide(raw: RawData, schema: CustomSchema) -> Division:
    """Divide the data as the schema's split plan says.

    At node and edge level one graph, or graphs with a split column of their own, are divided within: each split holds
    the same graph and scores its own nodes or edges (transductive learning). Otherwise whole graphs are divided.
    """
    graphs = {row: graph for row, graph in enumerate(raw.graphs) if graph is not None}
    plan, level = schema.split, schema.level
    is_within = len(raw.graphs) == 1 and level != "graph"
    if plan.kind == "column":
        is_within = level in ("node", "edge") and any(plan.column in graph.columns(level) for graph in graphs.values())
    if graphs and is_within:
        parts = {row: _parts(graph, schema, raw.where) for row, graph in graphs.items()}
        if not any((codes == 0).any() for codes in parts.values()):
            raise DataError(f"{raw.where}: no {level} is in the training split")
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


def _rows(raw: RawData, schema: CustomSchema) -> Codes:
    plan = schema.split
    name = {"column": plan.column, "scaffold": schema.smiles}.get(plan.kind)
    if name is not None and name not in raw.table:
        raise DataError(f"{raw.where}: there is no column {name!r} to split by; there are {', '.join(raw.table)}")
    match plan.kind:
        case "column":
            return column_split(raw.table[plan.column], f"{raw.where}: column {plan.column!r}")
        case "scaffold":
            return scaffold_split(raw.table[schema.smiles].tolist(), plan.shares)
        case "stratified":
            if schema.level != "graph":
                raise DataError(f"{raw.where}: whole graphs cannot be stratified by {schema.level}s; choose random")
            return _stratified(target_matrix(raw.table, schema, raw.num_rows), schema, raw.where)
        case _:
            return random_split(raw.num_rows, plan.shares, plan.seed)


def _parts(graph: RawGraph, schema: CustomSchema, where: str) -> Codes:
    plan, directed = schema.split, schema.is_directed(graph.directed)
    if schema.level == "link":
        return link_codes(graph.edges, graph.num_nodes, plan.shares, plan.seed, directed=directed)
    columns = graph.columns(schema.level)
    count = graph.num_nodes if schema.level == "node" else graph.edges.shape[1]
    codes = np.full(count, -1, np.int8)
    if plan.kind == "column":
        if plan.column not in columns:
            return codes
        return column_split(columns[plan.column], f"{where}: {schema.level} column {plan.column!r}")
    targets = target_matrix(columns, schema, count)
    labeled = ~np.isnan(targets).all(axis=1)
    if plan.kind == "stratified":
        codes[labeled] = _stratified(targets[labeled], schema, where)
    elif schema.level == "edge":
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

    Missing labels (NaN) are a group of their own.
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
        pieces: list[list[int]] = [[] for _ in range(shares.of)]
        for members in ordered:
            min(pieces, key=len).extend(members)
        return _fold_codes([np.array(piece, dtype=np.int64) for piece in pieces], shares)
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


def _scaffolds(smiles: Sequence[str | None]) -> list[str | None]:
    chem = require_rdkit()
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles  # RDKit is optional

    scaffolds: list[str | None] = []
    with chem.rdBase.BlockLogs():
        for text in smiles:
            molecule = None if text is None else parse_or_none(text)
            try:
                scaffolds.append(None if molecule is None else MurckoScaffoldSmiles(mol=molecule))  # type: ignore[no-untyped-call]
            except RDKIT_ERRORS:
                scaffolds.append(None)
    return scaffolds


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


def link_codes(edges: IntArray, num_nodes: int, shares: Shares, seed: int, *, directed: bool) -> Codes:
    """(E,) the split of each edge, whatever the order of the list; both directions of an undirected one go together.

    Self-loops are never held out: they belong to training.
    """
    codes = np.zeros(edges.shape[1], dtype=np.int8)
    between = edges[0] != edges[1]
    group, num_groups = _link_groups(edges[:, between], num_nodes, directed)
    codes[between] = random_split(num_groups, shares, seed)[group]
    return codes


def _link_groups(edges: IntArray, num_nodes: int, directed: bool) -> tuple[IntArray, int]:
    """(E,) the number of the link of each edge, and how many links there are."""
    i, j = edges if directed else (np.minimum(*edges), np.maximum(*edges))
    distinct, group = np.unique(i * num_nodes + j, return_inverse=True)
    return group, len(distinct)


def link_graph(
    graph: Graph,
    split: str,
    number: int,
    *,
    fractions: Shares = (0.8, 0.1, 0.1),
    folds: int = FOLDS,
    negatives: float = 1.0,
    directed: bool,
    seed: int = 0,
) -> Graph:
    """Return a training, validation or test graph for predicting the links of one graph.

    Args:
        graph: the full graph.
        split: its name.
        number: of the graph; `count_links` counts those of a split.
        fractions: shares of the edges in train, val and test, or a fold.
        folds: into how many training graphs the training edges are divided.
        negatives: sampled non-edges per hidden edge (fewer if the graph does not have as many).
        directed: whether i -> j and j -> i are two links.
        seed: of the division and the samples.
    """
    if folds < 2:
        raise DataError(f"folds is {folds}; at least 2 are needed, so that a training graph keeps some edges")
    code = SPLITS.index(split)
    pairs = _pairs(graph, directed)
    codes = link_codes(pairs, graph.num_nodes, fractions, seed, directed=directed)
    hidden, shown = codes == code, codes == 0
    if split == "train":
        fold = np.random.default_rng([seed, 1]).permutation(np.count_nonzero(shown)) % folds
        hidden[shown], shown[shown] = fold == number, fold != number
    return _hide(graph, pairs, hidden, shown, negatives, directed, np.random.default_rng([seed, 2, code, number]))


def count_links(edges: IntArray, codes: Codes, num_nodes: int, *, directed: bool, folds: int = FOLDS) -> dict[str, int]:
    """Return how many graphs `link_graph` makes of a graph for each split, from the split of its edges."""
    between = edges[0] != edges[1]
    counts = [_link_groups(edges[:, between & (codes == code)], num_nodes, directed)[1] for code in range(len(SPLITS))]
    return {split: min(folds if code == 0 else 1, counts[code]) for code, split in enumerate(SPLITS)}


def hide_links(
    graph: Graph, *, share: float = HIDDEN_SHARE, negatives: float = 1.0, directed: bool | None = None, seed: int = 0
) -> Graph:
    """Return the graph with a random share of its edges (at least one) hidden, as query pairs."""
    if not 0 < share < 1:
        raise DataError(f"share is {share}; it must be between 0 and 1")
    directed = not graph.is_symmetric if directed is None else directed
    pairs = _pairs(graph, directed)
    generator = np.random.default_rng([seed, 3])
    num_pairs = pairs.shape[1]
    hidden = generator.permutation(num_pairs) < max(1, round(share * num_pairs))
    return _hide(graph, pairs, hidden, ~hidden, negatives, directed, generator)


def query_edges(graph: Graph) -> int:
    """Count the query pairs that are edges: a model of hidden links has never seen their like."""
    if graph.query_index is None:
        return 0
    queries, edges = (index[0] * graph.num_nodes + index[1] for index in (graph.query_index, graph.edge_index))
    return int(np.isin(queries, edges).sum())


def _pairs(graph: Graph, directed: bool) -> IntArray:
    """(2, P) what can be hidden: each edge that is no self-loop, once if the graph is undirected."""
    i, j = graph.edge_index
    pairs = graph.edge_index[:, i != j if directed else i < j]
    if not pairs.shape[1]:
        raise DataError(f"graph {graph.id!r} has no edge between two nodes: there is no link to predict")
    return pairs


def _hide(
    graph: Graph,
    pairs: IntArray,
    hidden: NDArray[np.bool_],
    shown: NDArray[np.bool_],
    negatives: float,
    directed: bool,
    generator: np.random.Generator,
) -> Graph:
    """Return the graph with some pairs as edges (and its self-loops), others and sampled non-edges as query pairs."""
    num_nodes = graph.num_nodes
    i, j = graph.edge_index
    visible = pairs[:, shown]
    keys = visible[0] * num_nodes + visible[1]
    if not directed:
        keys = np.concatenate([keys, visible[1] * num_nodes + visible[0]])
    kept = np.isin(i * num_nodes + j, keys) | (i == j)
    positive = pairs[:, hidden]
    negative = _non_edges(graph, round(negatives * positive.shape[1]), directed, generator)
    labels = np.repeat([1.0, 0.0], [positive.shape[1], negative.shape[1]])
    return replace(
        graph,
        edge_index=graph.edge_index[:, kept],
        edge_categories=graph.edge_categories[kept],
        edge_values=graph.edge_values[kept],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[kept],
        graph_targets=None,
        node_targets=None,
        query_index=np.concatenate([positive, negative], axis=1),
        edge_targets=labels[:, None],
    )


def _non_edges(graph: Graph, count: int, directed: bool, generator: np.random.Generator) -> IntArray:
    """(2, up to count) distinct pairs i != j (i < j if undirected) that are no edges of the full graph."""
    num_nodes = graph.num_nodes
    existing = graph.edge_index[0] * num_nodes + graph.edge_index[1]
    possible = num_nodes * (num_nodes - 1) // (1 if directed else 2)
    free = possible - _pairs(graph, directed).shape[1]
    if 2 * count >= free:  # few are left: list them all
        i, j = np.divmod(np.arange(num_nodes**2), num_nodes)
        listed = np.flatnonzero((i != j if directed else i < j) & ~np.isin(np.arange(num_nodes**2), existing))
        return np.stack(np.divmod(generator.permutation(listed)[:count], num_nodes))
    chosen = np.zeros(0, dtype=np.int64)
    while len(chosen) < count:
        i, j = generator.integers(num_nodes, size=(2, 2 * count))
        if not directed:
            i, j = np.minimum(i, j), np.maximum(i, j)
        drawn = (i * num_nodes + j)[i != j]
        both = np.concatenate([chosen, drawn[~np.isin(drawn, existing)]])
        chosen = both[np.sort(np.unique(both, return_index=True)[1])]
    return np.stack(np.divmod(chosen[:count], num_nodes))
