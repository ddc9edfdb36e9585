"""How many processors are counted, with made-up control groups and affinity masks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from egt import processors
from egt.processors import cpu_quota, num_processors

GROUP_2 = "0::/pods/mine\n"
GROUP_1 = "5:memory:/other\n4:cpu,cpuacct:/pods/mine\n0::/\n"


def version_1(folder: str, quota: str) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


def write(tree: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        (GROUP_2, {"pods/mine/cpu.max": "150000 100000\n"}, 1.5),
        (GROUP_2, {"pods/mine/cpu.max": "max 100000\n"}, None),
        (GROUP_2, {"pods/cpu.max": "200000 100000\n", "pods/mine/cpu.max": "max 100000\n"}, 2.0),
        (GROUP_2, {"pods/cpu.max": "50000 100000\n", "pods/mine/cpu.max": "400000 100000\n"}, 0.5),
        (GROUP_2, {"cpu.max": "300000 100000\n"}, 3.0),  # the path of the host, in a container
        (GROUP_2, {"unified/pods/mine/cpu.max": "100000 100000\n"}, 1.0),
        ("0::/../../elsewhere\n", {"cpu.max": "100000 100000\n"}, 1.0),
        (GROUP_1, version_1("cpu,cpuacct/pods/mine", "250000"), 2.5),
        (GROUP_1, version_1("cpu", "50000"), 0.5),
        (GROUP_1, version_1("cpu", "-1"), None),
        (GROUP_1, {"memory/other/cpu.max": "100000 100000"}, None),
        (GROUP_2, {"pods/mine/cpu.max": "not a number"}, None),
        (GROUP_2, {}, None),
        ("", {}, None),
    ],
)  # fmt: skip
def test_quota_of_control_groups(tmp_path: Path, groups: str, files: dict[str, str], quota: float | None) -> None:
    write(tmp_path, {"groups": groups, **{f"mount/{name}": text for name, text in files.items()}})
    assert cpu_quota(tmp_path / "groups", tmp_path / "mount") == quota


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "missing", tmp_path) is None


@pytest.mark.parametrize(
    ("visible", "quota", "allowed"), [(8, None, 8), (8, 2.0, 2), (8, 1.2, 2), (8, 0.1, 1), (2, 16.0, 2)]
)
def test_the_quota_is_rounded_up_and_never_exceeds_the_mask(
    monkeypatch: pytest.MonkeyPatch, visible: int, quota: float | None, allowed: int
) -> None:
    monkeypatch.setattr(processors, "num_visible", lambda: visible)
    monkeypatch.setattr(processors, "cpu_quota", lambda: quota)
    assert num_processors() == allowed


LIMITED = (
    "import sys; from pathlib import Path; {first}; import os; read = Path.read_text\n"
    "fake = {{'/proc/self/cgroup': '0::/', '/sys/fs/cgroup/cpu.max': '100000 100000'}}\n"
    "Path.read_text = lambda path, *a, **k: fake.get(str(path)) or read(path, *a, **k)\n"
    "os.sched_getaffinity = lambda process: set(range(8))\n"
    "import egt.inference, torch; print(torch.get_num_threads())"
)


@pytest.mark.parametrize("first", ["pass", "import torch; torch.set_num_threads(2)"])
@pytest.mark.parametrize(("given", "threads"), [(None, 1), ("2", 2)])
def test_torch_has_as_many_threads_as_the_quota_pays_for(first: str, given: str | None, threads: int) -> None:
    chosen = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    if given is not None:
        environment["OMP_NUM_THREADS"] = given
    words = [sys.executable, "-c", LIMITED.format(first=first)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == threads
