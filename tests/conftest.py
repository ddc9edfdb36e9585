"""What several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

# Tiny tensors gain nothing from threads, and several test processes share the cores.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; tests that need it are skipped on a machine without it."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("EGT_DATA_DIR", default))
    if not (folder / "MANIFEST.md").exists():
        pytest.skip(f"no real data: set EGT_DATA_DIR to a folder laid out as docs/data.md says ({folder} has none)")
    return folder
