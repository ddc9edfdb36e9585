"""Which rows, or which nodes or edges of one graph, belong to train, val and test."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egt.errors import DataError
from egt.sources.custom.kinds import encode_target
from egt.sources.custom.link import link_codes
from egt.sources.custom.raw import Column, Columns, RawData, RawGraph
from egt.sources.custom.schema import CustomSchema
from egt.sources.custom.splits import Codes, column_split, random_split, scaffold_split, stratified_split

logger = logging.getLogger(__name__)


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
        {row: shape for row, shape in enumerate(raw.shapes) if shape is not None} if _is_within(raw, schema) else {}
    )
    if within:
        parts = {row: _parts(shape, schema, raw.where) for row, shape in within.items()}
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


def level_columns(shape: RawGraph, level: str) -> Columns:
    """The columns of the nodes, or of the listed edges."""
    return shape.nodes if level == "node" else shape.edge_columns


def _is_within(raw: RawData, schema: CustomSchema) -> bool:
    shapes = [shape for shape in raw.shapes if shape is not None]
    if schema.level == "link":
        return len(raw.shapes) == 1 and schema.split.kind != "column"
    if schema.level == "graph":
        return False
    if schema.split.kind == "column":
        return any(schema.split.column in level_columns(shape, schema.level) for shape in shapes)
    return len(raw.shapes) == 1


def _rows(raw: RawData, schema: CustomSchema) -> Codes:
    plan = schema.split
    match plan.kind:
        case "column":
            return column_split(_column(raw, plan.column), f"{raw.where}: column {plan.column!r}")
        case "scaffold":
            return scaffold_split(_column(raw, schema.smiles).tolist(), plan.fractions)
        case "stratified":
            if schema.level != "graph":
                raise DataError(f"{raw.where}: whole graphs cannot be stratified by {schema.level}s; choose random")
            return _stratified(target_matrix(raw.table, schema, raw.num_rows), schema, raw.where)
        case _:
            return random_split(raw.num_rows, plan.fractions, plan.seed)


def _column(raw: RawData, name: str) -> Column:
    if name not in raw.table:
        raise DataError(f"{raw.where}: there is no column {name!r} to split by; there are {', '.join(raw.table)}")
    return raw.table[name]


def _parts(shape: RawGraph, schema: CustomSchema, where: str) -> Codes:
    plan = schema.split
    if schema.level == "link":
        directed = schema.is_directed(shape.directed)
        return link_codes(shape.edges, shape.num_nodes, plan.fractions, plan.seed, directed=directed)
    columns = level_columns(shape, schema.level)
    count = shape.num_nodes if schema.level == "node" else shape.edges.shape[1]
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
        directed = schema.is_directed(shape.directed)
        codes[labeled] = link_codes(
            shape.edges[:, labeled], shape.num_nodes, plan.fractions, plan.seed, directed=directed
        )
    else:
        codes[labeled] = random_split(int(labeled.sum()), plan.fractions, plan.seed)
    return codes


def _stratified(targets: NDArray[np.float64], schema: CustomSchema, where: str) -> Codes:
    if targets.shape[1] != 1:
        raise DataError(f"{where}: a stratified split needs one target, there are {targets.shape[1]}; choose random")
    continuous = schema.kind == "regression"
    return stratified_split(targets[:, 0], schema.split.fractions, schema.split.seed, continuous=continuous)
