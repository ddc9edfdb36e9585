"""Artifacts of a hub: found in a folder laid out as its cache, without a network, and checked as any other."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

import egt
from egt.errors import ArtifactError
from egt.export.hub_repository import write_repository
from egt.inference.artifact import EnsembleArtifact, load_artifact

pytest.importorskip("huggingface_hub")
import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.utils import filter_repo_objects

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
        ("hf://solubility", "address"),
        ("hf://chemists/solubility@a b", "address"),
        ("hf://chemists/toxicity", "fetched"),
        ("hf://chemists/solubility@" + "f" * 40, "fetched"),
    ],
)
def test_what_is_not_there_is_one_message(address: str, message: str, cache: Path) -> None:
    with pytest.raises(ArtifactError, match=message) as raised:
        egt.load(address)
    assert "\n" not in str(raised.value)


def test_an_ensemble_is_fetched_whole_and_nothing_else(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_artifact(TRAINED)
    folder = cache / "snapshots" / COMMIT
    shutil.rmtree(folder)
    write_repository(EnsembleArtifact("seeds", (model, model)), folder)
    assert egt.load(f"hf://chemists/solubility@{COMMIT}").is_ensemble
    asked: list[str] = []

    def keep(repository: str, *, revision: str, allow_patterns: list[str]) -> str:
        asked.extend(allow_patterns)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", keep)
    egt.load(f"hf://chemists/solubility@{COMMIT}")
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    fetched = set(filter_repo_objects([*files, "member0/model.pkl", "code.py"], allow_patterns=asked))
    assert fetched == {*files} - {"README.md"}
    assert {"ensemble.json", "member1/weights.safetensors"} <= fetched


def test_a_damaged_model_is_refused(cache: Path) -> None:
    weights = cache / "snapshots" / COMMIT / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match="checksum"):
        egt.load(f"hf://chemists/solubility@{COMMIT}")
