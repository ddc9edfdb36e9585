"""What `make test-full` needs is not skipped for want of it, and `make test` says why it skips."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import WANTING

ROOT = Path(__file__).resolve().parents[1]
SKIPPING = """
import pytest

@pytest.mark.skipif(True, reason="no browser: install chromium")
def test_page(): ...

@pytest.fixture
def site(): pytest.importorskip("no_such_module", reason="no MkDocs: install it")

def test_site(site): ...

def test_data(): pytest.skip("no real data: none here")
"""


@pytest.mark.parametrize(
    ("required", "failing"), [("", []), ("docs", ["test_site"]), ("browser,docs", ["test_page", "test_site"])]
)
def test_a_missing_requirement_fails(required: str, failing: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    environment = {**os.environ, "EGT_REQUIRE": required, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert re.findall(r"^ERROR \S+::(\w+) - no ", done.stdout, re.MULTILINE) == failing, done.stdout
    assert (done.returncode != 0) == bool(failing)
    assert done.stdout.count("SKIPPED [1]") == 3 - len(failing)
    assert "no real data: none here" in done.stdout  # skipped with its reason


def test_the_tests_that_need_them_skip_with_these_reasons() -> None:
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path.name != Path(__file__).name}
    for name, starts in WANTING.items():
        unused = [start for start in starts if not any(f"{start}: " in text for text in tests.values())]
        assert not unused, f"no test skips with {unused} any more: change {name} in conftest.py"


def test_the_full_run_asks_for_them() -> None:
    recipe = (ROOT / "Makefile").read_text()
    assert "test-full: export EGT_REQUIRE ?= browser,docs\n" in recipe
    assert "test-full: $(DOCS_STAMP)\n" in recipe
    dry = subprocess.run(["make", "-n", "-B", "test-full"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert '".[docs]"' in dry.stdout
