"""Predictions as rows of a table: names of targets and classes, probabilities, warnings and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from egt.config.run import RunConfig
from egt.inference.predictor import Prediction

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
    columns = [identity, *molecule, *places, *answer_columns(config), "warning", "error"]

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
                yield {**head, **place, **config.task.columns(values)}

    return columns, rows()


def answer_columns(config: RunConfig) -> list[str]:
    """The columns of one answer, in order."""
    return list(config.task.columns(np.zeros(config.task.num_outputs, np.float32)))
