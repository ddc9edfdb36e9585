"""A folder as an attacker leaves it: files with the names of libraries, which note that they were run."""

from __future__ import annotations

from pathlib import Path


class HostileFolder:
    """A folder with a file for each of some modules; `executed` are the names of those that were imported from it."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self.path = folder / "hostile"
        self.path.mkdir()
        for name in modules:
            (self.path / f"{name}.py").write_text(f"open({str(self.path / name)!r} + '.executed', 'w').close()\n")

    @property
    def executed(self) -> list[str]:
        return sorted(path.stem for path in self.path.glob("*.executed"))
