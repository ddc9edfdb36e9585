"""A blend answers with the mean of network and learner everywhere, and its file is checked before it is believed."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import egt
from egt.cli.main import main
from egt.errors import ArtifactError, ConfigError, DataError
from egt.export.export import export
from egt.inference.artifact import BLEND, CARD, content_sha256, file_sha256, load_artifact
from egt.inference.learner import Blend, describe_rows
from egt.inference.predictor import Predictor
from egt.training.run import Run

pytest.importorskip("rdkit")
pytest.importorskip("sklearn")
SMALL: dict[str, Any] = {"trainer.max_epochs": 2, "model.num_layers": 1, "trainer.baseline": True}


def table(path: Path) -> Path:
    """Chains with hydroxyl groups, at some temperature; the first column is learned, the second has yes and no."""
    sizes = [(n, k) for n in range(9) for k in range(6)]
    rows = [f"{'C' * n}{'C(O)' * k}C,{10 * k + n},{k + 0.25},{'yes' if k > 2 else 'no'}\n" for n, k in sizes]
    path.write_text(f"smiles,temperature,y,label\n{''.join(rows)}")
    return path


def train(folder: Path, target: str = "y", **options: Any) -> Run:
    settings = SMALL | {"trainer.blend": True} | options.pop("set", {})
    return egt.train(table(folder / "table.csv"), target, out=folder / "run", set=settings, progress=False, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(tmp_path_factory.mktemp("blend"), features=["temperature"])


def values(model: Predictor, split: str = "test") -> Any:
    found = model.predict_split(split)
    return np.concatenate([each.values for each in found if each.values is not None])


def network_alone(run: Run) -> Predictor:
    return Predictor(replace(run.artifact, blend=None))


def test_the_answer_is_the_mean_of_network_and_learner(run: Run) -> None:
    model = egt.load(run.folder)
    assert model.is_blend
    blend = load_artifact(run.path).blend
    assert blend is not None
    theirs = _theirs(run, "test")
    blend = Blend(blend.learner, 0.3)
    expected = 0.3 * values(network_alone(run)) + 0.7 * theirs
    assert np.abs(theirs - values(network_alone(run))).max() > 0.1
    np.testing.assert_allclose(values(Predictor(replace(run.artifact, blend=blend))), expected, atol=1e-5)


def _samples(run: Run, split: str) -> Any:
    from egt.config.run_data import open_source, prepare_split

    return prepare_split(run.config, open_source(run.artifact.config), split)


def test_all_that_is_said_about_a_blend_is_about_its_answers(run: Run) -> None:
    model, data = egt.load(run.folder), run.artifact.data
    assert data["blend"]["metrics"]["test"] == run.artifact.metrics["test"]
    for name, value in model.evaluate("test").items():
        assert value == pytest.approx(run.artifact.metrics["test"][name], rel=1e-5)
    network = network_alone(run).evaluate("test")
    assert network["mae"] == pytest.approx(data["blend"]["network"]["test"]["mae"], rel=1e-5)
    assert run.artifact.metrics["val"]["rmse"] <= data["blend"]["network"]["val"]["rmse"] + 1e-9
    found = model.predict_split("test", interval=0.5)
    inside = [each.bounds[0, 0, 0] <= each.values[0, 0] <= each.bounds[0, 0, 1] for each in found]
    assert all(inside)
    assert run.artifact.calibration is not None
    assert run.held_out is not None
    errors = np.abs(run.held_out[0] - run.held_out[1])[:, 0]
    np.testing.assert_allclose(run.artifact.calibration.scores[0][0].ranked, np.sort(errors), atol=1e-5)


def test_calibration_rests_on_the_blend_of_answers_that_other_rows_have_chosen(tmp_path: Path) -> None:
    made = train(tmp_path, set={"trainer.max_epochs": 1})  # so that these are the answers of the only epoch
    assert made.held_out is not None
    np.testing.assert_allclose(made.held_out[0], values(egt.load(made.folder), "val"), atol=1e-5)


def _theirs(run: Run, split: str) -> Any:
    """(rows, T) the answers of the learner."""
    blend, samples = run.artifact.blend, _samples(run, split)
    assert blend is not None
    smiles = [str(answer.smiles) for answer in egt.load(run.folder).predict_split(split)]
    return blend.learner.predict(describe_rows(smiles, samples, blend.learner.names))


def test_the_learner_has_not_seen_held_out_rows(tmp_path: Path) -> None:
    """Labels of validation and test that make no sense leave it as it is."""
    found = []
    for k in range(2):
        path = tmp_path / f"{k}.csv"
        lines = table(path).read_text().splitlines()
        rows = [line.split(",") for line in lines[1:]]
        rows = [[*row, ("train", "train", "val", "test")[n % 4]] for n, row in enumerate(rows)]
        for row in rows:
            row[2] = str(float(row[2]) + 100 * k * (row[4] != "train"))
        path.write_text("\n".join([f"{lines[0]},split", *map(",".join, rows)]) + "\n")
        settings = SMALL | {"trainer.blend": True}
        made = egt.train(path, "y", out=tmp_path / f"run{k}", set=settings, progress=False)
        assert made.artifact.blend is not None
        found.append(made.artifact.blend.learner)
    assert np.array_equal(found[0].kernel.weights, found[1].kernel.weights)
    assert np.array_equal(found[0].trees.values, found[1].trees.values)


def test_yes_and_no_are_blended_as_probabilities(tmp_path: Path) -> None:
    made = train(tmp_path, "label")
    assert made.artifact.metrics["test"]["roc_auc"] > 0.9
    found = values(egt.load(made.folder))
    assert 0 < found.min() < found.max() < 1
    assert made.artifact.calibration is not None
    assert made.artifact.calibration.kind == "set"


def test_each_model_of_an_ensemble_has_its_own(tmp_path: Path) -> None:
    made = train(tmp_path, ensemble=2)
    model = egt.load(made.folder)
    assert model.is_blend
    alone = [values(member) for member in model.members]
    np.testing.assert_allclose(values(model), np.mean(alone, 0), atol=1e-6)
    learners = [each.blend.learner for each in model.artifact.members]
    assert not np.array_equal(learners[0].trees.values, learners[1].trees.values)
    assert model.evaluate("test")["mae"] == pytest.approx(made.artifact.metrics["test"]["mae"], rel=1e-5)


def test_a_finished_run_becomes_one_without_training_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = train(tmp_path, set={"trainer.blend": False, "optimizer.lr": 1e-6})
    assert not egt.load(made.folder).is_blend
    assert made.artifact.data["blend"]["kept"] is False
    weights = (made.path / "weights.safetensors").read_bytes()
    for words in (["train", str(made.folder), "--resume"], ["train", str(made.folder), "--resume", "--blend"]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert not end.value.code
        said = "".join(capsys.readouterr())
        assert ("--resume --blend" in said) is (words[-1] != "--blend")  # suggested once it is clearly better
    assert egt.load(made.folder).is_blend
    assert (made.path / "weights.safetensors").read_bytes() == weights


def test_what_cannot_be_blended_is_refused_before_training(tmp_path: Path) -> None:
    graphs = [nx.path_graph(n) for n in range(2, 22)]
    for n, graph in enumerate(graphs):
        graph.graph["y"] = float(n)
    with pytest.raises(ConfigError, match="SMILES"):
        egt.train(graphs, "y", set=SMALL | {"trainer.blend": True}, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_graphs_without_smiles_are_refused(run: Run) -> None:
    graph = _samples(run, "test")[0].graph
    with pytest.raises(DataError, match="SMILES"):
        egt.load(run.folder).predict([graph])


def _forge(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change the tensors and the metadata of the file, with right checksums."""
    file = folder / BLEND
    with safetensors.safe_open(file, framework="np") as opened:
        about, tensors = json.loads(opened.metadata()["learner"]), {k: opened.get_tensor(k) for k in opened.keys()}  # noqa: SIM118
    change(about, tensors)
    safetensors.numpy.save_file(tensors, file, {"learner": json.dumps(about)})
    card = json.loads((folder / CARD).read_text())
    card["sha256"].pop(CARD)
    card["sha256"][BLEND] = file_sha256(file)
    card["sha256"][CARD] = content_sha256(card)
    (folder / CARD).write_text(json.dumps(card))


FORGED: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "share": lambda about, tensors: about.update(share=1.5),
    "format": lambda about, tensors: about.update(format=2),
    "fewer names": lambda about, tensors: about.update(names=about["names"][:-1]),
    "unknown descriptor": lambda about, tensors: about.update(names=[*about["names"][:-1], "Charm"]),
    "missing tensor": lambda about, tensors: tensors.pop("kernel.means"),
    "more tensors": lambda about, tensors: tensors.update(more=np.zeros(1)),
    "other type": lambda about, tensors: tensors.update(bins=tensors["bins"].astype(np.int64)),
    "other shape": lambda about, tensors: tensors.update({"kernel.weights": tensors["kernel.weights"][:-1]}),
    "bins": lambda about, tensors: tensors.update(bins=tensors["bins"] + 5000),
    "place": lambda about, tensors: tensors.update({"kernel.places": tensors["kernel.places"] - 1}),
    "starts": lambda about, tensors: tensors.update({"kernel.starts": tensors["kernel.starts"][::-1].copy()}),
    "feature": lambda about, tensors: tensors.update({"trees.features": tensors["trees.features"] + np.int16(999)}),
    "targets": lambda about, tensors: tensors.update({"kernel.means": np.zeros(2), "kernel.weights": np.zeros((9, 2))}),
    "not a number": lambda about, tensors: tensors.update({"kernel.means": np.array([np.nan])}),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_file_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "artifact"
    shutil.copytree(run.path, folder)
    _forge(folder, lambda about, tensors: None)
    assert load_artifact(folder).blend is not None
    _forge(folder, FORGED[name])
    with pytest.raises(ArtifactError):
        load_artifact(folder)


def test_a_damaged_file_is_refused(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "artifact"
    shutil.copytree(run.path, folder)
    (folder / BLEND).write_bytes(b"\x80\x04N.")
    with pytest.raises(ArtifactError):
        load_artifact(folder)


def test_scikit_learn_and_copies_keep_it(tmp_path: Path) -> None:
    from egt.sklearn import EGTRegressor

    lines = [line.split(",") for line in table(tmp_path / "table.csv").read_text().splitlines()[1:]]
    smiles, y = [line[0] for line in lines], [float(line[2]) for line in lines]
    found = EGTRegressor(max_epochs=1, settings={"trainer.blend": True, "model.num_layers": 1}).fit(smiles, y)
    assert found.model_.is_blend
    assert np.array_equal(pickle.loads(pickle.dumps(found)).predict(smiles), found.predict(smiles))


def test_an_exported_file_is_of_the_network_alone_and_says_so(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    export(run.artifact, tmp_path / "out", ["torch"])
    assert "network alone" in caplog.text
