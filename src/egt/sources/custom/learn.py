"""What is learned from the training split, and from nothing else: vocabularies, and means and deviations.

When a graph is divided within (node masks), the whole graph is the training input, so its features are learned from
all its nodes; its targets only from the training nodes. For links, held-out edges are left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from egt.sources.custom.division import Division, level_columns, target_matrix
from egt.sources.custom.kinds import as_numbers, sorted_texts
from egt.sources.custom.raw import LARGEST, Column, RawData, RawGraph, missing_in, text_of
from egt.sources.custom.schema import CustomSchema, Feature


def learn(raw: RawData, schema: CustomSchema, division: Division) -> CustomSchema:
    """The schema with what the training split teaches."""
    training = {
        row: shape
        for row, shape in enumerate(raw.shapes)
        if shape is not None and (division.within or division.rows[row] == 0)
    }
    mean, std = _target_moments(raw, schema, division, training)
    return replace(
        schema,
        target_mean=mean,
        target_std=std,
        node_features=tuple(
            _learned(feature, [shape.nodes[feature.name] for shape in training.values() if feature.name in shape.nodes])
            for feature in schema.node_features
        ),
        edge_features=tuple(
            _learned(
                feature,
                [
                    _training_edges(shape.edge_columns[feature.name], row, schema, division)
                    for row, shape in training.items()
                    if feature.name in shape.edge_columns
                ],
            )
            for feature in schema.edge_features
        ),
    )


def _training_edges(column: Column, row: int, schema: CustomSchema, division: Division) -> Column:
    held_out = schema.level == "link" and division.within
    return column[division.parts[row] == 0] if held_out else column


def _learned(feature: Feature, columns: list[Column]) -> Feature:
    match feature.kind:
        case "categorical":
            plain = [column for column in columns if column.ndim == 1]  # a graph that has lists there is refused later
            seen = {text_of(value) for column in plain for value in column[~missing_in(column)]}
            return replace(feature, vocabulary=tuple(sorted_texts(seen)))
        case "continuous":
            numbers = [as_numbers(column)[0].reshape(len(column), -1) for column in columns]
            alike = [part for part in numbers if part.shape[1] == feature.width]
            return _scaled(feature, np.concatenate(alike) if alike else np.zeros((0, feature.width)))
        case "ignored":
            return feature


def _scaled(feature: Feature, values: NDArray[np.float64]) -> Feature:
    """Mean and deviation of each part; a vector of zeros and ones (a bag of words, one-hot) is taken as it is."""
    if feature.width > 1 and np.isin(values[np.isfinite(values)], (0, 1)).all():
        return feature
    mean, std = _moments(values)
    return replace(feature, mean=mean, std=std)


def _moments(values: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each column over its values; 0 and 1 where there is nothing to learn.

    Numbers that no graph can hold are left out: the graphs that have them are refused.
    """
    known = np.abs(values) <= LARGEST
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0) / count
    std = np.sqrt(((np.where(known, values, mean) - mean) ** 2).sum(axis=0) / count)
    std = np.where(std > 1e-12 * np.maximum(np.abs(mean), 1.0), std, 1.0)
    return tuple(float(x) for x in mean), tuple(float(x) for x in std)


def _target_moments(
    raw: RawData, schema: CustomSchema, division: Division, training: dict[int, RawGraph]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if schema.kind != "regression":
        return (), ()
    if schema.level == "graph":
        return _moments(target_matrix(raw.table, schema, raw.num_rows)[division.rows == 0])
    parts = []
    for row, shape in training.items():
        count = shape.num_nodes if schema.level == "node" else shape.edges.shape[1]
        targets = target_matrix(level_columns(shape, schema.level), schema, count)
        parts.append(targets[division.parts[row] == 0] if division.within else targets)
    return _moments(np.concatenate(parts) if parts else np.zeros((0, len(schema.targets))))
