"""Artifacts of a hub: found in a folder laid out as its cache, without a network, and checked as any other."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

import egt
from egt.errors import ArtifactError

pytest.importorskip("huggingface_hub")
from huggingface_hub import constants

TRAINED = Path(__file__).parents[1] / "fixtures/v0_1/molecules/artifact"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of huggingface_hub with one model, and no network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    model = tmp_path / "models--chemists--solubility"
    shutil.copytree(TRAINED, model / "snapshots" / COMMIT)
    (model / "refs").mkdir()
    (model / "refs/main").write_text(COMMIT)
    return model


def test_a_pinned_model_is_loaded(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = egt.load(f"hf://chemists/solubility@{COMMIT}")
    assert model.predict(["CCO"]).table() == egt.load(TRAINED).predict(["CCO"]).table()
    assert not caplog.records


@pytest.mark.parametrize("address", ["hf://chemists/solubility", "hf://chemists/solubility@main"])
def test_an_open_revision_is_warned_of(address: str, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        egt.load(address)
    assert f"hf://chemists/solubility@{COMMIT}" in caplog.text


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://solubility", "is not the address of a model"),
        ("hf://chemists/solubility@a b", "is not the address of a model"),
        ("hf://chemists/toxicity", "cannot be fetched"),
        ("hf://chemists/solubility@" + "f" * 40, "cannot be fetched"),
    ],
)
def test_what_is_not_there_is_one_message(address: str, message: str, cache: Path) -> None:
    with pytest.raises(ArtifactError, match=message) as raised:
        egt.load(address)
    assert "\n" not in str(raised.value)


def test_a_damaged_model_is_refused(cache: Path) -> None:
    weights = cache / "snapshots" / COMMIT / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match="does not match its checksum"):
        egt.load(f"hf://chemists/solubility@{COMMIT}")
