"""Plain questions of a first hour, asked on the command line: which column, which class, which truth, which node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egt.data import custom
from egt.inference.predictor import load
from tests.cli.runs import SMILES, TINY, blocks, egt, molecules, read_csv, write_csv

Capture = pytest.CaptureFixture[str]
QUICK = (*TINY, "trainer.max_epochs=1", "model.num_layers=1")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(capsys: Capture, *words: str | Path) -> Path:
    done = egt(capsys, "train", *words, "--out", "run", "--set", *QUICK)
    assert done.code == 0, done.err
    return Path("run")


def two_columns(path: Path) -> Path:
    """A table with the molecule in one column and a solvent, also SMILES, in another."""
    rows = [{"compound": text, "solvent": "O" if k % 2 else "CO", "y": 1.0 * k} for k, text in enumerate(SMILES)]
    return write_csv(path, rows)


def test_the_smiles_column_is_named_in_every_command(place: Path, capsys: Capture) -> None:
    data = two_columns(place / "data.csv")
    refused = egt(capsys, "data", "info", data, "--target", "y")
    assert refused.code == 2
    assert "--smiles NAME" in refused.err
    asked = egt(capsys, "data", "info", data, "--target", "y", "--smiles", "compound", "--json")
    assert asked.json["schema"]["smiles"] == "compound"
    set_so = egt(capsys, "data", "info", data, "--set", "overrides.smiles=solvent", "--target", "y", "--json")
    assert set_so.json["schema"]["smiles"] == "solvent"
    assert "--set optimizer.lr=1: data is read with" in egt(capsys, "data", "info", data, "--set", "optimizer.lr=1").err
    run = train(capsys, data, "--target", "y", "--smiles", "compound")
    new = write_csv(place / "new.csv", [{"a": "CCO", "b": "CCN", "y": 1.0}, {"a": "CCC", "b": "CC", "y": 2.0}])
    assert "--smiles NAME" in egt(capsys, "predict", run, new).err
    assert egt(capsys, "predict", run, new, "--smiles", "b", "-o", "out.csv").code == 0
    assert [row["compound"] for row in read_csv(place / "out.csv")] == ["CCN", "CC"]
    assert egt(capsys, "evaluate", run, "--data", new, "--set", "overrides.smiles=a", "--json").code == 0
    missing = egt(capsys, "predict", run, new, "--smiles", "c")
    assert missing.code == 2
    assert "there is no column 'c'; the columns are a, b, y" in missing.err
    assert "the model is already trained" in egt(capsys, "predict", run, new, "--set", "optimizer.lr=1").err


def test_a_split_comes_with_its_molecules_and_labels(place: Path, capsys: Capture) -> None:
    data = molecules(place / "data.csv", act=["active" if "O" in text else "inactive" for text in SMILES])
    run = train(capsys, data)
    assert egt(capsys, "predict", run, "--split", "train", "-o", "out.csv").code == 0
    rows = read_csv(place / "out.csv")
    assert len(rows) == 16
    for row in rows:
        assert row["act_true"] == ("active" if "O" in row["smiles"] else "inactive")
        shares = {name: float(row[f"act_{name}_probability"]) for name in ("active", "inactive")}
        assert row["act"] == max(shares, key=lambda name: shares[name])
        assert sum(shares.values()) == pytest.approx(1)


def test_columns_are_kept_on_request(place: Path, capsys: Capture) -> None:
    data = molecules(place / "data.csv", y=range(20), batch=[f"b{k % 3}" for k in range(20)])
    run = train(capsys, data, "--target", "y")
    assert egt(capsys, "predict", run, data, "--keep", "batch", "-o", "out.csv").code == 0
    assert [row["batch"] for row in read_csv(place / "out.csv")][:4] == ["b0", "b1", "b2", "b0"]
    assert list(read_csv(place / "out.csv")[0])[:4] == ["id", "smiles", "batch", "y"]
    assert egt(capsys, "predict", run, data, "--columns", "only", "-o", "bare.csv").code == 0
    assert list(read_csv(place / "bare.csv")[0])[:3] == ["id", "smiles", "y"]
    assert egt(capsys, "predict", run, data, "--columns", "only", "--keep", "batch", "-o", "x.csv").code == 2
    assert egt(capsys, "predict", run, data, "-o", "all.csv").code == 0  # all of them, without being asked
    first = read_csv(place / "all.csv")[0]
    assert list(first) == [
        "id",
        "smiles",
        "y_input",
        "batch",
        "y",
        "familiarity",
        "warning",
        "error",
    ]  # `y` is the prediction
    wrong = egt(capsys, "predict", run, data, "--keep", "lot")
    assert wrong.code == 2
    assert "there is no column 'lot' to keep; the columns are smiles, y, batch" in wrong.err


def test_a_missing_target_column_is_named(place: Path, capsys: Capture) -> None:
    run = train(capsys, molecules(place / "data.csv", solubility=range(20)))
    other = molecules(place / "other.csv", weight=range(20))
    done = egt(capsys, "evaluate", run, "--data", other)
    assert done.code == 2
    assert "other.csv: the target column solubility is missing" in done.err


def test_nodes_keep_their_names(place: Path, capsys: Capture) -> None:
    run = train(capsys, blocks(place / "graph"), "--target", "label")
    assert egt(capsys, "predict", run, "--split", "test", "-o", "out.csv").code == 0
    rows = read_csv(place / "out.csv")
    assert [row["node_name"] for row in rows] == [f"n{row['node']}" for row in rows]
    assert len(rows) == 6, "the nodes of the split"
    assert all(row["label_true"] == "ab"[int(row["node"]) % 2] for row in rows)


def test_each_of_several_targets_has_its_metrics(place: Path, capsys: Capture) -> None:
    data = molecules(place / "data.csv", a=[1.5 * k for k in range(20)], b=[0.5 * k * k for k in range(20)])
    done = egt(capsys, "train", data, "--target", "a", "b", "--out", "run", "--set", *QUICK)
    assert done.code == 0, done.err
    assert "each target" in done.out
    card = json.loads((place / "run/artifact/card.json").read_text())
    assert set(card["data"]["metrics_by_target"]["test"]) == {"a", "b"}
    found = egt(capsys, "evaluate", "run", "--data", data, "--json").json
    each = [found["by_target"][name] for name in "ab"]
    assert {"mae", "rmse", "r2", "spearman", "num_labels"} == set(each[0])
    assert found["metrics"]["mae"] == pytest.approx((each[0]["mae"] + each[1]["mae"]) / 2)


def test_epochs_by_option_and_counted_from_one(place: Path, capsys: Capture) -> None:
    data = molecules(place / "data.csv", y=range(20))
    done = egt(capsys, "train", data, "--epochs", "3", "--json", "--set", "model.num_layers=1", "trainer.select=last")
    assert done.code == 0, done.err
    assert (done.json["epoch"], done.json["epochs"]) == (3, 3)


def test_elements_that_training_never_saw_are_warned_of(place: Path, capsys: Capture) -> None:
    run = train(capsys, molecules(place / "data.csv", y=range(20)))
    assert egt(capsys, "predict", run, "CCO", "[Fe+2]", "*CC", "N[Pt](N)(Cl)Cl", "-o", "out.csv").code == 0
    warnings = [row["warning"] for row in read_csv(place / "out.csv")]
    assert [bool(warning) for warning in warnings] == [False, True, True, True]
    assert "not in the training molecules: Fe" in warnings[1]
    assert "not in the training molecules: Pt" in warnings[3]


def test_repeated_molecules_are_told_before_training(place: Path, capsys: Capture) -> None:
    rows = [{"smiles": text, "y": k, "split": "train"} for k, text in enumerate(SMILES)]
    data = write_csv(place / "data.csv", [*rows, {"smiles": "OCC", "y": 90, "split": "test"}])
    done = egt(capsys, "data", "info", data, "--json")
    assert any("1 molecule in several splits (CCO: train and test)" in text for text in done.json["warnings"])
    assert any("differ by more than the spread" in text for text in done.json["warnings"])


def test_python_takes_frames_molecules_and_gaps(place: Path, capsys: Capture) -> None:
    chem, pandas = pytest.importorskip("rdkit.Chem"), pytest.importorskip("pandas")
    model = load(train(capsys, molecules(place / "data.csv", y=range(20))))
    plain = [answer.values for answer in model.predict(["CCO", "CCN"])]
    mixed = model.predict([chem.MolFromSmiles("CCO"), None, "CCN"])
    assert [bool(answer.error) for answer in mixed] == [False, True, False]
    frame = model.predict(pandas.DataFrame({"smiles": ["CCO", "CCN"], "lot": [7, 8]}), keep=["lot"])
    for found in ([mixed[0], mixed[2]], frame):
        for answer, expected in zip(found, plain, strict=True):
            assert answer.values == pytest.approx(expected)
    assert frame.to_pandas()["lot"].tolist() == ["7", "8"]


def test_a_plan_of_own_data(place: Path, capsys: Capture) -> None:
    data = molecules(place / "data.csv", y=range(20), z=range(20))
    assert "--target y" in egt(capsys, "plan", data).err
    done = egt(capsys, "plan", data, "--target", "y", "--json", "--set", "model.num_layers=1")
    assert done.code == 0, done.err
    assert done.json["num_graphs"] == 16
    assert done.json["sizes_from"] == "a sample of the graphs"
    assert not (place / "runs").exists()


def test_a_large_table_is_described_from_a_sample(
    place: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(custom, "SAMPLED", 6)
    data = molecules(place / "data.csv", y=range(20))
    done = egt(capsys, "data", "info", data, "--json")
    assert (done.json["rows"], done.json["rows_read"]) == (20, 5)
    assert "5 of 20 rows" in egt(capsys, "data", "info", data).out
