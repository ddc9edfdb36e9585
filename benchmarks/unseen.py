"""New data: what `egt train` gets, a file for `egt predict` that was no part of it, and the labels that were held back.

- ESOL, BBBP, Tox21: the last 20 rows, and one that is no molecule. Training gets the other rows, without those that
  write one of the 20 molecules in another way.
- ENZYMES: the last five graphs of each class. Training gets the others.
- Cora: the graph between 1,000 random nodes. Training gets the whole of Cora with its public split, so the nodes are
  shared and only the graph is new. Labels are those of the public test nodes among them, which training never had.
- Links of Cora: 200 random edges, which training does not get, and 200 random pairs that are no edges of Cora.
- PATTERN, TSP: graphs generated with another seed. PATTERN's planted patterns come from that seed too: they are others
  than those of training.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.rdBase import BlockLogs

from benchmarks.cora import write_cora
from egt.data.benchmark import open_benchmark
from egt.graph import Graph

NOT_A_MOLECULE = "not a molecule"
NUM_ROWS = 20
GRAPHS_PER_CLASS = 5
NUM_NODES = 1000
NUM_LINKS = 200
GENERATED = {"pattern": 100, "tsp": 20}
"""How many new graphs."""
SEED = 2026
"""Of all that is drawn here; not the `PATTERN_SEED` and `TSP_SEED` of the graphs that training gets."""


@dataclass(frozen=True)
class Unseen:
    """New data for one data set.

    Fields:
        known: what `egt train` gets: a file, a folder or a preset.
        new: what `egt predict` gets, without labels.
        places: what each row of the predictions must show of the input, in order: its SMILES, or graph and nodes.
        labels: of each target, one for each row of the predictions; "" where there is none.
    """

    known: str
    new: Path
    places: Sequence[dict[str, str]]
    labels: dict[str, list[str]]


def hold_back(name: str, data: Path, folder: Path) -> Unseen:
    """Make the files of a data set in a folder.

    Args:
        name: a name of `benchmarks.own_data.SETS`.
        data: the folder of the public files.
        folder: for the files made here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if name == "enzymes":
        return graphs_of_classes(data / "tudataset" / "ENZYMES", folder)
    if name == "cora":
        return part_of_cora(data / "planetoid", folder)
    if name == "cora-links":
        return links_of_cora(data / "planetoid", folder)
    if name in GENERATED:
        return generated(name, folder)
    return rows_of_table(data / "moleculenet" / f"{name}.csv.gz", folder)


def rows_of_table(path: Path, folder: Path) -> Unseen:
    """Return the last rows of a table whose first column is the SMILES and all others are targets."""
    with gzip.open(path, "rt", newline="") as file:
        header, *rows = csv.reader(file)
    new, known = rows[-NUM_ROWS:], rows[:-NUM_ROWS]
    molecules = {_canonical(row[0]) for row in new}
    _write_csv(folder / "known.csv", [header, *(row for row in known if _canonical(row[0]) not in molecules)])
    new.append([NOT_A_MOLECULE, *("" for _ in header[1:])])
    _write_csv(folder / "new.csv", [header[:1], *(row[:1] for row in new)])
    return Unseen(
        known=str(folder / "known.csv"),
        new=folder / "new.csv",
        places=[{header[0]: row[0]} for row in new],
        labels={target: [row[k] for row in new] for k, target in enumerate(header) if k},
    )


def graphs_of_classes(path: Path, folder: Path) -> Unseen:
    """Return the last graphs of each class of a data set in the TU format, as a folder without graph labels."""
    labels = _lines(path, "graph_labels")
    numbers: list[int] = []
    for label in sorted(set(labels)):
        numbers += [number for number, other in enumerate(labels, start=1) if other == label][-GRAPHS_PER_CLASS:]
    new = sorted(numbers)
    known = sorted(set(range(1, len(labels) + 1)) - set(new))
    _write_tu(path, folder / "known", known)
    _write_tu(path, folder / "new", new)
    kept = "".join(f"{labels[number - 1]}\n" for number in known)
    (folder / "known" / f"{path.name}_graph_labels.txt").write_text(kept)
    return Unseen(
        known=str(folder / "known"),
        new=folder / "new",
        places=[{"id": str(row)} for row in range(len(new))],
        labels={"graph_label": [labels[number - 1] for number in new]},
    )


def part_of_cora(path: Path, folder: Path) -> Unseen:
    """Return the graph between some of Cora's nodes; the labels are those of its public test nodes."""
    known = folder / "known.jsonl"
    write_cora(path, known)
    cora = json.loads(known.read_text())
    chosen = np.random.default_rng(SEED).permutation(len(cora["nodes"]["words"]))[:NUM_NODES].tolist()
    number_of = {node: number for number, node in enumerate(chosen)}
    name = "part of cora"
    line = {
        "id": name,
        "nodes": {"words": [cora["nodes"]["words"][node] for node in chosen]},
        "edges": [[number_of[i], number_of[j]] for i, j in cora["edges"] if i in number_of and j in number_of],
        "directed": False,
    }
    topics, split = cora["node_targets"]["topic"], cora["nodes"]["split"]
    return Unseen(
        known=str(known),
        new=_write_jsonl(folder / "new.jsonl", [line]),
        places=[{"graph": name, "node": str(number)} for number in range(NUM_NODES)],
        labels={"topic": [topics[node] if split[node] == "test" else "" for node in chosen]},
    )


def links_of_cora(path: Path, folder: Path) -> Unseen:
    """Edges that are taken out of Cora, and pairs that are no edges of it. Topics are given to neither file."""
    write_cora(path, folder / "cora.jsonl")
    cora = json.loads((folder / "cora.jsonl").read_text())
    words, edges = cora["nodes"]["words"], {(i, j) for i, j in cora["edges"]}
    random = np.random.default_rng(SEED)
    hidden = random.permutation(sorted((i, j) for i, j in edges if i != j))[:NUM_LINKS].tolist()
    others: set[tuple[int, int]] = set()
    while len(others) < NUM_LINKS:
        i, j = sorted(random.integers(len(words), size=2).tolist())
        if i != j and (i, j) not in edges:
            others.add((i, j))
    kept = sorted(edges - {(i, j) for i, j in hidden})
    line = {"id": "cora", "nodes": {"words": words}, "edges": kept, "directed": False}
    asked = [*hidden, *sorted(others)]
    return Unseen(
        known=str(_write_jsonl(folder / "known.jsonl", [line])),
        new=_write_jsonl(folder / "new.jsonl", [{**line, "queries": asked}]),
        places=[{"graph": "cora", "source": str(i), "target": str(j)} for i, j in asked],
        labels={"link": ["1"] * NUM_LINKS + ["0"] * NUM_LINKS},
    )


def generated(name: str, folder: Path) -> Unseen:
    """Graphs of a benchmark's recipe with another seed."""
    source = open_benchmark(name, options={"seed": SEED, "split_sizes": {"test": GENERATED[name]}})
    graphs = [graph for record in source.records("test") if (graph := source.read(record).graph) is not None]
    target = source.card.target
    line_of = {"pattern": _pattern_line, "tsp": _tsp_line}[name]
    return Unseen(
        known=f"{name}-100k",
        new=_write_jsonl(folder / "new.jsonl", [line_of(graph) for graph in graphs]),
        places=[place for graph in graphs for place in _places(graph, target.level)],
        labels={target.names[0]: [target.class_names[k] for graph in graphs for k in _classes(graph)]},
    )


def _pattern_line(graph: Graph) -> dict[str, Any]:
    return {
        "id": graph.id,
        "nodes": {"signal": graph.node_categories[:, 0].tolist()},
        "edges": graph.edge_index.T.tolist(),
        "directed": False,
    }


def _tsp_line(graph: Graph) -> dict[str, Any]:
    source, target = graph.edge_index.tolist()
    return {
        "id": graph.id,
        "nodes": {"x": graph.node_values.tolist()},
        "edges": {"source": source, "target": target, "edge_attr": graph.edge_values.tolist()},
        "directed": True,
    }


def _places(graph: Graph, level: str) -> list[dict[str, str]]:
    if level == "node":
        return [{"graph": graph.id, "node": str(node)} for node in range(graph.num_nodes)]
    return [{"graph": graph.id, "source": str(i), "target": str(j)} for i, j in graph.edge_index.T]


def _classes(graph: Graph) -> list[int]:
    """Return the class of each node or edge."""
    targets = graph.edge_targets if graph.node_targets is None else graph.node_targets
    assert targets is not None, graph.id
    return [int(k) for k in targets[:, 0]]


def _canonical(smiles: str) -> str:
    """One text for all SMILES of a molecule; what RDKit cannot read stays as it is."""
    with BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
    return smiles if molecule is None else str(Chem.MolToSmiles(molecule))


def _write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def _write_jsonl(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def _lines(path: Path, part: str) -> list[str]:
    """Return the lines of one file of a data set in the TU format."""
    with gzip.open(path / f"{path.name}_{part}.txt.gz", "rt") as file:
        return file.read().splitlines()


def _write_tu(path: Path, folder: Path, graphs: Collection[int]) -> None:
    """Return some graphs of a data set, renumbered from 1 in their order, in a folder of the same format."""
    graph_of = [int(line) for line in _lines(path, "graph_indicator")]
    graph_number = {graph: number for number, graph in enumerate(graphs, start=1)}
    nodes = [node for node, graph in enumerate(graph_of) if graph in graph_number]
    node_number = {node + 1: number for number, node in enumerate(nodes, start=1)}
    edges = [[int(node) for node in line.split(",")] for line in _lines(path, "A")]
    labels, attributes = _lines(path, "node_labels"), _lines(path, "node_attributes")
    parts = {
        "A": [f"{node_number[i]}, {node_number[j]}" for i, j in edges if i in node_number],
        "graph_indicator": [str(graph_number[graph_of[node]]) for node in nodes],
        "node_labels": [labels[node] for node in nodes],
        "node_attributes": [attributes[node] for node in nodes],
    }
    folder.mkdir(exist_ok=True)
    for part, lines in parts.items():
        (folder / f"{path.name}_{part}.txt").write_text("".join(f"{line}\n" for line in lines))
