"""What a small file claims to hold is not built: it ends in a message that names the bound."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from egt.data.custom import read_raw
from egt.data.formats.tables import Tables
from egt.errors import ConfigError, DataError
from egt.files import Bounds, TooLarge, bounded

SMALL = Bounds(bytes=200_000, line=50_000, rows=1_000, columns=100, cells=10_000)
ROW, GRAPH = b"CC,1\n", b'{"num_nodes": 1, "edges": []}\n'


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("t.csv.gz", b"smiles,y\n" + ROW * 1_001, "rows"),
        ("t.csv", b"smiles,y\n" + ROW * 1_001, "rows"),
        ("t.csv.gz", b"smiles\n" + (b"C" * 40_000 + b"\n") * 10, "bytes when"),
        ("t.csv.gz", b"smiles\n" + b"C" * 60_000, "bytes in one line"),
        ("t.csv.gz", b"smiles,y\n" + b"," * 60_000, "bytes in one line"),
        ("t.csv.gz", b"smiles" + b",a" * 100, "columns"),
        ("t.csv", ("smiles" + ",%d" * 50 % (*range(50),) + "\n").encode() + (b"C" + b",1" * 50 + b"\n") * 300, "cells"),
        ("t.jsonl.gz", GRAPH * 1_001, "rows"),
        ("t.jsonl.gz", b'{"num_nodes": 1, "edges": [' + b"[]," * 20_000, "bytes in one line"),
        ("t.smi.gz", b"CC\n" * 1_002, "rows"),
        ("t.smi.gz", b"C" * 60_000, "bytes in one line"),
        ("t.sdf.gz", b"x\n" * 200_000, "bytes when"),
    ],
)
def test_text_is_bounded_while_it_is_read(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    with bounded(SMALL), pytest.raises(TooLarge, match=what):
        read_raw(packed(tmp_path / name, content))


def test_as_much_as_is_allowed_is_read(tmp_path: Path) -> None:
    with bounded(SMALL):
        assert read_raw(packed(tmp_path / "t.csv.gz", b"smiles,y\n" + ROW * 1_000)).num_rows == 1_000
        assert read_raw(packed(tmp_path / "t.jsonl.gz", GRAPH * 1_000)).num_rows == 1_000
        assert read_raw(packed(tmp_path / "t.smi.gz", b"smiles\n" + b"CC\n" * 1_000)).num_rows == 1_000


def test_a_screen_of_any_size_is_read_part_by_part(tmp_path: Path) -> None:
    path = packed(tmp_path / "t.csv.gz", b"smiles,y\n" + ROW * 100_000)
    with bounded(SMALL):
        rows = [block.num_rows for block in Tables.blocks(path, 500)]
    assert sum(rows) == 100_000


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def repeated(text: str, times: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(times, np.int32)), pa.array([text]))


def test_parquet_is_bounded_by_what_it_says_and_by_its_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 20_000], pa.int32()), pa.array(np.zeros(20_000)))
    words = pa.ListArray.from_arrays(pa.array([0, 1, 900], pa.int32()), repeated("C" * 1_000, 900))
    for columns, what in (
        ({"smiles": repeated("C", 1_001)}, "rows"),
        ({"smiles": repeated("C" * 1_000, 900)}, "bytes when"),
        ({"smiles": ["C", "CC"], "y": lists}, "cells"),
        ({"smiles": ["C", "CC"], "y": words}, "bytes when"),
        ({f"c{k}": [1.0] for k in range(101)}, "columns"),
    ):
        with bounded(SMALL), pytest.raises(TooLarge, match=what):
            read_raw(parquet(path, **columns))
    with bounded(SMALL):
        assert read_raw(parquet(path, smiles=repeated("C" * 100, 900))).num_rows == 900


def test_parquet_with_texts_that_are_none_is_refused(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    path = parquet(tmp_path / "t.parquet", smiles=broken, yyyy=[1.0])
    with pytest.raises(DataError, match="utf-8"):
        read_raw(path)
    path.write_bytes(parquet(path, smiles=["C"], yyyy=[1.0]).read_bytes().replace(b"yyyy", b"y\xff\xfey"))
    with pytest.raises(DataError, match="utf-8"):
        read_raw(path)


def test_tensors_that_claim_more_than_their_file_holds_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    edges, path = torch.zeros(2, 1, dtype=torch.long), tmp_path / "t.pt"
    sparse = torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), (10**5, 10**5))
    for x, message in (
        (torch.zeros(1).expand(400_000_000), "more than .* elements"),
        (sparse, "more than .* elements"),
        (torch.zeros(1, 1).expand(3, 1), "shows the same numbers again"),
    ):
        torch.save([{"x": x, "edge_index": edges, "y": torch.zeros(1)}], path)
        with pytest.raises(DataError, match=message):
            read_raw(path)
    shared: list[Any] = [torch.zeros(3)]
    for _ in range(60):
        shared = [shared, shared]
    torch.save(shared, path)
    with pytest.raises(DataError):  # no graph, and no walk through 2^60 lists
        read_raw(path)


def test_arrays_that_claim_more_than_their_file_holds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_text("file,y\na.npy,1\nb.npz,2\n")
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)})
    np.savez_compressed(tmp_path / "b.npz", m=np.zeros((200, 200)))
    with bounded(SMALL):
        raw = read_raw(tmp_path)
    assert "greater than file size" in raw.problems[0]
    assert "holds more than" in raw.problems[1]


def test_the_environment_allows_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path / "t.csv", b"smiles,y\n" + ROW * 20)
    monkeypatch.setenv("EGT_MAX_ROWS", "1e1")
    with pytest.raises(TooLarge, match="EGT_MAX_ROWS"):
        read_raw(path)
    monkeypatch.setenv("EGT_MAX_ROWS", "1_000")
    assert read_raw(path).num_rows == 20
    monkeypatch.setenv("EGT_MAX_ROWS", "many")
    with pytest.raises(ConfigError, match="EGT_MAX_ROWS is 'many'"):
        read_raw(path)


def test_many_columns_are_read_in_seconds(tmp_path: Path) -> None:
    names = [f"c{k}" for k in range(30_000)]
    rows = [["CCO", *(str((row * k) % 7) if k % 3 else "x" for k in range(1, 30_000))] for row in range(12)]
    path = packed(tmp_path / "t.csv", "\n".join(map(",".join, [["smiles", *names[1:]], *rows])).encode())
    began = time.process_time()
    raw = read_raw(path)
    assert time.process_time() - began < 4
    assert raw.table["c8"].tolist() == [row * 8 % 7 for row in range(12)]
    assert raw.table["c9"].tolist() == ["x"] * 12


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the peak differs")
def test_small_files_take_little_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "rows.csv.gz", "wb", 6) as file:
        file.write(b"smiles\n")
        for _ in range(80):
            file.write(b"C\n" * 1_000_000)
    with gzip.open(tmp_path / "long.csv.gz", "wb", 6) as file:
        for _ in range(700):
            file.write(b"C" * 1_000_000)
    for name in ("rows.csv.gz", "long.csv.gz"):
        assert (tmp_path / name).stat().st_size < 1_000_000
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        done = subprocess.run([sys.executable, "-m", "egt", "data", "info", name], cwd=tmp_path, capture_output=True)
        assert done.returncode == 2
        assert b"EGT_MAX_" in done.stderr
        assert max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) < 3_000_000
