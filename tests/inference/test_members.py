"""The artifact of an ensemble: what is written comes back, and what is damaged or edited is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from egt.errors import ArtifactError
from egt.inference.artifact import (
    CALIBRATION,
    CARD,
    ENSEMBLE,
    Artifact,
    EnsembleArtifact,
    find_artifact,
    load_artifact,
    load_ensemble,
    save_artifact,
    save_ensemble,
)
from egt.inference.uncertainty import Calibration
from tests.graphs import tiny_config, tiny_model

CALIBRATED = Calibration.of_numbers(np.array([[1.0], [2.0], [3.0]]), np.array([[1.25], [2.0], [2.5]]))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    config = tiny_config()
    members = []
    for seed in range(2):
        torch.manual_seed(seed)
        members.append(Artifact(config, tiny_model(config), {"test": {"mae": 0.25}}))
        save_artifact(members[-1], tmp_path / f"run{seed}")
    ensemble = EnsembleArtifact("seeds", tuple(members), {"test": {"mae": 0.2}}, {"a": 1}, CALIBRATED)
    save_ensemble(ensemble, [tmp_path / "run0", tmp_path / "run1"], tmp_path / "run" / "artifact")
    return tmp_path / "run" / "artifact"


def test_round_trip(saved: Path) -> None:
    assert find_artifact(saved.parent) == saved
    found = load_ensemble(saved)
    assert (found.kind, found.metrics, found.data) == ("seeds", {"test": {"mae": 0.2}}, {"a": 1})
    assert found.calibration == CALIBRATED
    for member, path in zip(found.members, ("run0", "run1"), strict=True):
        expected = load_artifact(saved.parent.parent / path).model.state_dict()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in member.model.state_dict().items())


def test_a_single_model_is_named_where_an_ensemble_will_not_do(saved: Path) -> None:
    with pytest.raises(ArtifactError, match="ensemble"):
        load_artifact(saved)


@pytest.mark.parametrize("name", [ENSEMBLE, CALIBRATION, f"member1/{CARD}"])
def test_what_was_edited_is_noticed(saved: Path, name: str) -> None:
    text = (saved / name).read_text()
    assert "0.2" in text
    (saved / name).write_text(text.replace("0.2", "0.1", 1))
    with pytest.raises(ArtifactError, match=name):
        load_ensemble(saved)


@pytest.mark.parametrize("name", [CALIBRATION, f"member1/{CARD}"])
def test_a_missing_file_is_noticed(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(ArtifactError, match=name):
        load_ensemble(saved)


@pytest.mark.parametrize("content", ["[]", "{", json.dumps({"format": 1})])
def test_what_describes_no_ensemble_is_refused(saved: Path, content: str) -> None:
    (saved / ENSEMBLE).write_text(content)
    with pytest.raises(ArtifactError, match=ENSEMBLE):
        load_ensemble(saved)
