"""Artifacts: what is written comes back, and what is damaged is refused."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from egt.errors import ArtifactError, RunError
from egt.inference.artifact import CALIBRATION, CARD, CONFIG, WEIGHTS, Artifact, load_artifact, save_artifact
from egt.inference.uncertainty import Calibration
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


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG, CARD])
def test_one_flipped_bit_is_noticed(saved: Path, name: str) -> None:
    content = bytearray((saved / name).read_bytes())
    place = content.index(b"0.25") + 3 if name == CARD else len(content) // 2
    content[place] ^= 1
    (saved / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=name):
        load_artifact(saved)


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_truncated_or_missing_file_is_noticed(saved: Path, name: str) -> None:
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ArtifactError, match="checksum"):
        load_artifact(saved)
    (saved / name).unlink()
    with pytest.raises(ArtifactError, match=name):
        load_artifact(saved)


def test_every_flipped_bit_of_the_card_is_noticed_or_means_the_same(saved: Path) -> None:
    content = (saved / CARD).read_bytes()
    facts = load_artifact(saved)
    for place in range(len(content)):
        (saved / CARD).write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        try:
            found = load_artifact(saved)
        except ArtifactError:
            continue
        assert (found.metrics, found.data, found.notes) == (facts.metrics, facts.data, facts.notes)


def test_the_card_may_be_laid_out_anew_but_not_changed(saved: Path) -> None:
    card = json.loads((saved / CARD).read_text())
    (saved / CARD).write_text(json.dumps(card, indent=4, sort_keys=True))
    assert load_artifact(saved).data == {"rows": 7}
    del card["sha256"][CARD]
    (saved / CARD).write_text(json.dumps(card))
    with pytest.raises(ArtifactError, match=CARD):
        load_artifact(saved)


@pytest.mark.parametrize(
    "scale",
    [
        *({}, [], 3, {"mean": [0.0]}, {"mean": 0.0, "std": 1.0}, {"mean": [0.0], "std": [0.0]}),
        *({"mean": [0.0, 1.0], "std": [1.0]}, {"mean": ["0"], "std": [1.0]}, {"mean": [float("nan")], "std": [1.0]}),
    ],
)
def test_a_malformed_scale_is_refused(tmp_path: Path, scale: Any) -> None:
    config = tiny_config()
    assert config.task.num_outputs == 1
    save_artifact(Artifact(config, tiny_model(config), data={"scale": scale}), tmp_path / "artifact")
    with pytest.raises(ArtifactError, match=r"data\.scale"):
        load_artifact(tmp_path / "artifact")


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
    with pytest.raises(ArtifactError, match="artifact"):
        load_artifact(mine)
    with pytest.raises(ArtifactError):
        save_artifact(Artifact(tiny_config(), tiny_model(tiny_config())), mine)
    assert (mine / "thesis.txt").read_text() == "precious"
    with pytest.raises(ArtifactError, match="artifact"):
        load_artifact(tmp_path / "nowhere")


def test_an_artifact_is_replaced_as_a_whole(saved: Path) -> None:
    config = tiny_config(num_layers=1)
    save_artifact(Artifact(config, tiny_model(config)), saved)
    assert load_artifact(saved).config.model.num_layers == 1
    assert sorted(path.name for path in saved.parent.iterdir()) == ["artifact"]


@pytest.fixture
def replacement() -> Artifact:
    config = tiny_config(num_layers=1)
    return Artifact(config, tiny_model(config))


def is_untouched(saved: Path) -> bool:
    names = [path.name for path in saved.parent.iterdir()]
    return names == ["artifact"] and load_artifact(saved).data == {"rows": 7}


@pytest.mark.parametrize("call", ["mkdir", "fsync", "replace"])
def test_a_full_disk_says_what_to_do_and_changes_nothing(
    saved: Path, replacement: Artifact, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real_replace = os.replace

    def full(*arguments: Any) -> None:
        if call != "replace" or Path(arguments[0]).parent != saved.parent:  # the old one can still be moved
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real_replace(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(RunError, match="--resume") as failed:
            save_artifact(replacement, saved)
    assert "\n" not in str(failed.value)
    assert is_untouched(saved)


def test_a_disk_that_fills_within_the_weights_changes_nothing(saved: Path, replacement: Artifact) -> None:
    def save_with_small_files(answer: Any) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
        try:
            save_artifact(replacement, saved)
        except RunError as error:
            answer.send(str(error))

    receiver, sender = get_context("fork").Pipe()
    writer = get_context("fork").Process(target=save_with_small_files, args=(sender,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert receiver.poll()
    message = receiver.recv()
    assert "File too large" in message
    assert "continue with --resume" in message
    assert is_untouched(saved)


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_others_may_read_what_the_umask_admits(tmp_path: Path, replacement: Artifact, umask: int) -> None:
    for _ in range(2):  # new, then replaced
        save_artifact(replacement, tmp_path / "artifact")
        assert (tmp_path / "artifact").stat().st_mode & 0o777 == 0o777 & ~umask
        for name in (WEIGHTS, CONFIG, CARD):
            assert (tmp_path / "artifact" / name).stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_metric_that_cannot_be_computed_is_null_in_the_card(tmp_path: Path) -> None:
    config = tiny_config()
    metrics = {"val": {"roc_auc": float("nan")}}
    by_target = {"metrics_by_target": {"val": {"a": {"roc_auc": float("nan")}}}}
    save_artifact(Artifact(config, tiny_model(config), metrics, by_target), tmp_path / "artifact")

    def refuse(text: str) -> float:
        raise ValueError(text)

    card = json.loads((tmp_path / "artifact" / CARD).read_text(), parse_constant=refuse)
    assert card["metrics"] == {"val": {"roc_auc": None}}
    assert card["data"]["metrics_by_target"]["val"]["a"] == {"roc_auc": None}
    assert math.isnan(load_artifact(tmp_path / "artifact").metrics["val"]["roc_auc"])


def test_a_calibration_comes_back_and_an_edited_one_is_refused(tmp_path: Path) -> None:
    config = tiny_config()
    calibration = Calibration.of_numbers(np.array([[1.0], [2.0]]), np.array([[1.25], [2.5]]))
    save_artifact(Artifact(config, tiny_model(config), calibration=calibration), tmp_path / "artifact")
    assert load_artifact(tmp_path / "artifact").calibration == calibration
    file = tmp_path / "artifact" / CALIBRATION
    file.write_text(file.read_text().replace("0.25", "0.05"))
    with pytest.raises(ArtifactError, match=CALIBRATION):
        load_artifact(tmp_path / "artifact")
