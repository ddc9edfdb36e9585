"""The files of an analysis: a page that needs no network, figures, numbers."""

from __future__ import annotations

import csv
import json
import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from egt.errors import ConfigError
from egt.explain import analysis_page as files
from egt.explain.analysis import analyze
from egt.explain.analysis_page import analysis_page, write_analysis
from egt.explain.figures import choose
from tests.explain.by_hand import attention, chain

FOUND = attention(
    chain(3, id="<!--<script></script>"),
    [[np.eye(3), np.full((3, 3), 1 / 3)], [np.eye(3), np.eye(3)]],
    gates=[0.5],
    num_virtual=0,
)


def write(folder: Path) -> list[Path]:
    analysis = analyze([FOUND])
    return write_analysis(analysis, choose(analysis.layers, 2), folder, "tiny", "three nodes", "egt analyze tiny")


def test_page_figures_and_numbers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write(tmp_path / "new" / "analysis")
    names = {file.name for file in written}
    assert {"analysis.html", "hops.csv", "heads.parquet", "graph-0.png", "graph-0.svg", "hops.svg"} <= names
    assert all(file.stat().st_size for file in written)
    folder = written[0].parent
    with (folder / "hops.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {"layer": "1", "hop": "0", "product": "0.3333333333333333", "softmax": "0.6666666666666666",
                       "even": "0.3333333333333333", "even_product": "0.16666666666666666"}  # fmt: skip
    assert parquet.read_table(folder / "hops.parquet").to_pylist()[0]["product"] == pytest.approx(1 / 3)
    assert (folder / "graph-0.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_stands_alone_and_holds_what_it_draws() -> None:
    text = analysis_page(analyze([FOUND]), "tiny", "three nodes", "egt analyze tiny")
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", text)
    assert "import(" not in text
    assert "fetch(" not in text
    [content] = re.findall(r'<script type="application/json" id="content">(.*?)</script>', text, re.DOTALL)
    found = json.loads(content)
    graph = found["graphs"][0]
    assert graph["name"] == "row 0, <!--<script></script>"
    assert "<" not in content  # not even what begins a comment, after which </script> would end nothing
    steps = np.frombuffer(b64decode(graph["product"]["bytes"]), np.uint8).reshape(2, 3, 3, 3)  # the mean comes last
    np.testing.assert_array_equal(steps[0, 0], 255 * np.eye(3))
    assert graph["product"]["high"][0] == pytest.approx([0.5, 1 / 6, 1 / 3], abs=1e-5)
    assert found["hops"]["product"][1][0] == pytest.approx(0.5)


def test_without_matplotlib_there_are_no_figures_and_a_word_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "can_draw", lambda: False)
    assert not [file for file in write(tmp_path) if file.suffix == ".png"]
    assert "egt-graph[figures]" in caplog.text


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="results"):
        write(tmp_path / "taken")
