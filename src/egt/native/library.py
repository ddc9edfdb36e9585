"""The compiled library, loaded once; compiled before that if need be. Needs no torch."""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from egt.native.compilation import build, forget

log = logging.getLogger(__name__)

_INTEGER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p


class Graphs(ctypes.Structure):
    """The graphs that a call is about (EgtGraphs)."""

    _fields_ = (
        ("count", _INTEGER),
        *((name, _ADDRESS) for name in ("num_nodes", "num_edges", "from", "to")),
    )


class Neighbors(ctypes.Structure):
    """The neighbors of each node of a graph (EgtNeighbors)."""

    _fields_ = (("num_nodes", _INTEGER), ("start", _ADDRESS), ("nodes", _ADDRESS))


class _Field(ctypes.Structure):
    """Where a field of a struct is in the library (EgtField)."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", _INTEGER))


_LOOPS = {
    "egt_hop_distances": (ctypes.POINTER(Graphs), _INTEGER, _ADDRESS),
    "egt_undirected_adjacency": (ctypes.POINTER(Graphs), *[_ADDRESS] * 4),
    "egt_signs": (*[_INTEGER] * 3, *[_ADDRESS] * 4),
    "egt_encode_triplets": (*[_INTEGER] * 4, *[_ADDRESS] * 5),
    "egt_encode_eigenvectors": (*[_INTEGER] * 5, *[_ADDRESS] * 4),
    "egt_draw_neighborhood": (
        *(ctypes.POINTER(Neighbors), _INTEGER, _ADDRESS, _INTEGER, _ADDRESS, ctypes.c_uint64, _ADDRESS),
    ),
    "egt_inner_pairs": (ctypes.POINTER(Neighbors), _INTEGER, _ADDRESS, _ADDRESS, _ADDRESS),
    "egt_pair_distances": (*[ctypes.POINTER(Neighbors)] * 2, _INTEGER, _ADDRESS, _INTEGER, _ADDRESS),
    "egt_pair_walks": (*[ctypes.POINTER(Neighbors)] * 2, _INTEGER, _ADDRESS, _ADDRESS),
    "egt_walk_powers": (_INTEGER, _INTEGER, _ADDRESS, _ADDRESS, _INTEGER, _ADDRESS),
    "egt_walk_powers_at": (_INTEGER, _INTEGER, _ADDRESS, _ADDRESS, _INTEGER, _INTEGER, _ADDRESS, _ADDRESS),
    "egt_partition_rows": (_INTEGER, _INTEGER, _ADDRESS, _INTEGER, _ADDRESS),
    "egt_exponentials": (_INTEGER, _ADDRESS, _ADDRESS),
    "egt_count_molecules": (_INTEGER, *[_ADDRESS] * 4),
    "egt_read_molecules": (_INTEGER, *[_ADDRESS] * 7),
}
"""What the functions of csrc/loops.h take."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the library, compiled if need be; None where it cannot be.

    Its loops over graphs are declared here, its kernel in `egt.nn.kernels.binding`.
    """
    path = build()
    try:
        found = None if path is None else ctypes.CDLL(str(path))
    except OSError as error:
        assert path is not None
        log.warning("the fused kernel cannot be loaded (%s): using plain PyTorch, which is slower", error)
        forget(path)
        return None
    if found is not None:
        check_structs(found, Graphs, Neighbors)
        declare(found, _LOOPS)
    return found


def check_structs(library: ctypes.CDLL, *mirrors: type[ctypes.Structure]) -> None:
    """Raise a `RuntimeError` unless mirrors of structs have every field where the library has it."""
    library.egt_struct_fields.restype = ctypes.POINTER(_Field)
    fields = library.egt_struct_fields()
    offsets: dict[str, int] = {}
    while (field := fields[len(offsets)]).name is not None:
        offsets[field.name.decode()] = field.offset
    for mirror in mirrors:
        name = f"Egt{mirror.__name__}"
        there = {field: at for field, at in offsets.items() if field.partition(".")[0] == name}
        here = {f"{name}.{field}": getattr(mirror, field).offset for field, _ in mirror._fields_}  # type: ignore[misc]
        here[name] = ctypes.sizeof(mirror)
        if differing := sorted(field for field, _ in here.items() ^ there.items()):
            raise RuntimeError(
                f"{library._name}: {', '.join(dict.fromkeys(differing))} is elsewhere than in egt's struct; the two "
                "are of different versions: reinstall egt, or make the mirror the same as its header in csrc"
            )


_ERRORS: dict[int, tuple[type[Exception], str]] = {
    1: (ValueError, "sizes or listed pairs do not add up to the rows given"),
    2: (MemoryError, "no memory for working buffers"),
    3: (RuntimeError, "the system gives no more threads"),
    4: (RuntimeError, "failed for an unknown reason; please report this"),
}
"""What the numbers mean that functions of the library return (csrc/status.h)."""


def declare(library: ctypes.CDLL, functions: Mapping[str, Sequence[Any]]) -> None:
    """Say what functions take (undeclared, addresses would be cut to 32 bits), and let them raise what they return."""
    for name, arguments in functions.items():
        function = getattr(library, name)
        function.argtypes, function.errcheck = arguments, _raise_for


def _raise_for(status: int, function: Any, arguments: Any) -> None:
    if status:
        kind, reason = _ERRORS[status]
        raise kind(f"fused kernel: {reason}")


def address(array: NDArray[Any]) -> int:
    """Return where the numbers of a contiguous array are."""
    at: int = array.ctypes.data
    return at
