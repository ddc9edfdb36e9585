"""Rows on the page are predicted as everywhere else."""

from __future__ import annotations

import csv
import io
import multiprocessing
from copy import copy

import numpy as np
import pytest

from egt.config.run_data import open_new, open_source, reading_schema
from egt.explain.page import session as opened_rows
from egt.explain.page.session import AT_ONCE, Rows, Session, interval_of, table, typed_molecules

SMILES = ["CCO", "C1CC", "c1ccccc1O", "CN(C)(C)(C)C"]


def test_smiles_are_answered_as_by_the_predictor(session: Session) -> None:
    expected = session.model.predict(SMILES)
    found = Rows(open_new(session.model.config, SMILES)).predict(session.model, 0, len(SMILES))
    assert found.columns == expected.columns
    assert found.table() == expected.table()
    assert "cannot be read" in found[1].error
    assert "relaxed" in found[3].warning


def test_a_part_of_a_split_stands_beside_its_labels(session: Session) -> None:
    rows = Rows(open_source(session.model.config), "test")
    whole = session.model.predict_split("test").table()
    assert len(rows) == len(whole)
    assert rows.predict(session.model, 2, 3).table() == whole[2:5]
    assert "solubility_true" in whole[0]


def test_intervals_are_those_of_predict_also_behind_rows_without_any(
    pair_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pair_session.model
    schema = reading_schema(model.config)
    monkeypatch.setattr(opened_rows, "AT_ONCE", 1)
    rows = Rows(open_new(model.config, typed_molecules(schema, ["C1CC", "CCO"], {"temperature": 20.0})))
    found = rows.predict(model, 0, 2)
    [reading] = rows.read(1, 1)
    [expected] = model.predict([reading.graph], interval=0.9)
    assert found.columns[-5:-3] == ["solubility_low", "solubility_high"]
    np.testing.assert_array_equal(found[1].bounds, expected.bounds)


def test_a_target_that_is_called_like_a_bound_has_no_interval(pair_session: Session) -> None:
    model = copy(pair_session.model)
    assert interval_of(model) == 0.9
    task = model.config.task.model_copy(update={"names": ("y", "y_low")})
    model.config = model.config.model_copy(update={"task": task})
    assert interval_of(model) is None


def test_many_rows_need_no_other_process(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_context", lambda *_: pytest.fail("a fork beside other threads"))
    many = [SMILES[k % 4] for k in range(AT_ONCE + 3)]
    found = Rows(open_new(session.model.config, many)).predict(session.model, 0, len(many))
    assert [answer.smiles for answer in found] == many
    assert [bool(answer.error) for answer in found] == [text == "C1CC" for text in many]


def test_a_table_has_the_row_of_the_data_and_the_csv_of_predict(session: Session, node_session: Session) -> None:
    rows = Rows(open_new(session.model.config, SMILES))
    found = table(rows.predict(session.model, 2, 2), 2)
    assert found["of"] == [2, 3]
    assert found["answers"] == ["solubility", "size"]
    expected = io.StringIO()
    rows.predict(session.model, 2, 2).to_csv(expected)
    assert found["csv"] == expected.getvalue()
    assert [len(row) for row in csv.reader(io.StringIO(found["csv"]))] == [len(found["columns"])] * 3

    nodes = Rows(open_source(node_session.model.config), "test")
    several = table(nodes.predict(node_session.model, 1, 2), 1)
    sizes = [reading.graph.num_nodes for reading in nodes.read(1, 2) if reading.graph is not None]
    assert several["of"] == [1] * sizes[0] + [2] * sizes[1]
    assert several["answers"][:2] == ["node", "role"]
    assert several["answers"][-1] == "role_true"
