"""A search that the tests of this folder share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import egt
from egt.tuning.study import Tried
from egt.tuning.tune import Tuning
from tests.cli.runs import TINY, molecules

QUICK = (*TINY, "model.num_layers=1")
"""Widths, layers, batch size and epochs are decided; the rate, dropouts and the readout are left to the search."""


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return molecules(tmp_path_factory.mktemp("tuning") / "t.csv", y=range(20))


@pytest.fixture(scope="session")
def told() -> list[Tried]:
    """What the shared search has told."""
    return []


@pytest.fixture(scope="session")
def found(table: Path, told: list[Tried]) -> Tuning:
    """A search of three trials of two epochs."""
    return egt.tune(table, "y", set=QUICK, trials=3, out=table.parent / "search", progress=False, tell=told.append)


@pytest.fixture
def copy(found: Tuning, tmp_path: Path) -> Path:
    """A folder with the same search, to go on with."""
    return Path(shutil.copytree(found.folder, tmp_path / "search"))
