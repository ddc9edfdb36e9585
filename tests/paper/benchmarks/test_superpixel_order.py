"""The order of a partition, against numpy without its vector instructions."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from egt.paper.benchmarks.superpixels import exponentials, partition_rows

SIZES = (10, 11, 12, 13, 20, 45, 75, 150)
THEIRS = f"""
import json, numpy as np
print(json.dumps([
    [np.argpartition(np.random.default_rng([n, k]).random(n), n - 10).tolist() for k in range(20)] for n in {SIZES}
]))
"""


def test_the_place_that_was_asked_for_divides_the_rest() -> None:
    for n in SIZES:
        values = np.random.default_rng(n).random(n)
        for kth in (0, 1, 2, 3, n // 2, n - 2):
            order = partition_rows(values[None], kth)[0]
            assert sorted(order) == list(range(n))
            assert values[order[:kth]].max(initial=-1) <= values[order[kth]] <= values[order[kth:]].min()


def test_equals_numpy_without_vector_instructions() -> None:
    switched_off = {**os.environ, "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"}
    done = subprocess.run([sys.executable, "-c", THEIRS], env=switched_off, capture_output=True, text=True, check=False)
    if done.returncode or "cannot disable" in done.stderr.lower() or int(np.__version__.split(".")[1]) < 4:
        pytest.skip("this numpy cannot switch its vector instructions off by these names")
    for n, rows in zip(SIZES, json.loads(done.stdout), strict=True):
        for k, theirs in enumerate(rows):
            assert partition_rows(np.random.default_rng([n, k]).random((1, n)), n - 10)[0].tolist() == theirs


def test_exponentials_are_those_of_the_c_library() -> None:
    values = -np.random.default_rng(0).random((100, 200)) * 30
    assert exponentials(values).tolist() == [[math.exp(value) for value in row] for row in values]
