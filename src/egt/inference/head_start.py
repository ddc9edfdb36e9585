"""The first molecules of a file, prepared by another process while this one loads torch: that takes over a second.

Nothing here imports torch. A forked process is small, and safe, as long as its parent has not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from egt.config.load import override
from egt.config.preparation import preparation
from egt.config.run_data import open_new
from egt.config.settings import split_trained
from egt.data.encodings.encoding import Preparation
from egt.data.source import ALL, Source
from egt.data.store import Ahead
from egt.errors import EgtError
from egt.files import exists
from egt.inference.artifact import CARD, find_artifact, load_config
from egt.processors import num_processors

RECORDS_AT_ONCE = 256
"""How many records are a part: enough that a model is not mostly waiting for Python."""

_MOST = 40
"""Parts that are begun: more than can be prepared in the meantime."""

_LONGEST = 1_000
"""Characters of a SMILES. Larger molecules need much memory: one process takes them one by one, with all threads."""


@dataclass(frozen=True)
class HeadStart:
    """An opened file, and the first parts of its records that are being prepared."""

    source: Source
    parts: Ahead


@contextmanager
def head_start(artifact: str, path: str, settings: Sequence[str]) -> Iterator[HeadStart | None]:
    """Open a file for a model and begin to prepare it; None where that is not worth it or not possible.

    Args:
        artifact: the model.
        path: of the file.
        settings: of the command.
    """
    try:
        opened = _opened(artifact, path, settings) if _is_worth_it() else None
    except EgtError:  # whoever loads the model and opens the file meets it again, and tells it in due order
        opened = None
    if opened is None:
        yield None
        return
    source, _ = opened
    with Ahead(*opened, source.records(ALL), RECORDS_AT_ONCE, _MOST) as parts:
        yield HeadStart(source, parts)


def is_many_molecules(source: Source, split: str) -> bool:
    """Return whether a split has so many molecules, none of them huge, that several processes share them."""
    return (
        source.schema is not None
        and len(source.records(split)) > RECORDS_AT_ONCE
        and max(map(len, source.smiles() or ()), default=_LONGEST + 1) <= _LONGEST
    )


def _is_worth_it() -> bool:
    """Return whether there is something to wait for, and a processor that has nothing to do meanwhile."""
    alone = os.environ.get("OMP_NUM_THREADS") != "1" and "WORLD_SIZE" not in os.environ
    possible = sys.platform == "linux" and hasattr(os, "memfd_create")
    return possible and "torch" not in sys.modules and num_processors() > 1 and alone


def _opened(artifact: str, path: str, settings: Sequence[str]) -> tuple[Source, Preparation] | None:
    folder = find_artifact(artifact)
    if not exists(folder / CARD) or not exists(path):
        return None
    computing, overrides = split_trained(settings)
    config = override(load_config(folder), computing)
    source = open_new(config, path, overrides)
    return (source, preparation(config)) if is_many_molecules(source, ALL) else None
