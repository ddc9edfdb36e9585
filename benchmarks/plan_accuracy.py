"""How well `egt plan` foretells memory and time: planned against measured, for several presets.

Each preset is trained for some steps in a process of its own, on graphs of the sizes in its data card.

    python benchmarks/plan_accuracy.py zinc-100k zinc-500k pattern-100k tsp-100k pcqm4mv2-small
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = 3


def measure(name: str) -> dict[str, float]:
    """Train some steps; peak memory of this process, and seconds per step."""
    import numpy as np

    from egt.assemble import preparation
    from egt.config.load import override
    from egt.config.presets import preset
    from egt.encodings.encoding import Sample
    from egt.sources.registry import BENCHMARKS
    from egt.training.fit import fit
    from egt.training.footprint import synthetic_graph
    from egt.training.plan import card_sizes

    config = override(preset(name), [f"trainer.max_steps={STEPS}", "trainer.select=last"])
    if config.schedule.kind == "plateau":
        config = override(config, ["schedule={kind: constant}"])
    card = BENCHMARKS[config.data.source].card
    random, prepare = np.random.default_rng(1), preparation(config)
    sizes = random.choice(card_sizes(card), STEPS * config.data.batch_size)
    samples: list[Sample] = [prepare(synthetic_graph(config, int(size), random, targets=True)) for size in sizes]
    with tempfile.TemporaryDirectory() as folder:
        result = fit(config, samples, None, out_dir=Path(folder), show_progress=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"peak": peak, "step": result.history[-1]["seconds"] / STEPS}


def main(names: list[str]) -> None:
    from egt.config.presets import preset
    from egt.training.plan import plan

    os.environ["EGT_DATA_DIR"] = os.devnull  # sizes from the cards
    print("| preset | parameters | memory planned / measured MB | ratio | step planned / measured s | ratio |")
    print("|---|---|---|---|---|---|")
    for name in names:
        found = plan(preset(name))
        child = subprocess.run(
            [sys.executable, __file__, "--measure", name], check=True, capture_output=True, text=True
        )
        real = json.loads(child.stdout.splitlines()[-1])
        step = found.seconds_per_epoch / found.steps_per_epoch
        print(
            f"| {name} | {found.parameters:,} | {found.peak_memory_bytes / 1e6:.0f} / {real['peak'] / 1e6:.0f} | "
            f"{found.peak_memory_bytes / real['peak']:.2f} | {step:.3f} / {real['step']:.3f} | "
            f"{step / real['step']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1] == "--measure":
        print(json.dumps(measure(sys.argv[2])))
    else:
        main(sys.argv[1:])
