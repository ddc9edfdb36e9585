"""Reports: means beside the paper's, marks that cannot be missed, and pages that stand alone."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from egt.api import train
from egt.charts import curve_chart, matrix_chart, parity_chart, precision_recall, roc
from egt.cli.main import main
from egt.config.load import override
from egt.paper.presets import preset
from egt.paper.report import analysis_link, run_page, write_report, write_run_page
from egt.paper.results import collect, marks, read_records, results_sheet, runs_sheet, sheets, short_mark, write_record
from egt.training.record import RunRecord
from tests.caches import fresh_cache
from tests.cli.runs import SMILES, TINY, egt, molecules, write_csv

ROOT = Path(__file__).resolve().parents[2]
FULL = {"train": 10_000, "val": 1_000, "test": 1_000}


def record(name: str = "zinc-100k", seed: int = 0, mae: float = 0.15, settings: tuple[str, ...] = ()) -> RunRecord:
    config = override(preset(name), [f"seed={seed}", *settings])
    rows = [{"epoch": float(k), "train_loss": 1 / (k + 1), "val_loss": 1.1 / (k + 1), "val_mae": 1.2 / (k + 1),
             "seconds": 20.0} for k in range(3)]  # fmt: skip
    return RunRecord(
        name=name,
        preset=name,
        seed=seed,
        config=config.model_dump(mode="json"),
        metrics={"val": {"mae": mae + 0.01}, "test": {"mae": mae, "num_labels": 1000.0}},
        parameters=124_665,
        history=rows,
        seconds=60.0,
        split_sizes=FULL,
        date="2026-11-16",
    )


def test_the_page_of_a_run_links_to_the_analysis_of_its_model_or_says_how_to_make_it(tmp_path: Path) -> None:
    assert analysis_link(tmp_path / "run") == f"<pre>egt analyze {tmp_path / 'run'}</pre>"
    (tmp_path / "run/analysis").mkdir(parents=True)
    (tmp_path / "run/analysis/analysis.html").write_text("")
    assert f'href="file://{tmp_path}/run/analysis/analysis.html"' in analysis_link(tmp_path / "run")
    [result] = collect([replace(record(), folder=str(tmp_path / "run"))])
    assert "What the model looks at" in run_page(result.records[0], result)


def test_the_page_of_a_run_says_how_often_the_truth_was_inside() -> None:
    target = {"coverage": 0.913, "size": None, "num_labels": 113}
    coverage = {"asked": 0.9, "kind": "interval", "transductive": True, "targets": {"y": target}}
    [result] = collect([replace(record(), coverage=coverage)])
    shown = run_page(result.records[0], result)
    for text in ("inside intervals of 90%", "91.3%", "113", "transductive"):
        assert text in shown
    [plain] = collect([record()])
    assert "inside intervals" not in run_page(plain.records[0], plain)


def test_an_ensemble_is_reported_as_one_beside_its_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = molecules(tmp_path / "t.csv", y=range(20))
    words = (*TINY, "trainer.max_epochs=1", "split.fractions=[0.5, 0.25, 0.25]")
    run = train(data, "y", set=words, out=tmp_path / "run", ensemble=2, progress=False)
    records, unfinished = read_records([tmp_path])
    assert [each.seed for each in records] == [0, 1]  # and not their copies in the artifact
    assert not unfinished
    joint, alone = run.artifact.metrics["test"]["mae"], run.artifact.data["member_metrics"]["test"]["mae"]
    for place in (tmp_path / "run", tmp_path / "run/artifact"):
        done = egt(capsys, "report", place, "-o", tmp_path / f"report-{place.name}", "--json")
        assert done.code == 0, done.err
        [ensemble] = done.json["ensembles"]
        assert (ensemble["kind"], ensemble["count"]) == ("seeds", 2)
        assert ensemble["coverage"] == run.artifact.data["coverage"]
        assert done.json["results"][0]["mean"] == pytest.approx(alone["mean"])
        page = (tmp_path / f"report-{place.name}/report.html").read_text()
        for text in (
            f"<td>{joint:.5g}</td>",
            f"<td>{alone['mean']:.5g} ± {alone['std']:.2g}</td>",
            "the truth was inside",
        ):
            assert text in page
    [record] = read_records([tmp_path / "run/artifact/member1"])[0]
    assert record.seed == 1
    shown = egt(capsys, "report", tmp_path / "run/artifact")
    assert "together" in shown.out
    assert "no finished run" not in shown.err


def test_seeds_are_averaged_beside_the_paper_and_its_other_models() -> None:
    results = collect([record(seed=0, mae=0.14), record(seed=1, mae=0.16)])
    assert len(results) == 1
    assert results[0].score.value == pytest.approx(0.15)
    assert results[0].score.deviation == pytest.approx(math.sqrt(2) * 0.01)
    table, ranking = sheets(results)
    (row,) = table.rows
    assert row[3:6] == ("0.150 ± 0.014", "2", "0.143 ± 0.011")
    assert row[-1] == "-"  # a run as the paper's has no mark
    order = [cells[0] for cells in ranking.rows]
    assert order[:4] == ["EGT", "EGT", "DGN", "PNA"]
    assert order[-1] == "GAT"


def test_runs_made_in_different_ways_are_never_averaged() -> None:
    short = record(seed=1, mae=0.3, settings=("trainer.max_epochs=30", "schedule.patience=1"))
    results = collect([record(seed=0), short])
    assert [len(result.records) for result in results] == [1, 1]
    assert results[1].marks == ("30 of 600 epochs",)  # the patience follows the epochs
    assert any(cells[-1] == "reduced budget [1]" for cells in sheets(results)[0].rows)
    assert "[1] 30 of 600 epochs" in sheets(results)[0].notes
    ranking = sheets(results)[1].rows
    assert [cells[2] for cells in ranking if "EGT" in cells[0]] == ["paper", "ours", "ours"]


def test_own_runs_of_one_name_are_told_apart_and_none_is_left_out(tmp_path: Path) -> None:
    def own(lr: float, **changes: object) -> RunRecord:
        return replace(record(settings=("name=data", f"optimizer.lr={lr}")), name="data", preset="", **changes)

    slow, fast, again = own(1e-4), own(1e-2), own(1e-2, metrics={"test": {"mae": 0.2}})
    results = collect(
        [slow, fast, replace(fast, folder="a copy"), again, replace(fast, seed=1, config={**fast.config, "seed": 1})]
    )
    assert [(result.marks, [each.seed for each in result.records]) for result in results] == [
        (("optimizer.lr=0.0001",), [0]),
        (("optimizer.lr=0.01",), [0, 1]),
        (("optimizer.lr=0.01",), [0]),
    ]
    [sheet] = sheets(results)
    assert [row[-1] for row in sheet.rows] == ["[1]", "[2]", "[2]"]
    assert "What sets it apart" in run_page(slow, results[0])
    assert collect([slow])[0].marks == ()
    pages = {file.name for file in write_report(results, [], tmp_path) if "seed" in file.name}
    assert pages == {"data-seed0.html", "data-seed0-2.html", "data-seed1.html", "data-seed0-3.html"}


def test_a_metric_that_could_not_be_computed_has_no_mean() -> None:
    missing = replace(record(seed=1), metrics={"test": {"mae": None}})
    [result] = collect([record(seed=0), missing])
    assert math.isnan(result.score.value)
    assert sheets([result])[0].rows[0][3] == "nan ± nan"


def test_the_task_says_which_way_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SimpleNamespace(deciding_metric="value_rmse", higher_is_better=False)
    monkeypatch.setattr("egt.paper.results.config_of", lambda _: SimpleNamespace(task=task))
    [result] = collect([replace(record(), name="data", preset="")])
    assert not result.measure.higher_is_better


@pytest.mark.parametrize(
    ("changes", "mark"),
    [
        ({"departures": ["generated graphs, not the published files"]}, "generated graphs, not the published files"),
        ({"split_sizes": {**FULL, "test": 10}}, "10 of 1,000 test graphs"),
    ],
)
def test_other_data_is_marked(changes: dict[str, object], mark: str) -> None:
    other = replace(record(), **changes)
    assert marks(other) == [mark]
    assert short_mark(other) == "substitute data"


@pytest.mark.parametrize(
    ("notes", "mark"),
    [
        ("Generated with seed 0 (x), not the published files.", "generated graphs, not the published files"),
        (
            "Superpixels made with scikit-image, not the published files.",
            "superpixels made here, not the published files",
        ),
        ("The images are lossy JPEG files", "images from JPEG files, not the original ones"),
    ],
)
def test_results_of_0_1_have_only_notes_about_their_data(notes: str, mark: str, tmp_path: Path) -> None:
    content = json.loads(replace(record(), data_notes=notes).to_json())
    del content["departures"]
    (tmp_path / "result.json").write_text(json.dumps(content))
    assert marks(RunRecord.from_json(tmp_path / "result.json")) == [mark]


def test_changed_settings_and_shares_are_marked() -> None:
    other = record(settings=("optimizer.lr=0.01", "data.train_share=0.5"))
    assert marks(other) == ["0.5 of the training graphs", "optimizer.lr=0.01"]
    assert "from random weights, not those of pcqm4mv2-larger" in marks(record("molhiv-larger"))


def test_a_row_of_several_tables_stands_where_its_variants_are() -> None:
    alone = [sheet.title for sheet in sheets(collect([record("zinc-500k")]))]
    assert alone[0].startswith("Medium-scale")
    beside = sheets(collect([record("zinc-500k"), record("zinc-500k-simple")]))
    variants = next(sheet for sheet in beside if sheet.title.startswith("Variants"))
    assert [row[1] for row in variants.rows] == ["EGT", "EGT-Simple"]


def test_a_doubt_about_several_rows_is_told_once() -> None:
    found = collect([record("zinc-100k-gcn"), record("zinc-100k-gin"), record("zinc-100k-gcn", seed=1)])
    [doubt] = [line for line in results_sheet("", found).notes if "another implementation" in line]
    assert doubt.startswith("ZINC 100K, GCN (ours), GIN (ours): ")


def test_every_run_is_listed_with_its_own_number() -> None:
    sheet = runs_sheet(collect([record(seed=k, mae=0.1 + 0.01 * k) for k in range(3)]))
    assert [row[1] for row in sheet.rows] == ["0", "1", "2"]
    assert [row[3] for row in sheet.rows] == ["0.1", "0.11", "0.12"]


def test_a_report_is_written_and_read_again(tmp_path: Path) -> None:
    for seed in range(2):
        folder = tmp_path / "runs" / "zinc-100k" / f"seed{seed}"
        folder.mkdir(parents=True)
        write_record(record(seed=seed), folder)
    records, unfinished = read_records([tmp_path / "runs"])
    assert [each.seed for each in records] == [0, 1]
    write_report(collect(records), [*unfinished, Path("runs/half")], tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    check_page(page)
    assert "runs/half" in page
    assert page.count("<svg") == 2
    assert "seed 1" in page
    with (tmp_path / "report" / "results.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["paper"] == "0.143 ± 0.011"
    assert "| ZINC 100K | EGT |" in (tmp_path / "report" / "report.md").read_text()
    check_page((tmp_path / "report" / "zinc-100k-seed1.html").read_text())


def check_page(page: str) -> None:
    """Stands alone, and every drawing is whole."""
    assert not re.search(r'(src|href)="(https?:)?//', page)
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(drawing)


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_a_run_on_custom_data_gets_its_plots(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    values = {"regression": [0.1 * k for k in range(20)], "binary": [k % 2 for k in range(20)],
              "multiclass": ["abc"[k % 3] for k in range(20)]}[kind]  # fmt: skip
    table = molecules(tmp_path / "data.csv", y=values)
    split = ["split=random", "split.fractions=[0.4, 0.2, 0.4]"]
    trained = egt(
        capsys,
        "train",
        table,
        "--target",
        "y",
        "--set",
        *split,
        *TINY,
        "trainer.backend=plain",
        "--out",
        tmp_path / "run",
    )
    assert trained.code == 0, trained.err
    done = egt(capsys, "report", tmp_path / "run", "-o", tmp_path / "report", "--json")
    assert done.code == 0, done.err
    assert done.json["results"][0]["paper"] is None
    assert f"report: {tmp_path / 'run/report.html'}" in trained.err
    page = (tmp_path / "run/report.html").read_text()
    again = (tmp_path / "report/data-seed0.html").read_text()
    assert re.findall("<h[12]>.*", page) == re.findall("<h[12]>.*", again)
    check_page(page)
    check_cards(page, kind)
    expected = {"regression": ["mean absolute error"], "binary": ["ROC curve", "Precision over recall"],
                "multiclass": ["True class (rows)"]}[kind]  # fmt: skip
    for words in (*expected, "Largest errors", "How it learned", "node_width: 16"):
        assert words in page
    first = {"regression": "RMSE", "binary": "ROC-AUC", "multiclass": "accuracy"}[kind]
    assert re.findall(r"<td>([^<]*)</td>", page)[0] == first
    assert "mean of the training labels" in page or "forest and GP" in page or "common" in page  # beside it
    assert page.index("Largest errors") < page.index("<details><summary>Settings")
    assert "the paper" not in page


def check_cards(page: str, kind: str) -> None:
    """Molecules with large errors, and those least like training, are drawn beside their nearest training molecules."""
    cards = [each.partition("</div>")[0] for each in page.split('<div class="card">')[1:]]
    assert len(cards) == 12
    for card in cards:
        assert card.count("<svg") == 4
        similarity = [float(each) for each in re.findall(r"similarity (\d\.\d\d)", card)]
        assert len(similarity) == 3
        assert similarity == sorted(similarity, reverse=True)
    if kind == "regression":
        errors = [abs(float(a) - float(b)) for a, b in re.findall(r"y: ([^<]+)<br>predicted ([^<]+)<", page)]
        assert errors[:6] == sorted(errors[:6], reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("several", [{"ensemble": 2}, {"folds": 3}])
def test_an_ensemble_has_a_page_about_all_of_its_models(several: dict[str, int], tmp_path: Path) -> None:
    run = train(
        molecules(tmp_path / "t.csv", y=range(20)), "y", set=TINY, out=tmp_path / "run", progress=False, **several
    )
    page = write_run_page(run.folder).read_text()
    check_page(page)
    assert f"{run.artifact.metrics['test']['rmse']:.4g}" in page
    tested = 20 if "folds" in several else 2
    assert f"y: {tested} rows" in page  # of folds, each row by the model that has not seen it


def test_what_was_cleaned_stands_on_the_page(tmp_path: Path) -> None:
    run = train(
        write_csv(
            tmp_path / "t.csv", [{"smiles": s, "y": y} for s, y in [*zip(SMILES, range(20), strict=True), ("OCC", 5)]]
        ),
        "y",
        set=[*TINY, "overrides.replicates=mean"],
        out=tmp_path / "run",
        progress=False,
    )
    page = write_run_page(run.folder).read_text()
    assert "different labels of y: 1 time" in page
    assert "changes.csv" in page


def test_results_are_kept_and_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, mae in (("one", 0.15), ("two", 0.14)):
        (tmp_path / name).mkdir()
        write_record(record(mae=mae), tmp_path / name)
    for _ in range(2):
        assert egt(capsys, "report", tmp_path / "one", "--keep", tmp_path / "kept").code == 0
    (kept,), _ = read_records([tmp_path / "kept"])
    assert kept.metrics["test"]["mae"] == 0.15
    assert kept.machine
    done = egt(capsys, "report", tmp_path / "two", "--keep", tmp_path / "kept")
    assert done.code == 2
    assert "results are not replaced" in done.err


def test_what_is_no_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "result.json").write_text("[]")
    for words, message in (([tmp_path / "none"], "no such file"), ([], "give the folder"),
                           ([tmp_path], "is not the result of a run")):  # fmt: skip
        done = egt(capsys, "report", *words)
        assert done.code == 2
        assert message in done.err


def test_curves_of_a_perfect_and_of_a_guessed_order() -> None:
    labels = np.array([True, True, False, False])
    x, y = roc(np.array([4.0, 3.0, 2.0, 1.0]), labels)
    assert np.trapezoid(y, x) == 1.0
    x, y = roc(np.ones(4), labels)
    assert np.trapezoid(y, x) == 0.5
    recall, precision = precision_recall(np.array([4.0, 1.0, 2.0, 3.0]), labels)
    assert recall.tolist() == [0.5, 0.5, 0.5, 1.0]
    assert precision.tolist() == pytest.approx([1.0, 0.5, 1 / 3, 0.5])


def test_charts_show_what_they_are_given() -> None:
    truth = np.linspace(0, 1, 3000)
    parity = ElementTree.fromstring(parity_chart(truth, truth**2, "y"))
    assert len([each for each in parity.iter() if each.tag.endswith("circle")]) == 2000
    matrix = matrix_chart(np.array([[8, 2], [0, 5]]), ("<no>", "yes"))
    assert "<no>" not in matrix
    assert [each.text for each in ElementTree.fromstring(matrix).iter() if each.text and each.text.isdigit()] == [
        "8", "2", "0", "5",
    ]  # fmt: skip
    ElementTree.fromstring(curve_chart({"a": roc(truth, truth > 0.5)}, "x", "y", diagonal=True))


def test_the_command_exists() -> None:
    with pytest.raises(SystemExit) as done:
        main(["report", "--help"])
    assert not done.value.code
