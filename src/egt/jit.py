"""Loops as machine code, by numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(signature: Any) -> Callable[[Any], Any]:
    """Return a decorator: the machine code of a function, kept on disk between runs where there is a folder for it.

    Args:
        signature: numba's types of the result and the arguments. It is compiled at once for these.
    """

    def compile(function: Any) -> Any:
        try:
            return numba.njit(signature, cache=True)(function)
        except (RuntimeError, OSError):  # no folder to keep it in: read-only or full
            return numba.njit(signature)(function)

    return compile
