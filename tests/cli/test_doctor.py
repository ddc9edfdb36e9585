"""`egt doctor` says which compiled kernel computes here, and on how many processors."""

from __future__ import annotations

import json
import re

import pytest

from egt.cli.main import main
from egt.native import library as module
from egt.native.library import build
from egt.nn.kernels import binding


def machine(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--json"])
    assert not end.value.code
    found: dict[str, str] = json.loads(capsys.readouterr().out.splitlines()[-1])["machine"]
    return found


def kernel(capsys: pytest.CaptureFixture[str]) -> str:
    return machine(capsys)["CPU kernel"]


@pytest.mark.parametrize(
    ("quota", "said"), [(None, "8 used (8 visible, no CPU quota)"), (1.5, "2 used (8 visible, CPU quota 1.5)")]
)
def test_processors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quota: float | None, said: str
) -> None:
    for reader in ("egt.processors", "egt.cli.doctor"):
        monkeypatch.setattr(f"{reader}.num_visible", lambda: 8)
        monkeypatch.setattr(f"{reader}.cpu_quota", lambda: quota)
    assert machine(capsys)["processors"] == said


def test_where_the_kernel_comes_from(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    library = build()
    if library is None:
        pytest.skip("no C++ compiler: no kernel")
    assert re.fullmatch(f"compiled in the cache, (AVX2|portable): {library}", kernel(capsys))
    monkeypatch.setattr(module, "prebuilt", lambda *flags: library)
    assert re.fullmatch(f"prebuilt in the package, (AVX2|portable): {library}", kernel(capsys))


def test_no_kernel(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "library", lambda: None)
    assert kernel(capsys) == "none"
