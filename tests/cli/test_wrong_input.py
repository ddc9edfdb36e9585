"""Wrong input and usage: one readable line, exit code 2, no traceback."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from tests.caches import fresh_cache
from tests.cli.runs import SMILES, egt, molecules


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path / "none"))
    molecules(tmp_path / "one.csv", c=[7] * len(SMILES))
    (tmp_path / "deep.yaml").write_text("[" * 20_000)
    (tmp_path / "circle.yaml").write_text("data: &a [*a]")
    (tmp_path / "bomb.yaml").write_text(
        "\n".join([f"a{k + 1}: &a{k + 1} [{', '.join([f'*a{k}'] * 10) if k else '1, 2'}]" for k in range(9)])
    )
    molecules(tmp_path / "error.csv", error=[1.1 * len(s) for s in SMILES])
    (tmp_path / "run.d").mkdir()
    (tmp_path / "run.d/config.yaml").write_text("name: x\n")
    molecules(tmp_path / "two.csv", a=[1.1 * len(s) for s in SMILES], b=[2.5 * len(s) for s in SMILES])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train"], "requires an argument"),
        (["train", "missing.csv"], "missing.csv: there is no such file"),
        (["train", "zink-100k"], "did you mean zinc-100k"),
        (["train", "zinc-100k"], "EGT_DATA_DIR"),
        (["train", "zinc-100k", "--target", "y"], "--target and --task are for custom data"),
        (["train", "two.csv"], "--target"),
        (["train", "two.csv", "--target", "c"], "c"),
        (["train", "two.csv", "--target", "a", "--set", "optimizer.rate=1"], "there is no setting 'optimizer.rate'"),
        (["train", "two.csv", "--target", "a", "--set", "overrides.kindd=1"], "kindd"),
        (["train", "two.csv", "--target", "a", "--from", "nothing"], "nothing: no such artifact"),
        (["train", "two.csv", "--target", "a", "--keep-head"], "name it with --from"),
        (["train", "two.csv", "--target", "a", "--freeze-below", "1"], "name it with --from"),
        (["train", "two.csv", "--target", "a", "--tune", "edges"], "name it with --from"),
        (["train", "absent.yaml"], "no such file"),
        (["train", "zinc-100k", "--set", "name=2024-99-99"], "month must be in 1..12"),
        (["train", "zinc-100k", "--set", "seed=0x_"], "not valid YAML"),
        (["train", "zinc-100k", "--set", f"seed={'9' * 5000}"], "not valid YAML"),
        (["train", "zinc-100k", "--set", "seed=99999999999999999999999"], "at most 63 are allowed"),
        (["train", "zinc-100k", "--set", "data.batch_size=99999999999999999999999"], "at most 63 are allowed"),
        (["train", "zinc-100k", "--set", "task.names.²=x"], "must name one of the entries 0..0"),
        (["train", "two.csv", "--target", "a", "--set", "split.seed=["], "--set split.seed=[: not valid YAML"),
        (
            ["train", "two.csv", "--target", "a", "--set", "split.seed=-1"],
            "split has the settings kind or column, seed",
        ),
        (
            ["train", "two.csv", "--target", "a", "--set", "split.seed=abc"],
            "split has the settings kind or column, seed",
        ),
        (
            ["train", "two.csv", "--target", "a", "--set", "split.kind.x=1"],
            "split has the settings kind or column, seed",
        ),
        (
            ["train", "two.csv", "--target", "a", "--set", "overrides.id=x", "overrides.id.q=y"],
            "id is a single value, not a section",
        ),
        (["train", "two.csv", "--target", "a", "--set", "overrides.node_features=x"], "overrides.node_features"),
        (["train", "two.csv", "--target", "a", "--set", "overrides.directed=[]"], "overrides.directed is []"),
        (["train", "one.csv", "--target", "c", "--set", "overrides.kind=multiclass"], "classes are two or more"),
        (["train", "deep.yaml"], "deep.yaml: not valid YAML: nested too deeply"),
        (["train", "bomb.yaml"], "bomb.yaml: holds more than 1,000,000 values"),
        (["train", "circle.yaml"], "an alias stands inside of what it names"),
        (["train", "C" * 300], "there is no preset"),
        (["train", "two.csv", "--target", "a", "--out", "C" * 300], "cannot be written (File name too long)"),
        (["evaluate", "C" * 300], "no such artifact"),
        (["report", "C" * 300], "there is no such file or folder"),
        (["import-official", "C" * 300, "-o", "x"], "no checkpoint there"),
        (["train", "absent.txt"], "absent.txt: there is no such file"),
        (
            ["train", "two.csv", "--target", "a", "--out", "two.csv/run"],
            "two.csv/run cannot be written (Not a directory)",
        ),
        (["train", "pattern-100k", "--out", "two.csv/run"], "two.csv/run cannot be written (Not a directory)"),
        (
            ["train", "pattern-100k", "--set", "trainer.accelerator=banana"],
            "trainer.accelerator: Input should be 'auto'",
        ),
        (["evaluate", "nothing"], "no such artifact"),
        (["evaluate", "nothing", "--split", "tset"], "train, val and test"),
        (["predict", "nothing", "CCO"], "no such artifact"),
        (["predict", "nothing", "CCO", "-o", "."], "is a folder; name a file in it"),
        (["predict", "nothing", "CCO", "-o", "none/out.csv"], "there is no folder none"),
        (["predict", "nothing", "CCO", "-o", "x" * 300], "cannot be written (File name too long)"),
        (["predict", "nothing"], "give either inputs"),
        (["predict", "nothing", "two.csv", "-o", "./two.csv"], "two.csv: is an input, which would be lost"),
        (["embed", "nothing", "two.csv", "-o", "two.csv"], "two.csv: is an input, which would be lost"),
        (["analyze", "nothing", "--limit", "-1"], "--limit -1: give a number of graphs"),
        (["train", "error.csv", "--target", "error", "--out", "run"], "predictions have another column 'error'"),
        (["train", "two.csv", "--target", "y", "--out", "two.csv"], "two.csv: is a file; results go to a folder"),
        (
            ["train", "two.csv", "--epochs", "2", "--set", "trainer.max_epochs=3"],
            "--epochs 2 and --set trainer.max_epochs=3 contradict each other; leave one of them out",
        ),
        (["train", "run.d"], "this is the folder of a run (continue it with `egt train run.d --resume`)"),
        (["plan", "zink-100k"], "did you mean zinc-100k"),
        (["data", "info"], "needs a name"),
        (["data", "info", "zink"], "did you mean zinc?"),
        (["data", "prepare", "zinc"], "EGT_DATA_DIR"),
    ],
)
def test_one_message(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = egt(capsys, *words)
    assert done.code == 2, done.err
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in done.err
    assert "Traceback" not in done.err
    assert not Path("runs").exists() or not list(Path("runs").iterdir())  # nothing is left of what was refused


def test_a_gpu_that_is_not_there_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("there is a GPU here")
    done = egt(capsys, "train", "pattern-100k", "--set", "trainer.accelerator=gpu")
    assert done.code == 2
    assert "trainer.accelerator is gpu, and PyTorch finds none on this machine" in done.err


def test_a_full_disk_is_told_before_the_data_is_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = egt(capsys, "train", "two.csv", "--target", "a", "--out", "run")
    assert done.code == 2
    assert done.err == (
        "error: run cannot be written (No space left on device); make room there, or choose another folder (--out)\n"
    )
    assert not Path("run").exists()
