"""Many molecules on all processors: one process for each, which reads, prepares and computes with a single thread.

Threads of one process have to wait for each other some dozen times in every layer; for graphs of this size processes
get through 1.6 times as many of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch

from egt.config.preparation import preparation
from egt.encodings.store import Prepared, compute_in_workers
from egt.inference.forward import GRAPHS_AT_ONCE
from egt.inference.predictions import Prediction
from egt.processors import num_processors
from egt.sources.custom.custom_source import CustomSource
from egt.sources.source import Source

if TYPE_CHECKING:
    from egt.inference.predictor import Predictor

_LONGEST = 1_000
"""Characters of a SMILES. Larger molecules need much memory: one process takes them one by one, with all threads."""


def is_shared(model: Predictor, source: Source, split: str) -> bool:
    """Return whether the predictions for a split are a matter for several processes.

    Only on Linux, whose processes can be forked: they have the model from the start.
    """
    return (
        sys.platform == "linux"
        and model.device.type == "cpu"
        and model.processes.count == 1
        and min(num_processors(), torch.get_num_threads()) > 1
        and len(source.records(split)) > GRAPHS_AT_ONCE
        and isinstance(source, CustomSource)
        and max(map(len, source.smiles() or ()), default=_LONGEST + 1) <= _LONGEST
    )


def in_processes(
    model: Predictor, source: Source, split: str, answer: Callable[[Prepared], list[Prediction]]
) -> Iterator[list[Prediction]]:
    """Yield what `answer` gives for the records of a split, part by part, in order, computed by several processes."""
    work = partial(_alone, answer)
    return compute_in_workers(source, split, preparation(model.config), work, at_once=GRAPHS_AT_ONCE)


def _alone(answer: Callable[[Prepared], list[Prediction]], part: Prepared) -> list[Prediction]:
    torch.set_num_threads(1)
    return answer(part)
