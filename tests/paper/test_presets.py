"""Presets by the data they run on."""

from __future__ import annotations

import pytest

from egt.paper.presets import preset, recipe_for


def test_the_recipe_of_a_benchmark_is_its_first_preset() -> None:
    assert recipe_for("pattern") == preset("pattern-100k")
    assert recipe_for("zinc-full") == preset("zinc-full-500k")


def test_a_benchmark_without_a_preset_is_prepared_like_pcqm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egt.paper.presets.names", lambda: ("zinc-100k", "pcqm4mv2-small"))
    run = recipe_for("pattern")
    assert run.data.source == "pattern"
    assert run.model == preset("pcqm4mv2-small").model
