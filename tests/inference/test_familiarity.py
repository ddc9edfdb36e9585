"""How familiar a molecule is: near to training or far, with what training never had; and in every prediction."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import egt
from egt.config.run_data import open_source
from egt.data.encodings.encoding import Sample
from egt.data.molecules import graph_from_smiles
from egt.errors import ArtifactError
from egt.inference import familiarity
from egt.inference.artifact import (
    CARD,
    MOLECULES,
    EnsembleArtifact,
    file_sha256,
    load_artifact,
    save_artifact,
)
from egt.inference.familiarity import Judgment, TrainingMolecules
from egt.inference.predictor import Predictor
from egt.inference.stream import predict_to_file
from egt.inference.uncertainty import Calibration, Scores
from tests.cli.runs import TINY, write_csv
from tests.inference.test_forged import forge

pytest.importorskip("rdkit")
ALCOHOLS = [f"{'C' * length}{end}" for length in range(2, 9) for end in ("O", "OC", "(C)O", "C(C)CO")]


def known(smiles: list[str]) -> TrainingMolecules:
    return TrainingMolecules.of([Sample(graph_from_smiles(text, canonical=True)[0]) for text in smiles], smiles)


def judged(model: TrainingMolecules, *smiles: str) -> list[Judgment]:
    return model.judge([graph_from_smiles(text, canonical=True)[0] for text in smiles], smiles)


def test_a_training_molecule_is_wholly_familiar_in_any_spelling() -> None:
    assert judged(known(ALCOHOLS), "CCCO", "OCCC") == [Judgment(1.0, "")] * 2


def test_familiarity_is_the_similarity_to_the_nearest() -> None:
    model, [found] = known(["CCO", "CCN"]), judged(known(["CCO", "CCN"]), "CCCO")
    bits = {text: known([text]).bits[0] for text in ("CCO", "CCN", "CCCO")}
    near = [float((bits[text] & bits["CCCO"]).sum() / (bits[text] | bits["CCCO"]).sum()) for text in ("CCO", "CCN")]
    assert model.similarities(bits["CCCO"][None])[0] == pytest.approx(near)
    assert found.familiarity == pytest.approx(max(near), abs=1e-3)


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("CCCCCCCCCCCCCCCCCO", "18 heavy atoms, there 3 to 12"),
        ("C", "1 heavy atom, there 3 to 12"),
        ("[2H]CO", "isotope 2H"),
        ("CC[13CH2]O", "isotope 13C"),
        ("CCC[NH3+]", "net charge +1"),
        ("CC[N+](C)(C)CC([O-])=O", "formal charge -1"),
        ("CCCO.CCO", "2 molecules in one row"),
        ("CC[C@H](C)O", "a stereo center"),
        ("C/C=C/CO", "a double bond with stereo"),
        ("CCC#CO", "bond type triple"),
        ("c1ccccc1CO", "similarity"),
    ],
)
def test_what_training_never_had_is_named(smiles: str, reason: str) -> None:
    [found] = judged(known(ALCOHOLS), smiles)
    assert found.warning.startswith("unlike training: ")
    assert reason in found.warning


def test_what_training_had_is_not_named() -> None:
    odd = ["CCC[NH3+]", "CCCO.CCO", "CC[13CH2]O", "CC[C@H](C)O", "C/C=C/CO"]
    found = judged(known([*ALCOHOLS, *odd]), *odd, "CC[C@@H](C)O", "C/C=C\\CO")
    assert {each.warning for each in found} == {""}


def test_the_limit_is_what_almost_all_training_molecules_keep_from_each_other() -> None:
    model = known([*ALCOHOLS, *ALCOHOLS])  # repeated rows are no nearest neighbors of themselves
    similar = model.similarities(model.bits)
    np.fill_diagonal(similar, 0)
    assert len(model.bits) == len({*model.identities.tolist()}) < len(ALCOHOLS) + 1
    assert model.facts.limit == pytest.approx(np.quantile(similar.max(1), 0.02), abs=1e-3)
    assert 0 < model.facts.limit < 1


def test_of_many_molecules_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(familiarity, "MOST_KEPT", 5)
    monkeypatch.setattr(familiarity, "_AT_ONCE", 3)
    model = known([*ALCOHOLS, "CCCO.O", "CCC[NH3+]", "[2H]CO", *ALCOHOLS])
    assert len(model.bits) == 5
    facts = model.facts  # these are of all of them
    assert (facts.sizes, facts.charges, facts.parts, facts.isotopes) == ((3, 12), (0, 1), 2, ("2H",))


def test_no_identity_is_that_of_another_molecule() -> None:
    model = known(["CCCCCCCC", "CCO"])
    octane, nonane = (graph_from_smiles(text, canonical=True)[0] for text in ("CCCCCCCC", "CCCCCCCCC"))
    assert [model.holds(octane), model.holds(nonane)] == [True, False]


def test_an_ensemble_knows_what_any_of_its_members_knows() -> None:
    one, other = known(ALCOHOLS), known(["c1ccccc1C[NH3+]", "c1ccccc1CC"])
    both = TrainingMolecules.join([one, other])
    assert judged(both, "c1ccccc1C[NH3+]", "CCCO") == [Judgment(1.0, "")] * 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    place = tmp_path_factory.mktemp("familiar")
    rows = [{"smiles": text, "y": len(text)} for text in dict.fromkeys(ALCOHOLS)]
    egt.train(write_csv(place / "t.csv", rows), "y", set=TINY, out=place / "run", progress=False)
    return egt.load(place / "run")


def test_every_prediction_says_how_familiar_it_is(model: Predictor, tmp_path: Path) -> None:
    training = [answer.familiarity for answer in model.predict_split("train")]
    assert set(training) == {1.0}
    known, odd, bad = model.predict(["CCCO", "FC(F)(F)S(=O)(=O)c1ccccc1", "nonsense"]).table()
    assert (known["familiarity"], known["warning"]) == (1.0, "")
    assert odd["familiarity"] < 0.5
    assert "unlike training: " in odd["warning"]
    assert "not in the training molecules: F, S" in odd["warning"]  # other warnings stay
    assert bad["familiarity"] is None
    table = write_csv(tmp_path / "new.csv", [{"smiles": "nonsense"}, {"smiles": "CCCO"}])
    predict_to_file(model, table, tmp_path / "out.csv")
    assert [row["familiarity"] for row in csv.DictReader((tmp_path / "out.csv").open())] == ["", "1.0"]


def test_intervals_widen_with_distance_if_calibration_says_so(tmp_path: Path) -> None:
    rows = [{"smiles": smiles, "y": k / 7} for k, smiles in enumerate(ALCOHOLS)]
    artifact = egt.train(write_csv(tmp_path / "t.csv", rows), "y", set=TINY, out=tmp_path / "run").artifact
    source = open_source(artifact.config)
    learned = str(source.smiles()[source.records("train")[0]])
    scores = [[Scores.of(np.linspace(0.1, 1, 50))]]
    widths = []
    for widening in ((), (4.0,)):
        calibration = Calibration("interval", scores, widening=widening)
        wide = Predictor(replace(artifact, calibration=calibration))
        found = wide.predict([learned, "FC(F)(F)c1ccccc1S(=O)(=O)N"], interval=0.9)
        widths.append([float(each.bounds[0, 0, 1] - each.bounds[0, 0, 0]) for each in found if each.bounds is not None])
        distance = [1 - each.familiarity for each in found if each.familiarity is not None]
    plain, followed = widths
    assert distance[0] == 0
    assert distance[1] > 0
    assert followed == pytest.approx([plain[0], plain[1] * (1 + 4 * distance[1])])


def test_many_molecules_in_several_processes_get_the_same(model: Predictor) -> None:
    smiles = [*ALCOHOLS, "CCC[NH3+]"] * 10
    alone = {text: model.predict([text])[0] for text in set(smiles)}
    for answer, text in zip(model.predict(smiles), smiles, strict=True):
        assert (answer.familiarity, answer.warning) == (alone[text].familiarity, alone[text].warning)


def test_no_training_file_is_needed_and_nothing_names_a_molecule(model: Predictor) -> None:
    content = (Path(model.config.data.source).parent / "run" / "artifact" / MOLECULES).read_bytes()
    assert b"CCCO" not in content
    Path(model.config.data.source).rename(Path(model.config.data.source).with_suffix(".away"))
    try:
        assert model.predict("CCCO")[0].familiarity == 1.0
    finally:
        Path(model.config.data.source).with_suffix(".away").rename(model.config.data.source)


def test_the_old_option_says_what_it_is_now(model: Predictor) -> None:
    with pytest.warns(DeprecationWarning, match="familiarity"):
        model.warn_if_unlike()
    assert model.novelty is None


def test_models_without_it_predict_as_before(model: Predictor) -> None:
    earlier = Predictor(replace(model.artifact.members[0], molecules=None))
    found = earlier.predict(["CCCO", "CCC[NH3+]"])
    assert "familiarity" not in found.columns
    assert found.table()[1]["warning"] == "not in the training molecules: N"


def test_an_ensemble_of_loaded_models_has_it(model: Predictor) -> None:
    both = EnsembleArtifact("seeds", (model.artifact.members[0],) * 2)
    assert Predictor(both).predict("CCCO")[0].familiarity == 1.0


@pytest.mark.parametrize(
    ("arrays", "facts"),
    [
        ({"bits": np.zeros((3, 4), np.uint8)}, {}),
        ({"bits": np.zeros((0, 128), np.uint8)}, {}),
        ({"identities": np.zeros(3)}, {}),
        ({}, {"limit": 2}),
        ({}, {"atoms": [[200]]}),
        ({}, {"sizes": "many"}),
    ],
)
def test_what_is_kept_is_checked_when_it_is_read(
    model: Predictor, tmp_path: Path, arrays: dict[str, np.ndarray], facts: dict[str, object]
) -> None:
    file = tmp_path / MOLECULES
    kept = model.artifact.members[0].molecules
    assert kept is not None
    kept.save(file)
    again = TrainingMolecules.load(file)
    assert (again.bits == kept.bits).all()
    assert (again.identities == kept.identities).all()
    assert again.facts == kept.facts
    about = json.dumps({**json.loads(kept.facts.model_dump_json()), **facts})
    save_file({**load_file(file), **arrays}, file, {"facts": about})
    with pytest.raises(ArtifactError, match=MOLECULES):
        TrainingMolecules.load(file)


def test_a_damaged_file_is_refused(model: Predictor, tmp_path: Path) -> None:
    folder = tmp_path / "artifact"
    save_artifact(model.artifact.members[0], folder)
    (folder / MOLECULES).write_bytes(b"no arrays")
    with pytest.raises(ArtifactError, match="checksum"):
        load_artifact(folder)
    forge(folder / CARD, lambda card: card["sha256"].update({MOLECULES: file_sha256(folder / MOLECULES)}))
    with pytest.raises(ArtifactError, match=MOLECULES):
        load_artifact(folder)
