"""What a cheap baseline reaches is measured on the same rows as the model, and said where it is better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import egt
from egt.cli.main import main
from egt.training.baseline import share_of_network

ONE_EPOCH = {"trainer.max_epochs": 1, "model.num_layers": 1, "optimizer.lr": 1e-6}


def baseline_of(data: object, target: str | None, out: Path, **more: Any) -> dict[str, Any]:
    run = egt.train(data, target, set=ONE_EPOCH | {"trainer.baseline": True}, out=out, progress=False, **more)
    found: dict[str, Any] = run.artifact.data["baseline"]
    assert found["metrics"].keys() == run.artifact.metrics.keys()
    for split, metrics in run.artifact.metrics.items():
        assert found["metrics"][split]["num_labels"] == metrics["num_labels"]  # the same rows
    return found


def alcohols(path: Path) -> Path:
    """Chains of up to nine carbons with up to five hydroxyl groups, which are counted; two labels are missing."""
    rows = [
        (f"{'C' * n}{'C(O)' * k}C", "" if (n, k) in {(1, 1), (4, 2)} else k + 0.25)
        for n in range(1, 10)
        for k in range(6)
    ]
    path.write_text("smiles,y\n" + "".join(f"{smiles},{y}\n" for smiles, y in rows))
    return path


def communities(size: int = 20) -> nx.Graph:
    """Two dense groups with a few links between them."""
    graph = nx.planted_partition_graph(2, size, 0.6, 0.02, seed=1)
    graph.graph.clear()
    for node, data in graph.nodes(data=True):
        data.update(group="left" if node < size else "right", split=("train", "val", "test")[min(node % 5, 2)])
    return graph


def test_molecules_are_compared_with_a_forest(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    found = baseline_of(alcohols(tmp_path / "m.csv"), "y", tmp_path / "run")
    assert found["name"] == "forest and GP"
    assert found["metrics"]["test"]["r2"] > 0.9


def test_labels_spread_along_the_edges_of_a_graph(tmp_path: Path) -> None:
    found = baseline_of([communities()], "group", tmp_path / "run", task="node")
    assert found["name"] in {"label propagation", "linear model of propagated features"}
    assert found["metrics"]["test"]["accuracy"] == 1.0


def test_missing_links_are_between_nodes_with_common_neighbors(tmp_path: Path) -> None:
    found = baseline_of([communities()], None, tmp_path / "run", task="link")
    assert found["name"] == "common neighbors"
    assert found["metrics"]["test"]["roc_auc"] > 0.7


def test_other_graphs_are_compared_with_the_mean(tmp_path: Path) -> None:
    graphs = [nx.path_graph(n) for n in range(2, 22)]
    for n, graph in enumerate(graphs):
        graph.graph["y"] = float(n)
    found = baseline_of(graphs, "y", tmp_path / "run")
    assert found["name"] == "mean of the training labels"
    assert found["metrics"]["test"]["r2"] <= 0.0


def test_the_command_says_that_a_model_loses_or_does_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("sklearn")
    common = [
        "train",
        str(alcohols(tmp_path / "m.csv")),
        "--target",
        "y",
        "--epochs",
        "1",
        "--set",
        "optimizer.lr=1e-6",
    ]
    for more, said in ([], True), (["--no-baseline"], False):
        with pytest.raises(SystemExit) as end:
            main([*common, "--out", str(tmp_path / f"run{said}"), *more])
        assert not end.value.code
        assert ("the forest and GP is better" in caplog.text) is said
        caplog.clear()


def test_the_share_of_the_network_is_the_best_one_less_its_standard_error() -> None:
    rng = np.random.default_rng(0)
    truth, ours, theirs = rng.normal(size=(3, 40, 2))
    truth[:7, 1] = np.nan
    truth[:, 1] *= 1000  # a target counts whatever its unit
    ours[:, 1] *= 1000
    theirs[:, 1] *= 1000

    def error(share: float) -> float:
        apart = (share * ours + (1 - share) * theirs - truth) / np.nanstd(truth, axis=0)
        return float(np.nansum(np.square(apart)))

    best = min(np.linspace(0, 1, 1001).tolist(), key=error)
    curvature = error(best + 1) - error(best)
    expected = best - np.sqrt(error(best) / (np.count_nonzero(~np.isnan(truth)) - 1) / curvature)
    assert 0.2 < expected < best - 0.02
    assert share_of_network(ours, theirs, truth) == pytest.approx(expected, abs=2e-3)
    assert share_of_network(np.nan_to_num(truth), theirs, truth) == 1
    assert share_of_network(ours, np.nan_to_num(truth), truth) == 0
