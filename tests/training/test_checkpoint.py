"""Checkpoint files: whole or not there at all, and nothing foreign or damaged is read."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from egt.errors import ArtifactError, RunError
from egt.training import run_folder as checkpoint
from egt.training.run_folder import Best, Checkpoints, RunProgress, read_tensors, write_tensors

STATE: dict[str, Any] = {
    **dict.fromkeys(("config", "data", "scale", "schedule", "precision", "trained")),
    "progress": RunProgress().as_json(),
}
TENSORS = {"b": torch.arange(6.0).view(2, 3), "a": torch.tensor(3), "c": torch.ones(2, dtype=torch.bfloat16)}


def written(folder: Path, step: int = 1, **state: Any) -> Path:
    folder.mkdir(exist_ok=True)
    checkpoints = Checkpoints(folder)
    checkpoints.write(step, state, TENSORS)
    return checkpoints.generations()[-1]


def test_state_and_tensors_come_back_exactly(tmp_path: Path) -> None:
    path = written(tmp_path, rate=0.1 + 0.2, loss=float("inf"))
    state, tensors = read_tensors(path)
    assert state == {"rate": 0.1 + 0.2, "loss": float("inf")}
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_two_generations_are_kept_with_the_weights_they_name(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step, weights in ((1, "best-1.safetensors"), (2, "best-2.safetensors"), (3, "best-2.safetensors")):
        write_tensors(tmp_path / weights, {}, TENSORS)
        checkpoints.write(step, {"best": {"file": weights}}, TENSORS, weights)
    assert [path.name for path in checkpoints.generations()] == [f"step-{k:012d}.safetensors" for k in (2, 3)]
    assert [path.name for path in tmp_path.glob("best-*")] == ["best-2.safetensors"]


def test_weights_named_by_the_older_generation_survive_a_resume(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    write_tensors(tmp_path / "best-1.safetensors", {}, TENSORS)
    checkpoints.write(1, {**STATE, "best": {"file": "best-1.safetensors"}}, TENSORS, "best-1.safetensors")
    again = Checkpoints(tmp_path)
    assert again.latest() is not None
    again.keep_weights("best-1.safetensors")
    write_tensors(tmp_path / "best-2.safetensors", {}, TENSORS)
    again.write(2, {"best": {"file": "best-2.safetensors"}}, TENSORS, "best-2.safetensors")
    assert len(list(tmp_path.glob("best-*"))) == 2


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ArtifactError):
            read_tensors(path)


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, epoch=3)
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        try:
            state, tensors = read_tensors(path)
        except ArtifactError:
            continue
        # Padding of the header carries nothing: what is read is what was written.
        assert state == {"epoch": 3}
        assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_foreign_files_are_refused_and_nothing_is_executed(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    pickled = tmp_path / "step-000000000009.safetensors"
    pickled.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ArtifactError, match="checkpoint"):
        Checkpoints(tmp_path).latest()
    assert not (tmp_path / "sprung").exists()
    save_file({"a": torch.ones(1)}, pickled)
    with pytest.raises(ArtifactError, match="version"):
        read_tensors(pickled)


def test_a_damaged_newest_checkpoint_names_the_older_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.write(step, {}, TENSORS)
    newest = checkpoints.generations()[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="step-000000000001"):
        checkpoints.latest()


def test_a_checkpoint_without_the_state_of_a_run_names_what_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path, **{key: value for key, value in STATE.items() if key not in ("config", "trained")})
    with pytest.raises(ArtifactError) as refused:
        Checkpoints(tmp_path).latest()
    assert str(refused.value) == f"{path} is no checkpoint of a run: it lacks config, trained; delete it to start again"


@pytest.mark.parametrize("missing", ["progress.step", "progress.best.file"])
def test_a_checkpoint_with_half_a_progress_names_what_is_missing(tmp_path: Path, missing: str) -> None:
    progress = RunProgress(best=Best(0.5, 1, "best-1.safetensors")).as_json()
    *sections, name = missing.split(".")
    del (progress["best"] if sections[1:] else progress)[name]
    path = written(tmp_path, **{**STATE, "progress": progress})
    with pytest.raises(ArtifactError) as refused:
        Checkpoints(tmp_path).latest()
    assert str(refused.value) == f"{path} is no checkpoint of a run: it lacks {missing}; delete it to start again"


@pytest.mark.parametrize("state", [None, "", "{", "[]"])
def test_a_state_that_is_no_mapping_is_refused(tmp_path: Path, state: str | None) -> None:
    path = tmp_path / "step-000000000001.safetensors"
    header = {"format": checkpoint.FORMAT, "sha256": checkpoint._digest(state or "", TENSORS)}
    save_file(TENSORS, path, metadata=header if state is None else {**header, "state": state})
    with pytest.raises(ArtifactError, match=path.name):
        read_tensors(path)


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, epoch=1)

    def full(tensors: Any, place: Path, metadata: Any) -> None:
        Path(place).write_bytes(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(RunError, match=r"No space left.*earlier checkpoints are intact"):
        written(tmp_path, step=2)
    assert Checkpoints(tmp_path).generations() == [path]
    assert read_tensors(path)[0] == {"epoch": 1}
    assert not list(tmp_path.glob("*.tmp"))
