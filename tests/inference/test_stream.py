"""A table that is predicted part by part gives the same file as at once, and goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.cli import predict as command
from egt.inference.loading import load
from egt.inference.stream import complete_rows
from tests.cli.runs import SMILES, TINY, egt, molecules, read_csv, write_csv

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    data = molecules(tmp_path / "data.csv", y=range(20))
    done = egt(capsys, "train", data, "--out", "run", "--set", *TINY, "trainer.max_epochs=1", "model.num_layers=1")
    assert done.code == 0, done.err
    return tmp_path / "run"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table without ids whose fifth row is no molecule."""
    texts = [*SMILES[:4], "not a molecule", *SMILES[4:], ""]
    return write_csv(tmp_path / "new.csv", [{"structure": text, "lot": k} for k, text in enumerate(texts)])


def test_parts_are_the_same_as_the_whole(run: Path, table: Path, tmp_path: Path) -> None:
    model = load(run)
    model.predict(table, keep=["lot"]).to_csv(tmp_path / "whole.csv")
    parts = [*model.predict_blocks(table, rows=5, keep=["lot"])]
    assert [len(part) for part in parts] == [5, 5, 5, 5, 2]
    with (tmp_path / "parts.csv").open("w", newline="") as file:
        for number, part in enumerate(parts):
            part.to_csv(file, header=number == 0)
    whole, joined = read_csv(tmp_path / "whole.csv"), read_csv(tmp_path / "parts.csv")
    assert list(whole[0]) == list(joined[0])
    for one, other in zip(whole, joined, strict=True):
        values = [float(row.pop("y") or "nan") for row in (one, other)]
        assert values[0] == pytest.approx(values[1], nan_ok=True)
        assert one == other


def test_a_stopped_file_goes_on(
    run: Path, table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_LARGE", 1)
    assert egt(capsys, "predict", run, table, "-o", "out.csv").code == 0
    whole = (tmp_path / "out.csv").read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 1 + 22
    (tmp_path / "out.csv").write_bytes(b"".join(lines[:8]) + lines[8][:5])  # killed within a row
    done = egt(capsys, "predict", run, table, "-o", "out.csv", "--resume", "--json")
    assert (done.json["rows"], done.json["rows_before"]) == (15, 7)
    assert [row["id"] for row in read_csv(tmp_path / "out.csv")] == [str(k) for k in range(22)]
    assert (tmp_path / "out.csv").read_bytes().splitlines()[:8] == whole.splitlines()[:8]
    again = egt(capsys, "predict", run, table, "-o", "out.csv", "--resume", "--json")
    assert (again.json["rows"], again.json["rows_before"]) == (0, 22)


def test_a_foreign_file_is_not_gone_on_with(run: Path, table: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "out.csv").write_text("a,b\n1,2\n")
    done = egt(capsys, "predict", run, table, "-o", "out.csv", "--resume")
    assert done.code == 2
    assert "out.csv: has the columns a, b, not id, smiles, y, warning, error" in done.err
    assert (tmp_path / "out.csv").read_text() == "a,b\n1,2\n"
    assert egt(capsys, "predict", run, "CCO", "--resume").code == 2


def test_rows_with_line_breaks_are_counted_once(tmp_path: Path) -> None:
    content = b'id,y\r\n"a\nb",1\r\nc,2\r\n"d'
    (tmp_path / "a.csv").write_bytes(content)
    assert complete_rows(tmp_path / "a.csv") == (len(content) - 2, 2, ["id", "y"])
