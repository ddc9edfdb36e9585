"""Molecules that are typed into the page together with the numbers that a model needs beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from egt.errors import DataError
from egt.sources.custom.formats.tables import molecules_of
from egt.sources.custom.raw import RawData, Table, objects
from egt.sources.custom.schema import CustomSchema


def typed_features(schema: CustomSchema) -> list[str]:
    """Return the features of a molecule that can be typed: columns of single numbers."""
    return [feature.name for feature in schema.graph_features if feature.width == 1]


def typed_molecules(schema: CustomSchema, smiles: Sequence[str], features: Mapping[str, float | None]) -> RawData:
    """Return SMILES as a table whose rows all have the same features; the training mean where one is left open.

    Args:
        schema: how the model reads tables.
        smiles: of each row; with commas between them where a row has several.
        features: column -> number.
    """
    wide = [feature.name for feature in schema.graph_features if feature.width > 1]
    if wide:
        raise DataError(f"this model needs {wide[0]}, a column of vectors; upload a table that has it")
    columns = schema.smiles_columns
    rows = [text.split(",") if schema.more_smiles else [text] for text in smiles]
    if wrong := [text for text, row in zip(smiles, rows, strict=True) if len(row) != len(columns)]:
        raise DataError(f"{wrong[0]}: give {len(columns)} SMILES with commas between them: {', '.join(columns)}")
    table = {name: objects(part) for name, part in zip(columns, zip(*rows, strict=True), strict=True)}
    for feature in schema.graph_features:
        value = features.get(feature.name)
        table[feature.name] = np.full(len(rows), np.nan if value is None else value)
    return molecules_of(Table(table, len(rows), {}), "SMILES")
