"""Which device a process computes on."""

from __future__ import annotations

import pytest
import torch

from egt.config.load import override
from egt.inference.backends import device_of, num_devices, share_of_batch
from egt.inference.predictor import Predictor
from egt.paper.presets import preset
from egt.processes import Processes
from tests.inference.test_predictor import make


def accelerators(monkeypatch: pytest.MonkeyPatch, count: int, kind: str = "cuda") -> None:
    """Pretend that the machine has this many GPUs."""
    found = torch.device(kind) if count else None
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: found)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)


def test_each_process_of_a_machine_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerators(monkeypatch, 4)
    # Two machines with four processes each: what counts is the number on the machine.
    found = [device_of(Processes(rank, 8, local_rank=rank % 4)) for rank in range(8)]
    assert found == [torch.device("cuda", rank % 4) for rank in range(8)]


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_processes_share_when_there_are_fewer_gpus(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    accelerators(monkeypatch, 1, kind)
    assert {device_of(Processes(rank, 2, local_rank=rank)) for rank in range(2)} == {torch.device(kind, 0)}


def test_without_a_gpu_it_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerators(monkeypatch, 0)
    assert device_of(Processes(1, 2, local_rank=1)) == torch.device("cpu")
    assert Predictor(make()).device == torch.device("cpu")


def test_a_predictor_computes_on_the_device_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerators(monkeypatch, 2, "meta")  # a device that exists everywhere and computes nothing
    assert Predictor(make(), processes=Processes(1, 2, local_rank=1)).device == torch.device("meta", 1)
    assert Predictor(make(), "cpu", processes=Processes(1, 2, local_rank=1)).device == torch.device("cpu")


def test_a_run_may_leave_the_gpus_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerators(monkeypatch, 4)
    assert device_of(Processes(1, 4, local_rank=1), "cpu") == torch.device("cpu")
    assert device_of(Processes(1, 4, local_rank=1), "gpu") == torch.device("cuda", 1)


def test_processes_share_a_batch() -> None:
    config = override(preset("zinc-100k"), ["trainer.devices=3", "trainer.num_nodes=2"])
    assert num_devices(config.trainer) == 3
    assert share_of_batch(config) == 22  # of 128
    assert share_of_batch(preset("zinc-100k")) == 128
