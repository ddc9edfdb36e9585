"""Damage to what is kept on disk: prepared graphs and the compiled kernel are made again or refused, never used.

    python -m benchmarks.damage [--times 200] [--seed 1]

Each file is damaged so many times, in turns by one flipped bit, a cut and bytes added at the end, each at random
places. After each damage the store is opened as a training opens it, and every array of every graph is compared with
what it was; the library of the kernel is asked for as the first layer asks for it, and compared byte by byte (its
compiler is replaced by a copy of the first result: what is tested is that damage is noticed). Prints the counts; exits
with 1 if anything was ever used that differs.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import write_table
from egt.api import configured
from egt.config.run import RunConfig
from egt.config.run_data import open_source, prepare_split
from egt.errors import EgtError
from egt.native import library as native

Outcome = str
DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flipped": lambda content, draw: _flipped(content, draw.randrange(max(1, 8 * len(content)))),
    "cut": lambda content, draw: content[: draw.randrange(max(1, len(content)))],
    "longer": lambda content, draw: content + draw.randbytes(draw.randint(1, 64)),
}


def _flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def arrays(thing: Any) -> list[Any]:
    """Return all that a prepared graph holds, as a flat list; arrays are copied, since they are views of the files."""
    if is_dataclass(thing):
        return [part for field in fields(thing) for part in arrays(getattr(thing, field.name))]
    if isinstance(thing, dict):
        return [part for key in sorted(thing) for part in (key, *arrays(thing[key]))]
    return [thing.copy() if isinstance(thing, np.ndarray) else thing]


def same(left: list[Any], right: list[Any]) -> bool:
    """Compare two such lists, NaN being equal to NaN."""
    if len(left) != len(right):
        return False
    pairs = zip(left, right, strict=True)
    return all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") if isinstance(a, np.ndarray) else a == b for a, b in pairs
    )


def damage_store(folder: Path, times: int, draw: random.Random) -> Counter[Outcome]:
    """Damage every file of a store of prepared graphs."""
    config = configured(write_table(folder / "molecules.csv", rows=60), "y")
    cache = folder / "cache"

    def read() -> list[Any]:
        return [part for sample in _opened(config, cache) for part in arrays(sample)]

    first = read()
    files = sorted(path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")
    found: Counter[Outcome] = Counter()
    for path in files:
        content = path.read_bytes()
        for number in range(times):
            kind = list(DAMAGES)[number % len(DAMAGES)]
            path.write_bytes(DAMAGES[kind](content, draw))
            try:
                found["same graphs" if same(read(), first) else "OTHER GRAPHS"] += 1
            except EgtError:
                found["refused"] += 1
                path.write_bytes(content)
            if not path.exists():  # not part of the store that was made again
                path.write_bytes(content)
    print(f"store, {len(files)} files: {dict(found)}", flush=True)
    return found


def _opened(config: RunConfig, cache: Path) -> Any:
    return prepare_split(config, open_source(config), "train", cache_dir=cache)


def damage_kernel(folder: Path, times: int, draw: random.Random) -> Counter[Outcome]:
    """Damage the library of the kernel and its checksum."""
    library = native.build(folder=folder)
    if library is None or library.parent != folder:
        print("no compiler here, or the kernel is part of the package: nothing to damage")
        return Counter()
    pristine = library.read_bytes()

    def compile_again(cxx: str, flags: Any, scratch: Path) -> Path:
        (scratch / "again.so").write_bytes(pristine)
        return scratch / "again.so"

    native._compile = compile_again
    found: Counter[Outcome] = Counter()
    for path in sorted(folder.glob("pair_pass-*")):
        content = path.read_bytes()
        for number in range(times):
            path.write_bytes(list(DAMAGES.values())[number % len(DAMAGES)](content, draw))
            whole = native.build(folder=folder) == library and library.read_bytes() == pristine
            found["same library" if whole else "OTHER LIBRARY"] += 1
    print(f"kernel, 2 files: {dict(found)}", flush=True)
    return found


def main() -> None:
    """Damage both and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    logging.disable()  # each damage is reported
    draw = random.Random(asked.seed)
    scratch = Path(tempfile.mkdtemp())
    try:
        found = damage_store(scratch, asked.times, draw) + damage_kernel(scratch / "kernel", asked.times, draw)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if any(outcome.startswith("OTHER") for outcome in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
