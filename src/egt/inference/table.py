"""Predictions as rows of a table: names of targets and classes, probabilities, warnings and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.config.run import RunConfig
from egt.config.task import Binary, Multiclass
from egt.inference.predictor import Prediction
from egt.sources.custom.schema import CustomSchema

Row = dict[str, Any]


def table(
    config: RunConfig, predictions: Sequence[Prediction], smiles: Sequence[str] | None = None
) -> tuple[list[str], Iterator[Row]]:
    """The columns and rows of a file of predictions.

    A graph target has one row per input row. A node or edge target has one row per node or edge, with the name of its
    graph and the numbers of the nodes; an input row that could not be read has one row with its error.

    Args:
        config: of the model.
        predictions: in the order of the input.
        smiles: of the input rows, for molecules.
    """
    schema = config.data.custom
    level = config.model.level
    identity = (schema.id if schema is not None and schema.id else "id") if level == "graph" else "graph"
    molecule = [] if smiles is None else [schema.smiles if schema is not None and schema.smiles else "smiles"]
    places = {"graph": [], "node": ["node"], "edge": ["source", "target"]}[level]
    columns = [identity, *molecule, *places, *answer_columns(config, schema), "warning", "error"]

    def rows() -> Iterator[Row]:
        for prediction in predictions:
            head: Row = {identity: prediction.id, "warning": prediction.warning, "error": prediction.error}
            if smiles is not None:
                head[molecule[0]] = smiles[prediction.row]
            if prediction.values is None:
                yield head
                continue
            for k, values in enumerate(prediction.values):
                place = {"node": k} if level == "node" else {}
                if prediction.pairs is not None:
                    place = {"source": int(prediction.pairs[0, k]), "target": int(prediction.pairs[1, k])}
                yield {**head, **place, **answer(config, schema, values)}

    return columns, rows()


def answer_columns(config: RunConfig, schema: CustomSchema | None = None) -> list[str]:
    """The columns of one answer, in order."""
    return list(answer(config, schema, np.zeros(config.task.num_outputs, np.float32)))


def answer(config: RunConfig, schema: CustomSchema | None, values: NDArray[np.float32]) -> Row:
    """One answer by column: numbers, or classes with their probabilities.

    Args:
        config: of the model.
        schema: of own data, which knows how the classes are called.
        values: (outputs,) decoded.
    """
    task = config.task
    if isinstance(task, Multiclass):
        classes = task.class_names or tuple(str(k) for k in range(task.num_classes))
        name, best = task.names[0], int(values.argmax())
        row: Row = {name: classes[best], f"{name}_probability": _number(values[best])}
        return row | {f"{name}_{label}_probability": _number(p) for label, p in zip(classes, values, strict=True)}
    if isinstance(task, Binary):
        labels = schema.classes if schema is not None and len(schema.classes) == 2 else ("0", "1")
        row = {}
        for name, p in zip(task.names, values, strict=True):
            row |= {name: labels[int(p >= 0.5)], f"{name}_probability": _number(p)}
        return row
    return {name: _number(value) for name, value in zip(task.names, values, strict=True)}


def _number(value: np.float32) -> float:
    """The shortest decimal that is the same float32."""
    return float(str(value))
