"""How well `egt plan` foretells memory and time: planned against measured, for several presets.

Each preset is trained by `egt train` in a process of its own, two epochs of three steps with validation, on generated
graphs of the sizes in its data card. Memory is the peak of that process (VmHWM), time that of a step of the second
epoch. Settings may be changed:

    python benchmarks/plan_accuracy.py cluster-500k mnist-100k tsp-500k,data.layout=padded
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = 3


def train(given: str, folder: str) -> None:
    """Train some steps in this process as `egt train` does, but on generated graphs."""
    import numpy as np

    from egt.cli.main import main as command_line
    from egt.config.load import override
    from egt.data.benchmark import BENCHMARKS
    from egt.data.custom import GraphsSource
    from egt.paper.presets import preset
    from egt.training import run
    from egt.training.memory import synthetic_graph
    from egt.training.plan import card_sizes

    name, *settings = given.split(",")
    config = override(preset(name), settings)
    card, random = BENCHMARKS.get(config.data.source).card, np.random.default_rng(1)
    degree = card.mean_edges / card.num_nodes[1]
    graphs = {
        split: [
            synthetic_graph(config, int(size), random, degree, targets=True)
            for size in random.choice(card_sizes(card), batches * config.data.batch_size)
        ]
        for split, batches in (("train", STEPS), ("val", 1), ("test", 1))
    }
    vars(run)["open_source"] = lambda _: GraphsSource(graphs, card.target)
    short = [f"trainer.max_steps={2 * STEPS}", "schedule={kind: constant}", "trainer.select=last"]
    command_line(["train", name, "--out", folder, "--set", *short, *settings])


def peak_of(process: int) -> int:
    """Bytes of the highest resident memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure(given: str) -> dict[str, float]:
    """Peak memory and seconds per step of a run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--train", given, f"{folder}/run"]
        child = subprocess.run(command, check=True, capture_output=True, text=True)
        rows = (Path(folder) / "run/metrics.csv").read_text().splitlines()
        column = rows[0].split(",").index("seconds")
    return {"peak": json.loads(child.stdout.splitlines()[-1]), "step": float(rows[-1].split(",")[column]) / STEPS}


def main(names: list[str]) -> None:
    from egt.config.load import override
    from egt.paper.presets import preset
    from egt.training.plan import plan

    os.environ["EGT_DATA_DIR"] = os.devnull  # sizes from the cards
    print("| preset | parameters | memory planned / measured MB | ratio | step planned / measured s | ratio |")
    print("|---|---|---|---|---|---|")
    for given in names:
        name, *settings = given.split(",")
        found = plan(override(preset(name), settings))
        real = measure(given)
        step = found.seconds_per_epoch / found.steps_per_epoch
        print(
            f"| {given} | {found.parameters:,} | {found.peak_memory_bytes / 1e6:.0f} / {real['peak'] / 1e6:.0f} | "
            f"{found.peak_memory_bytes / real['peak']:.2f} | {step:.3f} / {real['step']:.3f} | "
            f"{step / real['step']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1] == "--train":
        try:
            train(*sys.argv[2:])
        finally:  # the command line ends with an exit
            print(peak_of(os.getpid()))
    else:
        with tempfile.TemporaryDirectory() as cache:
            os.environ.setdefault("EGT_CACHE_DIR", cache)
            main(sys.argv[1:])
