"""What MkDocs calls while it builds the site (`hooks` of mkdocs.yml).

The site is laid out as the repository is, from the README on: a page, notebook or source file that a page links to is
found at the same relative address here and on a forge. Only files that pages lead to are part of it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
START = "README.md"
PYTHON = "docs/python.md"
LINK = re.compile(r'\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"')
COPIES = TemporaryDirectory(prefix="egt-notebooks-")
"""Where the notebooks run: they write files."""


@event_priority(100)  # before the plugin that makes pages of notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the files that are reached from the README and the navigation, under their paths in the repository."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    paths = reached(
        [
            START,
            *config.extra["polyfills"],
            *config.extra_css,
            *(path for path in pages(config.nav) if path != PYTHON),
        ]
    )
    python = File.generated(config, PYTHON, content=python_page())
    return Files([*theme, python, *(_file(path, config) for path in paths)])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave out links to folders: a forge lists them, a site has no page of them."""
    here = PurePosixPath(page.file.src_uri).parent

    def plain(link: re.Match[str]) -> str:
        return link[1] if (ROOT / here / link[2]).is_dir() else link[0]

    return re.sub(r"\[([^\]]*)\]\(([^)\s#:]+)\)", plain, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of notebooks to pages lead to them, as MkDocs does for those of Markdown."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    return re.sub(r'(href="(?![a-z]+:)[^"#]+)\.md(?=["#])', r"\1.html", html)


def pages(nav: object) -> list[str]:
    """Return the pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ()
    return [page for part in inner for page in pages(part)]


def reached(start: list[str]) -> list[str]:
    """Return the files that pages lead to, from the ones to start from."""
    found: list[str] = []
    waiting = list(start)
    while waiting:
        path = waiting.pop(0)
        if path in found or not (ROOT / path).is_file():
            continue
        found.append(path)
        if path.endswith(".md"):
            waiting += links(ROOT / path)
    return found


def links(page: Path) -> list[str]:
    """Return the paths in the repository that a page links to."""
    found = [in_markdown or in_html for in_markdown, in_html in LINK.findall(page.read_text())]
    targets = [target.partition("#")[0] for target in found if ":" not in target]
    ends = [(page.parent / target).resolve() for target in targets if target]
    return [end.relative_to(ROOT).as_posix() for end in ends if end.is_relative_to(ROOT)]


def python_page() -> str:
    """Return the page of what `egt` offers in Python; mkdocstrings fills in signatures and docstrings."""
    import egt
    import egt.testing

    homes = [home.replace(":", ".") for name, home in sorted(egt._HOMES.items()) if name != "presets"]
    checks = [f"egt.testing.{name}" for name in egt.testing.__all__]
    parts = ["egt.parts.Part", "egt.parts.register", "egt.parts.inputs.NodeInput", "egt.parts.inputs.PairInput"]
    parts += [
        "egt.parts.inputs.PairChoice",
        "egt.parts.readouts.ReadoutPart",
        "egt.parts.tasks.task.TaskPart",
        "egt.parts.schedules.SchedulePart",
    ]
    chapters = {"From `egt`": homes, "Properties to check": checks, "Parts of your own": parts}
    lines = ["# In Python", *(_chapter(title, names) for title, names in chapters.items())]
    return "\n\n".join(lines)


def _chapter(title: str, names: list[str]) -> str:
    return "\n\n".join([f"## {title}", *(f"::: {name}" for name in names)])


def _file(path: str, config: MkDocsConfig) -> File:
    """Return a file of the repository as one of the site; a notebook as a copy in a folder of its own."""
    folder = ROOT
    if path.endswith(".ipynb"):
        folder = Path(COPIES.name)
        (folder / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return File(path, str(folder), config.site_dir, config.use_directory_urls)
