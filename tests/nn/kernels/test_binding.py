"""The structs of the kernel are those of its headers, and a library with others is refused."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from egt.native import library
from egt.native.compilation import SOURCES, build
from egt.nn.kernels import binding


def fields_of(struct: str) -> list[str]:
    """The names of a struct's fields, read from the headers."""
    text = "".join((SOURCES / name).read_text() for name in ("pair_pass.h", "node_pass.h"))
    body = re.search(rf"struct {struct} {{(.*?)\n}};", text, re.DOTALL)
    assert body is not None, struct
    statements = re.sub(r"//.*", "", body[1]).split(";")
    return [
        re.findall(r"\w+", name)[-1] for statement in statements if statement.strip() for name in statement.split(",")
    ]


@pytest.mark.parametrize("struct", binding.STRUCTS, ids=lambda struct: struct.__name__)
def test_fields_are_those_of_the_header_in_their_order(struct: type[ctypes.Structure]) -> None:
    names = [field[0] for field in struct._fields_]
    assert names == fields_of(f"Egt{struct.__name__}")


def test_a_library_with_other_structs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = build()
    if path is None:
        pytest.skip("no C++ compiler: no kernel")
    found = ctypes.CDLL(str(path))
    binding.declared(found)

    class NormLinear(ctypes.Structure):
        _fields_ = (*binding.NormLinear._fields_, ("one_more", ctypes.c_int64))

    monkeypatch.setattr(binding, "STRUCTS", (*binding.STRUCTS[:2], NormLinear, *binding.STRUCTS[3:]))
    with pytest.raises(RuntimeError, match=r"struct of NormLinear has 104 bytes and egt's 112; .*reinstall egt"):
        binding.declared(found)


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
