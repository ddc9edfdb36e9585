"""Of a folder of molecules each file gets the results that it gets alone, whoever makes them."""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import egt as package
from egt.config.run import RunConfig
from egt.config.run_data import open_source
from egt.data.source import Source
from egt.errors import ConfigError, DataError, RunError
from egt.inference import folders
from egt.inference.embedding_file import embed_to_file
from egt.inference.folders import Job, Summary, find_parts, prepare_folder, process
from egt.inference.predictor import Predictor
from egt.inference.stream import Written, predict_at_once, record_of
from tests.cli.runs import SMILES, TINY, egt

Capture = pytest.CaptureFixture[str]
ROWS = 12


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folders")
    frame = pd.DataFrame({"smiles": SMILES, "y": [len(smiles) + 0.5 * k for k, smiles in enumerate(SMILES)]})
    frame.to_csv(folder / "data.csv", index=False)
    package.train(folder / "data.csv", "y", set=[*TINY, "trainer.max_epochs=1"], out=folder / "run", progress=False)
    return folder / "run"


@pytest.fixture
def model(run: Path) -> Predictor:
    return package.load(run)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Three files of twelve rows, one of them in a folder of its own, and files that are no parts."""
    folder = tmp_path / "in"
    (folder / "more").mkdir(parents=True)
    frames = [frame(k) for k in range(3)]
    frames[0].to_parquet(folder / "a.parquet", row_group_size=5)
    frames[1].to_parquet(folder / "b.parquet")
    frames[2].to_csv(folder / "more" / "c.csv.gz", index=False)
    (folder / "_SUCCESS").touch()
    (folder / "about.md").write_text("molecules")
    return folder


def frame(number: int) -> pd.DataFrame:
    """Rows with names of their own; the one in the middle is no molecule."""
    smiles = [SMILES[(number + k) % len(SMILES)] for k in range(ROWS)]
    smiles[ROWS // 2] = "not a molecule"
    return pd.DataFrame({"smiles": smiles, "id": [f"{number}-{k}" for k in range(ROWS)], "batch": number})


def written(folder: Path) -> dict[str, bytes]:
    """The results of a folder, without the records."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith("_done/")}


def suffix(name: str) -> str:
    return ".parquet" if name.endswith(".parquet") else ".csv"


def make(model: Predictor, source: Path | str, output: Path | str, **options: Any) -> Summary:
    """Predict a folder, without columns of the input."""
    job = Job(partial(predict_at_once, model), record_of(model, {}))
    found = find_parts([str(source)], str(output), suffix)
    prepare_folder(str(output))
    return process(found, job, **options)


def test_each_file_gets_the_predictions_that_it_gets_alone(
    run: Path, parts: Path, tmp_path: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    done = egt(capsys, "predict", run, parts, "-o", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    counts = {name: done.json[name] for name in ("rows", "errors", "rows_before", "parts", "parts_before")}
    assert counts == {"rows": 36, "errors": 3, "rows_before": 0, "parts": 3, "parts_before": 0}
    assert "about.md" in done.err + caplog.text
    assert sorted(written(tmp_path / "out")) == ["a.parquet", "b.parquet", "more/c.csv"]
    alone = package.load(run).predict(parts / "a.parquet", keep=["*"]).to_pandas()
    found = pd.read_parquet(tmp_path / "out" / "a.parquet")
    assert list(found.columns) == list(alone.columns)
    np.testing.assert_allclose(found["y"], alone["y"], rtol=1e-5)
    assert list(found["id"]) == list(frame(0)["id"])
    assert "not a molecule" in found["error"][ROWS // 2]
    again = egt(capsys, "predict", run, parts, "-o", tmp_path / "out", "--json")
    assert (again.json["rows"], again.json["rows_before"], again.json["parts_before"]) == (0, 36, 3)


def test_shards_share_the_files_and_patterns_name_them(run: Path, parts: Path, tmp_path: Path, capsys: Capture) -> None:
    assert egt(capsys, "predict", run, parts, "-o", tmp_path / "whole").code == 0
    each = []
    for number in (1, 2):
        done = egt(capsys, "predict", run, parts, "-o", tmp_path / "out", "--shard", f"{number}/2", "--json")
        each.append(done.json["rows"])
    assert each == [24, 12]
    assert written(tmp_path / "out") == written(tmp_path / "whole")
    done = egt(capsys, "predict", run, f"{parts}/*.parquet", "-o", tmp_path / "some", "--json")
    assert (done.json["parts"], sorted(written(tmp_path / "some"))) == (2, ["a.parquet", "b.parquet"])
    for wrong in ("0/2", "3/2", "1", "a/b"):
        assert egt(capsys, "predict", run, parts, "-o", tmp_path / "out", "--shard", wrong).code == 2
    done = egt(capsys, "predict", run, parts / "a.parquet", "-o", tmp_path / "a.csv", "--shard", "1/2")
    assert (done.code, "name a folder" in done.err) == (2, True)


def test_a_part_that_was_not_finished_is_made_again(model: Predictor, parts: Path, tmp_path: Path) -> None:
    make(model, parts, tmp_path / "whole")

    def killed(path: Path, output: Path) -> Written:
        output.write_text("half")
        raise KeyboardInterrupt

    prepare_folder(str(tmp_path / "out"))
    found = find_parts([str(parts)], str(tmp_path / "out"), suffix)
    job = Job(partial(predict_at_once, model), record_of(model, {}))
    process(found[:1], job)
    with pytest.raises(KeyboardInterrupt):
        process(found, Job(killed, job.record))
    assert sorted(written(tmp_path / "out")) == ["a.parquet"]
    (tmp_path / "out" / ".b.1.partial.parquet").write_text("of a process that was killed")
    done = process(found, job)
    assert (done.written.before, done.written.rows, done.parts_before) == (12, 24, 1)
    (tmp_path / "out" / "b.parquet").write_bytes(b"changed")
    assert process(found, job).written.rows == 12
    (tmp_path / "out" / "b.parquet").unlink()
    assert process(found, job).written.rows == 12
    assert written(tmp_path / "out") == written(tmp_path / "whole")


def test_results_of_something_else_are_not_mixed(model: Predictor, parts: Path, tmp_path: Path) -> None:
    make(model, parts, tmp_path / "out")
    before = written(tmp_path / "out")
    found = find_parts([str(parts)], str(tmp_path / "out"), suffix)
    with pytest.raises(DataError, match="options"):
        process(found, Job(partial(predict_at_once, model), record_of(model, {"interval": 0.9})))
    frame(1)[::-1].to_parquet(parts / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet"):
        make(model, parts, tmp_path / "out")
    assert written(tmp_path / "out") == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.csv").write_text("mine")
    with pytest.raises(ConfigError, match="files"):
        prepare_folder(str(tmp_path / "other"))
    with pytest.raises(DataError, match="parts"):
        find_parts([str(parts)], str(parts / "out"), suffix)
    (parts / "a.csv").write_text("smiles\nCCO\n")
    with pytest.raises(DataError, match=r"a\.x"):
        find_parts([str(parts)], str(tmp_path / "out"), lambda name: ".x")
    with pytest.raises(DataError, match="input"):
        find_parts([str(parts), str(parts / "a.parquet")], str(tmp_path / "new"), suffix)


def test_a_file_that_cannot_be_read_does_not_keep_the_others(model: Predictor, parts: Path, tmp_path: Path) -> None:
    (parts / "a.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataError, match=r"a\.parquet"):
        make(model, parts, tmp_path / "out")
    assert sorted(written(tmp_path / "out")) == ["b.parquet", "more/c.csv"]
    frame(0).to_parquet(parts / "a.parquet")
    assert make(model, parts, tmp_path / "out").written.rows == 12


def test_blocks_of_a_file_have_the_same_columns(model: Predictor, tmp_path: Path) -> None:
    """The first block has no answer and no value of a column; a number is a number all the same."""
    smiles = ["none"] * 4 + ["CCO"] * 4
    pd.DataFrame({"smiles": smiles, "lot": [None] * 4 + [1.5] * 4}).to_parquet(tmp_path / "x.parquet")
    blocks = [*model.predict_blocks(tmp_path / "x.parquet", rows=4, keep=["*"])]
    assert [len(block) for block in blocks] == [4, 4]
    assert blocks[0].to_arrow().schema == blocks[1].to_arrow().schema
    assert blocks[1].to_arrow()["lot"].to_pylist() == ["1.5"] * 4


def test_row_groups_are_read_one_after_the_other(model: Predictor, tmp_path: Path) -> None:
    frames = pd.concat([frame(k) for k in range(20)])
    frames.to_parquet(tmp_path / "x.parquet", row_group_size=7)
    blocks = [*model.predict_blocks(tmp_path / "x.parquet", rows=100)]
    assert [len(block) for block in blocks] == [100, 100, 40]
    assert [answer.id for block in blocks for answer in block] == list(frames["id"])


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A folder that is not on this machine's disk, as far as fsspec tells."""
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    yield "memory://place"
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def test_folders_may_be_elsewhere(
    run: Path, model: Predictor, parts: Path, tmp_path: Path, elsewhere: str, capsys: Capture
) -> None:
    make(model, parts, tmp_path / "here")
    files, path = folders.file_system(f"{elsewhere}/in")
    files.put(str(parts), path, recursive=True)
    assert make(model, f"{elsewhere}/in", f"{elsewhere}/out").written.rows == 36
    files.get("/place/out", str(tmp_path / "back"), recursive=True)
    assert written(tmp_path / "back") == written(tmp_path / "here")
    assert make(model, f"{elsewhere}/in", f"{elsewhere}/out").parts_before == 3
    files.pipe_file(f"{path}/a.parquet", (parts / "b.parquet").read_bytes())
    with pytest.raises(DataError, match="results"):
        make(model, f"{elsewhere}/in", f"{elsewhere}/out")
    done = egt(capsys, "predict", run, "nowhere://bucket/in", "-o", tmp_path / "out")
    assert (done.code, "nowhere://bucket/in: cannot be reached" in done.err) == (2, True)


def test_embeddings_of_a_folder(run: Path, model: Predictor, parts: Path, tmp_path: Path, capsys: Capture) -> None:
    done = egt(capsys, "embed", run, parts, "-o", tmp_path / "out", "--json")
    assert (done.code, done.json["rows"]) == (0, 36), done.err
    assert sorted(written(tmp_path / "out")) == ["a.parquet", "b.parquet", "more/c.parquet"]
    embed_to_file(model, [parts / "b.parquet"], tmp_path / "b.parquet")
    assert pq.read_table(tmp_path / "out" / "b.parquet").equals(pq.read_table(tmp_path / "b.parquet"))


def test_a_file_without_molecules_gets_one_without_rows(run: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    some = frame(0)[["smiles", "id"]]
    some.to_csv(folder / "a.csv", index=False)
    some[:0].to_csv(folder / "b.csv", index=False)
    some.to_parquet(folder / "c.parquet")
    some[:0].to_parquet(folder / "d.parquet")
    for name in ("e.sdf", "f.smi"):
        (folder / name).touch()
    done = egt(capsys, "predict", run, folder, "-o", tmp_path / "out", "--interval", "0.8", "--json")
    assert (done.code, done.json["rows"], done.json["parts"]) == (0, 2 * ROWS, 6), done.err
    found = {path.stem: path.read_text() for path in (tmp_path / "out").glob("*.csv")}
    assert found["b"] == found["a"].splitlines(keepends=True)[0]
    assert found["e"] == found["f"] == found["b"]  # they have no column that the results do not have
    assert pq.read_schema(tmp_path / "out" / "d.parquet") == pq.read_schema(tmp_path / "out" / "c.parquet")
    done = egt(capsys, "embed", run, folder, "-o", tmp_path / "vectors", "--neighbors", "2", "--json")
    assert (done.code, done.json["rows"]) == (0, 2 * ROWS), done.err
    tables = {path.stem: pq.read_table(path) for path in (tmp_path / "vectors").glob("*.parquet")}
    assert {table.schema for table in tables.values()} == {tables["a"].schema}
    assert {name for name, table in tables.items() if not table.num_rows} == {"b", "d", "e", "f"}
    (folder / "a.csv").write_text("")  # no header: it was cut short
    assert egt(capsys, "predict", run, folder / "a.csv", "-o", tmp_path / "x.csv").code == 2


def test_training_molecules_are_embedded_once_for_all_files(
    run: Path, parts: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def count(config: RunConfig, data: Any = None) -> Source:
        opened.append(config.name)
        return open_source(config, data)

    monkeypatch.setattr("egt.inference.neighbors.open_source", count)
    assert egt(capsys, "embed", run, parts, "-o", tmp_path / "out", "--neighbors", "2").code == 0
    assert len(opened) == 1
    assert egt(capsys, "embed", run, parts / "b.parquet", "-o", tmp_path / "b.parquet", "--neighbors", "2").code == 0
    assert pq.read_table(tmp_path / "out" / "b.parquet").equals(pq.read_table(tmp_path / "b.parquet"))


def test_a_cluster_that_does_not_start_is_one_message(
    run: Path, parts: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**options: Any) -> None:
        raise Exception("The current node timed out")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=fail, is_initialized=lambda: False))
    done = egt(capsys, "predict", run, parts, "-o", tmp_path / "out", "--engine", "ray")
    assert (done.code, done.err.count("--engine ray")) == (1, 1)


needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


@needs_ray
@pytest.mark.slow
def test_ray_makes_the_same_files_though_a_worker_is_killed(run: Path, parts: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "egt", "predict", str(run), str(parts), "-o"]
    subprocess.run([*words, str(tmp_path / "here")], check=True)
    many = [parts / f"more{k}.parquet" for k in range(40)]
    for path in many:
        pd.concat([frame(1)] * 100).to_parquet(path)
    subprocess.run([*words, str(tmp_path / "here")], check=True)
    ray = subprocess.Popen([*words, str(tmp_path / "ray"), "--engine", "ray"])
    killed = 0
    while ray.poll() is None:
        if not killed and len([*(tmp_path / "ray").glob("*.parquet")]) > 3:
            worker = next((pid for pid in descendants(ray.pid) if b"ray::finish" in cmdline(pid)), 0)
            if worker:
                os.kill(worker, signal.SIGKILL)
                killed += 1
        time.sleep(0.01)
    assert (ray.returncode, killed) == (0, 1)
    assert written(tmp_path / "ray") == written(tmp_path / "here")


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    psutil = pytest.importorskip("psutil")
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_ray_that_is_not_there_is_named(model: Predictor, parts: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "ray", None)
        with pytest.raises(ConfigError, match=r"egt-graph\[ray\]"):
            make(model, parts, tmp_path / "out", engine="ray")


def test_a_full_disk_ends_the_work(model: Predictor, parts: Path, tmp_path: Path) -> None:
    def full(path: Path, output: Path) -> Written:
        raise OSError(28, "No space left on device")

    found = find_parts([str(parts)], str(tmp_path / "out"), suffix)
    with pytest.raises(RunError, match="No space left"):
        process(found, Job(full, record_of(model, {})))
    assert not written(tmp_path / "out")


def test_a_model_that_was_sent_says_the_same(run: Path) -> None:
    model = package.load(run, calibrated=False, set=["overrides.id=id"])
    sent = pickle.loads(pickle.dumps(model))
    assert sent.overrides == model.overrides
    pd.testing.assert_frame_equal(sent.predict(frame(0)).to_pandas(), model.predict(frame(0)).to_pandas())


@pytest.mark.slow
def test_dask_maps_partitions(run: Path, parts: Path) -> None:
    dask = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    model = package.load(run)

    def predicted(rows: pd.DataFrame) -> pd.DataFrame:
        return model.predict(rows).to_pandas()

    read = dask.read_parquet(str(parts), dtype_backend="numpy_nullable")
    found = read.map_partitions(predicted, meta=predicted(read.head(2))).compute(scheduler="processes", num_workers=2)
    expected = pd.concat([predicted(frame(k)) for k in (0, 1)])
    assert list(found["id"]) == list(expected["id"])
    np.testing.assert_allclose(found["y"].astype(float), expected["y"].astype(float), rtol=1e-5)


@pytest.mark.slow
def test_spark_maps_frames(run: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # of the workers

    def predicted(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        model = package.load(run)
        for rows in frames:
            yield model.predict(rows).to_pandas()[["id", "y", "error"]]

    builder = sql.SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.ui.enabled", "false").getOrCreate()
    try:
        read = spark.read.parquet(str(parts / "a.parquet"), str(parts / "b.parquet"))
        rows = read.mapInPandas(predicted, "id string, y double, error string").collect()
    finally:
        spark.stop()
    expected = package.load(run).predict(pd.concat([frame(0), frame(1)])).table()
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in expected)
    found = {row["id"]: row["y"] for row in rows}
    for row in expected:
        assert found[row["id"]] == (None if row["y"] is None else pytest.approx(row["y"], rel=1e-5))
