"""From data to predictions through the command line alone: train -> evaluate -> predict on a file never seen."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from egt.data.custom import SplitPlan
from egt.inference.artifact import load_artifact
from tests.caches import fresh_cache
from tests.cli.runs import SMILES, TINY, blocks, egt, molecules, read_csv, ring, write_csv, write_jsonl

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and stores go to the test's own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))


def train(capsys: Capture, *words: str | Path) -> Path:
    """Train, and check that `evaluate` measures what the run itself reported. Returns the artifact."""
    done = egt(capsys, "train", *words, "--set", *TINY, "--json")
    assert done.code == 0, done.err
    artifact, metrics = Path(done.json["artifact"]), done.json["metrics"]
    for split in metrics:
        again = egt(capsys, "evaluate", artifact, "--split", split, "--json")
        assert again.code == 0, again.err
        assert again.json["split"] == split
        assert again.json["metrics"] == metrics[split]
    return artifact


def test_regression_of_molecules(tmp_path: Path, capsys: Capture) -> None:
    data = molecules(tmp_path / "sizes.csv", length=[100 + 10.3 * len(text) for text in SMILES])
    artifact = train(capsys, data)
    assert artifact == Path("runs/sizes/artifact")
    assert (tmp_path / "runs/sizes/config.yaml").is_file()
    new = write_csv(tmp_path / "new.csv", [{"smiles": s} for s in ("CCCO", "not a molecule", "", "CCF")])
    assert egt(capsys, "predict", artifact, new, "-o", "out.csv").code == 0
    rows = read_csv(tmp_path / "out.csv")
    assert list(rows[0]) == ["id", "smiles", "length", "familiarity", "warning", "error"]
    assert [row["smiles"] for row in rows] == ["CCCO", "not a molecule", "", "CCF"]
    assert [bool(row["error"]) for row in rows] == [False, True, True, False]
    assert [bool(row["length"]) for row in rows] == [True, False, False, True]
    # The answers are in the unit of the target, not standardized: all lengths are above 100.
    assert all(50 < float(row["length"]) < 400 for row in (rows[0], rows[3]))
    # The same from the command line, and the run folder is as good as the artifact in it.
    single = egt(capsys, "predict", "runs/sizes", "CCCO", "CCF", "--json").json
    assert [row["length"] for row in single["predictions"]] == pytest.approx(
        [float(rows[0]["length"]), float(rows[3]["length"])], rel=1e-5
    )
    # What looks like a file and is none is not taken for a SMILES.
    missing = egt(capsys, "predict", artifact, "x.txt")
    assert missing.code == 2
    assert "x.txt: there is no such file" in missing.err


def test_the_split_of_own_data_is_set_by_kind_seed_and_fractions(tmp_path: Path, capsys: Capture) -> None:
    data = molecules(tmp_path / "sizes.csv", length=[100 + 10.3 * len(text) for text in SMILES])
    settings = ("split=stratified", "split.seed=3", "split.fractions=[0.5, 0.25, 0.25]", *TINY)
    done = egt(capsys, "train", data, "--out", "run", "--set", *settings)
    assert done.code == 0, done.err
    kept = load_artifact(Path("run/artifact")).config.data.custom
    assert kept is not None
    assert kept.split == SplitPlan(kind="stratified", fractions=(0.5, 0.25, 0.25), seed=3)
    tested = egt(capsys, "evaluate", "run", "--json").json["metrics"]["num_graphs"]
    assert abs(tested - 0.25 * len(SMILES)) <= 1
    for wrong in ("split.fractions=[1, 2, 3]", "split.fraction=0.5", "split.fractions=0.5"):
        assert egt(capsys, "train", data, "--out", tmp_path / "wrong", "--set", wrong).code == 2


def test_many_labels_with_gaps(tmp_path: Path, capsys: Capture) -> None:
    active = [k % 2 for k in range(20)]
    toxic = ["" if k % 3 == 0 else int(k % 3 == 1) for k in range(20)]
    data = molecules(tmp_path / "labels.csv", active=active, toxic=toxic)
    artifact = train(capsys, data, "--target", "active", "toxic", "--out", "run")
    done = egt(capsys, "evaluate", artifact, "--data", data, "--json")
    assert done.json["metrics"]["num_labels"] == 20 + sum(label != "" for label in toxic)
    egt(capsys, "predict", artifact, data, "-o", "out.csv")
    rows = read_csv(tmp_path / "out.csv")
    assert len(rows) == 20
    for row in rows:
        for name in ("active", "toxic"):
            probability = float(row[f"{name}_probability"])
            assert 0 <= probability <= 1
            assert row[name] == str(int(probability >= 0.5))


def test_classes_of_graphs(tmp_path: Path, capsys: Capture) -> None:
    rings = [ring(3 + k % 4, id=f"g{k}", targets={"kind": "abc"[k % 3]}) for k in range(30)]
    artifact = train(capsys, write_jsonl(tmp_path / "rings.jsonl", rings))
    unseen = ring(4, id="new")
    unseen["nodes"] = {"color": ["green"] * 4, "height": [1.0] * 4}
    new = write_jsonl(tmp_path / "new.jsonl", [ring(5, id="first"), {"id": "broken", "edges": "?"}, unseen])
    egt(capsys, "predict", artifact, new, "-o", "out.csv")
    first, broken, strange = read_csv(tmp_path / "out.csv")
    assert [first["id"], broken["id"], strange["id"]] == ["first", "broken", "new"]
    assert first["error"] == first["warning"] == ""
    assert broken["error"]
    assert "green" in strange["warning"]
    assert strange["kind"] in "abc"
    shares = [float(first[f"kind_{name}_probability"]) for name in "abc"]
    assert math.isclose(sum(shares), 1, rel_tol=1e-5)
    assert first["kind"] == "abc"[int(np.argmax(shares))]
    assert float(first["kind_probability"]) == max(shares)


def test_nodes_of_one_graph_with_masks(tmp_path: Path, capsys: Capture) -> None:
    artifact = train(capsys, blocks(tmp_path / "blocks"), "--target", "label", "--task", "node")
    done = egt(capsys, "evaluate", artifact, "--json")
    assert done.json["metrics"]["num_labels"] == 6  # a quarter of 24 nodes
    new = blocks(tmp_path / "other", num_nodes=10, seed=1, masks=False)
    egt(capsys, "predict", artifact, new, "-o", "out.csv")
    rows = read_csv(tmp_path / "out.csv")
    assert [row["node"] for row in rows] == [str(k) for k in range(10)]
    assert {row["label"] for row in rows} <= {"a", "b"}


def test_edges(tmp_path: Path, capsys: Capture) -> None:
    def graph(size: int, number: int) -> dict[str, object]:
        return ring(size, id=f"g{number}", edge_targets={"load": [float(k % 2) + 0.25 * k for k in range(size)]})

    data = write_jsonl(tmp_path / "loads.jsonl", [graph(4 + k % 3, k) for k in range(20)])
    artifact = train(capsys, data)
    new = write_jsonl(tmp_path / "new.jsonl", [ring(4, id="n")])
    egt(capsys, "predict", artifact, new, "-o", "out.csv")
    rows = read_csv(tmp_path / "out.csv")
    assert list(rows[0])[:4] == ["graph", "source", "target", "load"]
    asked = {(int(row["source"]), int(row["target"])) for row in rows}
    assert asked == {(k, (k + s) % 4) for k in range(4) for s in (1, 3)}  # both directions of the four edges


def test_links(tmp_path: Path, capsys: Capture) -> None:
    artifact = train(capsys, blocks(tmp_path / "blocks", masks=False), "--task", "link")
    question = ring(5, id="n", queries=[[0, 2], [1, 4]])
    question["nodes"] = {"x": [0.1] * 5, "label": ["a"] * 5}
    new = write_jsonl(tmp_path / "new.jsonl", [question])
    done = egt(capsys, "predict", artifact, new, "-o", "out.csv")
    assert done.code == 0, done.err
    rows = read_csv(tmp_path / "out.csv")
    assert [(row["source"], row["target"]) for row in rows] == [("0", "2"), ("1", "4")]
    assert all(0 <= float(row["link_probability"]) <= 1 for row in rows)


def test_a_preset_on_graphs_it_generates(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path / "none"))
    few = "data.options={split_sizes: {train: 6, val: 2, test: 2}}"
    done = egt(capsys, "train", "pattern-100k", "--set", few, *TINY, "trainer.max_epochs=1", "--json")
    assert done.code == 0, done.err
    assert done.json["metrics"]["test"]["num_graphs"] == 2
    new = write_jsonl(tmp_path / "new.jsonl", [{"nodes": {"signal": [0, 1, 2]}, "edges": [[0, 1], [1, 2]]}])
    assert egt(capsys, "predict", "runs/pattern-100k", new, "-o", "out.csv").code == 0
    rows = read_csv(tmp_path / "out.csv")
    assert len(rows) == 3
    assert {row["in_pattern"] for row in rows} <= {"background", "pattern"}


def test_resuming_a_finished_run_and_prolonging_it(tmp_path: Path, capsys: Capture) -> None:
    data = molecules(tmp_path / "sizes.csv", length=[1.1 * len(text) for text in SMILES])
    train(capsys, data)
    again = egt(capsys, "train", data, "--set", *TINY)
    assert again.code == 2
    assert "--resume" in again.err
    longer = egt(capsys, "train", data, "--resume", "--set", "trainer.max_epochs=4", "--json")
    assert longer.code == 0, longer.err
    assert len((tmp_path / "runs/sizes/metrics.csv").read_text().splitlines()) == 1 + 4


def test_the_same_command_resumes_and_another_one_does_not(
    tmp_path: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    lengths = [1.1 * len(text) for text in SMILES]
    data = molecules(tmp_path / "two.csv", a=lengths, b=[-value for value in lengths])
    other = molecules(tmp_path / "other.csv", a=lengths)
    settings = ("--set", *TINY, "trainer.max_epochs=1", "split=random", "overrides.kind=regression")
    command = ("train", data, "--target", "a", "--out", "run", *settings)
    first = egt(capsys, *command)
    assert first.code == 0, first.err
    assert caplog.text.count("train_loss") == 1  # one line for an epoch where there is no bar
    again = egt(capsys, *command, "--resume")
    assert again.code == 0, again.err
    refused = egt(capsys, *command, "optimizer.lr=0.5", "--resume")
    assert "started with other settings: optimizer.lr" in refused.err
    assert egt(capsys, "train", "run", "--resume").code == 0  # the refused settings have left no trace
    for words, given, kept in (
        ((data, "--target", "b"), "--target b", "--target a"),
        ((data, "--task", "node"), "--task node", "--task graph"),
        ((other,), str(other), str(data)),
        (("zinc-100k",), "zinc-100k", "two"),
    ):
        wrong = egt(capsys, "train", *words, "--out", "run", "--resume")
        assert wrong.code == 2
        assert f"run holds a run of {kept}, not of {given}; " in wrong.err


def test_a_full_disk_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    artifact = train(capsys, molecules(tmp_path / "sizes.csv", length=[1.1 * len(text) for text in SMILES]))
    done = egt(capsys, "predict", artifact, "CCO", "-o", "/dev/full")
    assert done.code == 1
    assert "error: /dev/full: cannot be written (No space left on device)" in done.err
    assert "Traceback" not in done.err


def test_fine_tuning_on_other_labels(tmp_path: Path, capsys: Capture) -> None:
    data = molecules(tmp_path / "sizes.csv", length=[1.1 * len(text) for text in SMILES])
    artifact = train(capsys, data)
    other = molecules(tmp_path / "other.csv", active=[k % 2 for k in range(20)])
    done = egt(capsys, "train", other, "--from", artifact, "--set", "trainer.max_epochs=1", "--json")
    assert done.code == 0, done.err
    assert "roc_auc" in done.json["metrics"]["val"]


@pytest.mark.parametrize(
    ("option", "frozen"),
    [
        (("--tune", "edges"), r"(?!.*(\.pairs\.|pair_terms))(?!readout\.edges$)"),
        (("--freeze-below", "1"), r"layers\.0\.|embed\."),
    ],
    ids=["edges", "layers"],
)
def test_frozen_weights_stay_as_they_are(tmp_path: Path, capsys: Capture, option: tuple[str, str], frozen: str) -> None:
    data = molecules(tmp_path / "sizes.csv", length=[1.1 * len(text) for text in SMILES])
    artifact = train(capsys, data)
    settings = ("--set", "trainer.max_epochs=2", "trainer.select=last")
    done = egt(capsys, "train", data, "--from", artifact, *option, "--out", tmp_path / "tuned", *settings, "--json")
    assert done.code == 0, done.err
    before, after = (load_artifact(Path(path)).model.state_dict() for path in (artifact, done.json["artifact"]))
    kept = {name for name in before if re.match(frozen, name)}
    assert kept
    assert all(torch.equal(before[name], after[name]) for name in kept)
    assert not any(
        torch.equal(before[name], after[name]) for name in before if name.endswith("1.pairs.logits.W_E.weight")
    )


def test_a_run_records_what_it_starts_from_and_goes_on_from_there(tmp_path: Path, capsys: Capture) -> None:
    data = molecules(tmp_path / "sizes.csv", length=[1.1 * len(text) for text in SMILES])
    artifact = train(capsys, data)
    command = ("train", data, "--from", artifact, "--freeze-below", "1", "--keep-head", "--set", "trainer.max_epochs=1")
    whole = egt(capsys, *command, "--out", "whole", "--json")
    assert whole.code == 0, whole.err
    card = json.loads(Path("whole/artifact/card.json").read_text())
    sha256 = json.loads((artifact / "card.json").read_text())["sha256"]["weights.safetensors"]
    assert card["start"] == {
        "artifact": str(artifact.resolve()), "name": "sizes", "sha256": sha256,
        "keep_head": True, "freeze_below": 1, "tune": "all",
    }  # fmt: skip
    expected = load_artifact(Path("whole/artifact")).model.state_dict()

    def weights(*words: str) -> dict[str, torch.Tensor]:
        done = egt(capsys, "train", *words, "--out", "again", "--json")
        assert done.code == 0, done.err
        return load_artifact(Path(done.json["artifact"])).model.state_dict()

    # From the artifact alone.
    shutil.copy("whole/artifact/config.yaml", "run.yaml")
    assert all(torch.equal(value, expected[name]) for name, value in weights("run.yaml").items())
    # A run that was killed before its first checkpoint has but its configuration.
    shutil.rmtree("again")
    Path("again").mkdir()
    shutil.copy("run.yaml", "again/config.yaml")
    assert all(torch.equal(value, expected[name]) for name, value in weights("again", "--resume").items())
    for path in Path("again/checkpoints").iterdir():
        path.unlink()
    other = egt(capsys, "train", "again", "--from", artifact, "--resume", "--out", "again")
    assert other.code == 2
    assert "--freeze-below 1 --keep-head, not from" in other.err
    (artifact / "card.json").rename(artifact / "gone.json")
    gone = egt(capsys, "train", "again", "--resume")
    assert gone.code == 2
    assert "the run starts from the weights of sizes, but" in gone.err


def test_a_changed_target_is_noticed(tmp_path: Path, capsys: Capture) -> None:
    lengths = [1.1 * len(text) for text in SMILES]
    data = molecules(tmp_path / "sizes.csv", length=lengths)
    train(capsys, data)
    molecules(data, length=[lengths[0] + 1, *lengths[1:]])
    done = egt(capsys, "train", data, "--resume", "--set", "trainer.max_epochs=3")
    assert done.code == 2
    assert "was started on other data" in done.err
    molecules(data, length=lengths)
    assert egt(capsys, "train", data, "--resume", "--set", "trainer.max_epochs=3").code == 0


def test_a_model_that_needs_a_setting_starts_a_run_with_it(tmp_path: Path, capsys: Capture) -> None:
    data = molecules(tmp_path / "sizes.csv", length=[1.1 * len(text) for text in SMILES])
    # Official weights attend to padding, which exists on one layout only.
    artifact = train(capsys, data, "--set", "data.layout=padded", "model.readout.attend_padding=true")
    command = ("train", data, "--from", artifact, "--out", "tuned", "--set", "trainer.max_epochs=1")
    refused = egt(capsys, *command)
    assert refused.code == 2
    assert "set data.layout to padded" in refused.err
    done = egt(capsys, *command, "data.layout=padded")
    assert done.code == 0, done.err


def test_labels_that_are_missing_are_told_before_the_first_epoch(tmp_path: Path, capsys: Capture) -> None:
    splits = ["train"] * 12 + ["val"] * 4 + ["test"] * 4
    none = molecules(
        tmp_path / "none.csv", y=[*(1.5 * k for k in range(12)), *[""] * 4, 1.0, 2.0, 3.0, 4.5], split=splits
    )
    done = egt(capsys, "train", none, "--target", "y", "--set", "split=split", *TINY)
    assert done.code == 2, done.err
    assert "no graph of the validation split has a label for y (4 graphs)" in done.err
    assert "epoch" not in done.err
    assert not Path("runs/none").exists()
    one = molecules(tmp_path / "one.csv", y=[*(k % 2 for k in range(12)), *[1] * 4, 0, 1, 0, 1], split=splits)
    done = egt(capsys, "train", one, "--target", "y", "--set", "split=split", *TINY, "trainer.max_epochs=1")
    assert done.code == 0, done.err


def test_the_submission_of_pcqm4mv2(tmp_path: Path, capsys: Capture) -> None:
    data = molecules(tmp_path / "gaps.csv", homolumogap=[1.1 * len(text) for text in SMILES])
    artifact = train(capsys, data)
    name = "y_pred_pcqm4m-v2_test-dev.npz"
    done = egt(capsys, "predict", artifact, "--split", "test", "-o", name)
    assert done.code == 0, done.err
    egt(capsys, "predict", artifact, "--split", "test", "-o", "out.csv")
    with np.load(name) as content:
        assert list(content) == ["y_pred"]
        assert content["y_pred"].dtype == np.float32
        np.testing.assert_allclose(
            content["y_pred"], [float(row["homolumogap"]) for row in read_csv(Path("out.csv"))], rtol=1e-5
        )


def test_an_ensemble_is_trained_shown_and_predicts_its_spread(tmp_path: Path, capsys: Capture) -> None:
    data = molecules(tmp_path / "t.csv", kind=["yes" if k % 2 else "no" for k in range(20)])
    words = ("--set", *TINY, "trainer.max_epochs=1", "split.fractions=[0.5, 0.25, 0.25]", "--ensemble", "2")
    shown = egt(capsys, "train", data, "--out", tmp_path / "run", *words)
    assert shown.code == 0, shown.err
    assert "2 models of" in shown.out
    assert "±" in shown.out
    assert "kind: 90% sets covered" in shown.err
    done = egt(capsys, "train", tmp_path / "run", "--resume", "--json")
    assert done.code == 0, done.err
    assert done.json["members"] == 2
    assert {*done.json["member_metrics"]["test"]["roc_auc"]} == {"mean", "std"}
    assert done.json["coverage"]["kind"] == "set"
    out = tmp_path / "out.csv"
    done = egt(capsys, "predict", tmp_path / "run", "CCO", "--interval", "0.5", "--calibrated", "-o", out)
    assert done.code == 0, done.err
    [row] = read_csv(out)
    assert {"kind_std", "kind_set", "kind_yes_probability"} <= {*row}
    assert {*row["kind_set"].split("|")} <= {"yes", "no", ""}
    assert egt(capsys, "evaluate", tmp_path / "run", "--json").json["metrics"]["num_labels"] == 5
