from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np
import pytest

from egt.data.columns import check_header
from egt.data.custom import read_raw
from egt.data.formats.tables import column_of_texts, columns_of_texts, read_table
from egt.errors import DataError

CSV = "name,mass,element\na,1.5,Na\nb,NA,\nc,-2,K\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_texts_and_missing_cells(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", CSV))
    assert table.columns["name"].tolist() == ["a", "b", "c"]
    np.testing.assert_equal(table.columns["mass"], [1.5, np.nan, -2.0])
    assert table.columns["element"].tolist() == ["Na", None, "K"], "Na is sodium, not a missing value"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_taken_from_the_header(tmp_path: Path, delimiter: str) -> None:
    table = read_table(write(tmp_path / "t.csv", CSV.replace(",", delimiter)))
    assert list(table.columns) == ["name", "mass", "element"]


def test_gzip_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + CSV.encode()))
    assert read_table(path).columns["name"].tolist() == ["a", "b", "c"]


def test_a_line_of_the_wrong_length_is_a_problem_in_its_place(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", 'name,mass\n"a\nb",1\nc\nd,2\n'))
    assert table.num_rows == 3
    assert table.problems == {1: "t.csv line 4: 1 fields, the header has 2"}
    np.testing.assert_equal(table.columns["mass"], [1, np.nan, 2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"a,a\n1,2\n", "'a'"),
        (b"a,b\n\x81\x8d,2\n", "not UTF-8"),
        (b'a,b\n"1,2\n', "quote"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode() * 50)[:-12])
    with pytest.raises(DataError, match="damaged"):
        read_table(path)


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    assert read_table(write(tmp_path / "t.csv", "source,target\n")).num_rows == 0
    table = read_table(write(tmp_path / "t.csv", "source,target\n"))
    assert {name: len(column) for name, column in table.columns.items()} == {"source": 0, "target": 0}
    with pytest.raises(DataError):
        read_raw(tmp_path / "t.csv")


def test_empty_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "a,,,\n1,,,\n2,,,\n"))
    assert list(table.columns) == ["a"]
    assert not table.problems
    with pytest.raises(DataError):
        read_table(write(tmp_path / "t.csv", "a,,\n1,2,3\n"))


def test_a_header_of_many_columns_is_checked_in_linear_time() -> None:
    header = [f"d{k}" for k in range(100_000)]
    started = time.perf_counter()
    check_header(header, "wide.csv")
    with pytest.raises(DataError, match=r"wide.csv.*'d7'"):
        check_header([*header, "d7"], "wide.csv")
    assert time.perf_counter() - started < 5, "comparing each name with each takes minutes"


def test_semicolons_leave_the_comma_to_numbers(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "smiles;y\nCC;1,5\nCO;-2\n"))
    assert table.columns["y"].tolist() == [1.5, -2.0]


def test_endings_in_capitals(tmp_path: Path) -> None:
    path = tmp_path / "T.CSV.GZ"
    path.write_bytes(gzip.compress(CSV.encode()))
    assert read_table(path).num_rows == 3


def test_a_first_line_that_names_the_delimiter(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "sep=;\na;b\n1;2\n3\n"))
    assert list(table.columns) == ["a", "b"]
    assert table.problems == {1: "t.csv line 4: 1 fields, the header has 2"}
    assert list(read_table(write(tmp_path / "t.csv", "sep=")).columns) == ["sep="]


def test_numbers_with_missing_cells() -> None:
    np.testing.assert_equal(column_of_texts([" 1.5", "NA", "-2e3", ""]), [1.5, np.nan, -2000.0, np.nan])
    np.testing.assert_equal(column_of_texts(["0", "0.50", "-0", "10"]), [0, 0.5, 0, 10])


@pytest.mark.parametrize("cells", [["True", "False", ""], ["TRUE", "false", "NA"], ["true", "FALSE", "None"]])
def test_true_and_false_are_one_and_zero_however_they_are_written(cells: list[str]) -> None:
    np.testing.assert_equal(column_of_texts(cells), [1, 0, np.nan])


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "042"],  # leading zeros
        ["9007199254740993", "9007199254740992"],  # two names, one float64
        ["1" + "0" * 400, "2"],
        ["true", "1"],
        ["1,500", "2,500"],  # decimals or thousands
    ],
)
def test_what_a_number_would_spoil_stays_a_text(cells: list[str]) -> None:
    assert column_of_texts(cells).tolist() == cells


def test_large_round_numbers_are_numbers() -> None:
    assert column_of_texts(["10000000000000000000", "1"]).tolist() == [1e19, 1.0]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [(["1,5", "-2,25", "", "3"], [1.5, -2.25, np.nan, 3]), (["0,125", "12,375"], [0.125, 12.375])],
)
def test_a_decimal_comma_that_is_no_thousand(cells: list[str], numbers: list[float]) -> None:
    np.testing.assert_equal(column_of_texts(cells), numbers)


def test_decimal_commas_of_a_file_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.csv"
    path.write_text('smiles,clear,unclear,name\nCCO,"1,5","1,234","a, b"\nCCC,"2,25","2,345",c\n')
    columns = read_table(path).columns
    assert columns["clear"].tolist() == [1.5, 2.25]
    assert columns["unclear"].tolist() == ["1,234", "2,345"]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "'clear'" in told[0]
    assert "1234 or 1.234" in told[1]


def test_a_decimal_comma_where_the_comma_is_free() -> None:
    plain, mixed = columns_of_texts([["1,5", "-2", "", "3,25e2"], ["1,5", "1.5", "", ""]], decimal_comma=True)
    np.testing.assert_equal(plain, [1.5, -2, np.nan, 325])
    assert mixed.tolist() == ["1,5", "1.5", None, None], "two spellings: no guess"


@pytest.mark.parametrize("cells", [[">5,5", "0,25", "", "3"], ["0,25", "≤ 1,5", "", "3"]])
def test_bounds_have_decimal_commas_too(cells: list[str]) -> None:
    assert column_of_texts(cells).tolist() == [cell.replace(",", ".") or None for cell in cells]
    names = [">5,5", "0,25", "a,b"]
    assert column_of_texts(names).tolist() == names
    assert columns_of_texts([[">1,500", "2"]], decimal_comma=True)[0].tolist() == [">1.500", "2"]
    assert column_of_texts([">1,500", "2"]).tolist() == [">1,500", "2"], "decimals or thousands"


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "utf-8-sig"])
def test_encodings_of_spreadsheets(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes("smiles;größe\r\nCCO;1,5\r\nCC;2,5\r\n".encode(encoding))
    columns = read_table(tmp_path / "a.csv").columns
    assert list(columns) == ["smiles", "größe"]
    assert columns["größe"].tolist() == [1.5, 2.5]


def test_molecules_of_rdkit_and_rows_without_one() -> None:
    chem = pytest.importorskip("rdkit.Chem")
    raw = read_raw([chem.MolFromSmiles("OCC"), None, "CCN"])
    assert raw.table["smiles"].tolist() == ["CCO", None, "CCN"]
    assert not raw.problems


def test_a_molecule_that_rdkit_cannot_write_keeps_its_place_with_the_reason() -> None:
    chem = pytest.importorskip("rdkit.Chem")
    raw = read_raw([chem.MolFromSmiles("OCC"), chem.MolFromSmiles("C[#200]", sanitize=False), "CCN"])
    assert raw.table["smiles"].tolist() == ["CCO", None, "CCN"]
    assert [*raw.problems] == [1]


def test_a_series_with_missing_molecules() -> None:
    pandas = pytest.importorskip("pandas")
    for missing in (float("nan"), pandas.NA, None):
        series = pandas.Series(["CC", missing], dtype=object)
        assert read_raw(series).table["smiles"].tolist() == ["CC", None]
