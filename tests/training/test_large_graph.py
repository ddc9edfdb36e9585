"""Dense EGT on one graph of a thousand nodes fits a laptop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import re, sys
from pathlib import Path
import numpy as np
import torch
from egt.config.run_data import preparation
from egt.config.load import override
from egt.paper.presets import preset
from egt.training.run import train_on
from egt.training.memory import synthetic_graph

torch.set_num_threads(2)
settings = ["trainer.max_steps=2", "trainer.select=last", "schedule={kind: constant}", "data.batch_size=1"]
config = override(preset("tsp-500k"), settings)
sample = preparation(config)(synthetic_graph(config, 1000, np.random.default_rng(0), targets=True))
result = train_on(config, [sample, sample], None, folder=Path(sys.argv[1]), show_progress=False)
assert result.history[-1]["step"] == 2
print(1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc: `getrusage` would count what its parent has used")
def test_tsp_500k_trains_on_a_thousand_nodes_below_four_gigabytes(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.split()[-1]) < 4e9
