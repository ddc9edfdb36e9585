"""Training steps on a device that is not the CPU (`tests/accelerator.py`): every preset and form, on every layout.

A step must be the one of the CPU, to the last bit, and the host may wait for the device at one place only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from egt.config.load import override
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import LayoutName
from egt.data.encodings.encoding import Sample
from egt.paper.presets import forms, names, preset
from egt.processes import Interruption
from egt.training.loop import Job, Work, train_step, validate
from egt.training.memory import synthetic_graph
from egt.training.run_folder import StepSums
from egt.training.state import Engine
from tests.accelerator import DEVICE, Accelerator, found, on_cpu
from tests.training.tiny import tiny_config, tiny_samples

ONCE = "_tensor: upload"
"""Constants of a task (`egt.nn.losses.constant`) travel to the device once in a process."""
DOCUMENTED = ["fetch: download"]
"""Where the host waits in a step: docs/devices.md."""


@pytest.fixture(autouse=True)
def same_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the form of Adam that a device takes on the CPU too; the one pass that a CPU makes rounds otherwise."""
    monkeypatch.setattr("egt.training.state._is_whole_on_cpu", lambda parameter: False)


def small(name: str, layout: LayoutName) -> RunConfig:
    """A preset with two narrow layers."""
    sizes = ["model.num_layers=2", "model.node_width=8", "model.edge_width=8", "model.num_heads=2"]
    others = ["data.batch_size=3", f"data.layout={layout}", "trainer.backend=plain", "trainer.ema_decay=0.9"]
    if preset(name).model.layer is not None:
        sizes[-1] = "model.num_heads=1"
    return override(preset(name), sizes + others)


def distinct() -> list[str]:
    """The presets, one of each that are alike when they are small."""
    kept: dict[str, str] = {}
    for name in names():
        config = small(name, "padded")
        alike = config.model_copy(update={"name": "", "optimizer": None, "schedule": None, "trainer": None})
        kept.setdefault(repr((alike.model, alike.task, alike.data)), name)
    return list(kept.values())


def form_cases() -> Iterator[tuple[str, LayoutName]]:
    """Every form of a preset that reads graphs, nodes, edges and virtual nodes, on a layout that suits it."""
    for base in ("zinc-100k", "pattern-100k", "tsp-100k", "pcqm4mv2-small"):
        for form in forms():
            baseline = preset(f"{base}-{form}").model.layer is not None
            yield f"{base}-{form}", "edge_list" if baseline else "padded"
        yield f"{base}-constrained", "edge_list"


CASES: list[tuple[str, LayoutName]] = [
    *((name, layout) for name in distinct() for layout in ("padded", "packed")),
    *form_cases(),
]


def graphs(config: RunConfig) -> list[Sample]:
    """Three graphs of two sizes: two micro-batches where they are padded."""
    random, prepare = np.random.default_rng(0), preparation(config)
    return [prepare(synthetic_graph(config, size, random, targets=True)) for size in (5, 3, 5)]


@dataclass
class Step:
    """What a training step left: sums of losses, weights and their average, and where the host waited."""

    sums: StepSums
    weights: list[Tensor]
    average: list[Tensor]
    waits: list[str]
    work: Work


def take_step(config: RunConfig, samples: list[Sample], folder: Path, device: Accelerator | None = None) -> Step:
    """The first step of a run, as the loop takes it."""
    job = Job(config, samples, samples, folder, {"scale": None}, show_progress=False)
    work = Work(job, Engine(config.trainer), Interruption())
    batches = next(iter(work.remaining_steps()))
    if device is not None:
        device.waits.clear()
    sums = train_step(work, batches)
    work.state.count(sums)
    waits = [] if device is None else [where for where in device.waits if where != ONCE]
    values = [] if work.state.average is None else work.state.average.values.values()
    weights = [on_cpu(weight) for weight in work.state.model.parameters()]
    return Step(sums, weights, [on_cpu(value) for value in values], waits, work)


def step_there(config: RunConfig, samples: list[Sample], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Step:
    with found(monkeypatch) as device:
        step = take_step(config, samples, folder, device)
        assert {weight.device for weight in step.work.state.model.parameters()} == {DEVICE}
        return step


@pytest.mark.parametrize(("name", "layout"), CASES, ids=lambda value: value)
def test_a_step_is_that_of_the_cpu_and_the_host_waits_once(
    name: str, layout: LayoutName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_step(small(name, layout), tmp_path, monkeypatch)


PLUS = [
    "model.edges.kind=outer_sum",
    "model.edge_values=full",
    "model.node_scaling=degree",
    *(f"model.{name}=0.2" for name in ("key_dropout", "drop_path", "attention_dropout", "node_dropout")),
    *(f"model.{name}=0.2" for name in ("edge_dropout", "node_ffn_dropout", "edge_ffn_dropout")),
]
"""Every part that the presets leave out."""


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("zinc-100k", "packed"),
        ("zinc-100k", "padded"),
        ("pcqm4mv2-small", "padded"),
        ("zinc-100k-constrained", "edge_list"),
    ],
)
def test_so_is_one_with_parts_that_no_preset_has(
    name: str, layout: LayoutName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_step(override(small(name, layout), PLUS), tmp_path, monkeypatch)


def check_step(config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = graphs(config)
    there = step_there(config, samples, tmp_path / "there", monkeypatch)
    here = take_step(config, samples, tmp_path / "here")
    assert there.sums == here.sums
    for mine, theirs in zip([*here.weights, *here.average], [*there.weights, *there.average], strict=True):
        assert torch.equal(mine, theirs)
    assert there.waits == DOCUMENTED


def test_every_preset_is_among_them() -> None:
    small_ones = {repr(small(name, "padded").model) for name in distinct()}
    assert {repr(small(name, "padded").model) for name in names()} == small_ones


def with_missing(samples: list[Sample]) -> list[Sample]:
    """Every third label is missing."""

    def without(sample: Sample) -> Sample:
        targets = np.array(sample.graph.graph_targets)
        targets[::3] = np.nan
        return replace(sample, graph=replace(sample.graph, graph_targets=targets))

    return [without(sample) for sample in samples]


@pytest.mark.parametrize("name", ["molpcba-larger", "pcqm4mv2-small"])
def test_missing_labels_make_nobody_wait(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum has zeros in their place there, and leaves them out on a CPU: equal except for the last digits."""
    config = small(name, "padded")
    samples = [*with_missing(graphs(config)[:2]), graphs(config)[2]]
    there = step_there(config, samples, tmp_path / "there", monkeypatch)
    here = take_step(config, samples, tmp_path / "here")
    assert there.sums == pytest.approx(here.sums, rel=1e-6)
    assert 0 < here.sums.labels < 3 * len(config.task.names)
    for mine, theirs in zip(here.weights, there.weights, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    assert there.waits == DOCUMENTED


def test_a_standardized_target_travels_with_its_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(
        task={"standardize": True}, data={"layout": "padded"}, trainer={"accelerator": "auto", "backend": "plain"}
    )
    job = Job(config, tiny_samples(config, 8), (), tmp_path, {"scale": {"mean": [1.0, 2.0], "std": [3.0, 4.0]}})
    with found(monkeypatch) as device:
        work = Work(replace(job, show_progress=False), Engine(config.trainer), Interruption())
        batches = next(iter(work.remaining_steps()))
        device.waits.clear()
        train_step(work, batches)
        train_step(work, batches)
        assert [where for where in device.waits if where != ONCE] == 2 * DOCUMENTED
        assert device.waits.count(ONCE) <= 2  # mean and std, in the first of the steps


SETTINGS: dict[str, dict[str, Any]] = {
    "clipped": {"gradient_clip": 0.1},
    "recomputed": {"recompute": True},
    "accumulated": {"accumulate": 2},
    "averaged": {"ema_decay": 0.5},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_of_the_loop_make_nobody_wait(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = {"accelerator": "auto", "backend": "plain", **settings}
    config = tiny_config(data={"layout": "padded", "batch_size": 4, "pair_budget": 100}, trainer=trainer)
    samples = [sample for k, sample in enumerate(tiny_samples(config, 9)) if k % 5]  # those with all labels
    there = step_there(config, samples, tmp_path / "there", monkeypatch)
    here = take_step(config, samples, tmp_path / "here")
    assert there.sums == here.sums
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(here.weights, there.weights, strict=True))
    assert there.waits == DOCUMENTED


def test_the_optimizer_of_a_gpu_makes_nobody_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU torch updates many parameters at once; the numbers of steps are on the host."""
    config = small("zinc-100k", "padded")
    samples = graphs(config)
    here = take_step(config, samples, tmp_path / "here")
    torch_adam = import_module("torch.optim.adam")
    monkeypatch.setattr(torch_adam, "_default_to_fused_or_foreach", lambda *_, **__: (False, True))
    there = step_there(config, samples, tmp_path / "there", monkeypatch)
    for mine, theirs in zip(here.weights, there.weights, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)
    assert there.waits == DOCUMENTED


@pytest.mark.parametrize(("precision", "waits"), [("bf16", []), ("16", ["train_step: _local_scalar_dense"])])
def test_half_precision_makes_the_host_wait_only_for_the_scaler(
    precision: str, waits: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = override(small("zinc-100k", "padded"), [f"trainer.precision={precision}"])
    with found(monkeypatch, has_float64=precision == "16") as device:  # torch's scaler is for GPUs that have it
        step = take_step(config, graphs(config), tmp_path, device)
    assert all(weight.isfinite().all() for weight in step.weights)
    assert step.waits == DOCUMENTED + waits


@pytest.mark.parametrize("name", ["zinc-100k", "pattern-100k", "tsp-100k"])
def test_a_validation_fetches_each_batch_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(name, "padded")
    samples = graphs(config)
    with found(monkeypatch) as device:
        work = take_step(config, samples, tmp_path / "there").work
        device.waits.clear()
        there = validate(work)
        assert device.waits == ["evaluate: download"] * 2  # graphs of two sizes
    here = validate(take_step(config, samples, tmp_path / "here").work)
    assert there == pytest.approx(here, rel=0, abs=0, nan_ok=True)
