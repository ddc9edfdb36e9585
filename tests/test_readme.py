"""The README's Python examples run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

from egt.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_python_examples() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)  # our own text
    assert names["h"].shape == (2, 10, 64)  # type: ignore[attr-defined]


def test_every_command_it_names_exists() -> None:
    commands = set(re.findall(r"^egt ([a-z-]+)", README, re.MULTILINE)) | set(re.findall(r"`egt ([a-z-]+)", README))
    known = {name for name in main.commands() if not name.startswith("-")}
    assert commands <= known
    assert known <= commands, "a command the README does not mention"
