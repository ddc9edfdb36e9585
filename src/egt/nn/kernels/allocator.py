"""Big buffers are used again instead of being given back to the system after every operation."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

# Options of glibc's mallopt (malloc.h).
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4

_POOLED_BYTES = 1 << 20
"""Smaller buffers come from the heap as any other tensor."""

_ROOM = 1.25
"""Blocks are this much larger than their first buffer: the next batch may be, and pages never touched cost nothing."""


class Pool:
    """Blocks of memory that one big buffer after the other uses, apart from the heap.

    In a heap that is kept, small tensors settle in the holes that big ones leave, the next big ones no longer fit, and
    batches of changing size take up to twice the memory in use. Here there are never more blocks than buffers were
    alive at once: a buffer that fits into no free block replaces the largest of them.
    """

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []

    def empty(self, shape: Sequence[int]) -> Tensor:
        """Return an uninitialized float32 tensor; its block is free again when nothing refers to it any more."""
        count = math.prod(shape)
        fitting = [block for block in self._free if len(block) >= 4 * count]
        if fitting:
            block = min(fitting, key=len)
            self._free.remove(block)
        else:
            if self._free:
                self._free.remove(max(self._free, key=len))
            block = mmap.mmap(-1, round(_ROOM * 4 * count), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # advice: a system without huge pages goes on with small ones
                block.madvise(mmap.MADV_HUGEPAGE)
        array = np.frombuffer(block, np.float32, count)
        weakref.finalize(array, self._free.append, block).atexit = False
        return torch.from_numpy(array).view(*shape)


_pool: Pool | None = None


def keep_freed_memory() -> bool:
    """Make this process keep memory that tensors free, for the tensors after them.

    glibc gives every buffer above 32 MB (and at first above 128 kB) its own mapping and unmaps it when it is freed,
    so each operation on a large edge channel pays for zeroed pages again: up to 2.6 times the time of a training step.
    The price: memory once used stays with the process until it ends. Call it before the first large tensor.

    Returns:
        False where the C library is not glibc; nothing is changed then.
    """
    global _pool
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    _pool = _pool or Pool()
    return bool(libc.mallopt(_M_MMAP_MAX, 0) and libc.mallopt(_M_TRIM_THRESHOLD, -1))


def empty(shape: Sequence[int]) -> Tensor:
    """Return an uninitialized float32 CPU tensor, from the pool if freed memory is kept and the tensor is big."""
    if _pool is None or 4 * math.prod(shape) < _POOLED_BYTES:
        return torch.empty(*shape)
    return _pool.empty(shape)
