"""`egt serve` as a process: it answers, and SIGTERM ends it with 0 when its requests are answered."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from benchmarks.serve import processor_seconds
from tests.cli.runs import egt

ARTIFACT = Path(__file__).resolve().parents[1] / "fixtures/v0_1/molecules/artifact"


def test_other_machines_are_not_answered_without_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EGT_TOKEN", raising=False)
    done = egt(capsys, "serve", ARTIFACT, "--host", "0.0.0.0", "--port", "0")
    assert done.code == 2
    assert "EGT_TOKEN" in done.err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts processor time in /proc")
def test_where_few_files_can_be_open_it_waits_without_computing_and_goes_on() -> None:
    command = f"ulimit -n 48; exec {shlex.quote(sys.executable)} -m egt serve {shlex.quote(str(ARTIFACT))} --port 0"
    with subprocess.Popen(["bash", "-c", command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = next(int(found[1]) for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
        clients = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(100)]
        time.sleep(1)
        before = processor_seconds(process.pid)
        time.sleep(3)
        assert processor_seconds(process.pid) - before < 0.15  # it would be all of it
        for client in clients:
            client.close()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as reply:
            assert reply.status == 200
        process.terminate()
        assert process.wait(30) == 0


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
