"""Files of every format that are right, and what is left of them after a few changes, for `benchmarks.fuzz`.

A change is made inside of what a container (gzip, zip, safetensors) would notice: its content is changed and packed
again.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rdkit import Chem
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

SMILES = ("CCO", "c1ccccc1O", "CC(=O)N", "C[C@H](N)C(=O)O", "[Na+].[Cl-]", "ClC(Cl)Cl", "c1ccc2ncccc2c1", "CSC") * 3
TOKENS = (
    *(b"-1", b"0", b"99", b"1e999", b"-1e308", b"1e-320", b"9" * 25, b"2147483648", b"nan", b"inf", b"0x10", b"1_0"),
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b'"', b"'", b",", b";", b"\t", b"{", b"[", b"<", b"]]>"),
    *(b"null", b"true", b"[#200]", b"*", b"[2H]", b"%99", b"C1", b"()", b"&lt;", b"<!--", b"M  END\n$$$$\n", b"\xc3"),
)
NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def write_right_files(folder: Path) -> list[Path]:
    """Write a file or folder of each format, all with a target `y`; return them."""
    labels = [round(k * 0.7 % 5, 2) for k in range(len(SMILES))]
    table = "id,smiles,y\n" + "".join(f"m{k},{each},{labels[k]}\n" for k, each in enumerate(SMILES))
    graphs = [nx.gnm_random_graph(5, 6, seed=k) for k in range(len(SMILES))]
    lines = [
        {
            "num_nodes": 5,
            "edges": [*map(list, graph.edges)],
            "nodes": {"x": [0.5, 1, 2, 3, 4]},
            "edge_features": {"w": [1.5] * 6},
            "targets": {"y": y},
            "id": f"g{y}",
        }
        for graph, y in zip(graphs, labels, strict=True)
    ]
    texts = {
        "t.csv": table,
        "t.tsv": table.replace(",", "\t"),
        "t.smi": "".join(f"{each} m{k}\n" for k, each in enumerate(SMILES)),
        "t.jsonl": "".join(json.dumps(line) + "\n" for line in lines),
        "t.xyz": "".join(f"2\ny={y} Properties=species:S:1:pos:R:3\nC 0 0 0\nO 0 0 {1 + y}\n" for y in labels),
        "tables/nodes.csv": "graph,node,x\n" + "".join(f"{k},{n},{n}.5\n" for k in range(12) for n in range(5)),
        "tables/edges.csv": "graph,source,target\n" + "".join(f"{k},0,1\n{k},{k % 5},2\n" for k in range(12)),
        "tables/graphs.csv": "graph,y\n" + "".join(f"{k},{labels[k]}\n" for k in range(12)),
        "tu/D_A.txt": "".join(f"{2 * k + 1}, {2 * k + 2}\n{2 * k + 2}, {2 * k + 1}\n" for k in range(12)),
        "tu/D_graph_indicator.txt": "".join(f"{k}\n{k}\n" for k in range(1, 13)),
        "tu/D_graph_labels.txt": "1\n2\n" * 6,
        "tu/D_node_labels.txt": "0\n1\n" * 12,
        "matrices/index.csv": "file,y\n" + "".join(f"{k}.npy,{labels[k]}\n" for k in range(6)),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for name in ("t.csv", "t.jsonl"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    for k in range(6):
        np.save(folder / "matrices" / f"{k}.npy", np.arange(16.0).reshape(4, 4) + k)
    for name, v3000 in (("v2.sdf", False), ("v3.sdf", True)):
        with Chem.SDWriter(str(folder / name)) as writer:
            writer.SetForceV3000(v3000)
            for each, y in zip(SMILES, labels, strict=True):
                molecule = Chem.MolFromSmiles(each)
                molecule.SetProp("y", str(y))
                writer.write(molecule)
    graph = graphs[0]
    nx.set_node_attributes(graph, {k: k / 2 for k in graph}, "x")
    nx.set_node_attributes(graph, {k: k % 2 for k in graph}, "y")
    nx.write_graphml(graph, folder / "t.graphml")
    pq.write_table(pa.table({"smiles": SMILES, "y": labels}), folder / "t.parquet", row_group_size=5)
    book = openpyxl.Workbook()
    for line in table.splitlines():
        book.active.append(line.split(","))
    book.save(folder / "t.xlsx")
    ends = torch.tensor([*graph.edges]).T
    torch.save([{"x": torch.rand(5, 2), "edge_index": ends, "y": torch.tensor([y])} for y in labels], folder / "t.pt")
    return sorted(folder.iterdir())


def change(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return bytes after some changes; `other` is what pieces are taken from."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        start = rng.randint(0, len(content))
        stop = min(len(content), start + rng.choice((0, 1, 1, 4, 40, 400)))
        numbers = [*NUMBER.finditer(content)] if rng.random() < 0.4 else []
        if numbers:
            start, stop = rng.choice(numbers).span()
        piece, k = content[start:stop], rng.randrange(len(other) or 1)
        new = rng.choice(
            (rng.choice(TOKENS),) * 3
            + (b"", piece * 2, piece * 300, piece[::-1], rng.randbytes(len(piece)), other[k : k + len(piece) + 8])
        )
        content = content[:start] + (rng.choice(TOKENS) if numbers else new) + content[stop:]
    return content


def change_inside(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return the bytes of a file that is changed inside of its container, sometimes the container itself."""
    if rng.random() < 0.8:
        if content[:2] == b"\x1f\x8b":
            return gzip.compress(change(gzip.decompress(content), other, rng), 1)
        if content[:2] == b"PK":
            out = io.BytesIO()
            with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
                chosen = rng.choice(old.namelist())
                for each in old.namelist():
                    inner = old.read(each)
                    new.writestr(each, change(inner, other, rng) if each == chosen else inner)
            return out.getvalue()
    return change(content, other, rng)


def write_changed(right: Sequence[Path], rng: random.Random, folder: Path) -> Path:
    """Write one of some right files or folders with a change to one file; return its path."""
    source, another = rng.choice(right), rng.choice([path for path in right if path.is_file()])
    name = source.name if rng.random() < 0.95 else another.name
    place = folder / name
    if source.is_dir():
        shutil.copytree(source, place)
        file = rng.choice(sorted(place.iterdir()))
    else:
        file = place
        shutil.copyfile(source, place)
    if rng.random() < 0.02:
        file.unlink()
        return place
    file.write_bytes(change_inside(file.read_bytes(), another.read_bytes(), rng))
    return place


def forge_tensors(path: Path, forge: Callable[[Any, random.Random], Any], rng: random.Random) -> None:
    """Change a tensor of a safetensors file, or the JSON beside them, so that the file is whole again."""
    try:
        with safe_open(path, "numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dict
            facts: dict[str, str] = file.metadata() or {}
    except SafetensorError:  # changed already
        return
    if facts and rng.random() < 0.3:
        name = rng.choice([*facts])
        try:
            facts[name] = json.dumps(forge(json.loads(facts[name]), rng))
        except ValueError:
            facts[name] = rng.choice(("", "{", "0"))
    else:
        name = rng.choice([*tensors])
        array = tensors[name].copy()
        match rng.choice(("value", "value", "all", "type", "shape", "cut", "gone")):
            case "value" if array.size:
                bounds = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(np.float32)
                few = (0, 1, bounds.max, bounds.min) if array.dtype.kind in "iu" else (0, np.nan, np.inf, -1e38)
                array.flat[rng.randrange(array.size)] = rng.choice(few)
            case "all":
                array = np.full_like(array, rng.choice((0, 1, 100)))
            case "type":
                with np.errstate(all="ignore"):
                    array = array.astype(rng.choice(("f2", "f4", "f8", "i1", "i4", "i8", "u1", "?")))
            case "shape":
                array = rng.choice((array.reshape(-1), array[None], array[..., None]))
            case "cut" if array.ndim:
                array = np.concatenate((array, array)) if rng.random() < 0.5 else array[: rng.randrange(len(array) + 1)]
            case _:
                del tensors[name]
        tensors |= {name: np.ascontiguousarray(array)} if name in tensors else {}
    save_file(tensors, path, facts or None)
