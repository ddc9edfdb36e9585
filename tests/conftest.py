"""What several tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

# Tiny tensors gain nothing from threads, and several test processes share the cores.
torch.set_num_threads(1)

# A shell starts background jobs with Ctrl-C ignored, and so would be every command that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

WANTING = {"browser": ("no browser", "no playwright"), "docs": ("no MkDocs",)}
"""How the reasons of skipped tests begin that `EGT_REQUIRE=browser,docs` does not accept."""
SLOW = pytest.StashKey[int]()
"""How many slow tests were left out."""


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the slow tests that are left out; a worker of pytest-xdist hands its count on."""
    slow = sum(1 for item in items if item.get_closest_marker("slow"))
    if slow:
        config = items[0].config
        config.stash[SLOW] = config.stash.get(SLOW, 0) + slow
        getattr(config, "workeroutput", {})["slow"] = config.stash[SLOW]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the count of a worker; all of them leave out the same tests."""
    slow = getattr(node, "workeroutput", {}).get("slow", 0)
    node.config.stash[SLOW] = max(node.config.stash.get(SLOW, 0), slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end what was left out, and how to run it."""
    if slow := config.stash.get(SLOW, 0):
        terminalreporter.write_line(f"slow tests left out: {slow} (`make test-full` runs them)")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Let a test fail that skips for want of something in `EGT_REQUIRE`, which `make test-full` sets."""
    outcome: Any = yield
    report = outcome.get_result()
    wanted = tuple(start for name in os.environ.get("EGT_REQUIRE", "").split(",") for start in WANTING.get(name, ()))
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if wanted and reason.startswith(wanted):
            report.outcome = "failed"
            report.longrepr = f"{reason} (EGT_REQUIRE asks for it; `make test` skips this test)"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; tests that need it are skipped on a machine without it."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("EGT_DATA_DIR", default))
    if not (folder / "MANIFEST.md").exists():
        pytest.skip(f"no real data: set EGT_DATA_DIR to a folder laid out as docs/data.md says ({folder} has none)")
    return folder
