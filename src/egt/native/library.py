"""The compiled library, loaded once; compiled before that if need be. Needs no torch."""

from __future__ import annotations

import ctypes
import functools
import logging

from egt.native.compilation import build, forget

log = logging.getLogger(__name__)

_INTEGER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p


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
        "egt_hop_distances": (*[_INTEGER] * 3, *[_ADDRESS] * 2),
        "egt_undirected_adjacency": (*[_INTEGER] * 2, *[_ADDRESS] * 4),
        "egt_signs": (*[_INTEGER] * 3, *[_ADDRESS] * 4),
        "egt_encode_triplets": (*[_INTEGER] * 4, *[_ADDRESS] * 5),
        "egt_encode_eigenvectors": (*[_INTEGER] * 4, *[_ADDRESS] * 4),
        "egt_count_molecules": (_INTEGER, *[_ADDRESS] * 4),
        "egt_read_molecules": (_INTEGER, *[_ADDRESS] * 7),
    }.items():
        getattr(library, name).argtypes = arguments
    library.egt_undirected_adjacency.restype = ctypes.c_int
    for name in ("egt_hop_distances", "egt_signs", "egt_encode_triplets", "egt_encode_eigenvectors"):
        getattr(library, name).restype = None
    library.egt_count_molecules.restype = library.egt_read_molecules.restype = None
