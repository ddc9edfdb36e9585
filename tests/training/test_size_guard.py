"""A graph that is too large is refused from its size alone, with the settings under which it fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egt import api
from egt.config.load import override
from egt.data.benchmark import BENCHMARKS
from egt.errors import ConfigError
from egt.inference import backends
from egt.paper.presets import preset
from egt.training import run as training
from egt.training.memory import Memory
from tests.cli.runs import write_csv

PATTERN = preset("pattern-100k")
CARD = replace(BENCHMARKS.get(PATTERN.data.source).card, num_nodes=(10, 100.0, 200_000))


def test_a_graph_that_is_too_large_is_refused_with_what_fits() -> None:
    with pytest.raises(ConfigError, match=r"200,000.*--set"):
        Memory(PATTERN).check_largest_graph(CARD)
    Memory(PATTERN).check_largest_graph(replace(CARD, num_nodes=(10, 100.0, 200)))


def test_nothing_is_prepared_for_a_graph_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "graph"
    folder.mkdir()
    ring = np.arange(60)
    write_csv(folder / "nodes.csv", [{"node": k, "x": 0.5 * k, "y": k % 2} for k in ring.tolist()])
    write_csv(folder / "edges.csv", [{"source": k, "target": (k + 1) % 60} for k in ring.tolist()])
    monkeypatch.setattr(backends, "prediction_bytes", lambda *_: 10**15)
    monkeypatch.setattr(training, "_prepare", lambda *_: pytest.fail("graphs were prepared"))
    with pytest.raises(ConfigError, match="3,600"):
        api.train(folder, "y", out=tmp_path / "run", progress=False)


def test_lists_of_edges_have_no_limit_of_pairs() -> None:
    settings = ["model.scope=neighbors", "data.layout=edge_list", "task.auxiliary=[]"]
    Memory(override(PATTERN, settings)).check_largest_graph(CARD)
