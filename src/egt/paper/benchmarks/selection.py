"""What decides which superpixels are neighbors, the same on every processor; numpy's own has vector instructions.

The public code of the superpixel benchmarks takes 8 of the 9 largest similarities of a node: which of them it drops is
decided by the order inside a partition. That order is an accident of the algorithm (quickselect with the median of
three), so the algorithm is repeated here; the result no longer depends on the machine or on the version of numpy.
Nor may the last digit of a similarity: equal distances, of which grids of superpixels have many, would end in another
order. Compiled where there is a compiler.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from egt.native.library import address, library


def partition_rows(values: NDArray[np.float64], kth: int) -> NDArray[np.int64]:
    """Return the numbers of the entries of each row (M, N), without NaN, as `numpy.argpartition` does."""
    native = library()
    if native is None:
        return np.array([_partition(row, kth) for row in values.tolist()], np.int64).reshape(values.shape)
    values, orders = np.ascontiguousarray(values), np.empty(values.shape, np.int64)
    native.egt_partition_rows(*values.shape, address(values), kth, address(orders))
    return orders


def _partition(values: list[float], kth: int) -> list[int]:
    order = [*range(len(values))]
    if kth < 3:  # the smallest few are found one after another
        for place in range(kth + 1):
            smallest = min(range(place, len(order)), key=lambda at: values[order[at]])
            order[place], order[smallest] = order[smallest], order[place]
        return order
    low, high = 0, len(values) - 1
    while low + 1 < high:
        _put_median_first(values, order, low, low + (high - low) // 2, high)
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


def _put_median_first(values: list[float], order: list[int], low: int, mid: int, high: int) -> None:
    """Put the median of three places at `low` as the pivot, and the smallest of them behind it."""
    if values[order[high]] < values[order[mid]]:
        order[high], order[mid] = order[mid], order[high]
    if values[order[high]] < values[order[low]]:
        order[high], order[low] = order[low], order[high]
    if values[order[low]] < values[order[mid]]:
        order[low], order[mid] = order[mid], order[low]
    order[mid], order[low + 1] = order[low + 1], order[mid]


def exponentials(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp of each entry, as the C library computes it."""
    native = library()
    if native is None:
        return np.array([math.exp(value) for value in values.ravel().tolist()]).reshape(values.shape)
    values, found = np.ascontiguousarray(values), np.empty(values.shape)
    native.egt_exponentials(values.size, address(values), address(found))
    return found
