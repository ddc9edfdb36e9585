"""Fuzz of data files, settings and artifacts: only errors of the package itself may come out, and within seconds.

    python -m benchmarks.fuzz --files 500 --settings 500 --artifacts 100 --seed 1

Files are drawn from strange values, or right ones that are changed (`benchmarks.mutations`). Artifacts are changed and
signed again, as a forger does.

Prints a line for each cause that is something else, with the seed and the case that repeats it, and exits with 1.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import gzip
import io
import json
import logging
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml

from benchmarks.mutations import SMILES, forge_tensors, write_changed, write_right_files
from egt.api import Request, train
from egt.config.defaults import infer_config
from egt.config.load import override, read_config, write_config
from egt.data.custom import open_custom
from egt.errors import EgtError
from egt.inference.artifact import (
    BLEND,
    CALIBRATION,
    CARD,
    CONFIG,
    MOLECULES,
    WEIGHTS,
    content_sha256,
    file_sha256,
    find_artifact,
)
from egt.inference.predictor import Predictor, load
from egt.paper.presets import names, preset
from egt.training.memory import num_parameters

REFUSED = "refused"
SECONDS = 60
"""A case that takes more of the processor, or ten times as long without it, hangs."""
CELLS = (
    *("C", "CCO", "c1ccccc1", "[Na+].[Cl-]", "C1CC", "C" * 300, "", " ", "nan", "NaN", "inf", "-inf", "None", "null"),
    *("0", "1", "-1", "2", "0.5", "1e-19", "1e300", "-1e38", "99999999999999999999", "1_000", "0x1F", "1,5", "½", "²"),
    *("a", "b", "train", "val", "test", "true", "false", "'", '"', "\\", "\x00", "é", "\ufeff", "=1+1", "2024-99-99"),
)
HEADERS = (
    *("smiles", "id", "y", "target", "label", "split", "weight", "source", "node", "graph", "x", "train_mask", ""),
    *("kind", "edge", "directed", "y_0", "name", "SMILES", "é"),
)
VALUES = (
    *("0", "1", "-1", "0.5", "1e300", "-1e-300", "nan", ".inf", "null", "true", "[]", "{}", "[", "{a", "abc", "''"),
    *("9" * 30, "9" * 5000, "2024-99-99", "2024-01-01", "0b_", "0x_", "0o9", "1:60:60", "²", "!!int x", "!!python/x y"),
    *("[1, 2, 3]", "[0.6, 0.2, 0.2]", "[[]]", "{kind: svd}", "{kind: x}", "&a [*a]", "<<: 1", "- 1", "\x00", "é"),
)
OPTIONS = ("split", "split.kind", "split.seed", "split.fractions", "split.column", "split.kind.x", "split.x")
OVERRIDES = ("id", "smiles", "weight", "directed", "kind", "vocabulary", "node_features", "edge_features", "x")


class Hanging(Exception):
    """A case took too long."""


def table(rng: random.Random) -> str:
    """Return a table with strange cells, sometimes with strange bytes as well."""
    columns = ["smiles", *rng.sample(HEADERS[1:], rng.randint(1, 5))] if rng.random() < 0.8 else rng.sample(HEADERS, 3)
    separator = rng.choice(",,,,;\t")
    plain = (CELLS[:4], ("0", "1"), ("0.5", "1", "2.5"), ("a", "b", "c"), ("train", "val", "test"), ("0", "1", "2"))
    kinds: list[tuple[str, ...]] = [plain[0] if name == "smiles" else rng.choice(plain[1:]) for name in columns]
    if rng.random() < 0.3:
        kinds[rng.randrange(len(kinds))] = tuple(rng.sample(CELLS, rng.randint(1, 8)))
    rows = [[rng.choice(kind) for kind in kinds] for _ in range(rng.choice((0, 5, 12, 12, 30, 30)))]
    for _ in range(rng.choice((0, 0, 1, 3)) if rows else 0):
        rng.choice(rows)[rng.randrange(len(columns))] = rng.choice(CELLS)
    return "".join(separator.join(row) + "\n" for row in (columns, *rows))


def graph_line(rng: random.Random) -> dict[str, Any]:
    """Return a graph of JSONL, mostly a right one."""
    size = rng.choice((1, 2, 3, 5))
    plain: dict[str, Any] = {
        "edges": [[rng.randrange(size), rng.randrange(size)] for _ in range(rng.randint(0, 6))],
        "nodes": {"x": [rng.choice((0, 1, 0.5)) for _ in range(size)]},
        "targets": {"y": rng.choice((0, 1))},
    }
    strange: dict[str, Any] = {
        "edges": [[0, rng.choice((0, -1, "a", None, 1.5, 10**12, size, [0]))], [0] * rng.randint(0, 4)],
        "nodes": {"x": [rng.choice((0, "a", None, 1e300, [1, 2], {}, True)) for _ in range(size)]},
        "targets": {"y": rng.choice((2.5, None, "a", 1e300, 1e-300, [1], [], {}, True))},
        "id": rng.choice(("a", "b", 1, None, [])),
        "directed": rng.choice((True, False, None, "yes")),
        "num_nodes": rng.choice((size, size + 1, 0, -1, 10**12, "2", 1.0)),
        "node_targets": {"z": [rng.choice((0, 1, None, "a")) for _ in range(size)]},
        "edge_targets": {"w": [rng.choice((0, 1)) for _ in plain["edges"]]},
        "queries": [[0, rng.choice((0, size, "a"))]],
        "split": rng.choice(("train", "val", "test", "x", None)),
    }
    return plain | {name: value for name, value in strange.items() if rng.random() < 0.04}


def numbers(rng: random.Random, columns: int) -> str:
    """Lines of a TU file."""
    rows = [["1" if k < 3 else "2"] * columns for k in range(rng.choice((6, 6, 6, 2, 0)))]
    for row in rows if rng.random() < 0.4 else ():
        row[rng.randrange(columns)] = rng.choice(("1", "2", "3", "0", "-1", "1e9", "1e18", "nan", "x", "", "0.5"))
    return "".join(", ".join(row) + "\n" for row in rows)


def graphml(rng: random.Random) -> str:
    """Return a GraphML file with some strange values."""
    keys = '<key id="d0" for="node" attr.name="x" attr.type="double"/><key id="y" for="graph" attr.name="y"/>'
    values = ("1", "0.5", "2", "2", "3", "1e300", "", "x")
    nodes = "".join(f'<node id="{k}"><data key="d0">{rng.choice(values)}</data></node>' for k in range(3))
    edges = "".join(f'<edge source="{rng.randint(0, 3)}" target="{rng.randint(0, 2)}"/>' for _ in range(3))
    return f'<graphml>{keys}<graph edgedefault="undirected"><data key="y">1</data>{nodes}{edges}</graph></graphml>'


def arrow_column(rng: random.Random, rows: int) -> Any:
    """Return a column of some type of Arrow, with the values that fit into it."""
    strange = rng.choice(([0, None, -1], [2**62, 1], [1e300, float("nan")], [True, None], ["a", None, "é"], [b"\xff"]))
    values: list[Any] = [rng.choice(strange) for _ in range(rows)]
    nested = rng.choice((None,) * 4 + ("list", "struct", "date", "dictionary"))
    if nested == "list":
        values = [[value] * rng.choice((0, 1, 1, 2)) for value in values]
    elif nested == "struct":
        values = [{"a": value} for value in values]
    elif nested == "date":
        return pa.array([rng.choice((0, 10**9, None)) for _ in range(rows)], pa.timestamp("s"))
    array = pa.array(values)
    return array.dictionary_encode() if nested == "dictionary" and array.null_count < rows else array


def packed(rng: random.Random) -> tuple[str, bytes]:
    """Return the name and the content of a file that is no text."""
    rows, out = rng.choice((0, 1, 12, 12)), io.BytesIO()
    kind = rng.choice(("parquet", "parquet", "npz", "npy", "pt", "csv.gz", "jsonl.gz", "xlsx"))
    if kind == "parquet":
        columns = {name: arrow_column(rng, rows) for name in rng.sample(HEADERS, rng.randint(1, 4))}
        pq.write_table(pa.table({"smiles": pa.array(["CCO"] * rows)} | columns), out)
    elif kind in ("npz", "npy"):
        size = rng.choice((0, 1, 3))
        shape = rng.choice(((size, size), (size, size, 2), (size,), (), (size, size + 1)))
        array = np.full(shape, rng.choice((0, 1.5, np.nan, "a", True, 1j)))
        np.savez(out, m=array, edges=np.zeros((2, size), rng.choice(("i8", "f4"))), x=array) if kind == "npz" else (
            np.save(out, array)
        )
    elif kind == "pt":
        tensor = rng.choice((torch.zeros(3), torch.zeros(3, 2), torch.zeros(1).expand(10**10), torch.zeros(0)))
        edges = rng.choice((torch.zeros(2, 2, dtype=torch.long), torch.full((2, 1), 9), torch.zeros(3), None, "a"))
        graph = {"x": tensor, "edge_index": edges, "y": rng.choice((torch.ones(1), tensor, None, "a"))}
        torch.save(rng.choice(([graph] * 12, graph, (graph, {"x": tensor}), tensor, [], {"a": graph})), out)
    elif kind == "xlsx":
        book = openpyxl.Workbook()
        for _ in range(rows):
            book.active.append([rng.choice(("C", "CCO", 1, 0.5, None, True, "=1+1", "a")) for _ in range(3)])
        book.save(out)
    else:
        text = table(rng) if kind == "csv.gz" else "".join(json.dumps(graph_line(rng)) + "\n" for _ in range(rows))
        out.write(gzip.compress(text.encode()))
    return f"d.{kind}", out.getvalue()


def molecules(rng: random.Random) -> tuple[str, str]:
    """Return the name and the content of a file of molecules."""
    if rng.random() < 0.5:
        lines = [f"{rng.choice(CELLS)}{rng.choice(' ,;|')}{rng.choice(CELLS)}" for _ in range(rng.choice((0, 1, 12)))]
        return rng.choice(("d.smi", "d.txt")), "\n".join(lines)
    atoms = rng.choice((0, 1, 2, 999))
    place, element = rng.choice(("0.0", "nan", "1e9", "x")), rng.choice(("C", "Zz", "R#"))
    atom = f"    {place}000    0.0000    0.0000 {element}   0  0\n"
    version = rng.choice(("V2000", "V3000", ""))
    block = f"\n  egt\n\n{atoms:3}  0  0  0  0  0  0  0  0999 {version}\n{atom * min(atoms, 3)}"
    field = f"M  END\n> <{rng.choice(HEADERS)}>\n{rng.choice(CELLS)}\n\n$$$$\n"
    return "d.sdf", (block + field) * rng.choice((1, 12))


def write_file(rng: random.Random, folder: Path) -> Path:
    """Return a file or folder of some format, damaged in a fifth of the cases."""
    plain = ("csv", "csv", "jsonl", "jsonl", "folder", "tu", "graphml", "tsv")
    kind = rng.choice((*plain, "packed", "packed", "packed", "molecules"))
    if kind == "packed":
        name, damaged = packed(rng)
        for _ in range(rng.choice((0, 0, 0, 1, 4)) if damaged else 0):
            k = rng.randrange(len(damaged) or 1)
            damaged = rng.choice((damaged[:k], damaged[:k] + rng.randbytes(1) + damaged[k + 1 :]))
        (folder / name).write_bytes(damaged)
        if name.endswith((".npz", ".npy")):
            (folder / "index.csv").write_text(f"file,y\n{name},1\n" * rng.choice((1, 1, 5)))
            return folder
        return folder / name
    if kind == "molecules":
        files = dict([molecules(rng)])
    elif kind in ("csv", "tsv"):
        files = {f"d.{kind}": table(rng)}
    elif kind == "jsonl":
        files = {"d.jsonl": "".join(json.dumps(graph_line(rng)) + "\n" for _ in range(rng.choice((1, 12, 12, 24))))}
    elif kind == "folder":
        files = {"nodes.csv": table(rng), "edges.csv": rng.choice(("source,target,weight\n0,1,0.5\n", table(rng)))}
    elif kind == "tu":
        sizes = {"A": 2, "graph_indicator": 1, "graph_labels": 1, "node_labels": 1, "node_attributes": 2}
        chosen = {name: size for name, size in sizes.items() if name in ("A", "graph_indicator") or rng.random() < 0.5}
        files = {f"D_{name}.txt": numbers(rng, size) for name, size in chosen.items()}
    else:
        files = {"d.graphml": graphml(rng)}
    for name, text in files.items():
        content = bytearray(text.encode())
        if content and rng.random() < 0.1:
            for _ in range(rng.randint(1, 4)):
                content[rng.randrange(len(content))] = rng.randrange(256)
        (folder / name).write_bytes(content)
    return folder if kind in ("folder", "tu") else folder / next(iter(files))


def _likely(rng: random.Random, path: Path) -> list[str] | None:
    """Return a target that is mostly there."""
    file = path / "nodes.csv" if path.is_dir() else path
    if file.suffix == ".graphml":
        return ["x"]
    if file.suffix not in (".csv", ".tsv") or not file.exists():
        return None
    header = file.read_bytes().splitlines()[0].decode(errors="replace")
    return [rng.choice(re.split("[,;\t]", header)[1:] or [header])]


@functools.cache
def kept() -> Path:
    """Return a folder with right files (`right`), and an artifact that has all that artifacts can have (`model`)."""
    folder = Path(tempfile.mkdtemp(prefix="egt-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "right").mkdir()
    write_right_files(folder / "right")
    rows = "".join(f"{each},{k % 7 / 2}\n" for k, each in enumerate(SMILES))
    (folder / "t.csv").write_text(f"smiles,y\n{rows}")
    few = {"trainer.max_epochs": 1, "model.num_layers": 1, "trainer.blend": True}
    train(folder / "t.csv", target="y", set=few, out=folder / "model", progress=False)
    return folder


@functools.cache
def trained() -> Predictor:
    """Return that model."""
    return load(kept() / "model")


def try_file(rng: random.Random, folder: Path) -> None:
    """Open a strange file and read all of it, as a command would."""
    if is_changed := rng.random() < 0.5:
        path = write_changed(sorted((kept() / "right").iterdir()), rng, folder)
    else:
        path = write_file(rng, folder)
    overrides = {name: rng.choice((*HEADERS, True, None, {}, {"x": "continuous"})) for name in OVERRIDES}
    likely = ["y"] if is_changed else _likely(rng, path)
    if is_changed and rng.random() < 0.3 and path.is_file():
        for found in trained().predict_blocks(path, rows=7):
            found.table()
        return
    source = open_custom(
        path,
        target=rng.choice((likely,) * 6 + (None, ["*"], [rng.choice(HEADERS)])),
        level=rng.choice((None,) * 9 + ("graph", "node", "edge", "link")),
        overrides={name: value for name, value in overrides.items() if rng.random() < 0.02} or None,
        split=rng.choice((None, None, None, None, "random", "scaffold", "stratified", rng.choice(HEADERS))),
    )
    for split in ("all", "train", "val", "test"):
        for record in source.records(split):
            source.read(record)
    infer_config(source.schema, source.card, str(path), "fuzz")


def paths_of(content: Any, above: str = "") -> list[str]:
    """Return the paths of all settings."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    own = [above] if above else []
    return own + [path for name, value in inner for path in paths_of(value, f"{above}.{name}".strip("."))]


def setting(rng: random.Random, paths: list[str]) -> str:
    """Return a setting on the command line."""
    path = rng.choice(paths)
    if rng.random() < 0.15:
        path = rng.choice((f"{path}.{rng.choice(CELLS)}", path[:-1], f"{path}+", path.replace(".", "..", 1), ""))
    value = rng.choice(VALUES) if rng.random() < 0.5 else str(rng.choice((rng.randint(0, 99), 10**6, rng.random())))
    return f"{path}={value}" if rng.random() < 0.97 else path


def try_settings(rng: random.Random, folder: Path) -> None:
    """Change a run by strange settings, as text on the command line or in its file."""
    config = preset(rng.choice(names()))
    way = rng.random()
    if way < 0.5:
        paths = paths_of(config.model_dump(mode="json"))
        changed = override(config, [setting(rng, paths) for _ in range(rng.choice((1, 1, 1, 2)))])
        num_parameters(changed)
        write_config(changed)
    elif way < 0.65:
        content = yaml.safe_load(write_config(config))
        for _ in range(rng.randint(1, 3)):
            content = forge(content, rng)
        (folder / "run.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        num_parameters(read_config(folder / "run.yaml"))
    elif way < 0.75:
        lines = write_config(config).splitlines()
        for _ in range(rng.randint(1, 3)):
            k = rng.randrange(len(lines))
            head = lines[k].partition(":")[0]
            changed_line = f"{head}: {rng.choice(VALUES)}"
            lines[k] = rng.choice((changed_line,) * 5 + ("", f" {lines[k]}", rng.choice(VALUES)))
        (folder / "run.yaml").write_text("\n".join(lines), encoding="utf-8")
        num_parameters(read_config(folder / "run.yaml"))
    else:
        rows = "".join(f"{smiles},{k % 2},{k * 0.5}\n" for k, smiles in enumerate(("C", "CC", "CCO", "CN", "CO") * 4))
        (folder / "d.csv").write_text(f"smiles,label,y\n{rows}")
        places = [*OPTIONS, *(f"overrides.{name}" for name in OVERRIDES), "overrides.node_features.x"]
        values = (*VALUES, *("scaffold", "label", "y", "random", "binary", "regression", "continuous") * 4)
        given = [f"{rng.choice(places)}={rng.choice(values)}" for _ in range(rng.choice((1, 1, 2)))]
        Request.of(str(folder / "d.csv"), rng.choice(("y", "label")), None, (), (), given, folder / "out").new_run(None)


def forge(content: Any, rng: random.Random) -> Any:
    """Return JSON in which one value, at any depth, is another one."""
    if isinstance(content, dict) and content and rng.random() < 0.85:
        name = rng.choice([*content])
        if rng.random() < 0.1:
            return {key: value for key, value in content.items() if key != name}
        return content | {name: forge(content[name], rng)}
    if isinstance(content, list) and content and rng.random() < 0.85:
        k = rng.randrange(len(content))
        return [*content[:k], forge(content[k], rng), *content[k + 1 :]]
    return rng.choice((0, -1, 10**12, 1e300, "a", "../x", None, True, [], {}, [[]], {"a": 1}, "9" * 5000))


def try_artifact(rng: random.Random, folder: Path) -> None:
    """Load an artifact in which something is another thing, with checksums that fit, and predict."""
    is_trained, place = rng.random() < 0.7, folder / "artifact"
    shutil.copytree(kept() / "model" / "artifact" if is_trained else find_artifact("zinc-100k"), place)
    card = json.loads((place / CARD).read_text())
    more = (MOLECULES, MOLECULES, BLEND, BLEND) if is_trained else ()
    for _ in range(rng.choice((1, 1, 2))):
        match rng.choice((CARD, CONFIG, CONFIG, CALIBRATION, WEIGHTS, *more)):
            case "card.json":
                changed = forge({key: value for key, value in card.items() if key != "sha256"}, rng)
                card = (changed if isinstance(changed, dict) else {}) | {"sha256": card["sha256"]}
            case "config.yaml":
                config = yaml.safe_load((place / CONFIG).read_text())
                (place / CONFIG).write_text(yaml.safe_dump(forge(config, rng)))
            case "calibration.json":
                (place / CALIBRATION).write_text(json.dumps(forge(json.loads((place / CALIBRATION).read_text()), rng)))
            case name if rng.random() < 0.6:
                forge_tensors(place / name, forge, rng)
            case name:
                content = bytearray((place / name).read_bytes())
                size = rng.choice((len(content), 9, 2_000))  # of the header most often
                content[rng.randrange(min(size, len(content)))] = rng.randrange(256)
                (place / name).write_bytes(content[: rng.choice((len(content), len(content), 100))])
    card["sha256"] = {name: file_sha256(place / name) for name in card["sha256"] if name != CARD}
    card["sha256"][CARD] = content_sha256(card)
    (place / CARD).write_text(json.dumps(card))
    model = load(place)
    for interval in (None, 0.9):
        model.predict(["CCO", "C1CC", "c1ccccc1Br"], interval=interval).table()


def attempt(case: Callable[[random.Random, Path], None], rng: random.Random) -> str:
    """How a case ends: "" if it is taken, `REFUSED` by an error of the package, else what else happened."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(10 * SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            case(rng, Path(folder))
    except EgtError:
        return REFUSED
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = ([frame for frame in frames if "egt" in frame.filename] or frames)[-1]
        return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {str(error)[:120]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return ""


def _hang(_: int, frame: FrameType | None) -> None:
    raise Hanging("no end")


def main() -> None:
    """Fuzz as asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--files", type=int, default=500)
    options.add_argument("--settings", type=int, default=500)
    options.add_argument("--artifacts", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--case", type=int, help="only this one, with its traceback")
    given = options.parse_args()
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _hang)
    signal.signal(signal.SIGPROF, _hang)
    warnings.simplefilter("ignore")
    trained()
    causes: Counter[str] = Counter()
    refused, longest = 0, 0.0
    cases = (
        ("files", try_file, given.files),
        ("settings", try_settings, given.settings),
        ("artifacts", try_artifact, given.artifacts),
    )
    for what, case, count in cases:
        for number in range(count) if given.case is None else [given.case][: bool(count)]:
            rng = random.Random(f"{given.seed} {what} {number}")
            if given.case is not None:
                with tempfile.TemporaryDirectory() as folder:
                    case(rng, Path(folder))
                continue
            begin = time.process_time()
            cause = attempt(case, rng)
            longest = max(longest, time.process_time() - begin)
            refused += cause == REFUSED
            if cause not in ("", REFUSED):
                kind = cause.partition(": ")[0]
                causes[kind] += 1
                if causes[kind] == 1:
                    print(f"{what} {number}: {cause}", flush=True)
    for kind, count in causes.items():
        print(f"{count} x {kind}")
    total = f"{given.files} files, {given.settings} settings, {given.artifacts} artifacts, seed {given.seed}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{total}: {refused} refused, {len(causes)} causes of anything else; peak {peak} MB, longest {longest:.1f} s")
    sys.exit(bool(causes))


if __name__ == "__main__":
    main()
