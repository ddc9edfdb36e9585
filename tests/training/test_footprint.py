"""The memory of a training step, foretold from small steps of what really runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.config.run import RunConfig
from egt.errors import ConfigError
from egt.inference.backends import CPU, PLAIN, Execution, execution
from egt.paper.presets import preset
from egt.training import memory as module
from egt.training.memory import Footprint, Memory, measure_footprint, measure_seconds, num_parameters, synthetic_graph

TINY = ["model.num_layers=3", "model.node_width=16", "model.edge_width=8", "model.num_heads=2", "data.batch_size=4"]
SPARSE = ["data.layout=edge_list", "model.scope=neighbors", "task.auxiliary=[]"]
WAYS: dict[str, list[str]] = {
    "as it is": [],
    "padded": ["data.layout=padded"],
    "bf16": ["trainer.precision=bf16"],
    "unknown to the kernel": ["model.activation=gelu"],
    "recomputed": ["trainer.recompute=true", "data.layout=padded"],
    "edges": SPARSE,
    "triplets": ["model.triplets=aggregation"],
    "virtual nodes": ["model.readout={kind: virtual_nodes, num_virtual: 2}"],
}


@pytest.fixture
def config() -> RunConfig:
    return override(preset("zinc-100k"), TINY)


def test_parameters_are_counted_without_the_model(config: RunConfig) -> None:
    assert num_parameters(config) == build_model(config).num_parameters()


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_layers_that_are_not_built_are_counted(config: RunConfig, layers: int) -> None:
    deep = override(config, [f"model.num_layers={layers}"])
    assert num_parameters(deep) == build_model(deep).num_parameters()


@pytest.mark.parametrize("setting", ["model.node_width=8000000000000000000", "model.edge_ffn_multiplier=1e300"])
def test_sizes_that_no_tensor_has_are_refused(config: RunConfig, setting: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.node_width"):
        num_parameters(override(config, [setting]))


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS.keys())
def test_the_footprint_is_that_of_a_real_step(config: RunConfig, settings: list[str]) -> None:
    """A deeper model on a batch of other sizes takes what is foretold from the rates."""
    deep = override(config, ["model.num_layers=6", *settings])
    how = execution(deep)
    sizes = (50, 50, 41) if how.layout != "padded" else (50, 50, 50)
    batch = module.synthetic_batch(deep, sizes, how.layout)
    used = module._used_bytes(build_model(deep, backend=how.backend), deep, batch, how)
    foretold = measure_footprint(deep, how).largest_part(np.array(sizes), None)[0]
    assert foretold == pytest.approx(used, rel=0.1)


def test_the_plain_pass_takes_more_than_the_kernel_and_half_precision_less(config: RunConfig) -> None:
    fused, plain, half = (
        measure_footprint(config, how)
        for how in (
            Execution("packed", CPU),
            Execution("packed", PLAIN),
            Execution("packed", PLAIN, torch.bfloat16),
        )
    )
    assert plain.per_pair > 1.1 * half.per_pair
    assert half.per_pair > 1.5 * fused.per_pair


def test_edges_cost_by_their_number(config: RunConfig) -> None:
    sparse = override(config, SPARSE)
    few, many = (measure_footprint(sparse, execution(sparse), degree) for degree in (2.0, 12.0))
    assert few.per_pair == many.per_pair == 0
    assert 1.5 < many.per_node / few.per_node < 7


def test_padding_counts() -> None:
    sizes = np.array([10, 10, 9])
    padded = Footprint(0, per_pair=1.0, per_node=0.0, layout="padded")
    assert padded.largest_part(sizes, None) == (300.0, 300)
    assert padded.largest_part(sizes, 200) == (200.0, 200)
    packed = Footprint(0, per_pair=1.0, per_node=0.0, num_virtual=1)
    assert packed.largest_part(sizes, None) == (121.0 + 121.0 + 100.0, 281)


def test_an_average_of_the_weights_is_another_copy(config: RunConfig) -> None:
    plain, averaged = (Memory(override(config, settings)) for settings in ([], ["trainer.ema_decay=0.9"]))
    assert averaged.fixed - plain.fixed == 4 * plain.parameters


@pytest.mark.parametrize(("size", "degree", "edges"), [(1, 2, 0), (2, 2, 2), (10, 2, 20), (10, 6, 60), (5, 50, 20)])
def test_graphs_have_the_edges_asked_for(config: RunConfig, size: int, degree: float, edges: int) -> None:
    assert synthetic_graph(config, size, np.random.default_rng(0), degree).num_edges == edges


def test_times_are_never_negative_however_busy_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([9.0, 1.0] * 5)  # two layers seem slower than three

    def timed(*_: Any) -> tuple[float, float]:
        return (found := next(seconds)), found / 3

    monkeypatch.setattr(module, "_time_pass", timed)
    config = preset("zinc-100k")
    assert measure_seconds(config, execution(config), [5, 6], 2.0) == (9.0, 3.0)


def test_nothing_random_is_touched(config: RunConfig) -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    measure_footprint(config, execution(config))
    assert torch.equal(before, torch.random.get_rng_state())
