"""Many molecules on all processors: one process for each, which reads, prepares and computes with a single thread.

Threads of one process have to wait for each other some dozen times in every layer; for graphs of this size processes
get through 1.6 times as many of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import torch

from egt.config.preparation import preparation
from egt.data.source import Source
from egt.data.store import Chunk, Prepared, compute_in_workers
from egt.inference.head_start import RECORDS_AT_ONCE, is_many_molecules
from egt.inference.predictions import Prediction
from egt.processors import num_processors

if TYPE_CHECKING:
    from egt.inference.predictor import Predictor


def is_shared(model: Predictor, source: Source, split: str) -> bool:
    """Return whether the predictions for a split are a matter for several processes.

    Only on Linux, whose processes can be forked: they have the model from the start.
    """
    return (
        sys.platform == "linux"
        and model.device.type == "cpu"
        and model.processes.count == 1
        and min(num_processors(), torch.get_num_threads()) > 1
        and is_many_molecules(source, split)
    )


def in_processes(
    model: Predictor,
    source: Source,
    split: str,
    answer: Callable[[Prepared], list[Prediction]],
    ready: Mapping[int, Chunk],
) -> Iterator[list[Prediction]]:
    """Yield what `answer` gives for the records of a split, part by part, in order, computed by several processes.

    ready: parts that are prepared already.
    """
    work = partial(_alone, answer)
    return compute_in_workers(source, split, preparation(model.config), work, at_once=RECORDS_AT_ONCE, ready=ready)


def _alone(answer: Callable[[Prepared], list[Prediction]], part: Prepared) -> list[Prediction]:
    torch.set_num_threads(1)
    return answer(part)
