"""Rows and seeds: done once, continued exactly, shared by processes, and told as they were."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import safetensors.torch
import torch

from egt.config.load import read_config
from egt.errors import ConfigError, RunStopped
from egt.paper.reproduce import Order, estimate_runs, list_runs, reproduce
from egt.paper.results import marks, read_records, short_mark
from egt.training.callbacks import LogLine
from egt.training.record import RunRecord
from egt.training.state import State
from tests.caches import fresh_cache
from tests.paper.tiny import GRAPHS, SETTINGS, molecule_files, tiny_order
from tests.restart.kill_runs import kill_at


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path / "data"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / "artifact" / "weights.safetensors")


def test_runs_are_done_once_and_each_seed_is_another(tmp_path: Path) -> None:
    order = tiny_order(tmp_path / "out", "pattern-500k", "cluster-500k-propagation")
    assert [(run.row.name, run.seed) for run in list_runs(order)] == [
        ("pattern-500k", 0),
        ("cluster-500k-propagation", 0),
        ("pattern-500k", 1),
        ("cluster-500k-propagation", 1),
    ]
    assert reproduce(order, progress=False).count("done") == 4
    first, second = (weights(tmp_path / f"out/pattern-500k/seed{k}") for k in range(2))
    assert any(not torch.equal(first[name], second[name]) for name in first)
    again = reproduce(order, progress=False)
    assert (again.count("skipped"), again.count("done")) == (4, 0)
    more = reproduce(tiny_order(tmp_path / "out", "pattern-500k", seeds=3), progress=False)
    assert (more.count("skipped"), more.count("done")) == (2, 1)


def test_a_result_tells_settings_budget_data_machine_and_date(tmp_path: Path) -> None:
    reproduce(tiny_order(tmp_path / "out", "pattern-500k", seeds=1), progress=False)
    record = RunRecord.from_json(tmp_path / "out/pattern-500k/seed0/result.json")
    assert marks(record)[0] == "2 of 200 epochs"
    assert "model.num_layers=1" in marks(record)
    assert "generated graphs, not the published files" in marks(record)
    assert "8 of 10,000 train graphs" in marks(record)
    assert not any("patience" in mark for mark in marks(record))  # it follows the epochs
    assert short_mark(record) == "reduced budget, other settings, substitute data"
    assert {"processors", "system"} <= record.machine.keys()
    assert len(record.history) == 2
    assert record.date[:2] == "20"
    assert "weighted_accuracy" in record.metrics["test"]


def test_another_request_for_the_same_row_is_refused(tmp_path: Path) -> None:
    reproduce(tiny_order(tmp_path / "out", "pattern-500k", seeds=1), progress=False)
    other = reproduce(tiny_order(tmp_path / "out", "pattern-500k", seeds=2, epochs=3), progress=False)
    assert other.count("failed") == 1
    assert "holds runs with --epochs 2" in str(list(other.reasons.values()))


def test_a_stopped_run_continues_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce(tiny_order(tmp_path / "whole", "pattern-500k", seeds=1, epochs=3), progress=False)
    order = tiny_order(tmp_path / "parts", "pattern-500k", "cluster-500k", seeds=1, epochs=3)

    def stop(self: LogLine, state: State, row: Mapping[str, float]) -> None:
        if row["epoch"] == 0:
            raise RunStopped("stopped by the test")

    with monkeypatch.context() as patch:
        patch.setattr(LogLine, "on_epoch", stop)
        with pytest.raises(RunStopped):
            reproduce(order, progress=False)
    assert not list((tmp_path / "parts").glob("*/*.claim"))
    assert not (tmp_path / "parts/cluster-500k").exists()  # a stop ends everything
    assert read_records([tmp_path / "parts"]) == ([], [tmp_path / "parts/pattern-500k/seed0"])
    assert reproduce(order, progress=False).count("done") == 2
    whole, parts = (weights(tmp_path / name / "pattern-500k/seed0") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_row_that_fails_does_not_keep_the_others_from_being_done(tmp_path: Path) -> None:
    order = tiny_order(tmp_path / "out", "zinc-500k", "pattern-500k", seeds=1)  # ZINC is read from files, not made
    summary = reproduce(order, progress=False)
    assert (summary.count("failed"), summary.count("done")) == (1, 1)
    assert "takes no options" in str(list(summary.reasons.values()))


def test_two_processes_share_the_runs_of_one_folder(tmp_path: Path) -> None:
    words = ["variants", "--rows", "pattern-500k", "cluster-500k", "pattern-500k-mlp", "--seeds", "2", "--epochs", "2"]
    words += ["--set", GRAPHS, *SETTINGS, "--out", str(tmp_path / "out"), "--json"]
    command = [sys.executable, "-m", "egt", "reproduce", *words]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [process.communicate(timeout=240) for process in running]
    assert [process.returncode for process in running] == [0, 0], ended
    counts = [json.loads(out.splitlines()[-1]) for out, _ in ended]
    assert sum(count["done"] for count in counts) == 6
    starts = [
        line for _, err in ended for line in err.splitlines() if ": starts in " in line or ": continues in " in line
    ]
    assert len(starts) == len(set(starts)) == 6  # none was begun twice
    records, unfinished = read_records([tmp_path / "out"])
    assert (len(records), unfinished) == (6, [])
    assert not list((tmp_path / "out").glob("*/*.claim"))


@pytest.mark.slow
def test_killed_again_and_again_the_same_command_ends_with_the_same_numbers(tmp_path: Path) -> None:
    rows = ["pattern-500k", "cluster-500k-propagation", "cluster-500k"]
    words = ["variants", "--rows", *rows, "--seeds", "2", "--epochs", "3"]
    words += ["--set", GRAPHS, *SETTINGS, "trainer.checkpoint_minutes=1e-6", "--out"]
    command = [sys.executable, "-m", "egt", "reproduce", *words]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    out = tmp_path / "killed"
    moments = ("pattern-500k/.row*", "pattern-500k/row.json", "*/seed0/checkpoints/*", "*/seed0/artifact")
    more = ("*/seed0/result.json", "*/seed1/checkpoints/.*", "cluster-500k/seed0/.artifact-*", "*/seed1/result.json")
    kill_at(command, out, [*moments, *more])
    subprocess.run([*command, str(out)], check=True, capture_output=True)
    expected, found = (read_records([tmp_path / name]) for name in ("whole", "killed"))
    assert expected[1] == found[1] == []
    numbers = [{(each.name, each.seed): each.metrics for each in records} for records, _ in (expected, found)]
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 6
    for name in ("pattern-500k", "cluster-500k"):
        for seed in ("seed0", "seed1"):
            one, other = (weights(tmp_path / folder / name / seed) for folder in ("whole", "killed"))
            assert all(torch.equal(one[key], other[key]) for key in one)
    whole, rest = (
        {path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*")} for name in ("whole", "killed")
    )
    left = {path for path in rest - whole if path.suffix not in (".lock", ".claim")}  # which bind no one any more
    assert (left, whole - rest) == (set(), set())


LARGE = (*SETTINGS, "trainer.max_steps=3", "schedule.warmup_steps=1", "schedule.total_steps=2")


def test_transfer_trains_the_model_to_start_from_first(tmp_path: Path) -> None:
    molecule_files(tmp_path / "data")
    order = Order("transfer", tmp_path / "out", ("molhiv-larger",), seeds=2, settings=LARGE)
    assert [run.row.name for run in list_runs(order)] == ["pcqm4mv2-larger", "molhiv-larger", "molhiv-larger"]
    assert reproduce(order, progress=False).count("done") == 3
    config = read_config(tmp_path / "out/molhiv-larger/seed1/config.yaml")
    assert config.start is not None
    assert config.start.name == "pcqm4mv2-larger"
    records, _ = read_records([tmp_path / "out/molhiv-larger"])
    assert not any("starts from" in mark or "random weights" in mark for mark in marks(records[0]))


def test_transfer_from_a_model_that_is_there(tmp_path: Path) -> None:
    molecule_files(tmp_path / "data")
    first = Order("pcqm", tmp_path / "out", ("pcqm4mv2-small",), seeds=1, settings=LARGE)
    assert reproduce(first, progress=False).count("done") == 1
    start = str(tmp_path / "out/pcqm4mv2-small/seed0")
    order = Order("transfer", tmp_path / "out", ("molhiv-larger",), seeds=1, settings=LARGE, start=start)
    assert reproduce(order, progress=False).count("done") == 1
    record = RunRecord.from_json(tmp_path / "out/molhiv-larger/seed0/result.json")
    assert "starts from pcqm4mv2-small" in marks(record)


@pytest.mark.parametrize(
    ("table", "row", "metric"), [("pcqm", "pcqm4m-small", "mae"), ("transfer", "molpcba-larger", "average_precision")]
)
def test_rows_whose_data_is_not_at_hand_run_on_small_files_of_its_format(
    tmp_path: Path, table: str, row: str, metric: str
) -> None:
    molecule_files(tmp_path / "data")
    summary = reproduce(Order(table, tmp_path / "out", (row,), seeds=1, settings=LARGE), progress=False)
    assert not summary.count("failed"), summary.reasons
    record = RunRecord.from_json(tmp_path / f"out/{row}/seed0/result.json")
    assert 0 < record.metrics["val"][metric] < 10


def test_what_would_run_is_told_without_writing_anything(tmp_path: Path) -> None:
    found = estimate_runs(tiny_order(tmp_path / "out", "pattern-500k", "cluster-500k-propagation", seeds=2))
    assert [each.state for each in found] == ["to do"] * 4
    plans = [each.plan for each in found if each.run.row.name == "pattern-500k"]
    assert plans[0] is plans[1] is not None
    assert plans[0].epochs == 2
    assert plans[0].parameters > 0
    assert not (tmp_path / "out").exists()


def test_a_budget_is_the_same_for_all_seeds(tmp_path: Path) -> None:
    order = tiny_order(tmp_path / "out", "pattern-500k", epochs=None, minutes=0.005)
    assert reproduce(order, progress=False).count("done") == 2
    one, two = (read_config(tmp_path / f"out/pattern-500k/seed{k}/config.yaml") for k in range(2))
    assert one.model_copy(update={"seed": 1}) == two
    assert one.trainer.max_epochs is not None
    assert one.trainer.max_epochs < 200


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"minutes": -1.0, "epochs": None}, {"minutes": 1.0, "epochs": 2}])
def test_orders_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="--"):
        tiny_order(tmp_path, "pattern-500k", **wrong)
