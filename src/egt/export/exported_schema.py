"""What an exported model reads and answers, for a program that does not have egt: `schema.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from egt.config.run import RunConfig
from egt.config.run_data import reading_schema
from egt.data.molecule_features import (
    OGB_ATOM_CODES,
    OGB_ATOM_FEATURES,
    OGB_ATOM_METHODS,
    OGB_BOND_CODES,
    OGB_BOND_FEATURES,
    OGB_BOND_METHODS,
    ZINC_ATOMS,
    ZINC_BONDS,
)
from egt.export.portable import TensorInput, portable_preparation
from egt.inference.artifact import Artifact, versions

SCHEMA, FORMAT = "schema.json", 1


def describe(artifact: Artifact, inputs: Sequence[TensorInput], deviations: Mapping[str, float]) -> dict[str, Any]:
    """Return the content of `schema.json`.

    Args:
        artifact: the model.
        inputs: the tensors it reads.
        deviations: file -> how far it was from the model when it was written.
    """
    config = artifact.config
    return {
        "format": FORMAT,
        "name": config.name,
        "level": config.model.level,
        "inputs": [{key: value for key, value in asdict(each).items() if key != "encodes"} for each in inputs],
        "encodings": [
            {"name": each.name, "level": each.level, "settings": asdict(each)}  # type: ignore[call-overload]
            for each in portable_preparation(config).encodings
        ],
        "features": _features(config),
        "answers": _answers(config),
        "deviations": dict(deviations),
        "metrics": {split: dict(found) for split, found in artifact.metrics.items()},
        "versions": versions(),
    }


def _answers(config: RunConfig) -> dict[str, Any]:
    """Return the columns of the output, and what each number is."""
    task = config.task
    classes = list(getattr(task, "class_names", ()))
    return {
        "kind": task.kind,
        "targets": list(task.names),
        "classes": classes,
        "num_outputs": task.num_outputs,
        "columns": list(task.columns(np.zeros(task.num_outputs, np.float32))),
    }


def _features(config: RunConfig) -> dict[str, Any]:
    """Return how raw data becomes categories and values: the vocabularies of molecules, or those of custom data."""
    schema = reading_schema(config)
    of_graphs = schema.model_dump(mode="json", include={"graph_features"}) if schema.graph_features else {}
    if schema.more_smiles:  # the last category of each atom: which of these it belongs to
        of_graphs["components"] = list(schema.smiles_columns)
    if schema.format != "molecules":
        wanted = {"format", "weight", "directed", "node_features", "edge_features"}
        return schema.model_dump(mode="json", include=wanted) | of_graphs
    if schema.vocabulary == "zinc":
        atoms, bonds = list(ZINC_ATOMS), list(ZINC_BONDS)
        return {"format": "molecules", "vocabulary": "zinc", "atoms": atoms, "bonds": bonds} | of_graphs
    return of_graphs | {
        "format": "molecules",
        "vocabulary": "ogb",
        "atoms": _of_rdkit(OGB_ATOM_FEATURES, OGB_ATOM_METHODS, OGB_ATOM_CODES),
        "bonds": _of_rdkit(OGB_BOND_FEATURES, OGB_BOND_METHODS, OGB_BOND_CODES),
    }


def _of_rdkit(names: Iterable[str], methods: Iterable[str], codes: Iterable[Sequence[int | None]]) -> list[Any]:
    """Return the features: the method of RDKit, and the values behind category 0, 1, ...; any other is the last."""
    columns = zip(names, methods, codes, strict=True)
    return [{"name": name, "rdkit": method, "values": list(values)} for name, method, values in columns]
