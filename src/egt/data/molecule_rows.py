"""Tables of molecules as a source: SMILES, one or several in a row, -> graphs with the targets of their rows.

Several molecules of a row (`--smiles solute solvent`) are one graph of components, whose atoms know their column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.atom_targets import PartTargets, lists_of, with_part_targets
from egt.data.columns import Column, RawData, texts_in
from egt.data.custom_source import Built, CustomRecord, CustomSource, joined
from egt.data.infer import find_smiles_of
from egt.data.label_checks import molecule_keys, repeats
from egt.data.molecules import elements_of, graphs_from_smiles, parse_smiles, without_name
from egt.data.schema import CustomSchema
from egt.data.splits import Division
from egt.errors import DataError, EgtError
from egt.graph import Graph

_ATOM = re.compile(r"\[(?!\d*H[+\]])[^\]]*\]|Br|Cl|[BCNOPSFI*bcnops]")

_RING = re.compile(r"%\d\d|\d")


@dataclass(frozen=True, eq=False)
class MoleculeRecord(CustomRecord):
    """A row of a table before it is read.

    Fields:
        parts: (n,) targets of the atoms or bonds, one array per target; None where whole molecules are
            predicted.
    """

    smiles: tuple[str, ...]  # the molecules, one per column of SMILES
    parts: tuple[NDArray[np.float64] | None, ...] | None


class MoleculeRows(CustomSource):
    """A table with a molecule, or several, in each row."""

    def __init__(self, raw: RawData, schema: CustomSchema, division: Division | None) -> None:
        super().__init__(raw, schema, division)
        names = find_smiles_of(schema.smiles_columns, raw.table, raw.where)
        self._columns = [texts_in(raw.table[name]) for name in names]
        self._parts = PartTargets(raw, schema) if schema.level in ("node", "edge") else None
        if self._parts is not None:
            self._strange |= self._parts.warnings

    def _record(self, row: int) -> MoleculeRecord:
        common, smiles = self._common(row), tuple(column[row] for column in self._columns)
        if not common["error"] and not all(smiles):
            column = f" of column {self.schema.smiles_columns[smiles.index('')]!r}" if len(smiles) > 1 else ""
            common["error"] = f"{self._raw.place(row)}: the SMILES{column} is missing"
        return MoleculeRecord(**common, smiles=smiles, parts=None if self._parts is None else self._parts[row])

    def _build(self, records: Sequence[MoleculeRecord]) -> list[Built]:
        given: dict[str, Any] = {
            "vocabulary": self.schema.vocabulary,
            "canonical": self.schema.canonical,
            "ids": [record.id for record in records],
            "graph_targets": [record.targets for record in records],
        }
        columns = [[record.smiles[k] for record in records] for k in range(len(self._columns))]
        built = [graphs_from_smiles(column, **given) for column in columns]
        rows = built[0] if len(built) == 1 else [self._join(parts) for parts in zip(*built, strict=True)]
        any_foreign = bool(self._foreign([text for column in columns for text in column]))
        found: list[Built] = []
        for record, row in zip(records, rows, strict=True):
            if isinstance(row, EgtError):
                found.append(row)
                continue
            graph, warning = row
            try:
                whole = graph if record.parts is None else with_part_targets(graph, record.parts, self.schema)
            except DataError as error:
                found.append(error)
                continue
            found.append((whole, joined(warning, self._foreign(record.smiles) if any_foreign else "")))
        return found

    def _join(self, parts: Sequence[Built]) -> Built:
        """Return the molecules of a row as one graph, without an edge between them; the targets are those of all.

        The component is the last category of each atom.
        """
        graphs, warnings = [], []
        for part, column in zip(parts, self.schema.smiles_columns, strict=True):
            if isinstance(part, EgtError):
                return DataError(f"column {column!r}: {part}")
            graph, warning = part
            graphs.append(graph)
            warnings += [f"column {column!r}: {warning}"] if warning else []
        counts = [graph.num_nodes for graph in graphs]
        starts = list(accumulate(counts[:-1], initial=0))
        arrays: dict[str, NDArray[Any]] = {
            "edge_index": np.concatenate(
                [graph.edge_index + start for graph, start in zip(graphs, starts, strict=True)], axis=1
            ),
            "node_categories": np.column_stack(
                [np.concatenate([graph.node_categories for graph in graphs]), np.repeat(np.arange(len(graphs)), counts)]
            ),
        }
        for name in ("node_values", "edge_categories", "edge_values"):
            arrays[name] = np.concatenate([getattr(graph, name) for graph in graphs])
        if self.schema.canonical:
            arrays["ranks"] = np.concatenate(
                [graph.ranks + start for graph, start in zip(graphs, starts, strict=True) if graph.ranks is not None]
            )
        for array in arrays.values():
            array.setflags(write=False)
        return Graph.trusted(**{**vars(graphs[0]), "num_nodes": sum(counts), **arrays}), "; ".join(warnings)

    def _foreign(self, smiles: Sequence[str]) -> str:
        """Return which elements of new molecules training never saw."""
        if self._division is not None or not self.schema.elements:
            return ""
        foreign = sorted(elements_of(smiles) - set(self.schema.elements))
        return f"not in the training molecules: {', '.join(foreign)}" if foreign else ""

    def _size(self, row: int) -> tuple[int, int] | None:
        """Estimate atoms and, in both directions, bonds: a chain has one bond less than atoms, a ring as many."""
        smiles = ".".join(without_name(column[row]) for column in self._columns)
        atoms = len(_ATOM.findall(smiles))
        outside = re.sub(r"\[[^\]]*\]", "", smiles)
        bonds = atoms - 1 - outside.count(".") + len(_RING.findall(outside)) // 2
        return (atoms, 2 * max(bonds, 0)) if atoms else None

    def smiles(self) -> list[str]:
        return [".".join(filter(None, texts)) for texts in zip(*self._columns, strict=True)]

    def components(self) -> dict[str, list[str]]:
        if not self.schema.more_smiles:
            return {}
        return dict(zip(self.schema.smiles_columns, self._columns, strict=True))

    def names(self, row: int) -> Sequence[str]:
        if self._parts is None:
            return ()
        found = parse_smiles([column[row] for column in self._columns])
        molecules = [molecule for molecule, _ in found if not isinstance(molecule, EgtError)]
        return [atom.GetSymbol() for molecule in molecules for atom in molecule.GetAtoms()]

    def _label_columns(self) -> Mapping[str, Column]:
        columns = {name: self._raw.table[name] for name in self.schema.targets if name in self._raw.table}
        return columns if self._parts is None else {name: lists_of(column).values for name, column in columns.items()}

    def _repeats(self) -> list[str]:
        keys = molecule_keys(self._columns)
        return repeats(
            keys,
            keys,
            None if self.schema.graph_features else self._targets,  # under other conditions a label may differ
            None if self._division is None else self._division.rows,
            classes=bool(self.schema.classes),
            what="molecule",
            advice="remove repetitions, or divide with --set split=scaffold",
        )
