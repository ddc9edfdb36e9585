"""`egt data`: what is told about benchmarks and own files, quickly, and what is seen of a download."""

from __future__ import annotations

import functools
import gzip
import http.server
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from egt.data.benchmark import BENCHMARKS
from egt.data.download import file_checksum
from egt.paper.benchmarks.molecule_sets import MOLHIV
from tests.cli.runs import SMILES, egt, molecules, ring, write_jsonl


@pytest.mark.parametrize("words", [["list"], ["info", "pattern"], ["info", "molhiv"], ["info", "own.csv"]])
def test_it_imports_no_torch(words: list[str], tmp_path: Path) -> None:
    molecules(tmp_path / "own.csv", length=[float(len(text)) for text in SMILES])
    code = f"import sys; sys.argv = ['egt', 'data', *{words!r}]\nfrom egt.cli.main import main\n"
    code += "try: main()\nexcept SystemExit as end: assert not end.code, end\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)


def test_own_data_is_described_without_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, object]] = [ring(size, targets={"size": size / 2, "odd": size % 2}) for size in range(3, 13)]
    path = write_jsonl(tmp_path / "rings.jsonl", [*rows, {"nodes": "none"}])
    found = egt(capsys, "data", "info", path, "--target", "size", "--json").json
    assert found["schema"]["targets"] == ["size"]
    assert [feature["name"] for feature in found["schema"]["node_features"]] == ["color", "height"]
    assert found["rows"] == 11 == sum(found["split_sizes"].values())
    [problem] = found["unreadable_rows"]
    assert "line 11" in problem
    shown = egt(capsys, "data", "info", path, "--target", "size")
    assert "3 to 12, mean 7.5" in shown.out
    assert "line 11" in shown.out


def test_own_data_that_leaves_a_choice_says_how_to_choose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = molecules(tmp_path / "two.csv", length=[float(len(text)) for text in SMILES], rings=[0.5] * len(SMILES))
    done = egt(capsys, "data", "info", path)
    assert done.code == 2
    assert "--target length" in done.err
    assert egt(capsys, "data", "info", tmp_path / "absent.csv").code == 2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serves a tiny MolHIV in OGB's layout as hiv.zip."""
    site = tmp_path / "site"
    site.mkdir()
    table = "HIV_active,smiles,mol_id\n" + "".join(f"{k % 2},{text},m{k}\n" for k, text in enumerate(SMILES))
    with zipfile.ZipFile(site / "hiv.zip", "w") as bundle:
        bundle.writestr("hiv/mapping/mol.csv.gz", gzip.compress(table.encode()))
        bundle.writestr("hiv/padding", bytes(3 << 20))
        for number, split in enumerate(("train", "valid", "test")):
            rows = "".join(f"{k}\n" for k in range(number, len(SMILES), 3))
            bundle.writestr(f"hiv/split/scaffold/{split}.csv.gz", gzip.compress(rows.encode()))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/hiv.zip"
        running.shutdown()
        thread.join(timeout=5)


@pytest.fixture
def published(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MolHIV is published at the server, and nothing is there yet."""
    checksum = file_checksum(tmp_path / "site" / "hiv.zip", "sha256")
    card = replace(MOLHIV, urls=(server,), checksums={"hiv.zip": checksum})
    monkeypatch.setitem(BENCHMARKS._entries, "molhiv", replace(BENCHMARKS.get("molhiv"), card=card))
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("EGT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.usefixtures("published")
def test_a_download_shows_a_bar_that_fills(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # standard error counts as a terminal
    done = egt(capsys, "data", "prepare", "molhiv", "--fetch")
    assert done.code == 0, done.err
    assert "downloading hiv.zip (MB)" in done.err
    assert "4/4" in done.err
    assert "preparing train" in done.err
    assert "20 graphs" in done.err
    assert done.out == ""


@pytest.mark.usefixtures("published")
def test_without_a_terminal_or_for_programs_nothing_is_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = egt(capsys, "data", "prepare", "molhiv", "--fetch")
    assert "20 graphs" in quiet.err
    assert "downloading" not in quiet.err
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert egt(capsys, "data", "prepare", "molhiv", "--json").json["graphs"] == 20


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published holds no molecule."""
    monkeypatch.setattr(sys.modules[__name__], "SMILES", ["no molecule("] * 20)


@pytest.mark.usefixtures("unreadable", "published")
def test_data_of_which_no_row_can_be_read_is_an_error_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    done = egt(capsys, "data", "prepare", "molhiv", "--fetch")
    assert done.code == 2
    assert "none of its 20 rows can be read; the first: " in done.err
