"""A folder of Parquet parts with the default model: one process, two shards, two workers of Ray of which one is killed.

    python -m benchmarks.folders PLACE [--molecules 5000000] [--parts 50] [--first 50] [--ways one two ray]

PLACE keeps the model, the parts, the results of each way and what they have used (`used.jsonl`), so that a benchmark
that was stopped goes on with the same command; `--first` ends after so many parts. Each process computes with one
thread. Shown are seconds on the clock, processor time of all processes, and the peak of resident memory of each kind of
process; whether the folders have the same bytes, and each molecule once. Reads EGT_DATA_DIR (`molecules` and ZINC).
Linux: what processes use is read from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.screen import write_tables
from egt.data.download import data_folder

_RING = re.compile(r"[1-9](?![^\[]*\])(?<!%.)(?<!%..)")
"""The number of a ring: a digit outside of brackets, and not of the numbers from 10 (%10)."""

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


def run(commands: list[list[str]], output: Path, kill_after: int, used: Used) -> None:
    """Run commands at the same time; kill a worker of Ray once there are so many results."""
    begin = time.perf_counter()
    running = [subprocess.Popen([sys.executable, "-m", "egt", *words], stdout=subprocess.DEVNULL) for words in commands]
    try:
        while any(process.poll() is None for process in running):
            for process in running:
                names = used.look(process.pid)
                workers = [pid for pid, name in names.items() if name == "Ray worker"]
                if kill_after and workers and len([*output.glob("part-*.parquet")]) >= kill_after:
                    os.kill(workers[0], signal.SIGKILL)
                    print(f"killed worker {workers[0]}", flush=True)
                    kill_after = 0
            time.sleep(0.2)
    finally:
        for process in running:
            process.terminate()
            process.wait()
        used.seconds = time.perf_counter() - begin


def spell(molecules: int) -> list[str]:
    """Return different valid SMILES in a random order: the molecules of both tables, and other spellings of them.

    In another spelling the rings have other numbers: each is raised by one, and 9 is 1.
    """
    tables = ("molecules/unlabeled_molecules.parquet", "zinc/zinc_full_250k_smiles_y.parquet")
    listed = [text for table in tables for text in pq.read_table(data_folder() / table)["smiles"].to_pylist()]
    found = dict.fromkeys(listed)
    for _ in range(8):
        if len(found) < molecules:
            listed = [_RING.sub(lambda ring: "1234567891"[int(ring[0])], text) for text in listed]
            found |= dict.fromkeys(listed)
    if len(found) < molecules:
        raise SystemExit(f"there are only {len(found)} spellings")
    chosen = [*found][:molecules]
    random.Random(0).shuffle(chosen)
    return chosen


def write_parts(folder: Path, molecules: int, parts: int) -> None:
    """Write molecules as parts, each with the number of its row."""
    smiles, size = spell(molecules), molecules // parts
    folder.mkdir(exist_ok=True)
    for number in range(parts):
        rows = range(number * size, (number + 1) * size)
        table = pa.table({"smiles": smiles[rows.start : rows.stop], "row": pa.array(rows)})
        pq.write_table(table, folder / f"part-{number:05d}.parquet")


def compare(ways: list[Path]) -> None:
    """Print whether the parts that all ways have are the same bytes, and hold each molecule once."""
    names = sorted(set.intersection(*({path.name for path in way.glob("part-*.parquet")} for way in ways)))
    same = all(len({(way / name).read_bytes() for way in ways}) == 1 for name in names)
    table = pq.read_table([ways[0] / name for name in names], columns=["row", "error"])
    given = pq.read_table([ways[0].parent / "in" / name for name in names], columns=["row"])["row"].to_numpy()
    once = np.array_equal(np.sort(table["row"].to_numpy().astype(int)), given)
    errors = sum(map(bool, table["error"].to_pylist()))
    print(f"{len(names)} parts of {', '.join(way.name for way in ways)}: same bytes {same}")
    print(f"  {len(given)} molecules, each once {once}, {errors} with an error")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path)
    parser.add_argument("--molecules", type=int, default=5_000_000)
    parser.add_argument("--parts", type=int, default=50)
    parser.add_argument("--first", type=int, default=50)
    parser.add_argument("--ways", nargs="*", choices=("one", "two", "ray"), default=["one", "two", "ray"])
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    place = given.place.resolve()
    if not (place / "model" / "artifact").exists():
        place.mkdir(exist_ok=True)
        write_tables(place, 1)
        write_parts(place / "in", given.molecules, given.parts)
        train = ["train", "labeled.csv", "--target", "y", "--out", "model", "--set", "trainer.max_epochs=2"]
        subprocess.run([sys.executable, "-m", "egt", *train], cwd=place, check=True, stderr=subprocess.DEVNULL)
    log = place / "used.jsonl"
    inputs = [str(path) for path in sorted((place / "in").iterdir())[: given.first]]
    for way in given.ways:
        command = ["predict", str(place / "model"), *inputs, "-o", f"{place / way}/"]
        commands = {
            "one": [command],
            "two": [[*command, "--shard", f"{number}/2"] for number in (1, 2)],
            "ray": [[*command, "--engine", "ray"]],
        }[way]
        before = len([*(place / way).glob("part-*.parquet")])
        used = Used()
        try:
            run(commands, place / way, (before + len(inputs)) // 2 if way == "ray" else 0, used)
        finally:  # also where Ctrl-C ends it
            row = {"way": way, "parts": len([*(place / way).glob("part-*.parquet")]) - before, "memory": used.memory}
            row |= {"seconds": used.seconds, "processor": sum(used.processor.values())}
            with log.open("a") as file:
                file.write(json.dumps(row) + "\n")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    size = pq.read_metadata(inputs[0]).num_rows
    finished = [*dict.fromkeys(row["way"] for row in rows if row["parts"])]
    for way in finished:
        own = [row for row in rows if row["way"] == way]
        parts, processor, seconds = (sum(row[name] for row in own) for name in ("parts", "processor", "seconds"))
        peaks = {kind: max(row["memory"].get(kind, 0) for row in own) for row in own for kind in row["memory"]}
        rate = parts * size / processor
        print(f"{way}: {parts} parts in {len(own)} runs, {seconds:.0f} s, {processor:.0f} s of processors")
        print(f"  {', '.join(f'{kind} {peak:.0f} MB' for kind, peak in peaks.items())}")
        print(f"  {rate:.0f} molecules per second of a core; 10^9 in {1e9 / rate / 3600:.0f} core hours")
    compare([place / way for way in finished])


if __name__ == "__main__":
    main()
