"""What a card or calibration says is checked, whoever has written it: no file is opened and no memory taken before."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from egt.config.load import override, write_config
from egt.errors import ArtifactError, EgtError
from egt.inference.artifact import (
    CALIBRATION,
    CARD,
    CONFIG,
    ENSEMBLE,
    WEIGHTS,
    Artifact,
    EnsembleArtifact,
    content_sha256,
    file_sha256,
    load_artifact,
    load_ensemble,
    save_artifact,
    save_ensemble,
)
from tests.graphs import tiny_config, tiny_model

DEEP = json.loads("[" * 150 + "]" * 150)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    config = tiny_config()
    save_artifact(Artifact(config, tiny_model(config), {"test": {"mae": 0.25}}), tmp_path / "artifact")
    return tmp_path / "artifact"


def forge(file: Path, change: Callable[[Any], object]) -> None:
    """Change a card so that its checksum fits."""
    card = json.loads(file.read_text())
    change(card)
    card["sha256"].pop(file.name, None)
    card["sha256"][file.name] = content_sha256(card)
    file.write_text(json.dumps(card))


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["sha256"].update({"/proc/kmsg": "0"}),
        lambda card: card["sha256"].update({"../other": "0"}),
        lambda card: card["sha256"].update({CONFIG: 3}),
        lambda card: card.update(metrics={"test": 3}),
        lambda card: card.update(metrics={"test": {"mae": "low"}}),
        lambda card: card.update(notes=[]),
        lambda card: card["data"].update(card=[]),
        lambda card: card["data"].update(card={"checksums": 3}),
        lambda card: card["data"].update(card={"split_sizes": {"train": "many"}}),
        lambda card: card["data"].update(card=DEEP),
        lambda card: card["data"].update(coverage={"targets": [1]}),
        lambda card: card["data"].update(member_metrics={"test": {"mae": 3}}),
        lambda card: card["data"].update(scale=DEEP),
        lambda card: card.update(metrics=DEEP),
    ],
)
def test_a_card_of_wrong_types_is_refused(saved: Path, change: Callable[[Any], object]) -> None:
    forge(saved / CARD, change)
    with pytest.raises(ArtifactError, match=CARD):
        load_artifact(saved)


@pytest.mark.parametrize("width", [10**6, 10**12])
def test_a_model_that_no_machine_can_hold_is_refused(saved: Path, width: int) -> None:
    config = override(load_artifact(saved).config, [f"model.node_width={width}"])
    (saved / CONFIG).write_text(write_config(config))
    forge(saved / CARD, lambda card: card["sha256"].update({CONFIG: file_sha256(saved / CONFIG)}))
    with pytest.raises(EgtError):
        load_artifact(saved)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_card_that_is_nested_deeply_is_refused(saved: Path, depth: int) -> None:
    text = (saved / CARD).read_text()
    (saved / CARD).write_text(text.replace('"notes"', f'"more": {"[" * depth}{"]" * depth}, "notes"', 1))
    with pytest.raises(ArtifactError, match=CARD):
        load_artifact(saved)


@pytest.mark.parametrize("name", [CARD, CONFIG, WEIGHTS])
def test_a_pipe_is_not_waited_for(saved: Path, name: str) -> None:
    (saved / name).unlink()
    os.mkfifo(saved / name)
    with pytest.raises(ArtifactError, match=name):
        load_artifact(saved)


@pytest.mark.parametrize("content", [[], {"format": 1}, DEEP, "calibration"])
def test_a_forged_calibration_is_refused(saved: Path, content: Any) -> None:
    (saved / CALIBRATION).write_text(json.dumps(content))
    forge(saved / CARD, lambda card: card["sha256"].update({CALIBRATION: file_sha256(saved / CALIBRATION)}))
    with pytest.raises(ArtifactError, match=CALIBRATION):
        load_artifact(saved)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "set"},
        {"targets": []},
        {"targets": [{"name": "y", "groups": [{"count": 0, "scores": []}] * 2}]},
        {"targets": [{"name": "y", "groups": [{"count": 0, "scores": []}], "temperature": 2.0}]},
    ],
)
def test_a_calibration_of_another_task_is_refused(saved: Path, change: dict[str, Any]) -> None:
    target = {"name": "y", "groups": [{"count": 1, "scores": [0.5]}]}
    content = {"format": 1, "kind": "interval", "transductive": False, "folds": 0, "targets": [target]}
    for changed in ({}, change):
        (saved / CALIBRATION).write_text(json.dumps({**content, **changed}))
        forge(saved / CARD, lambda card: card["sha256"].update({CALIBRATION: file_sha256(saved / CALIBRATION)}))
        if changed:
            with pytest.raises(ArtifactError, match=CALIBRATION):
                load_artifact(saved)
        else:
            assert load_artifact(saved).calibration is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card.update(members=10**12),
        lambda card: card.update(members=0),
        lambda card: card.update(kind="others"),
        lambda card: card["sha256"].update({"/proc/kmsg": "0"}),
        lambda card: card["sha256"].pop("member0/card.json"),
        lambda card: card.update(data=DEEP),
    ],
)
def test_a_forged_ensemble_is_refused(saved: Path, change: Callable[[Any], object], tmp_path: Path) -> None:
    member = load_artifact(saved)
    save_ensemble(EnsembleArtifact("seeds", (member,)), [saved], tmp_path / "ensemble")
    forge(tmp_path / "ensemble" / ENSEMBLE, change)
    with pytest.raises(ArtifactError, match=ENSEMBLE):
        load_ensemble(tmp_path / "ensemble")


@pytest.mark.parametrize(
    "setting",
    [
        "model.node_width=20000",
        "model.num_layers=10000",
        "model.readout.num_virtual=1000000",
        "model.node_inputs.0.sizes=[1000000000]",
    ],
)
def test_a_model_larger_than_its_weights_takes_no_memory(saved: Path, setting: str) -> None:
    content = override(load_artifact(saved).config, ["model.readout.kind=virtual_nodes"])
    (saved / CONFIG).write_text(write_config(override(content, [setting])))
    forge(saved / CARD, lambda card: card["sha256"].update({CONFIG: file_sha256(saved / CONFIG)}))
    with get_context("fork").Pool(1) as pool:
        assert pool.apply(load_with_little_memory, (saved,)) == "does not fit the model"


def load_with_little_memory(path: Path) -> str:
    """In a process that cannot take two more gigabytes."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 2**30, used + 2 * 2**30))
    try:
        load_artifact(path)
    except ArtifactError as error:
        return "does not fit the model" if "does not fit the model" in str(error) else str(error)
    return "loaded"
