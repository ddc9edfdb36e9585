"""`make run` in small: it trains, compares with simple rules, and leaves a report that stands alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egt
from egt.cli.quickstart import baselines, main
from egt.graph import Graph
from tests.caches import fresh_cache
from tests.cli.runs import TINY


def star(leaves: int) -> Graph:
    """One node with many neighbors, which is the pattern."""
    spokes = np.stack([np.zeros(leaves, dtype=np.int64), 1 + np.arange(leaves)])
    labels = np.concatenate([[1.0], np.zeros(leaves)])
    return Graph.undirected(num_nodes=1 + leaves, edge_index=spokes, node_targets=labels)


def test_simple_rules() -> None:
    scores = baselines([star(5), star(7)], [star(6), star(9)])
    assert scores == {"most common class": 0.5, "degree of the node": 1.0}


def test_it_runs_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))
    folder = tmp_path / "quickstart"
    few = "data.options={split_sizes: {train: 6, val: 2, test: 2}}"
    main(folder, [few, *TINY], epochs=2)
    out = capsys.readouterr().out
    assert "degree of the node" in out
    assert "egt predict" in out
    report = (folder / "report.html").read_text()
    assert report.count("<svg") == 5
    assert "http" not in report.replace("http://www.w3.org/2000/svg", "")
    assert egt.load(folder).evaluate("test")["weighted_accuracy"] >= 0
    main(folder, [few, *TINY], epochs=2)  # again, in place of the first
