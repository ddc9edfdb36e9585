"""How many processors this process may use: those of its affinity mask, and no more than its CPU quota pays for.

A container with a quota of two processors on a machine of 64 still sees 64. Threads beyond the quota use it up sooner,
and then all of them stand still until the next period begins.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_SELF = Path("/proc/self/cgroup")

_MOUNT = Path("/sys/fs/cgroup")

SPINS = False  # whether torch loaded OpenMP before this package could ask for threads that sleep while they wait


@cache
def prepare_threads() -> None:
    """Set how OpenMP's threads wait and how many they are, once; called where training or prediction begins.

    OpenMP reads this when torch is loaded. Threads that wait for work spin for some microseconds and then sleep:
    without a bound, two trainings on the same cores slow each other down twenty times; without spinning at all, small
    ones are up to 1.6 times slower on idle cores (benchmarks/results/threads.md). The bound is for GNU's OpenMP, others
    sleep at once. Where torch is loaded already, `egt.inference.backends` has the same effect.
    """
    global SPINS
    SPINS = "torch" in sys.modules and not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    limit_threads()


def num_processors() -> int:
    """Return how many threads or processes can compute at once here."""
    quota = cpu_quota()
    seen = num_visible()
    return seen if quota is None else max(1, min(seen, math.ceil(quota)))


def num_visible() -> int:
    """Return the number of processors that this process may be scheduled on (`taskset`, `docker --cpuset-cpus`)."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def cpu_quota(groups: Path = _SELF, mount: Path = _MOUNT) -> float | None:
    """Return the processors that control groups grant (`docker --cpus`), the least of all levels; None without a limit.

    `groups` is the file that names the groups of this process, `mount` the folder under which they are mounted.
    """
    try:
        lines = groups.read_text().splitlines()
    except OSError:  # not Linux
        return None
    quotas = [quota for folder in _folders(lines, mount) if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def limit_threads() -> None:
    """Let OpenMP and torch start no more threads than the quota pays for, unless the user has chosen a number."""
    if "OMP_NUM_THREADS" in os.environ or "MKL_NUM_THREADS" in os.environ:
        return
    allowed = num_processors()
    if allowed == num_visible():
        return
    os.environ["OMP_NUM_THREADS"] = str(allowed)  # read when torch is loaded, here or in a process started from here
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(min(allowed, torch.get_num_threads()))


def _folders(lines: list[str], mount: Path) -> Iterator[Path]:
    """Yield the folders of a process's groups and of all groups above them, wherever they are commonly mounted.

    In a container the path of a group can be that of the host, which does not exist here; the way up still ends at the
    container's own group.
    """
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for top in (controllers, "cpu") if controllers else ("", "unified"):
            root = mount / top
            group = root / path.lstrip("/")
            yield group
            yield from (folder for folder in group.parents if folder.is_relative_to(root))


def _quota(folder: Path) -> float | None:
    """Read the quota of one group, of version 2 or 1."""
    words = _words(folder / "cpu.max") or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    try:
        quota, period = map(float, words)
    except ValueError:  # "max", or no such files
        return None
    return quota / period if quota > 0 and period > 0 else None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
