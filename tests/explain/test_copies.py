"""Copies of a graph with scaled embeddings: alike on every layout and backend, and never stuck to the model."""

from __future__ import annotations

import numpy as np
import pytest

from egt.assemble import build_task
from egt.config.run_data import preparation
from egt.data.batching.batch import LayoutName
from egt.explain import importance as copies
from egt.explain.importance import Question, integrated_gradients
from egt.inference.backends import on_backend
from tests.explain.synthetic import tree, untrained
from tests.graphs import WAYS, backend_named


@pytest.mark.parametrize(("backend", "layout"), WAYS)
def test_what_is_masked_changes_the_answer_the_same_way_everywhere(backend: str, layout: LayoutName) -> None:
    model = untrained()
    sample = preparation(model.config)(tree(0))
    task = build_task(model.config)
    asked = Question(on_backend(model.model, model.config, backend_named(backend)), task, sample, layout)
    random = np.random.default_rng(0)
    nodes = (random.random((5, 12)) < 0.7).astype(np.float32)
    pairs = (random.random((5, 144)) < 0.7).astype(np.float32)
    nodes[0], pairs[0] = 1, 1
    reference = Question(on_backend(model.model, model.config, backend_named("plain")), task, sample, "packed")
    values = asked.values(nodes, pairs)
    np.testing.assert_allclose(values, reference.values(nodes, pairs), atol=2e-5)
    assert len(np.unique(values.round(6))) == 5
    prediction = model.predict([tree(0)])[0].values
    assert prediction is not None
    assert values[0] == pytest.approx(prediction[0, 0], abs=1e-5)


def test_parts_that_are_computed_apart_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = untrained()
    asked = Question(model.model, model.task, preparation(model.config)(tree(0)), "packed")
    shares = np.linspace(0.1, 1, 7, dtype=np.float32)
    whole = asked.gradients(shares, shares)
    monkeypatch.setattr(copies, "PAIRS_AT_ONCE", 900)
    for one, other in zip(whole, asked.gradients(shares, shares), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_integrated_gradients_add_up_to_what_they_explain() -> None:
    model = untrained()
    asked = Question(model.model, model.task, preparation(model.config)(tree(0)), "packed")
    found = integrated_gradients(asked)
    every = np.array([[1.0], [0.0]], np.float32)
    value, nothing = asked.values(every.repeat(12, 1), every.repeat(144, 1))
    assert found.nodes.sum() + found.pairs.sum() == pytest.approx(value - nothing, abs=0.02 * abs(value - nothing))
