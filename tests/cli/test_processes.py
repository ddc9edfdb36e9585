"""Two processes train one model and predict one file, through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.caches import fresh_cache
from tests.cli.runs import SMILES, TINY, molecules, read_csv

pytestmark = pytest.mark.slow


def run(folder: Path, *words: str) -> str:
    """Run a command to its good end. Returns what it said on standard error."""
    environment = {**os.environ, "EGT_CACHE_DIR": fresh_cache(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_training_and_predicting(tmp_path: Path) -> None:
    molecules(tmp_path / "sizes.csv", length=[1.1 * len(text) for text in SMILES])
    together = ("trainer.devices=2", "trainer.accelerator=cpu")
    said = run(tmp_path, "egt", "train", "sizes.csv", "--set", *TINY, *together, "--out", "run")
    assert said.count("train_loss") == 2  # a line for each epoch
    run(tmp_path, "egt", "predict", "run", "sizes.csv", "-o", "one.csv")
    launcher = ("torch.distributed.run", "--nproc-per-node", "2", "-m", "egt")
    said = run(tmp_path, *launcher, "train", "sizes.csv", "--set", *TINY, *together, "--out", "launched")
    assert said.count("inferred schema") == 1
    assert said.count("train_loss") == 2
    run(tmp_path, *launcher, "predict", "run", "sizes.csv", "-o", "two.csv")
    one, two = read_csv(tmp_path / "one.csv"), read_csv(tmp_path / "two.csv")
    assert [row["smiles"] for row in two] == list(SMILES)
    for alone, shared in zip(one, two, strict=True):
        assert float(shared["length"]) == pytest.approx(float(alone["length"]), rel=1e-5)
