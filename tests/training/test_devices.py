"""What a run asks for has to be there."""

from __future__ import annotations

import pytest
import torch

from egt.config.load import override
from egt.config.presets import preset
from egt.config.run import TrainerConfig
from egt.errors import ConfigError
from egt.training.devices import check_devices, num_devices, share_of_batch


def with_gpus(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"accelerator": "gpu"}, "accelerator is gpu, and PyTorch finds none"),
        ({"accelerator": "cuda"}, "accelerator is cuda, and PyTorch finds none"),
        ({"accelerator": "mps"}, "accelerator is mps, and PyTorch finds none"),
        ({"precision": "16"}, "precision 16 needs a GPU"),
    ],
)
def test_without_a_gpu(settings: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(0, monkeypatch)
    with pytest.raises(ConfigError, match=message):
        check_devices(TrainerConfig.model_validate(settings))
    check_devices(TrainerConfig(devices=4))
    assert num_devices(TrainerConfig(devices="auto")) == 1


def test_with_two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(2, monkeypatch)
    check_devices(TrainerConfig(accelerator="gpu", devices=2, precision="16"))
    with pytest.raises(ConfigError, match=r"devices is 3, and this machine has 2 GPUs"):
        check_devices(TrainerConfig(devices=3))
    check_devices(TrainerConfig(accelerator="cpu", devices=3))
    assert num_devices(TrainerConfig(devices="auto")) == 2
    assert num_devices(TrainerConfig(accelerator="cpu", devices="auto")) == 1


def test_processes_share_a_batch() -> None:
    config = override(preset("zinc-100k"), ["trainer.devices=3", "trainer.num_nodes=2"])
    assert num_devices(config.trainer) == 3
    assert share_of_batch(config) == 22  # of 128
    assert share_of_batch(preset("zinc-100k")) == 128
