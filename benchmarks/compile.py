"""`torch.compile` of one layer by inductor: whether it works, whether it equals the plain layer, and the first step.

    python -m benchmarks.compile [--out runs/compile.jsonl]

Each case is a process of its own, so that one that dies is a row of the table: static or dynamic shapes, training
(forward and backward) or evaluation, without dropout, with each kind alone, and with all. Seconds are processor time of
the first step, the compilers that it starts included; the second one stands beside it. Finished cases are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

DROPOUTS: dict[str, dict[str, Any]] = {
    "all": {"dropout": 0.1, "attention_dropout": 0.1, "edge_dropout": 0.1},
    "none": {},
    "nodes": {"dropout": 0.1},
    "attention": {"attention_dropout": 0.1},
    "edges": {"edge_dropout": 0.1},
}
CASES = [
    case
    for case in product(DROPOUTS, ("static", "dynamic"), ("train", "eval"))
    if case[2] == "train" or case[0] == "all"
]


def measure(dropouts: str, shapes: str, mode: str) -> dict[str, Any]:
    """Compile a layer, and compare two steps with the plain one."""
    import torch  # here: only the process of a case needs it

    from benchmarks.rivals import cpu_seconds
    from egt import EGTLayer
    from egt.nn.channels import AttentionContext
    from egt.nn.randomness import graph_keys

    torch.manual_seed(0)
    layer = EGTLayer(64, 8, 8, **DROPOUTS[dropouts]).train(mode == "train")
    compiled = torch.compile(layer, dynamic=shapes == "dynamic")
    h, e, sizes = torch.randn(4, 12, 64), torch.randn(4, 12, 12, 8), torch.tensor([12, 7, 1, 9])
    context = AttentionContext.dense(h, sizes)
    context = AttentionContext(context.layout, context.allowed, graph_keys(0, 1, torch.arange(4)))
    real = torch.arange(12) < sizes[:, None]

    def step(module: Any) -> list[Any]:
        layer.zero_grad()
        with torch.set_grad_enabled(mode == "train"):
            rows, pairs = module(h, e, context)
            rows, pairs = rows[real], pairs[real[:, None] & real[:, :, None]]
            if mode == "eval":
                return [rows, pairs]
            (rows.square().sum() + pairs.square().sum()).backward()
        return [rows.detach(), pairs.detach(), *(parameter.grad for parameter in layer.parameters())]

    seconds = []
    for _ in range(2):
        before = cpu_seconds()
        found = step(compiled)
        seconds.append(round(cpu_seconds() - before, 2))
    apart = max(
        float((a - b).abs().max() / b.abs().max().clamp(min=1)) for a, b in zip(found, step(layer), strict=True)
    )
    return {"first": seconds[0], "second": seconds[1], "apart": apart}


def main(words: Sequence[str] | None = None) -> None:
    """Run the cases that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/compile.jsonl"))
    parser.add_argument("--case", nargs=3, metavar=("DROPOUTS", "SHAPES", "MODE"))
    given = parser.parse_args(words)
    if given.case:
        print(json.dumps(measure(*given.case)))
        return
    given.out.parent.mkdir(parents=True, exist_ok=True)
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {tuple(record["case"]): record for record in map(json.loads, lines)}
    for case in CASES:
        if case not in done:
            words = [sys.executable, "-m", "benchmarks.compile", "--case", *case]
            environment = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
            ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            done[case] = {"case": case, "exit": ended.returncode}
            done[case] |= json.loads(ended.stdout.splitlines()[-1]) if ended.returncode == 0 else {}
            with given.out.open("a") as file:
                print(json.dumps(done[case]), file=file, flush=True)
    print(
        "| dropout | shapes | mode | first step, s | second | largest deviation |",
        "|---|---|---|---|---|---|",
        sep="\n",
    )
    for case in CASES:
        record = done[case]
        what = f"{record['first']} | {record['second']} | {record['apart']:.0e}" if "first" in record else "failed | | "
        print("|", " | ".join(case), "|", what, "|")


if __name__ == "__main__":
    main()
