"""What decides which superpixels are neighbors, the same on every processor; numpy's own has vector instructions.

The public code of the superpixel benchmarks takes 8 of the 9 largest similarities of a node: which of them it drops is
decided by the order inside a partition. That order is an accident of the algorithm (quickselect with the median of
three), so the algorithm is repeated here; the result no longer depends on the machine or on the version of numpy.
Nor may the last digit of a similarity: equal distances, of which grids of superpixels have many, would end in another
order. Compiled by numba when imported.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from egt.jit import compiled


@compiled(numba.void(numba.float64[::1], numba.int64[::1], numba.int64, numba.int64, numba.int64))
def _median_of_three_first(
    values: NDArray[np.float64], order: NDArray[np.int64], low: int, mid: int, high: int
) -> None:
    """Put the median of three places at `low` as the pivot, and the smallest of them behind it."""
    if values[order[high]] < values[order[mid]]:
        order[high], order[mid] = order[mid], order[high]
    if values[order[high]] < values[order[low]]:
        order[high], order[low] = order[low], order[high]
    if values[order[low]] < values[order[mid]]:
        order[low], order[mid] = order[mid], order[low]
    order[mid], order[low + 1] = order[low + 1], order[mid]


@compiled(numba.int64[::1](numba.float64[::1], numba.int64))
def partition_order(values: NDArray[np.float64], kth: int) -> NDArray[np.int64]:
    """Return the numbers of the entries, those before `kth` not larger than the entry there, those behind not smaller.

    Args:
        values: (n,), without NaN.
        kth: the place whose entry is as in sorted order.
    """
    order = np.arange(len(values))
    if kth < 3:  # the smallest few are found one after another
        for place in range(kth + 1):
            smallest = place + np.argmin(values[order[place:]])
            order[place], order[smallest] = order[smallest], order[place]
        return order
    low, high = 0, len(values) - 1
    while low + 1 < high:
        _median_of_three_first(values, order, low, low + (high - low) // 2, high)
        pivot = values[order[low]]
        left, right = low + 1, high
        while True:
            left += 1
            while values[order[left]] < pivot:
                left += 1
            right -= 1
            while pivot < values[order[right]]:
                right -= 1
            if right < left:
                break
            order[left], order[right] = order[right], order[left]
        order[low], order[right] = order[right], order[low]
        if right >= kth:
            high = right - 1
        if right <= kth:
            low = left
    if high == low + 1 and values[order[high]] < values[order[low]]:
        order[high], order[low] = order[low], order[high]
    return order


@compiled(numba.float64[:, ::1](numba.float64[:, ::1]))
def exponentials(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp of each entry, as the C library computes it. values: (n, m)."""
    found = np.empty_like(values)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            found[i, j] = math.exp(values[i, j])
    return found
