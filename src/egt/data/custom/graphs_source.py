"""Graphs that are already in memory as a `Source`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from egt.data.source import DataCard, Reading, TargetSchema, check_split
from egt.errors import DataError
from egt.graph import FeatureSchema, Graph


class GraphsSource:
    """Graphs made in Python as a `Source`: the splits are given, the features are taken as they are.

    Args:
        splits: split -> its graphs, as {"train": [...], "val": [...], "test": [...]}.
        target: what is predicted.
        schema: the features; None: as many categories as the largest id of any graph asks for.
        name: what the data is called.
    """

    def __init__(
        self,
        splits: Mapping[str, Sequence[Graph]],
        target: TargetSchema,
        schema: FeatureSchema | None = None,
        name: str = "graphs",
    ) -> None:
        graphs = [graph for part in splits.values() for graph in part]
        if not graphs:
            raise DataError(f"{name}: there is no graph in splits {list(splits)}")
        schema = schema or _schema_of(graphs)
        for graph in graphs:
            schema.check(graph)
        self._splits = {split: list(part) for split, part in splits.items()}
        nodes = [graph.num_nodes for graph in graphs]
        self.card = DataCard(
            name=name,
            title=name,
            schema=schema,
            target=target,
            split_sizes={split: len(part) for split, part in self._splits.items()},
            num_nodes=(min(nodes), float(np.mean(nodes)), max(nodes)),
            mean_edges=float(np.mean([graph.num_edges for graph in graphs])),
        )

    def fingerprint(self) -> str:
        """Return a hash of all arrays of all graphs."""
        total = hashlib.sha256(repr((self.card.schema, self.card.target)).encode())
        for split, part in self._splits.items():
            total.update(f"{split} {len(part)}".encode())
            for graph in part:
                for field in fields(graph):
                    value = getattr(graph, field.name)
                    if isinstance(value, np.ndarray):
                        total.update(f"{field.name} {value.shape}".encode() + value.tobytes())
                    else:
                        total.update(f"{field.name} {value!r}".encode())
        return total.hexdigest()

    def records(self, split: str) -> Sequence[tuple[int, Graph]]:
        """Return the graphs of a split, numbered."""
        check_split(split, self._splits, self.card.name)
        return list(enumerate(self._splits[split]))

    def read(self, record: tuple[int, Graph]) -> Reading:
        """Return the graph of a record."""
        row, graph = record
        return Reading(row, graph.id or str(row), graph=graph)


def _schema_of(graphs: Sequence[Graph]) -> FeatureSchema:
    first = graphs[0]

    def sizes(level: str) -> tuple[int, ...]:
        width = getattr(first, f"{level}_categories").shape[1]
        ids = [getattr(graph, f"{level}_categories") for graph in graphs]
        alike = [part for part in ids if part.shape[1] == width and len(part)]
        return tuple(int(size) + 1 for size in np.concatenate(alike).max(axis=0)) if alike else (0,) * width

    return FeatureSchema(
        node_categories=sizes("node"),
        num_node_values=first.node_values.shape[1],
        edge_categories=sizes("edge"),
        num_edge_values=first.edge_values.shape[1],
        num_graph_values=len(first.graph_values),
    )
