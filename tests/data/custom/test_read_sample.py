"""A first look at custom data: sizes, errors and warnings; a sample where there is much."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.data import custom as module
from egt.data.custom import open_custom, read_sample


def _table(folder: Path, *cells: str) -> Path:
    path = folder / "data.csv"
    path.write_text("smiles,y\n" + "".join(f"{cell},{number}.5\n" for number, cell in enumerate(cells)))
    return path


def test_sizes_and_errors_of_all_rows(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    source = open_custom(_table(tmp_path, "C", "CC", "CCO", "C("))
    *found, bad = read_sample(source, lambda *step: told.append(step))
    assert [reading.graph and reading.graph.num_nodes for reading in found] == [1, 2, 3]
    assert "C(" in bad.error
    assert told[-1] == ("building graphs", 4, 4)


def test_a_sample_is_spread_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLED", 3)
    found = read_sample(open_custom(_table(tmp_path, *("C" * length for length in range(1, 9)))))
    assert [reading.row for reading in found] == [0, 3, 6]
