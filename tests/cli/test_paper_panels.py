"""The three panels of the paper's Figure 3 (ZINC, PCQM4Mv2, TSP cropped), from training to the figure, small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.runs import egt, molecules, read_csv
from tests.paper.tiny import SETTINGS, molecule_files

Capture = pytest.CaptureFixture[str]
SMALL = (*SETTINGS, "model.num_layers=3", "model.num_heads=2")


def panel(folder: Path, row: int = 0) -> tuple[list[str], set[int]]:
    """Titles of the matrices of a graph, and the numbers of the last node that stand beside them."""
    words = re.findall(r"<text[^>]*>([^<]*)</text>", (folder / f"graph-{row}.svg").read_text())
    matrices = words[: words.index("weights by hop, all graphs")]
    assert (folder / f"graph-{row}.png").stat().st_size > 10_000
    return [word for word in matrices if word.startswith("(")], {int(word) for word in matrices if word.isdigit()}


def hops(folder: Path) -> dict[int, dict[str, float]]:
    """Softmax by layer and hop."""
    found: dict[int, dict[str, float]] = {}
    for row in read_csv(folder / "hops.csv"):
        found.setdefault(int(row["layer"]), {})[row["hop"]] = float(row["softmax"])
    return found


def test_zinc_by_layers_and_head(tmp_path: Path, capsys: Capture) -> None:
    table = molecules(tmp_path / "m.csv", y=range(20))
    out = tmp_path / "out"
    words = ("--show", "16", "--layers", "1", "4", "--head", "2", "-o", out)
    done = egt(capsys, "analyze", "zinc-100k", table, *words)
    assert done.code == 0, done.err
    titles, last = panel(out, row=16)
    assert titles == [
        "(i) adjacency",
        "(ii) distance",
        "(iii) layer 1, head 2",
        "(iv) layer 1, mean of heads",
        "(v) layer 4, mean of heads",
    ]
    assert 5 in last  # hexane
    assert sorted(hops(out)) == [1, 2, 3, 4]


def test_pcqm4mv2_with_its_virtual_nodes(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_DATA_DIR", str(molecule_files(tmp_path)))
    run = tmp_path / "run"
    words = ("train", "pcqm4mv2-small", "--set", *SMALL, "--epochs", "1", "--out", run)
    assert egt(capsys, *words).code == 0
    done = egt(capsys, "analyze", run, "val", "--limit", "0")
    assert done.code == 0, done.err
    assert "on 4 graphs of the split val of pcqm4mv2" in done.err
    titles, _ = panel(run / "analysis")
    assert titles[2:] == [
        titles[2],
        "(iv) layer 2, mean of heads",
        "(v) layer 3, mean of heads",
    ]
    for layer in hops(run / "analysis").values():  # four virtual nodes, beside at most seven atoms
        assert layer["to virtual"] > 0.2
        assert sum(weight for hop, weight in layer.items() if hop != "from virtual") == pytest.approx(1, abs=1e-4)


def test_tsp_cropped_and_without_its_last_layer(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("elkai", reason="TSP graphs are made with elkai (extra gen)")
    run = tmp_path / "run"
    data = "data.options={split_sizes: {train: 4, val: 2, test: 1}, cities: [30, 40]}"
    assert egt(capsys, "train", "tsp-100k", "--set", *SMALL, data, "--epochs", "1", "--out", run).code == 0
    assert egt(capsys, "analyze", run, "val", "--crop", "9").code == 0
    titles, last = panel(run / "analysis")
    assert titles[3:] == ["(iv) layer 1, mean of heads", "(v) layer 2, mean of heads"]
    assert max(last) == 8
    assert sorted(hops(run / "analysis")) == [1, 2]  # edges are read: the third layer computes no attention
    assert egt(capsys, "analyze", run, "val", "--show", "1", "-o", tmp_path / "whole").code == 0
    assert max(panel(tmp_path / "whole", row=1)[1]) >= 29
