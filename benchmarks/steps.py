"""Many small steps: a whole training step at batch 32 against the layer stack alone, and where the rest goes.

    python -m benchmarks.steps [--json] [--preset zinc-100k-plus] [--batch 32] [--steps 60] [--threads 1]

The preset may be the config.yaml of a run, such as one on a table.

A step comes from the store through the loader (in this process), inputs, layers, readout, loss, backward, clip,
optimizer and average, by the functions of `egt.training`. The layer stack is measured on the same batches, in turns
with the steps. With one thread, times are CPU seconds of this process, which other programs disturb less. Data is read
from EGT_DATA_DIR.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from egt.config.load import find_config, override
from egt.config.run import RunConfig
from egt.config.run_data import open_source, prepare_split
from egt.data.batching.batch import GraphBatch
from egt.nn.kernels.binding import loaded
from egt.nn.randomness import graph_keys
from egt.processes import Interruption
from egt.training.checks import fit_scale, read_labels
from egt.training.loop import Job, Work, clip_gradients, train_step
from egt.training.state import Engine

_Result = TypeVar("_Result")
_WARM_UP = 5
KERNEL = (
    *("egt_pair_pass_forward", "egt_pair_pass_backward", "egt_norm_linear", "egt_norm_linear_backward"),
    *("egt_node_update", "egt_node_update_backward", "egt_node_factors"),
)


class Clock:
    """Seconds of each kind of work, step by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.now = time.process_time if torch.get_num_threads() == 1 else time.perf_counter

    def __call__(self, kind: str, work: Callable[[], _Result]) -> _Result:
        """Do some work and note how long it takes."""
        start = self.now()
        result = work()
        self.seconds.setdefault(kind, []).append(self.now() - start)
        return result

    def mean(self, kind: str) -> float:
        """Return milliseconds per step, without the first few."""
        known = self.seconds[kind][_WARM_UP:]
        return 1e3 * sum(known) / len(known)


@contextmanager
def timed_kernel(clock: Clock) -> Iterator[None]:
    """Note how long a step is inside of the compiled kernel, whatever calls it."""
    library, spent = loaded(), 0.0

    def timed(function: Callable[..., None], *arguments: Any) -> None:
        nonlocal spent
        start = clock.now()
        function(*arguments)
        spent += clock.now() - start

    known = {name: getattr(library, name) for name in KERNEL}
    for name, function in known.items():
        setattr(library, name, partial(timed, function))
    try:
        yield
    finally:
        for name, function in known.items():
            setattr(library, name, function)
    clock.seconds.setdefault("kernel", []).append(spent)


def layer_stack(work: Work, batch: GraphBatch, clock: Clock) -> None:
    """Run the layers alone, forward and backward."""
    model = work.state.model
    batch = replace(batch, random_keys=graph_keys(0, 0, batch.graph_ids))
    x = clock("inputs", lambda: model.readout.prepare(model.embed(batch)))
    h, e = x.h.detach().requires_grad_(), x.e.detach().requires_grad_()
    gradients = [torch.randn_like(h), torch.randn_like(e)]

    def both_ways() -> None:
        new = (h, e)
        for layer in model.layers:
            new = layer(*new, x.context)
        outputs = [(out, gradient) for out, gradient in zip(new, gradients, strict=True) if out.grad_fn is not None]
        torch.autograd.backward([out for out, _ in outputs], [gradient for _, gradient in outputs])

    clock("layers", both_ways)
    work.state.optimizer.zero_grad()


def endless(work: Work) -> Iterator[list[GraphBatch]]:
    """Yield the micro-batches of one step after another; tables have few in an epoch."""
    while True:
        yield from work.remaining_steps()
        work.state.progress.epoch, work.state.progress.position = work.state.progress.epoch + 1, 0


def measure(config: RunConfig, num_steps: int) -> dict[str, float]:
    """Return milliseconds per step of each kind of work."""
    source = open_source(config)
    store = prepare_split(config, source, "train")
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checkpoints").mkdir()
        scale = fit_scale(config, read_labels(config, store))
        facts = {"scale": scale and scale.to_json(), "config": config.model_dump(mode="json")}
        job = Job(config, store, (), Path(folder), facts, show_progress=False)
        work = Work(job, Engine(config.trainer), Interruption())
        steps = endless(work)
        for _ in range(num_steps + _WARM_UP):
            batches = clock("loader", lambda: next(steps))
            layer_stack(work, batches[0], clock)
            with timed_kernel(clock):
                sums = clock("step", lambda batches=batches: train_step(work, batches))  # type: ignore[misc]
            clock("count and average", lambda sums=sums: work.state.count(sums))  # type: ignore[misc]
            clock("clip", lambda: clip_gradients(work))
            clock("optimizer", work.state.optimizer.step)
    found = {kind: clock.mean(kind) for kind in clock.seconds}
    whole = found["loader"] + found["step"] + found["count and average"]
    return {**found, "whole step": whole, "ratio": whole / found["layers"], "of the kernel": whole / found["kernel"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--preset", default="zinc-100k-plus")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], help="settings to change, as path=value")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = [f"data.batch_size={options.batch}", "trainer.trackers=[]", *options.set]
    found = measure(override(find_config(options.preset), settings), options.steps)
    if options.json:
        print(json.dumps(found))
        return
    for kind, value in found.items():
        print(f"{kind:20} {value:8.2f}" + ("" if kind in ("ratio", "of the kernel") else " ms"))


if __name__ == "__main__":
    main()
