"""README and docs: Python examples run, links lead somewhere, commands exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from egt.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("docs/*.md"))]
WITH_EXAMPLES = [page for page in PAGES if "```python" in page.read_text()]
FOLDERS = (".github", "benchmarks", "docs", "examples", "src", "tests")
WRITTEN = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).glob("**/*.md"))])
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks/README.md"]
TRAINED = ROOT / "tests/fixtures/v0_1/molecules"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the pages suppose it: a table of molecules, and a model `runs/data` trained on it."""
    shutil.copytree(TRAINED / "artifact", tmp_path / "runs/data/artifact")
    shutil.copy(TRAINED / "molecules.csv", tmp_path)
    shutil.copy(TRAINED / "molecules.csv", tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_python_examples(page: Path, user_folder: Path) -> None:
    """The blocks of a page run one after the other, as a reader would paste them."""
    text = page.read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    if "@register\n" in text:  # a part would stay registered for the tests that follow
        code = "\n".join(block[1] for block in blocks)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return
    names: dict[str, object] = {}
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(page), "exec"), names)  # our own text
    if page == README:
        assert names["h"].shape == (2, 10, 64)  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        path, _, heading = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_relative_to(ROOT), target
        assert found.exists(), target
        assert not heading or heading in anchors(found), target


def test_every_command_named_exists() -> None:
    known = {command for command in app() if not command.startswith("-")}
    for page in PAGES:
        assert commands(page) <= known, name(page)
    assert known <= commands(ROOT / "docs/commands.md"), "a command that docs/commands.md does not mention"


def test_the_readme_is_short() -> None:
    assert len(README.read_text().split()) <= 800


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_lines_are_narrow(page: Path) -> None:
    """Tables are narrow enough to read, and a diff shows what has changed."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []


def links(page: Path) -> set[str]:
    """The targets of a page's links and pictures that are in this repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    return {target for target in found if not re.match(r"[a-z]+:", target)}


def anchors(page: Path) -> set[str]:
    """The headings of a page as forges make anchors of them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: Path) -> set[str]:
    text = page.read_text()
    return set(re.findall(r"^egt ([a-z-]+)", text, re.MULTILINE)) | set(re.findall(r"`egt ([a-z-]+)", text))
