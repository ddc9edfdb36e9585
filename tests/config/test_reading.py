"""Which settings concern the reading of data, and what they say."""

from __future__ import annotations

import pytest

from egt.config.reading import as_words, check_reads, reading
from egt.errors import DataError


def test_settings_of_reading_are_nested_and_others_left_out() -> None:
    words = ["overrides.smiles=structure", "split=scaffold", "split.seed=3", "optimizer.lr=1e-3"]
    assert reading(words) == {"overrides": {"smiles": "structure"}, "split": {"kind": "scaffold", "seed": 3}}


def test_a_mapping_is_the_same_as_words() -> None:
    assert as_words({"optimizer.lr": 0.1, "split": "random"}) == ["optimizer.lr=0.1", "split=random"]


def test_other_settings_are_refused_where_data_is_only_read() -> None:
    check_reads(["overrides.id=name", "split.seed=3"])
    with pytest.raises(DataError, match=r"--set optimizer.lr=1: .* egt train"):
        check_reads(["split=random", "optimizer.lr=1"])


def test_columns_may_have_dots_in_their_names() -> None:
    words = ["overrides.node_features.x.0=ignored", "overrides.node_features.x.1=continuous"]
    assert reading(words) == {"overrides": {"node_features": {"x.0": "ignored", "x.1": "continuous"}}}
