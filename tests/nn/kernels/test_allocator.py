"""Freed memory comes back without new pages from the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from egt.nn.kernels.allocator import keep_freed_memory

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
