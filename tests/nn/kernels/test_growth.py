"""Two thousand training steps on batches of changing size: memory settles and stays."""

from __future__ import annotations

import subprocess
import sys

import pytest

STEPS = """
import numpy as np, torch
from pathlib import Path
from egt.assemble import build_model
from egt.config.run_data import preparation
from egt.data.batching.batch import collate
from tests.graphs import graphs_of_every_kind, samples_of, tiny_config

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

torch.set_num_threads(2)
config = tiny_config(num_layers=3, attention_dropout=0.1, gate="centrality")
model = build_model(config).train()
batches = [collate(samples_of(config, graphs_of_every_kind(seed, 2))) for seed in range(5)]
optimizer = torch.optim.Adam(model.parameters())
for step in range(2000):
    model(batches[step % 5]).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 300:
        settled = resident()
print(resident() - settled)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_constant_over_2000_steps() -> None:
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4096, "kB more after 2,000 steps than after 300"
