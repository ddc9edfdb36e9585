"""Which settings concern the reading of data, and what they say."""

from __future__ import annotations

from egt.config.reading import as_words, reading


def test_settings_of_reading_are_nested_and_others_left_out() -> None:
    words = ["overrides.smiles=structure", "split=scaffold", "split.seed=3", "optimizer.lr=1e-3"]
    assert reading(words) == {"overrides": {"smiles": "structure"}, "split": {"kind": "scaffold", "seed": 3}}


def test_a_mapping_is_the_same_as_words() -> None:
    assert as_words({"optimizer.lr": 0.1, "split": "random"}) == ["optimizer.lr=0.1", "split=random"]
