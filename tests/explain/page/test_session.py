"""What the page is told equals what the library says, and nothing it asks for breaks the session."""

from __future__ import annotations

import shutil
import tempfile
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.errors import DataError
from egt.explain.page import session as module
from egt.explain.page.session import Recent, Session
from egt.inference.artifact import EnsembleArtifact
from egt.inference.predictor import load
from egt.training.record import read_run
from tests.explain.page.conftest import ASPIRIN, FIXTURES


def test_what_the_page_is_about(session: Session) -> None:
    about = session.about()
    assert about["targets"] == ["solubility", "size"]
    assert about["molecules"]
    assert about["level"] == "graph"
    assert about["parameters"] == session.model.artifact.model.num_parameters()
    assert about["metrics"]["test"]["mae"] == session.model.artifact.metrics["test"]["mae"]
    assert about["curves"]["loss"]["training"][:2] == [0.8012871126974782, 0.7537946239594491]
    assert set(about["splits"]) == {"train", "val", "test"}


def test_an_artifact_without_its_run_has_no_curves(session: Session) -> None:
    record = read_run(Path(session.record.folder) / "artifact")
    assert Session(session.model, record).about()["curves"] == {}


def test_the_model_of_the_package_has_its_curves() -> None:
    about = Session.of("zinc-100k", load("zinc-100k")).about()
    assert len(about["curves"]["loss"]["training"]) == 600
    [metric] = about["curves"]["mae"].values()
    assert metric[about["best_epoch"] - 1] == pytest.approx(about["metrics"]["val"]["mae"], rel=1e-4)


def test_smiles_without_any(session: Session) -> None:
    with pytest.raises(DataError, match="SMILES"):
        session.smiles([" ", ""])


def test_a_look_is_what_the_predictor_says(session: Session, looked: dict[str, Any]) -> None:
    [expected] = session.model.predict([ASPIRIN]).table()
    [row] = looked["prediction"]["rows"]
    assert dict(zip(looked["prediction"]["columns"], row, strict=True)) == expected
    assert looked["title"] == ASPIRIN
    assert looked["nodes"] == len(looked["drawing"]["x"]) == 13
    assert looked["drawing"]["names"][2] == "O2"


def test_a_matrix_is_what_the_attention_says(session: Session, looked: dict[str, Any]) -> None:
    [found] = session.model.attention([ASPIRIN])
    assert found is not None
    for of in ("product", "softmax", "gates"):
        one = session.weights(looked["look"], 1, 0, of)["matrix"]
        np.testing.assert_allclose(one, found.matrix(getattr(found, of)[1, 0]), atol=1e-5)
    mean = session.weights(looked["look"], 0, None, "product")["matrix"]
    np.testing.assert_allclose(mean, found.matrix(found.product[0].mean(0)), atol=1e-5)
    with pytest.raises(DataError, match="layers"):
        session.weights(looked["look"], 2, None, "product")
    with pytest.raises(DataError, match="heads"):
        session.weights(looked["look"], 0, 99, "product")


def test_rows_of_a_split(session: Session) -> None:
    found = session.split("test", 3)
    whole = session.model.predict_split("test")
    assert (found["data"], found["start"], found["total"]) == ("test", 0, len(whole))
    assert found["rows"][3][:2] == [whole[3].id, whole[3].smiles]
    assert session.look("test", 3)["title"] == whole[3].smiles
    with pytest.raises(DataError, match="data"):
        session.look("test", len(whole))


def test_pages_of_a_split_begin_at_round_numbers(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_ROWS", 2)
    found = session.split("train", 3)
    assert found["start"] == 2
    assert found["of"] == [2, 3]
    assert session.split("train", 10**9)["of"][-1] == found["total"] - 1


def test_bad_smiles_have_their_reason(session: Session) -> None:
    found = session.smiles(["CCO", "C1CC"])
    assert "unclosed ring" in found["rows"][1][found["columns"].index("error")]
    with pytest.raises(DataError, match="unclosed"):
        session.look(found["data"], 1)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.csv", b"", r"x.csv"),
        ("x.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x9d", "picture"),
        ("x.exe", b"hello", "kind"),
        ("../../etc/x.csv", b"a,b\n1,2\n", "x.csv"),
        (".hidden", b"x", "hidden"),
        ("", b"x", "file"),
        ("x\0.csv", b"smiles\n", "x_.csv"),
        ("\U00020000" * 99 + ".csv", b"", "empty"),  # four bytes each: a name has at most 255
    ],
)
def test_bad_files_are_refused_by_their_own_name(session: Session, name: str, content: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason) as caught:
        session.upload(name, content)
    assert "/" not in str(caught.value).split(":")[0]
    assert "egt-app-" not in str(caught.value)


def test_an_upload_is_predicted_and_leaves_no_file(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = session.upload("new.csv", b"name,smiles\na,CCO\nb,C1CC\n")
    assert not list(tmp_path.iterdir())
    [expected] = session.model.predict(["CCO"]).table()
    assert found["rows"][0][found["columns"].index("size")] == expected["size"]
    assert found["rows"][1][found["columns"].index("error")].startswith("new.csv row 2: ")
    assert session.look(found["data"], 0)["title"] == "CCO"


def test_too_many_rows(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    with pytest.raises(DataError, match="predict"):
        session.smiles(["C", "CC", "CCC"])


def test_graphs_that_are_too_large_are_predicted_only(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 5)
    found = session.look(session.smiles(["CCCCCC"])["data"], 0)
    assert "more than 5 nodes" in found["unseen"]
    assert found["prediction"]["rows"]
    assert "look" not in found


def test_a_model_without_attention_still_predicts(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "attending", lambda _: [])
    assert "no attention" in session.look(session.smiles(["CC"])["data"], 0)["unseen"]


def test_only_the_last_things_are_kept() -> None:
    recent = Recent[str]("data", 2)
    first, second = recent.keep("a"), recent.keep("b")
    assert recent[first] == "a"  # asked for: `second` is now the oldest
    third = recent.keep("c")
    assert (recent[first], recent[third]) == ("a", "c")
    with pytest.raises(DataError, match=second):
        recent[second]


def test_the_nodes_of_an_uploaded_graph(node_session: Session) -> None:
    file = FIXTURES / "nodes/new.jsonl"
    expected = node_session.model.predict(file)
    opened = node_session.upload(file.name, file.read_bytes())
    assert [dict(zip(opened["columns"], row, strict=True)) for row in opened["rows"]] == expected.table()
    found = node_session.look(opened["data"], 1)
    assert found["drawing"]["edges"] == [(0, 1, 1.0), (1, 2, 1.0), (1, 3, 1.0), (3, 4, 1.0)]
    said = node_session.explain(found["look"], of=3)
    likely = max(expected.table()[6 + 3].items(), key=lambda item: isinstance(item[1], float) and item[1])
    assert said["probability"] == pytest.approx(likely[1], rel=1e-4)


@pytest.mark.parametrize("name", ["session", "node_session", "pair_session"])
def test_the_first_answer_finds_everything_loaded(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: Session = request.getfixturevalue(name)
    looks: list[Any] = []
    look = warmed.look
    monkeypatch.setattr(warmed, "look", lambda *given: looks.append(look(*given)))
    warmed.warm_up()
    assert "look" in looks[0]
    assert not warmed.lock.locked()


def test_an_ensemble_answers_with_mean_deviation_and_interval(pair_session: Session) -> None:
    about = pair_session.about()
    assert (about["members"], about["interval"], about["features"]) == (2, 0.9, ["temperature"])
    assert about["metrics"]["test"] == pair_session.model.artifact.metrics["test"]
    assert about["curves"]["loss"]["training"]
    opened = pair_session.smiles(["CCO"], {"temperature": 20.0})
    answer = dict(zip(opened["columns"], opened["rows"][0], strict=True))
    assert answer["solubility_low"] < answer["solubility"] < answer["solubility_high"]
    assert answer["solubility_std"] > 0
    assert "solubility_low" in opened["csv"].splitlines()[0]
    assert opened["answers"] == ["solubility", "solubility_std", "solubility_low", "solubility_high"]


def test_the_artifact_of_an_ensemble_needs_no_run(pair_session: Session, tmp_path: Path) -> None:
    shutil.copytree(Path(pair_session.record.folder).parent / "artifact", tmp_path / "artifact")
    found = Session.of(tmp_path, load(tmp_path)).about()
    assert (found["members"], found["curves"]) == (2, {})
    assert found["metrics"] == pair_session.about()["metrics"]


def test_classes_have_sets(class_session: Session) -> None:
    assert class_session.about()["classes"]
    opened = class_session.smiles(["CCO"])
    answer = dict(zip(opened["columns"], opened["rows"][0], strict=True))
    assert {*answer["kind_set"].split("|")} <= {"yes", "no", ""}
    assert "kind_set" in opened["answers"]


def test_molecules_of_the_training_data_are_called_so(class_session: Session) -> None:
    learned = class_session.look("train", 0)
    assert learned["known"]
    assert learned["familiarity"] == 1
    other = class_session.look(class_session.smiles(["c1ccccc1"])["data"], 0)
    assert not other["known"]
    assert other["familiarity"] < 1


def test_one_member_is_looked_into_and_explained(pair_session: Session) -> None:
    data = pair_session.smiles(["CCCO"], {"temperature": 20.0})["data"]
    first, second = (pair_session.look(data, 0, member) for member in (0, 1))
    assert first["prediction"] == second["prediction"]
    assert first["attention"]["product"] != second["attention"]["product"]
    mean = first["prediction"]["rows"][0][first["prediction"]["columns"].index("solubility")]
    values = [pair_session.explain(found["look"])["value"] for found in (first, second)]
    assert sum(values) / 2 == pytest.approx(mean, rel=1e-4)
    with pytest.raises(DataError, match=r"0\.\.1"):
        pair_session.look(data, 0, 2)


def test_features_are_those_that_were_typed(pair_session: Session) -> None:
    cold, hot = (pair_session.smiles(["CCO"], {"temperature": each})["rows"] for each in (0.0, 500.0))
    assert cold != hot
    found = pair_session.smiles(["CCO"])
    assert "the training mean is taken" in found["rows"][0][found["columns"].index("warning")]


def test_splits_of_folds_are_not_offered(pair_session: Session) -> None:
    artifact = pair_session.model.artifact
    assert isinstance(artifact, EnsembleArtifact)
    folds = copy(pair_session.model)
    folds.artifact = replace(artifact, kind="folds")
    session = Session(folds, pair_session.record)
    assert session.about()["splits"] == {}
    with pytest.raises(DataError, match="splits"):
        session.split("test")
