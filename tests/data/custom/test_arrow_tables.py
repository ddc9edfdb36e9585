"""What Arrow reads becomes columns, and it is loaded only where it is needed."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from egt.data.arrow import numbers, plain_numbers
from egt.data.custom import read_raw
from egt.data.formats.tables import read_table
from egt.errors import DataError


def test_parquet_keeps_types_and_leaves_out_what_is_no_column(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.parquet"
    table = {
        "n": pa.array([1, None], pa.int32()),
        "flag": pa.array([True, False]),
        "text": pa.array(["x", None]),
        "kind": pa.array(["p", "q"]).dictionary_encode(),
        "image": pa.array([b"1", b"2"]),
        "tags": pa.array([["a"], ["b"]]),
    }
    pq.write_table(pa.table(table), path)
    columns = read_table(path).columns
    np.testing.assert_equal(columns["n"], [1.0, np.nan])
    assert columns["flag"].tolist() == [1.0, 0.0]
    assert columns["text"].tolist() == ["x", None]
    assert columns["kind"].tolist() == ["p", "q"]
    assert columns["tags"].tolist() == ['["a"]', '["b"]']
    assert columns.keys() == {"n", "flag", "text", "kind", "tags"}
    assert any("column 'image'" in line and "left out" in line for line in caplog.messages)


def test_parquet_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("hello")
    with pytest.raises(DataError, match="Parquet"):
        read_table(tmp_path / "t.parquet")


def test_parquet_has_vectors_dates_and_long_numbers(tmp_path: Path) -> None:
    path = tmp_path / "T.PARQUET"
    table = {
        "x": pa.array([[1.0, None], [3.0, 4.0]]),
        "fixed": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
        "day": pa.array([date(2024, 1, 31), None]),
        "code": pa.array([2**53 + 1, 2**53 + 2]),
    }
    pq.write_table(pa.table(table), path)
    columns = read_table(path).columns
    np.testing.assert_equal(columns["x"], [[1, np.nan], [3, 4]])
    np.testing.assert_equal(columns["fixed"], [[1, 2], [3, 4]])
    assert columns["day"].tolist() == ["2024-01-31", None]
    assert columns["code"].tolist() == ["9007199254740993", "9007199254740994"]


def test_a_view_of_texts_holds_texts() -> None:
    frame = pa.table({"smiles": ["CC", "CO"], "name": pa.array(["x", None], pa.string_view())})
    assert read_raw(frame).table["name"].tolist() == ["x", None]


def test_a_frame_with_a_name_twice() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["CC", 1.0, 2.0]], columns=["smiles", "y", "y"])
    with pytest.raises(DataError, match="'y'"):
        read_raw(frame)


def test_durations_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    columns = {"smiles": ["CC"], "took": pa.array([5], pa.duration("s"))}
    columns["span"] = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    pq.write_table(pa.table({name: columns[name] for name in ("smiles", "took")}), tmp_path / "t.parquet")
    assert "smiles" in read_table(tmp_path / "t.parquet").columns
    assert next(iter(read_raw(pa.table(columns)).table)) == "smiles"
    assert "which cannot be used; the column is left out" in caplog.text


def test_plain_numbers_are_told_from_cells_that_need_a_closer_look() -> None:
    np.testing.assert_equal(plain_numbers([" 1.5", "-", "-2e3"], {"-"}), [1.5, np.nan, -2000.0])
    for code in ("007", "-01", "12345678901234567"):
        assert plain_numbers(["1", code], {""}) is None
    assert plain_numbers(["1", "one"], {""}) is None


def test_numbers_are_all_of_the_texts_or_none() -> None:
    np.testing.assert_equal(numbers(["1", None, "2.5"]), [1, np.nan, 2.5])
    assert numbers(["1", None, "2,5"]) is None


CODE = """
import sys
from pathlib import Path
from egt.data.custom import read_raw
read_raw(Path(sys.argv[1]))
print("pyarrow" in sys.modules)
"""


@pytest.mark.parametrize(("text", "loaded"), [("smiles,name\nCC,a\n", False), ("smiles,y\nCC,1.5\n", True)])
def test_a_file_without_numbers_is_read_without_arrow(tmp_path: Path, text: str, loaded: bool) -> None:
    (tmp_path / "t.csv").write_text(text)
    found = subprocess.run([sys.executable, "-c", CODE, tmp_path / "t.csv"], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(loaded)]
