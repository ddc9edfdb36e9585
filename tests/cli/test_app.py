"""`egt app` on the command line: where it listens, and that it opens the browser only if asked to."""

from __future__ import annotations

import socketserver
import webbrowser
from pathlib import Path

import pytest

from egt.explain.page.session import Session
from egt.inference.artifact import EnsembleArtifact, load_artifact, save_ensemble
from tests.cli.runs import egt

ARTIFACT = Path(__file__).resolve().parents[1] / "fixtures/v0_1/molecules/artifact"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were opened by a server that ends at once."""
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", found.append)
    monkeypatch.setattr(Session, "warm_up", lambda self: None)
    monkeypatch.setattr(socketserver.BaseServer, "serve_forever", lambda self: None)
    return found


def test_the_address_is_printed_and_opened(capsys: pytest.CaptureFixture[str], opened: list[str]) -> None:
    done = egt(capsys, "app", ARTIFACT, "--port", "0")
    assert done.code == 0
    [url] = opened
    assert url.startswith("http://127.0.0.1:")
    assert f"is at {url} (Ctrl-C ends it)" in done.err


def test_an_ensemble_has_a_page(capsys: pytest.CaptureFixture[str], opened: list[str], tmp_path: Path) -> None:
    member = load_artifact(ARTIFACT)
    ensemble = EnsembleArtifact("seeds", (member, member), member.metrics)
    save_ensemble(ensemble, [ARTIFACT, ARTIFACT], tmp_path / "artifact")
    done = egt(capsys, "app", tmp_path, "--port", "0")
    assert done.code == 0, done.err
    assert len(opened) == 1


def test_no_browser(capsys: pytest.CaptureFixture[str], opened: list[str]) -> None:
    assert egt(capsys, "app", ARTIFACT, "--port", "0", "--no-browser").code == 0
    assert not opened


def test_no_model_and_no_port(capsys: pytest.CaptureFixture[str], opened: list[str], tmp_path: Path) -> None:
    assert "holds no artifact" in egt(capsys, "app", tmp_path).err
    wrong = egt(capsys, "app", ARTIFACT, "--port", "99999")
    assert wrong.code == 1
    assert "--port 99999: it must be between 0 and 65535" in wrong.err
    assert not opened
