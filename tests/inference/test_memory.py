"""The memory of a prediction is estimated for what runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from egt.assemble import build_model
from egt.config.load import override
from egt.inference import backends as memory
from egt.inference.backends import CPU, PLAIN, Execution, available_memory, prediction_bytes, recompute_hint, too_large
from egt.nn.kernels.operators import available
from egt.paper.presets import preset
from egt.training.memory import LiveBytes, synthetic_batch
from tests.accelerator import DEVICE

WAYS = [Execution("packed", CPU), Execution("packed", PLAIN), Execution("padded", PLAIN)]


@pytest.mark.parametrize("how", WAYS, ids=["kernel", "plain", "padded"])
@pytest.mark.parametrize("activation", ["elu", "gelu"])
@pytest.mark.parametrize("name", ["zinc-100k", "pattern-100k", "pcqm4mv2-small", "zinc-100k triplets"])
def test_the_memory_of_a_prediction_is_what_is_alive_at_its_peak(name: str, activation: str, how: Execution) -> None:
    if how.backend is CPU and not available():
        pytest.skip("no compiler")
    name, *triplets = name.split()
    more = ["model.triplets=aggregation"] if triplets else []
    config = override(preset(name), ["model.num_layers=3", f"model.activation={activation}", *more])
    model = build_model(config, backend=how.backend).eval()
    batch = synthetic_batch(config, (60,), how.layout)
    with torch.inference_mode(), LiveBytes(model.parameters()) as live:
        model(batch)
    estimated = prediction_bytes(config, 60, how)
    assert 0.8 < estimated / live.peak < 1.5  # rather too much than too little


def test_a_list_of_edges_has_nothing_that_grows_with_the_square(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 1000)
    config = preset("zinc-100k")
    assert "2,000 nodes" in too_large(config, 2000, torch.device("cpu"))
    sparse = override(config, ["data.layout=edge_list", "model.scope=neighbors", "task.auxiliary=[]"])
    assert too_large(sparse, 2000, torch.device("cpu")) == ""


def test_the_memory_of_an_accelerator_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.get_device_module(DEVICE), "free", 10**6)
    assert available_memory(DEVICE) == 900_000
    assert available_memory("cpu") > 10**6
    shared = SimpleNamespace(recommended_max_memory=lambda: 5000, driver_allocated_memory=lambda: 1000)
    monkeypatch.setattr(torch, "mps", shared)
    assert available_memory("mps") == 3600


def test_layers_that_keep_their_inside_can_be_told_to_compute_it_again() -> None:
    config = preset("zinc-100k")
    assert "trainer.recompute=true" in recompute_hint(config, "plain")
    assert recompute_hint(config, "cpu") == ""  # does so by itself
    assert recompute_hint(override(config, ["trainer.recompute=true"]), "plain") == ""
