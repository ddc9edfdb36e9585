"""Balanced class weights in a run: numbers of the training split, kept in the artifact, the same after a resume."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import egt
from tests.caches import fresh_cache
from tests.cli.runs import SMILES, TINY

SETTINGS = [*TINY, "task.class_weights=balanced", "trainer.max_epochs=1"]


@pytest.mark.parametrize("kinds", [["a", "b"], ["a", "b", "c"]])
def test_training_labels_decide_the_weights(kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    labels = [kinds[0] if k % 4 else kinds[-1] if k % 8 else kinds[1] for k in range(16)]
    frame = pd.DataFrame({"smiles": SMILES[:16], "kind": labels, "split": ["train"] * 9 + ["val"] * 7})
    run = egt.train(frame, "kind", set=SETTINGS, out=tmp_path / "run", progress=False)
    counts = [labels[:9].count(kind) for kind in kinds]
    expected = pytest.approx([9 / (len(kinds) * count) for count in counts])
    found = egt.load(run.path).config.task.class_weights  # type: ignore[attr-defined]
    assert list(found[0] if len(kinds) == 2 else found) == expected
    again = egt.train(frame, "kind", set=[*SETTINGS[:-1], "trainer.max_epochs=2"], out=tmp_path / "run", resume=True)
    assert len(again.history) == 2
    assert egt.load(again.path).config.task == egt.load(run.path).config.task
