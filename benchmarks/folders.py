"""A folder of Parquet parts with the default model: one process, two shards, two workers of Ray of which one is killed.

    python -m benchmarks.folders [--molecules 500000] [--parts 10] [--table TABLE] [--no-ray]

Each process computes with one thread. Shown are seconds on the clock, processor time of all processes, and the peak of
resident memory of each kind of process; whether all three folders have the same bytes, and each molecule once. Reads
EGT_DATA_DIR (ZINC, to train the model; `molecules/unlabeled_molecules.parquet`, or another --table, for the parts).
Linux: what processes use is read from /proc.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.screen import write_tables
from egt.data.download import data_folder

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Used:
    """What the processes of a command have used: their peaks of memory in MB, and processor seconds by process."""

    seconds: float = 0.0
    memory: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    processor: dict[int, float] = field(default_factory=dict)

    def look(self, root: int) -> dict[int, str]:
        """Read /proc for a process and all that it has started; return the names of those that are there."""
        found: dict[int, str] = {}
        waiting = [root]
        while waiting:
            pid = waiting.pop()
            place = Path("/proc", str(pid))
            try:
                words = place.joinpath("stat").read_text().rpartition(")")[2].split()
                name = place.joinpath("cmdline").read_bytes().split(b"\0")[0].decode()
                peak = next(line for line in place.joinpath("status").read_text().splitlines() if "VmHWM" in line)
                tasks = [*place.joinpath("task").iterdir()]
                waiting += [int(child) for task in tasks for child in (task / "children").read_text().split()]
            except (OSError, StopIteration):  # it has ended
                continue
            found[pid] = "Ray worker" if "ray::finish" in name else "egt" if "python" in name else "Ray itself"
            self.memory[found[pid]] = max(self.memory[found[pid]], int(peak.split()[1]) / 1024)
            self.processor[pid] = sum(map(int, words[11:13])) / TICKS
        return found


def run(commands: list[list[str]], output: Path, kill_after: int = 0) -> Used:
    """Run commands at the same time; kill a worker of Ray once there are so many results."""
    used, begin = Used(), time.perf_counter()
    running = [subprocess.Popen([sys.executable, "-m", "egt", *words], stdout=subprocess.DEVNULL) for words in commands]
    while any(process.poll() is None for process in running):
        for process in running:
            names = used.look(process.pid)
            workers = [pid for pid, name in names.items() if name == "Ray worker"]
            if kill_after and workers and len([*output.glob("*.parquet")]) >= kill_after:
                os.kill(workers[0], signal.SIGKILL)
                print(f"killed worker {workers[0]}", flush=True)
                kill_after = 0
        time.sleep(0.2)
    used.seconds = time.perf_counter() - begin
    if any(process.returncode for process in running) or kill_after:
        raise SystemExit(f"{output.name}: ended with {[process.returncode for process in running]}")
    return used


def write_parts(table: Path, folder: Path, molecules: int, parts: int) -> None:
    """Write the first molecules of a table as parts, each with the number of its row."""
    smiles = pq.read_table(table, columns=["smiles"])["smiles"].combine_chunks()
    if len(smiles) < molecules:  # the table again
        smiles = pa.concat_arrays([smiles] * -(-molecules // len(smiles)))
    folder.mkdir()
    size = molecules // parts
    for number in range(parts):
        rows = {"smiles": smiles.slice(number * size, size), "row": pa.array(range(number * size, (number + 1) * size))}
        pq.write_table(pa.table(rows), folder / f"part-{number:05d}.parquet")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", type=int, default=500_000)
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--no-ray", action="store_true")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_tables(folder, 1)
        table = given.table or data_folder() / "molecules" / "unlabeled_molecules.parquet"
        write_parts(table, folder / "in", given.molecules, given.parts)
        train = ["train", "labeled.csv", "--target", "y", "--out", "model", "--set", "trainer.max_epochs=2"]
        subprocess.run([sys.executable, "-m", "egt", *train], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        words = ["predict", str(folder / "model"), str(folder / "in"), "-o"]
        one, two, ray = (folder / name for name in ("one", "two", "ray"))
        found = {"one process": run([[*words, str(one)]], one)}
        shards = [[*words, str(two), "--shard", f"{number}/2"] for number in (1, 2)]
        found["two shards"] = run(shards, two)
        if not given.no_ray:
            found["Ray, two workers, one killed"] = run([[*words, str(ray), "--engine", "ray"]], ray, given.parts // 3)
        for name, used in found.items():
            processor = sum(used.processor.values())
            memory = ", ".join(f"{kind} {peak:.0f} MB" for kind, peak in used.memory.items())
            print(f"{name}: {used.seconds:.0f} s, {processor:.0f} s of processors; {memory}")
            rate = given.molecules / processor
            print(f"  {rate:.0f} molecules per second of a core; 10^9 in {1e9 / rate / 3600:.0f} core hours")
        first, *others = [[path.read_bytes() for path in sorted(place.glob("*.parquet"))] for place in (one, two, ray)]
        print("same bytes:", all(other == first for other in others[: len(found) - 1]))
        rows = sorted(int(text) for text in pq.read_table([*one.glob("*.parquet")], columns=["row"])["row"].to_pylist())
        print("each molecule once:", rows == [*range(given.molecules // given.parts * given.parts)])


if __name__ == "__main__":
    main()
