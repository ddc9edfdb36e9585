"""Threads that sleep while they wait, also where torch was imported before this package.

OpenMP reads `OMP_WAIT_POLICY` when torch loads it; this package sets it before it loads torch. After `import torch` it
is too late: GNU's OpenMP (libgomp) lets threads spin for about 300,000 rounds after each operation, which slows down
whatever shares their cores. It spins 100 rounds where there are more OpenMP threads than processors (its manual,
`GOMP_SPINCOUNT`), so a team of threads that sleeps to the end of the process has the effect of the setting.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import threading

import torch

from egt import processors
from egt.nn.kernels.binding import openmp

log = logging.getLogger(__name__)


@functools.cache
def stop_spinning() -> None:
    """Keep waiting threads from spinning, or say once how to; nothing to do where egt was imported before torch."""
    if not processors.SPINS or not torch.backends.openmp.is_available():
        return
    runtime = openmp()
    if runtime is None or hasattr(runtime, "kmp_set_blocktime"):  # LLVM's and Intel's spin whatever others do
        log.warning(
            "torch was imported before egt: its threads spin while they wait, which slows down other programs on the "
            "same cores; set OMP_WAIT_POLICY=passive before Python starts"
        )
        return
    asleep = threading.Event()
    threading.Thread(target=_sleeping_team, args=(runtime, asleep), name="egt-waiting", daemon=True).start()
    asleep.wait()


def _sleeping_team(runtime: ctypes.CDLL, asleep: threading.Event) -> None:
    """Start more OpenMP threads than there are processors, and never return: they end with the thread they serve."""
    nothing = ctypes.cast(runtime.omp_get_thread_num, ctypes.c_void_p)
    runtime.GOMP_parallel(nothing, None, runtime.omp_get_num_procs() + 1, 0)
    asleep.set()
    threading.Event().wait()
