"""The page of a search explains how trials ended."""

from __future__ import annotations

from egt.tuning.study import Tried
from egt.tuning.tune import _notes


def test_trials_that_did_not_run_to_their_end_are_explained() -> None:
    done, pruned, begun = (
        Tried(0, {}, "done", 0.5, 3, 1),
        Tried(1, {}, "pruned", 0.5, 3, 1),
        Tried(2, {}, "open", 0.5, 3, 1),
    )
    assert _notes([done]) == []
    assert [note.partition(":")[0] for note in _notes([done, begun, pruned])] == ["pruned", "open"]
    assert "the same command continues it" in _notes([begun])[0]
