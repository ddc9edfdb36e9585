"""Freed memory comes back without new pages from the system, and without gaps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
from torch import Tensor

from egt.nn.kernels import binding
from egt.nn.kernels.binding import Pool

PROGRAM = """
import resource, sys
import torch
from egt.nn.kernels.binding import keep_freed_memory

torch.set_num_threads(1)
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit(3)
for _ in range(20):  # the first few rounds may still extend the heap
    torch.ones(16 * 2**20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(16 * 2**20)  # 64 MB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode: str) -> int:
    result = subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=False)
    if result.returncode == 3:
        pytest.skip("this C library has no mallopt")
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


def test_freed_memory_is_used_again() -> None:
    assert page_faults("default") > 100
    assert page_faults("keep") < 20


def test_a_block_of_the_pool_is_used_again_when_its_tensor_is_gone() -> None:
    pool = Pool()
    first, second = pool.empty((300, 1000)).fill_(1.0), pool.empty((300, 1000)).fill_(2.0)
    assert first.eq(1.0).all()  # two tensors that are alive share nothing
    address = first.data_ptr()
    part = first[:3]
    del first
    third = pool.empty((300, 1000))
    assert third.data_ptr() != address  # a view keeps the block
    del part
    smaller = pool.empty((299, 1000)).fill_(3.0)
    assert smaller.shape == (299, 1000)
    assert smaller.data_ptr() == address
    assert second.eq(2.0).all()


def test_a_pool_has_no_more_blocks_than_tensors_were_alive() -> None:
    pool = Pool()
    for rows in (300, 310, 290, 600, 300, 650):  # batches of changing size
        alive = [pool.empty((rows, 1000)) for _ in range(3)]
        del alive
    assert [len(block) for block in pool._free] == 3 * [1.25 * 4 * 600 * 1000]


def test_only_big_tensors_come_from_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Pool):
        def empty(self, shape: Sequence[int]) -> Tensor:
            raise AssertionError(shape)

    monkeypatch.setattr(binding, "_pool", Refusing())
    assert binding.empty((10, 10)).shape == (10, 10)
    with pytest.raises(AssertionError):
        binding.empty((1000, 1000))
    monkeypatch.setattr(binding, "_pool", None)
    assert binding.empty((1000, 1000)).shape == (1000, 1000)
