"""A table that is predicted part by part gives the same file as at once, and goes on where it was stopped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partialmethod
from pathlib import Path

import pytest

from egt.inference import stream
from egt.inference.predictions import Predictions
from egt.inference.predictor import Predictor, load
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


def stopped(run: Path, table: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Predict into out.csv in parts of five rows, and be killed when two of them and a bit of the next are written."""
    append = stream._Growing.append
    count = iter(range(2))

    def killed(self: stream._Growing, part: Predictions) -> None:
        if next(count, None) is None:
            with self.path.open("ab") as file:
                file.write(b"10,CC")
            raise KeyboardInterrupt
        append(self, part)

    with monkeypatch.context() as patched:
        patched.setattr(Predictor, "predict_blocks", partialmethod(Predictor.predict_blocks, rows=5))
        patched.setattr(stream._Growing, "append", killed)
        assert egt(capsys, "predict", run, table, "-o", "out.csv").code != 0


def test_a_stopped_file_goes_on(
    run: Path, table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert egt(capsys, "predict", run, table, "-o", "whole.csv").code == 0
    stopped(run, table, capsys, monkeypatch)
    shutil.move(run, "moved")  # the same model in another place
    done = egt(capsys, "predict", "moved", table, "-o", "out.csv", "--resume", "--json")
    assert (done.json["rows"], done.json["rows_before"]) == (12, 10), done.err
    found, whole = read_csv(tmp_path / "out.csv"), read_csv(tmp_path / "whole.csv")
    assert [(row["id"], row["smiles"], row["error"]) for row in found] == [
        (row["id"], row["smiles"], row["error"]) for row in whole
    ]
    again = egt(capsys, "predict", "moved", table, "-o", "out.csv", "--resume", "--json")
    assert (again.json["rows"], again.json["rows_before"]) == (0, 22)


def test_a_file_that_was_killed_before_its_first_part_begins_again(
    run: Path, table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*given: object, **fields: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stream, "replace", killed)  # the rows are there, their record is not
        assert egt(capsys, "predict", run, table, "-o", "out.csv", "--resume").code != 0
    assert len(read_csv(tmp_path / "out.csv.partial")) == 22
    assert not (tmp_path / "out.csv").exists()
    done = egt(capsys, "predict", run, table, "-o", "out.csv", "--resume", "--json")
    assert (done.json["rows"], done.json["rows_before"]) == (22, 0), done.err
    assert len(read_csv(tmp_path / "out.csv")) == 22


@pytest.mark.parametrize("finished", [False, True])
def test_only_the_same_model_input_and_options_go_on(
    finished: bool, run: Path, table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(run, table, capsys, monkeypatch)
    if finished:
        assert egt(capsys, "predict", run, table, "-o", "out.csv", "--resume").code == 0
    name = "out.csv" if finished else "out.csv.partial"
    before = (tmp_path / name).read_bytes()
    settings = (*TINY, "trainer.max_epochs=1", "model.num_layers=1", "seed=1")
    assert egt(capsys, "train", "data.csv", "--out", "other", "--set", *settings).code == 0
    reversed_table = write_csv(tmp_path / "reversed.csv", read_csv(table)[::-1])
    for words, reason in (
        (("other", table), f"{name}: holds results of another model;"),
        ((run, reversed_table), f"{name}: holds results of another input (or it has changed since);"),
        ((run, table, "--keep", "lot"), f"{name}: holds results of other options (keep);"),
        (("other", reversed_table, "--interval", "0.5"), "of another model and another input"),
    ):
        done = egt(capsys, "predict", *words, "-o", "out.csv", "--resume")
        assert (done.code, reason in done.err) == (2, True), done.err
        assert "predict without --resume to begin again, or choose another file (-o)" in done.err
    assert (tmp_path / name).read_bytes() == before
    (tmp_path / name).write_bytes(before.replace(b"CCO", b"CCN", 1))
    assert "has been changed since" in egt(capsys, "predict", run, table, "-o", "out.csv", "--resume").err


def test_an_older_file_stays_until_all_rows_are_there(
    run: Path, table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.csv").write_text("old")
    stopped(run, table, capsys, monkeypatch)
    assert (tmp_path / "out.csv").read_text() == "old"
    assert (tmp_path / "out.csv.partial").exists()
    assert egt(capsys, "predict", run, table, "-o", "out.csv", "--resume").code == 0
    assert len(read_csv(tmp_path / "out.csv")) == 22
    assert not (tmp_path / "out.csv.partial").exists()


def test_rows_that_an_earlier_version_added_to_the_output_itself_are_gone_on_with(
    run: Path, table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(run, table, capsys, monkeypatch)
    (tmp_path / "out.csv.partial").rename(tmp_path / "out.csv")
    done = egt(capsys, "predict", run, table, "-o", "out.csv", "--resume", "--json")
    assert (done.json["rows"], done.json["rows_before"]) == (12, 10), done.err
    assert len(read_csv(tmp_path / "out.csv")) == 22


def test_a_link_stays_a_link(
    run: Path, table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "out.csv").symlink_to("results/real.csv")
    assert egt(capsys, "predict", run, table, "-o", "out.csv").code == 0
    assert (tmp_path / "out.csv").is_symlink()
    assert len(read_csv(tmp_path / "results" / "real.csv")) == 22
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["real.csv"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_full_disk_leaves_an_older_file_as_it_was(streamed: bool, run: Path, table: Path, tmp_path: Path) -> None:
    old = "id,y\n" + "0,1.5\n" * 3000
    (tmp_path / "keep.csv").write_text(old)
    lines = [
        "import resource",
        "from egt.cli import main",
        "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))",
        f"main.main(['predict', {str(run)!r}, *{[str(table)] if streamed else SMILES!r}, '-o', 'keep.csv'])",
    ]
    words = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("Traceback")) == (1, 0), done.stderr
    assert (tmp_path / "keep.csv").read_text() == old
    assert not [*tmp_path.glob(".*keep*")]


def test_a_finished_file_leaves_nothing_beside_it_unless_it_may_go_on(
    run: Path, table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert egt(capsys, "predict", run, table, "-o", "out.csv").code == 0
    assert [path.name for path in tmp_path.glob("*out.csv*")] == ["out.csv"]
    assert egt(capsys, "predict", run, table, "-o", "again.csv", "--resume").code == 0
    assert sorted(path.name for path in tmp_path.glob("*again.csv*")) == ["again.csv", "again.csv.resume"]


def test_a_foreign_file_is_not_gone_on_with(run: Path, table: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "out.csv").write_text("a,b\n1,2\n")
    done = egt(capsys, "predict", run, table, "-o", "out.csv", "--resume")
    assert done.code == 2
    assert "out.csv: nothing tells which model and input its rows come from" in done.err
    assert (tmp_path / "out.csv").read_text() == "a,b\n1,2\n"
    (tmp_path / "out.csv.resume").write_text("[]")
    assert "out.csv.resume: cannot be read" in egt(capsys, "predict", run, table, "-o", "out.csv", "--resume").err
    assert egt(capsys, "predict", run, "CCO", "--resume").code == 2
