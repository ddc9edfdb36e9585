"""`egt serve` as a process: it answers, and SIGTERM ends it with 0 when its requests are answered."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.runs import egt

ARTIFACT = Path(__file__).resolve().parents[1] / "fixtures/v0_1/molecules/artifact"


def test_other_machines_are_not_answered_without_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EGT_TOKEN", raising=False)
    done = egt(capsys, "serve", ARTIFACT, "--host", "0.0.0.0", "--port", "0")
    assert done.code == 2
    assert "EGT_TOKEN" in done.err


def test_it_answers_and_ends_gracefully() -> None:
    words = [sys.executable, "-m", "egt", "serve", str(ARTIFACT), "--port", "0"]
    environment = {**os.environ, "EGT_TOKEN": "a token of this test"}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        url = next(found[0] for line in process.stderr if (found := re.search(r"http://\S+/", line)))
        headers = {"Content-Type": "application/json", "Authorization": "Bearer a token of this test"}
        request = urllib.request.Request(f"{url}api/predict", b'{"smiles": ["CCO"]}', headers)
        with urllib.request.urlopen(request, timeout=30) as reply:
            assert len(json.load(reply)["predictions"]) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert "all requests are answered" in process.stderr.read()
