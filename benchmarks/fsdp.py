"""EGT-Larger at a smaller width in two processes: whole copies (`ddp`) beside parts of the model (`fsdp`).

    python -m benchmarks.fsdp [--width 512] [--layers 30]

Both train for the same few steps on one molecule table with one thread each, on the CPU and over gloo. Shown are the
peak of resident memory of each process, processor time, and how far the weights are apart in the end. Linux: what
processes use is read from /proc.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from safetensors.torch import load_file

from benchmarks.folders import Used
from benchmarks.screen import write_tables

LARGER = (
    *("model.edge_width=64", "model.num_heads=32", "model.gate=centrality", "model.head_ratios=[1,1]"),
    *("model.node_ffn_multiplier=1", "model.readout.kind=virtual_nodes", "model.readout.num_virtual=4"),
)
RUN = (
    *("trainer.max_epochs=1", "trainer.devices=2", "trainer.accelerator=cpu", "trainer.baseline=false"),
    "data.batch_size=8",
)

ROWS = 60


def peaks(pid: int) -> dict[int, float]:
    """Return the peak of memory in MB of each process that one has started."""
    children = [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    found = {}
    for child in children:
        status = Path(f"/proc/{child}/status").read_text()
        if "VmHWM" in status:
            found[child] = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=30)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_tables(folder, 1)
        table = folder / "labeled.csv"
        table.write_text("".join(table.read_text().splitlines(keepends=True)[: 1 + ROWS]))
        for strategy in ("ddp", "fsdp"):
            settings = [*LARGER, *RUN, f"model.node_width={given.width}", f"model.num_layers={given.layers}"]
            words = ["train", "labeled.csv", "--target", "y", "--from", "none", "--out", strategy, "--set", *settings]
            command = [sys.executable, "-m", "egt", *words, f"trainer.strategy={strategy}"]
            process, used = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL), Used()
            memory: dict[int, float] = {}
            while process.poll() is None:
                used.look(process.pid)
                try:
                    memory |= peaks(process.pid)
                except OSError:  # it has ended
                    continue
                time.sleep(0.1)
            if process.returncode:
                raise SystemExit(f"{strategy}: ended with {process.returncode}")
            each = ", ".join(f"{peak:.0f} MB" for peak in sorted(memory.values())[-2:])
            print(f"{strategy}: {each}; {sum(used.processor.values()):.0f} s of processors")
        copies, parts = (load_file(folder / name / "artifact" / "weights.safetensors") for name in ("ddp", "fsdp"))
    size = sum(weight.numel() for weight in copies.values())
    apart = max(float((parts[name] - weight).abs().max()) for name, weight in copies.items())
    largest = max(float(weight.abs().max()) for weight in copies.values())
    print(f"{size:,} numbers; weights differ by at most {apart:.1e}, the largest is {largest:.1f}")


if __name__ == "__main__":
    main()
