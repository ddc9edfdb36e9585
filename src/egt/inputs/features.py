"""The inputs that read the features of a data set: what its schema has, and nothing else."""

from __future__ import annotations

from egt.graph import FeatureSchema
from egt.inputs.categories import EdgeCategories, NodeCategories
from egt.inputs.input import Absent, NodeInput, PairInput
from egt.inputs.values import EdgeValues, NodeValues


def node_features(schema: FeatureSchema) -> tuple[NodeInput, ...]:
    """The inputs for the features of nodes."""
    inputs: list[NodeInput] = []
    if schema.node_categories:
        inputs.append(NodeCategories(sizes=_sizes(schema.node_categories)))
    if schema.num_node_values:
        inputs.append(NodeValues(num_values=schema.num_node_values))
    return tuple(inputs)


def edge_features(schema: FeatureSchema, absent: Absent = "zero") -> tuple[PairInput, ...]:
    """The inputs for the features of edges; `absent` is what a non-edge gets."""
    inputs: list[PairInput] = []
    if schema.edge_categories:
        inputs.append(EdgeCategories(sizes=_sizes(schema.edge_categories), absent=absent))
    if schema.num_edge_values:
        inputs.append(EdgeValues(num_values=schema.num_edge_values, absent=absent))
    return tuple(inputs)


def _sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """A column without any known category still has a row in the table."""
    return tuple(max(size, 1) for size in sizes)
