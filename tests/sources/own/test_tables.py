from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from egt.errors import DataError
from egt.sources.own.tables import read_table

CSV = "name,mass,element\na,1.5,Na\nb,NA,\nc,-2,K\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_texts_and_missing_cells(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", CSV))
    assert table.columns["name"].tolist() == ["a", "b", "c"]
    np.testing.assert_equal(table.columns["mass"], [1.5, np.nan, -2.0])
    assert table.columns["element"].tolist() == ["Na", None, "K"], "Na is sodium, not a missing value"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
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
        (b"a,b\n", "no row below the header"),
        (b"a,a\n1,2\n", r"\['a'\] appear more than once"),
        (b"a,b\n\xff\xfe,2\n", "not UTF-8"),
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
    with pytest.raises(DataError, match="damaged gzip"):
        read_table(path)


def test_parquet_keeps_types_and_leaves_out_what_is_no_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = {
        "n": pa.array([1, None], pa.int32()),
        "flag": pa.array([True, False]),
        "text": pa.array(["x", None]),
        "kind": pa.array(["p", "q"]).dictionary_encode(),
        "image": pa.array([b"1", b"2"]),
    }
    pq.write_table(pa.table(table), path)
    columns = read_table(path).columns
    np.testing.assert_equal(columns["n"], [1.0, np.nan])
    assert columns["flag"].tolist() == [1.0, 0.0]
    assert columns["text"].tolist() == ["x", None]
    assert columns["kind"].tolist() == ["p", "q"]
    assert "image" not in columns


def test_parquet_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a Parquet file"):
        read_table(write(tmp_path / "t.parquet", "hello"))
