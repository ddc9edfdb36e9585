"""More workers on this machine: each is `egt tune FOLDER` in a process of its own, as on another machine."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)


@contextmanager
def more_workers(folder: Path, count: int, minutes: float, trials: int | None) -> Iterator[None]:
    """Let other workers take part in a search; at the end of the context they are waited for, or stopped if it fails.

    Meanwhile the threads of this process are its share of the cores.

    Args:
        folder: with a study.
        count: of other workers.
        minutes: their budget.
        trials: how many trials the study shall have.
    """
    if not count:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    share = max(1, threads // (count + 1))
    # -P: else Python would import whatever lies in the current folder under the name of a library.
    words = [sys.executable, "-P", "-m", "egt", "tune", str(folder), "--minutes", f"{minutes:.6g}", "--json"]
    words += [] if trials is None else ["--trials", str(trials)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(share)}
    others = [subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) for _ in range(count)]
    torch.set_num_threads(share)
    try:
        yield
        if failed := [other.returncode for other in others if other.wait()]:  # what this one has found is as good
            log.warning("%d of %d other workers failed, see above", len(failed), count)
    finally:
        for other in others:
            other.terminate()
            other.wait()
        torch.set_num_threads(threads)
