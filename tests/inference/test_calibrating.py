"""What intervals and sets cannot promise is said: too few labels, or labels of too few graphs."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import egt
from egt.cli.output import print_coverage
from egt.inference.predictor import Predictor
from egt.inference.uncertainty import Calibration, Scores, doubts, labels_needed, measure_coverage
from egt.paper.report import coverage_sheet
from egt.parts.tasks.classification import Binary
from egt.parts.tasks.regression import Regression
from tests.cli.runs import TINY, write_jsonl
from tests.inference.test_predictor import chain, make

NUMBERS, YES_NO = Regression(names=("y",)), Binary(names=("y",))


def of_numbers(count: int, **about: int) -> Calibration:
    return Calibration.of_numbers(np.zeros((count, 1)), np.ones((count, 1)), **about)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1 / 3])
def test_as_many_labels_are_needed_as_make_the_quantile_finite(coverage: float) -> None:
    needed = labels_needed(coverage)
    assert Scores.of(np.zeros(needed)).quantile(coverage) == 0
    assert Scores.of(np.zeros(needed - 1)).quantile(coverage) == math.inf


def test_infinite_intervals_are_explained() -> None:
    assert doubts(NUMBERS, of_numbers(9), 0.9) == []
    [why] = doubts(NUMBERS, of_numbers(8), 0.9)
    assert why == "y: intervals of 90% are infinite: they need 9 held-out labels to calibrate on, and there are 8"
    [why] = doubts(NUMBERS, of_numbers(100), 0.999)
    assert "intervals of 99.9% are infinite: they need 999" in why


def test_classes_that_are_in_every_set_are_named() -> None:
    truth = np.array([[0.0]] * 40 + [[1.0]] * 3)
    rare = Calibration.of_classes(np.full((43, 1, 2), 0.5), truth)
    [why] = doubts(YES_NO, rare, 0.9)
    assert f"sets of 90% always hold {YES_NO.label(1)}: they need 9 held-out labels of each class" in why
    assert why.endswith("there are 3")
    [why] = doubts(YES_NO, Calibration.of_classes(np.full((2, 1, 2), 0.5), np.array([[0.0], [1.0]])), 0.9)
    assert "always hold all classes" in why


def test_labels_of_few_graphs_are_said_to_be() -> None:
    assert "of 4 graphs" in doubts(NUMBERS, of_numbers(100, num_graphs=4), 0.9)[0]
    assert doubts(NUMBERS, of_numbers(100, num_graphs=30), 0.9) == []
    assert doubts(NUMBERS, replace(of_numbers(100, num_graphs=1), transductive=True), 0.9) == []


def test_a_report_and_the_end_of_a_training_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = measure_coverage(NUMBERS, of_numbers(8), np.zeros((5, 1)), np.ones((5, 1)))
    print_coverage(found)
    said = capsys.readouterr().err
    assert "covered 100.0% of 5 test labels, infinitely wide on average" in said
    assert "they need 9 held-out labels" in said
    sheet = coverage_sheet(found)
    assert sheet.rows[0][2] == "infinite"
    assert "they need 9" in sheet.notes[0]


def test_a_prediction_says_it_once(caplog: pytest.LogCaptureFixture) -> None:
    model = Predictor(replace(make(task=NUMBERS), calibration=of_numbers(20)))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            model.predict([chain(3)], interval=0.9)
        assert not caplog.records
        for _ in range(2):
            model.predict([chain(3)], interval=0.999)
    [record] = caplog.records
    assert "they need 999 held-out labels to calibrate on, and there are 20" in record.message


def test_nodes_of_several_graphs_are_counted_by_graph(tmp_path: Path) -> None:
    graphs = [
        {
            "id": str(g),
            "num_nodes": 4,
            "edges": [[0, 1], [1, 2], [2, 3]],
            "node_targets": {"y": [g + k / 8 for k in range(4)]},
        }
        for g in range(20)
    ]
    words = (*TINY, "split.fractions=[0.5, 0.25, 0.25]")
    data = write_jsonl(tmp_path / "g.jsonl", graphs)
    run = egt.train(data, "y", task="node", set=words, out=tmp_path / "run", progress=False)
    kept = run.artifact.calibration
    assert kept is not None
    assert kept.num_graphs == 5
    assert "of 5 graphs" in run.artifact.data["coverage"]["doubts"][-1]
