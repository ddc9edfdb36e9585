"""The compiled library, loaded once; compiled before that if need be. Needs no torch."""

from __future__ import annotations

import ctypes
import functools
import logging

from egt.native.compilation import build, forget

log = logging.getLogger(__name__)

_INTEGER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p


class Graphs(ctypes.Structure):
    """The graphs that a call is about (EgtGraphs)."""

    _fields_ = (
        ("count", _INTEGER),
        *((name, _ADDRESS) for name in ("num_nodes", "num_edges", "from", "to")),
    )


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
        _declare(found)
    return found


def _declare(library: ctypes.CDLL) -> None:
    """Say what the functions of csrc/loops.h take: without it addresses would be cut to 32 bits."""
    for name, arguments in {
        "egt_hop_distances": (ctypes.POINTER(Graphs), _INTEGER, _ADDRESS),
        "egt_undirected_adjacency": (ctypes.POINTER(Graphs), *[_ADDRESS] * 4),
        "egt_signs": (*[_INTEGER] * 3, *[_ADDRESS] * 4),
        "egt_encode_triplets": (*[_INTEGER] * 4, *[_ADDRESS] * 5),
        "egt_encode_eigenvectors": (*[_INTEGER] * 5, *[_ADDRESS] * 4),
        "egt_count_molecules": (_INTEGER, *[_ADDRESS] * 4),
        "egt_read_molecules": (_INTEGER, *[_ADDRESS] * 7),
    }.items():
        getattr(library, name).argtypes, getattr(library, name).restype = arguments, None
