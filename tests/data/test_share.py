"""A share of the training graphs: the same ones each time, and whole other splits."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.config.load import override
from egt.config.run_data import open_source
from egt.errors import ConfigError
from egt.paper.presets import preset
from egt.training.plan import known_sizes

PATTERN = override(preset("pattern-100k"), ["data.options={split_sizes: {train: 40, val: 4, test: 4}}"])


def test_a_share_is_drawn_once_and_for_all() -> None:
    whole = open_source(PATTERN)
    some = open_source(override(PATTERN, ["data.train_share=0.25"]))
    again = open_source(override(PATTERN, ["data.train_share=0.25"]))
    assert some.card.split_sizes == {"train": 10, "val": 4, "test": 4}
    assert some.records("train") == again.records("train") != whole.records("train")[:10]
    assert set(some.records("train")) <= set(whole.records("train"))
    assert some.records("test") == whole.records("test")
    assert some.fingerprint() == again.fingerprint() != whole.fingerprint()
    assert "share of 0.25" in some.card.notes
    first = some.records("train")[0]
    assert some.read(first).id == whole.read(first).id


def test_a_plan_counts_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path))
    for name, count in (("zinc-100k", 1_000), ("pattern-100k", 1_000)):
        assert known_sizes(override(preset(name), ["data.train_share=0.1"])).counts["train"] == count


def test_a_share_is_between_none_and_all() -> None:
    for share in ("0", "1.5"):
        with pytest.raises(ConfigError, match="train_share"):
            override(PATTERN, [f"data.train_share={share}"])
