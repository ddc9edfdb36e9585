"""Artifacts: what is written comes back, and what is damaged is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from egt.artifact.artifact import CARD, CONFIG, WEIGHTS, Artifact, load_artifact, save_artifact
from egt.errors import ArtifactError
from tests.graphs import tiny_config, tiny_model


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    config = tiny_config()
    artifact = Artifact(config, tiny_model(config), {"test": {"mae": 0.25}}, {"rows": 7}, "a note")
    save_artifact(artifact, tmp_path / "artifact")
    return tmp_path / "artifact"


def test_round_trip(saved: Path) -> None:
    config = tiny_config()
    found = load_artifact(saved)
    assert found.config == config
    assert (found.metrics, found.data, found.notes) == ({"test": {"mae": 0.25}}, {"rows": 7}, "a note")
    expected = tiny_model(config).state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.model.state_dict().items())
    assert not found.model.training
    assert json.loads((saved / CARD).read_text())["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_one_flipped_bit_is_noticed(saved: Path, name: str) -> None:
    content = bytearray((saved / name).read_bytes())
    content[len(content) // 2] ^= 1
    (saved / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=f"{name} does not match its checksum"):
        load_artifact(saved)


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_truncated_or_missing_file_is_noticed(saved: Path, name: str) -> None:
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ArtifactError, match="checksum"):
        load_artifact(saved)
    (saved / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name} is missing"):
        load_artifact(saved)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 99, "sha256": {}, "metrics": {}, "data": {}, "notes": ""}']
)
def test_a_strange_card_is_refused(saved: Path, content: str) -> None:
    (saved / CARD).write_text(content)
    with pytest.raises(ArtifactError, match=r"card\.json|format 99"):
        load_artifact(saved)


def test_a_folder_that_is_no_artifact_is_neither_read_nor_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    with pytest.raises(ArtifactError, match="not an artifact"):
        load_artifact(mine)
    with pytest.raises(ArtifactError, match="nothing was changed"):
        save_artifact(Artifact(tiny_config(), tiny_model(tiny_config())), mine)
    assert (mine / "thesis.txt").read_text() == "precious"
    with pytest.raises(ArtifactError, match="no such artifact"):
        load_artifact(tmp_path / "nowhere")


def test_an_artifact_is_replaced_as_a_whole(saved: Path) -> None:
    config = tiny_config(num_layers=1)
    save_artifact(Artifact(config, tiny_model(config)), saved)
    assert load_artifact(saved).config.model.num_layers == 1
    assert sorted(path.name for path in saved.parent.iterdir()) == ["artifact"]
