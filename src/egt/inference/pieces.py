"""Answers for every node or edge of large graphs, computed piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.config.run import RunConfig
from egt.config.run_data import in_pieces
from egt.data.batching.pieces import Pieces
from egt.data.encodings.encoding import Sample
from egt.data.source import Progress
from egt.inference.forward import forward, rows_per_graph, split_rows
from egt.nn.model import EGT
from egt.parts.tasks.task import Task
from egt.processes import ALONE, Processes

FloatRows = NDArray[np.float32]


def values_in_pieces(
    model: EGT,
    task: Task,
    config: RunConfig,
    samples: Sequence[Sample],
    progress: Progress | None = None,
    processes: Processes = ALONE,
    **how: Any,
) -> list[FloatRows]:
    """Return the decoded answers (rows, outputs) for each whole graph; arguments as in `forward`, which takes pieces.

    The pieces have their roots in the order of the graph, and are the same at every time.
    """
    pieces = in_pieces(config, samples, every=True)
    assert isinstance(pieces, Pieces)
    counts = rows_per_graph(samples, np.arange(len(samples)), task.level)
    values = [np.full((count, task.part.num_outputs), np.nan, np.float32) for count in counts]
    for numbers, _, output in forward(model, config, pieces, progress, processes, **how):
        asked = [pieces.asked(number) for number in numbers.tolist()]
        parts = split_rows(task.decode(output), [each.num_rows for each in asked])
        for each, part in zip(asked, parts, strict=True):
            values[each.graph][each.rows] = part[each.places]
    first, *others = processes.gather(values)
    for other in others:  # each process has other pieces
        for own, theirs in zip(first, other, strict=True):
            np.copyto(own, theirs, where=np.isnan(own))
    return first
