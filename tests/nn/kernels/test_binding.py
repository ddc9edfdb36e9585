"""The structs of the kernel are those of its headers, and a library with others is refused."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from egt.native import library
from egt.native.library import SOURCES
from egt.nn.kernels import binding


def fields_of(struct: str) -> list[str]:
    """The names of a struct's fields, read from the headers."""
    text = "".join((SOURCES / name).read_text() for name in ("pair_pass.h", "node_pass.h", "loops.h"))
    body = re.search(rf"struct {struct} {{(.*?)\n}};", text, re.DOTALL)
    assert body is not None, struct
    statements = re.sub(r"//.*", "", body[1]).split(";")
    return [
        re.findall(r"\w+", name)[-1] for statement in statements if statement.strip() for name in statement.split(",")
    ]


@pytest.mark.parametrize(
    "struct", [*binding.STRUCTS, library.Graphs, library.Neighbors], ids=lambda struct: struct.__name__
)
def test_fields_are_those_of_the_header_in_their_order(struct: type[ctypes.Structure]) -> None:
    names = [field[0] for field in struct._fields_]
    assert names == fields_of(f"Egt{struct.__name__}")


def _one_more(fields: list[Any]) -> list[Any]:
    return [*fields, ("one_more", ctypes.c_int64)]


def _swapped(fields: list[Any]) -> list[Any]:
    return [*fields[:2], fields[3], fields[2], *fields[4:]]


@pytest.mark.parametrize("change", [_one_more, _swapped])
@pytest.mark.parametrize("struct", [binding.PairPass, binding.NormLinear, library.Graphs])
def test_a_library_with_other_structs_is_refused(struct: type[Any], change: Callable[[list[Any]], list[Any]]) -> None:
    found = library.library()
    if found is None:
        pytest.skip("no C++ compiler: no kernel")
    library.check_structs(found, struct)
    other = type(struct.__name__, (ctypes.Structure,), {"_fields_": change([*struct._fields_])})
    with pytest.raises(RuntimeError, match=struct.__name__):
        library.check_structs(found, other)


def test_a_library_that_does_not_load_leaves_the_plain_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "pair_pass.so"
    broken.write_text("what a broken compiler wrote")
    checksum = tmp_path / "pair_pass.so.sha256"
    checksum.write_text("...")
    monkeypatch.setattr(library, "build", lambda: broken)
    assert library.library.__wrapped__() is None
    assert "cannot be loaded" in caplog.text
    assert not checksum.exists(), "the next process would load it again"
