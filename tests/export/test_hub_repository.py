"""The model card has the head that a hub reads, and a repository says nothing about the machine it was made on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import egt
from egt.export.hub_repository import write_repository
from egt.inference.artifact import EnsembleArtifact, load_artifact, save_artifact, save_ensemble
from tests.cli.runs import egt as command

TRAINED = Path(__file__).parents[1] / "fixtures/v0_1/molecules/artifact"


def test_the_card_is_true_and_the_artifact_still_predicts(tmp_path: Path) -> None:
    artifact = load_artifact(TRAINED)
    secret = artifact.config.data.model_copy(update={"source": "/home/someone/molecules.csv"})
    artifact = replace(artifact, config=artifact.config.model_copy(update={"data": secret}))
    write_repository(artifact, tmp_path / "hub", "mit")
    assert {path.name for path in (tmp_path / "hub").iterdir()} == {
        *("README.md", "card.json", "config.yaml", "weights.safetensors")
    }
    assert not [path for path in (tmp_path / "hub").iterdir() if b"/home/someone" in path.read_bytes()]
    _, head, body = (tmp_path / "hub/README.md").read_text().split("---\n", 2)
    about = yaml.safe_load(head)
    assert (about["license"], about["library_name"], about["pipeline_tag"]) == ("mit", "egt-graph", "graph-ml")
    [model] = about["model-index"]
    values = {each["name"]: each["value"] for each in model["results"][0]["metrics"]}
    assert values["mae (test)"] == artifact.metrics["test"]["mae"]
    assert f"| test | mae | {artifact.metrics['test']['mae']:.4g} |" in body
    assert "solubility, size (regression)" in body
    before, after = egt.load(TRAINED).predict(["CCO"]), egt.load(tmp_path / "hub").predict(["CCO"])
    assert before.table() == after.table()


def test_names_and_paths_of_the_data_are_not_published_as_they_are(tmp_path: Path) -> None:
    artifact = load_artifact(TRAINED)
    path = "/home/someone/molecules.csv"
    card = {**artifact.data["card"], "title": f"custom data: {path}", "checksums": {path: "0"}}
    names = {"names": ("[y](http://x)<b>", "a\n# b"), "target": None}
    task = artifact.config.task.model_copy(update=names)
    write_repository(
        replace(
            artifact, config=artifact.config.model_copy(update={"task": task}), data={**artifact.data, "card": card}
        ),
        tmp_path / "hub",
    )
    assert not [each for each in (tmp_path / "hub").iterdir() if b"/home/someone" in each.read_bytes()]
    body = (tmp_path / "hub/README.md").read_text()
    assert "| data | custom data: molecules.csv |" in body
    assert r"predicts \[y\](http://x)\<b\>, a \# b (regression)" in body


def test_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "export", TRAINED, "--out", tmp_path / "hub", "--hub", "--json")
    assert (done.code, done.json["output"]) == (0, str(tmp_path / "hub"))
    assert "license" not in yaml.safe_load((tmp_path / "hub/README.md").read_text().split("---\n")[1])
    done = command(capsys, "export", TRAINED, "--out", tmp_path / "other", "--license", "mit")
    assert (done.code, "--hub" in done.err) == (2, True)


def test_an_ensemble_is_one_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = load_artifact(TRAINED)
    secret = artifact.config.data.model_copy(update={"source": "/home/someone/molecules.csv"})
    member = replace(artifact, config=artifact.config.model_copy(update={"data": secret}))
    save_artifact(member, tmp_path / "one")
    kept = EnsembleArtifact("seeds", (member, member), {"test": {"mae": 0.125}})
    save_ensemble(kept, [tmp_path / "one", tmp_path / "one"], tmp_path / "two")
    done = command(capsys, "export", tmp_path / "two", "--out", tmp_path / "hub", "--hub", "--license", "mit")
    assert done.code == 0, done.err
    files = [path for path in (tmp_path / "hub").rglob("*") if path.is_file()]
    assert not [path for path in files if b"/home/someone" in path.read_bytes()]
    card = (tmp_path / "hub/README.md").read_text()
    assert "2 models of one configuration" in card
    assert "| test | mae | 0.125 |" in card
    assert egt.load(tmp_path / "hub").predict(["CCO"]).table() == egt.load(tmp_path / "two").predict(["CCO"]).table()
    done = command(capsys, "export", tmp_path / "two", "--out", tmp_path / "onnx")
    assert (done.code, "member0" in done.err) == (2, True)
