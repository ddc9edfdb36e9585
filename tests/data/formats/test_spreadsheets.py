"""Excel files: read as the same table in a text file is, refused in words, and written so that they can be read."""

from __future__ import annotations

import datetime
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import open_custom, read_raw
from egt.data.formats import spreadsheets
from egt.data.formats.spreadsheets import write_xlsx
from egt.errors import DataError, RunError
from egt.files import Bounds, TooLarge, bounded
from tests.cli.runs import SMILES, egt, write_csv

openpyxl = pytest.importorskip("openpyxl")


def sheet(path: Path, *rows: Any, more: dict[str, Any] | None = None) -> Path:
    """A file with a sheet of rows, after `more` sheets."""
    book = openpyxl.Workbook()
    for name, content in (more or {}).items():
        extra = book.create_sheet(name, 0)
        for row in content:
            extra.append(row)
    for row in rows:
        book.worksheets[-1].append(row)
    book.save(path)
    return path


def test_a_sheet_is_read_as_the_same_text_file(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["SMILES", "Compound ID", "log S", "code"],
        ["CCO", "A-1", -0.77, "007"],
        ["CCN", "A-2", None, "042"],
    ]
    rows += [["CCC", "A-3", "1.5", "100"]]
    (tmp_path / "t.csv").write_text("".join(",".join("" if c is None else str(c) for c in row) + "\n" for row in rows))
    raw, text = read_raw(sheet(tmp_path / "t.xlsx", *rows)), read_raw(tmp_path / "t.csv")
    assert (raw.format, raw.num_rows, [*raw.table]) == (text.format, text.num_rows, [*text.table])
    for name, column in text.table.items():
        np.testing.assert_equal(raw.table[name], column)
    assert open_custom(tmp_path / "t.xlsx", target="log S").schema.id == "Compound ID"


def test_blank_rows_and_columns_are_left_out_and_long_rows_are_bad(tmp_path: Path) -> None:
    rows = [[], ["smiles", "y", None], ["CCO", 1], [], ["CCC", 2, 3], ["CCN", 4, None, None]]
    raw = read_raw(sheet(tmp_path / "t.xlsx", *rows))
    assert [*raw.table] == ["smiles", "y"]
    assert raw.table["smiles"].tolist() == ["CCO", None, "CCN"]
    assert list(raw.problems) == [1]
    assert "row 5" in raw.problems[1]


def test_dates_and_truth_are_texts_and_numbers(tmp_path: Path) -> None:
    day = datetime.datetime(2026, 3, 1)
    table = read_raw(sheet(tmp_path / "t.xlsx", ["smiles", "day", "ok"], ["C", day, True], ["CC", day, False])).table
    assert table["day"].tolist() == ["2026-03-01T00:00:00"] * 2
    assert table["ok"].tolist() == [1, 0]


def test_the_first_sheet_with_cells_is_read_and_the_others_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = sheet(tmp_path / "t.xlsx", ["other"], [1], more={"data": [["smiles", "y"], ["CCO", 1]], "empty": []})
    assert read_raw(path).table["smiles"].tolist() == ["CCO"]
    assert "'data'" in caplog.text


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 nothing", b"smiles,y\nCCO,1\n"])
def test_what_is_no_excel_file_says_how_to_save_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(DataError, match="CSV"):
        read_raw(tmp_path / "t.xlsx")


def test_a_file_of_the_old_format_says_how_to_save_it(tmp_path: Path) -> None:
    (tmp_path / "t.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(DataError, match="xlsx"):
        read_raw(tmp_path / "t.xls")


def test_without_the_package_the_error_names_it_and_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sheet(tmp_path / "t.xlsx", ["smiles"], ["CCO"])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"CSV.*egt-graph\[excel\]"):
        read_raw(path)


@pytest.mark.parametrize("bounds", [Bounds(cells=5), Bounds(bytes=100), Bounds(rows=1)])
def test_what_would_fill_the_memory_is_refused(tmp_path: Path, bounds: Bounds) -> None:
    path = sheet(tmp_path / "t.xlsx", ["smiles", "y"], ["CCO", 1], ["CCC", 2])
    with bounded(bounds), pytest.raises(TooLarge):
        read_raw(path)


def test_a_sheet_that_claims_to_be_huge_is_read_as_it_is(tmp_path: Path) -> None:
    path, forged = sheet(tmp_path / "t.xlsx", ["smiles", "y"], ["CCO", 1]), tmp_path / "forged.xlsx"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(forged, "w") as new:
        for part in old.namelist():
            new.writestr(part, old.read(part).replace(b'ref="A1:B2"', b'ref="A1:XFD1048576"'))
    assert read_raw(forged).num_rows == 1


def test_texts_are_written_as_texts(tmp_path: Path) -> None:
    path = tmp_path / "out.xlsx"
    write_xlsx([["id", "y", "error"], ["=1+1", np.float32(0.5), None], ["a\x07b", 2, ""]], path, "out.xlsx")
    found = [*openpyxl.load_workbook(path).active.iter_rows(values_only=True)]
    assert found == [("id", "y", "error"), ("=1+1", 0.5, None), ("ab", 2, None)]
    assert openpyxl.load_workbook(path).active["A2"].data_type == "s"


def test_more_rows_than_a_sheet_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreadsheets, "_MOST_ROWS", 2)
    with pytest.raises(RunError, match=r"\.csv"):
        write_xlsx([["id"], ["1"], ["2"]], tmp_path / "out.xlsx", "out.xlsx")


def test_excel_in_and_out_of_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["Molecule Name", "smiles", "y"], *([f"m{k}", text, k / 7] for k, text in enumerate(SMILES))]
    data, out = sheet(tmp_path / "t.xlsx", *rows), tmp_path / "out.xlsx"
    settings = ["trainer.max_epochs=1", "model.num_layers=1", "trainer.baseline=false"]
    assert egt(capsys, "train", data, "--target", "y", "--out", tmp_path / "run", "--set", *settings).code == 0
    new = write_csv(tmp_path / "new.csv", [{"smiles": "CCO", "batch": "b1"}, {"smiles": "nonsense", "batch": "b2"}])
    assert egt(capsys, "predict", tmp_path / "run", new, "-o", out).code == 0
    header, first, second = openpyxl.load_workbook(out).active.iter_rows(values_only=True)
    assert list(header) == ["Molecule Name", "smiles", "batch", "y", "familiarity", "warning", "error"]
    assert isinstance(first[3], float)
    assert (second[2], second[3]) == ("b2", None)
