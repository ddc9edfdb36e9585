"""Signals to all processes of the real command, as Ctrl-C and Slurm send them: one message and exit code 1."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.caches import fresh_cache
from tests.cli.runs import SMILES, TINY, molecules

FOREVER = ("trainer.max_epochs=100000", "trainer.patience=null")


def stopped(folder: Path, sign: str, number: signal.Signals, *settings: str, times: int = 1) -> str:
    """Start the command, and send the signal once it has printed `sign` so many times. Returns its last line."""
    molecules(folder / "sizes.csv", length=[1.1 * len(text) for text in SMILES])
    words = ["-X", "importtime", "-m", "egt", "train", "sizes.csv", "--out", "run", "--set", *TINY, *FOREVER, *settings]
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "EGT_CACHE_DIR": fresh_cache(folder), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        for _ in range(times):
            assert any(sign in line for line in process.stderr)
        os.killpg(process.pid, number)
        rest = process.communicate(timeout=60)[1]
    assert process.returncode == 1, rest
    assert "Traceback" not in rest
    return [line for line in rest.splitlines() if not line.startswith("import time")][-1]


@pytest.mark.parametrize("sign", ["cyclopts.", "torch._linalg_utils", "inferred schema"])
def test_before_training(tmp_path: Path, sign: str) -> None:
    assert stopped(tmp_path, sign, signal.SIGTERM) == "stopped by SIGTERM"


def test_in_training_with_workers(tmp_path: Path) -> None:
    message = stopped(tmp_path, "epoch 1, ", signal.SIGTERM, "data.num_workers=2")
    assert message.startswith("error: stopped by SIGTERM in epoch ")
    assert "the state is kept in run/checkpoints, continue with --resume" in message
    assert list((tmp_path / "run/checkpoints").glob("step-*"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_processes(tmp_path: Path, number: signal.Signals) -> None:
    together = ("trainer.devices=2", "trainer.accelerator=cpu")
    # The second to import torch is one of the two, which is started by the first.
    message = stopped(tmp_path, "torch._linalg_utils", number, *together, times=2)
    assert message == f"error: stopped by {number.name}; continue with --resume"
    assert stopped(tmp_path, "epoch 1, ", number, *together).startswith("error: stopped by ")
