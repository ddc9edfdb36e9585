"""A folder that is put into the package is a model with a name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from egt.errors import ArtifactError
from egt.inference import artifact as pretrained
from egt.inference.artifact import find_artifact
from egt.training.finetune import describe_start
from tests.cli.runs import egt

ROOT = Path(__file__).resolve().parents[2]
TRAINED = ROOT / "tests/fixtures/v0_1/molecules/artifact"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(TRAINED, tmp_path / "package" / "solubility")
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "package")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "package" / "solubility"


def test_it_is_found_by_its_name_unless_a_folder_is_called_so(shipped: Path, tmp_path: Path) -> None:
    assert find_artifact("solubility") == shipped
    shutil.copytree(TRAINED, tmp_path / "solubility")
    assert find_artifact("solubility") == Path("solubility")
    with pytest.raises(ArtifactError, match="solubility"):
        find_artifact("solubilty")


def test_it_predicts_and_can_be_started_from(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = egt(capsys, "predict", "solubility", "CCO", "c1ccccc1", "--json")
    assert done.code == 0, done.err
    assert len(done.json["predictions"]) == 2
    assert describe_start("solubility").artifact == str(shipped)


def test_presets_list_it_with_its_card(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert egt(capsys, "presets", "--json").json["pretrained"] == ["solubility"]
    assert "solubility" in egt(capsys, "presets").out


def test_what_is_shipped_is_small_and_whole() -> None:
    for name in pretrained.pretrained_names():
        folder = find_artifact(name)
        assert sum(file.stat().st_size for file in folder.iterdir()) < 8_000_000, name


def test_git_and_so_the_wheel_take_the_files_of_an_artifact() -> None:
    for name in ("weights.safetensors", "config.yaml", "card.json"):
        path = f"src/egt/pretrained/some-model/{name}"
        assert subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT, check=False).returncode == 1, path
