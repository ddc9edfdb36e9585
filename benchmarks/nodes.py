"""Our defaults for classes of nodes beside GCN, GraphSAGE and GatedGCN of PyG, on graphs whose neighbors agree or not.

    python -m benchmarks.nodes [--data cora minesweeper actor knob-0.1 ...] [--tools egt gcn ...] [--splits 0 1 2] \
        [--out runs/nodes]

Reads EGT_DATA_DIR (`planetoid`, `heterophilous`). Of Cora the split is the public one, and `--splits` seeds the
training; of minesweeper and actor it is one of their ten masks; of `knob-H` (generated: 3,000 nodes of five classes, a
share H of their edges within a class, sixteen numbers that say something) it seeds graph, split and training. Ours is
`egt train FILE` with nothing set but the seed. Rivals have our width of 64 and two recipes each, two layers as in Kipf
and Welling (2017) and five with norms and residuals as in Platonov et al. (2023), of which validation chooses. The
score is ROC-AUC of minesweeper, else accuracy, on the test nodes. Every finished run is a line of OUT/results.jsonl and
is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional

import egt
from benchmarks.cora import write_cora
from benchmarks.defaults import read, spread
from benchmarks.rivals import cpu_seconds
from egt.data.download import data_folder

SPLITS = ("train", "val", "test")
TOOLS = ("egt", "gcn", "sage", "gatedgcn", "mlp")
WIDTH, EPOCHS, PATIENCE = 64, 500, 100
RECIPES: tuple[dict[str, Any], ...] = (
    {"num_layers": 2, "residual": False, "dropout": 0.5, "lr": 0.01, "weight_decay": 5e-4},
    {"num_layers": 5, "residual": True, "dropout": 0.2, "lr": 3e-3, "weight_decay": 0.0},
)


@dataclass(frozen=True)
class Nodes:
    """A graph whose nodes have classes.

    Fields:
        x: (N, F); y: (N,) classes; edges: (E, 2), each once; masks: split -> (N,).
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    edges: NDArray[np.int64]
    masks: Mapping[str, NDArray[np.bool_]]


def main(words: Sequence[str] | None = None) -> None:
    """Run all that is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", nargs="+", default=["cora", "minesweeper", "actor", "knob-0.1", "knob-0.5", "knob-0.9"]
    )
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/nodes"))
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", dest="settings")
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    results = asked.out / "results.jsonl"
    done = read(results)
    for split in asked.splits:
        for name in asked.data:
            for tool in asked.tools:
                if (name, tool, split) in done:
                    continue
                before = cpu_seconds()
                found = train_egt(name, split, asked) if tool == "egt" else train_rival(tool, load(name, split), split)
                record = {"data": name, "arm": tool, "seed": split, **found}
                record["cpu_seconds"] = round(cpu_seconds() - before, 1)
                done[name, tool, split] = record
                with results.open("a") as file:
                    print(json.dumps(record), file=file)
                print(json.dumps(record), flush=True)
    print("\n".join(table(done, asked.data)))


def cora_file() -> Path:
    """Return Cora with its public split as a JSONL graph, which is written once."""
    path = Path(tempfile.gettempdir()) / "egt-cora.jsonl"
    if not path.exists():
        write_cora(data_folder() / "planetoid", path)
    return path


def load(name: str, split: int) -> Nodes:
    """Return a graph with one of its splits."""
    if name.startswith("knob-"):
        return generated(float(name.removeprefix("knob-")), split)
    if name == "cora":
        [line] = (json.loads(text) for text in cora_file().read_text().splitlines())
        words, topics = np.array(line["nodes"]["words"], np.float32), line["node_targets"]["topic"]
        parts = np.array(line["nodes"]["split"])
        masks = {part: parts == part for part in SPLITS}
        return Nodes(words, np.unique(topics, return_inverse=True)[1], np.array(line["edges"]), masks)
    with np.load(data_folder() / "heterophilous" / f"{name}.npz") as arrays:
        masks = {part: arrays[f"{part}_masks"][split] for part in SPLITS}
        return Nodes(arrays["node_features"], arrays["node_labels"], arrays["edges"], masks)


def generated(within: float, seed: int, num_nodes: int = 3_000, num_classes: int = 5, degree: int = 8) -> Nodes:
    """Return a graph of which a share of the edges stays within a class; a tenth of the nodes is for training."""
    random = np.random.default_rng(seed)
    y = random.integers(num_classes, size=num_nodes)
    of_class = [np.flatnonzero(y == k) for k in range(num_classes)]
    i = random.integers(num_nodes, size=num_nodes * degree // 2)
    other = (y[i] + random.integers(1, num_classes, size=len(i))) % num_classes
    chosen = np.where(random.random(len(i)) < within, y[i], other)
    j = np.array([random.choice(of_class[k]) for k in chosen])
    edges = np.unique(np.sort(np.stack([i, j], 1)[i != j], 1), axis=0)
    x = random.normal(size=(num_classes, 16))[y] + 3.0 * random.normal(size=(num_nodes, 16))
    part = random.choice(3, num_nodes, p=[0.1, 0.1, 0.8])
    return Nodes(x.astype(np.float32), y, edges, {name: part == k for k, name in enumerate(SPLITS)})


def train_egt(name: str, split: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Train with the defaults on a file with the masks of the split."""
    graph = load(name, split)
    counts = (graph.x.astype(int) if np.isin(graph.x, (0, 1)).all() else graph.x.round(4)).tolist()
    masks = {f"{part}_mask": graph.masks[part].astype(int).tolist() for part in SPLITS}
    line = {
        "id": name,
        "nodes": {"x": counts, **masks},
        "node_targets": {"topic": [f"t{k}" for k in graph.y.tolist()]},
        "edges": graph.edges.tolist(),
        "directed": False,
    }
    path = asked.out / f"{name}-{split}.jsonl"
    path.write_text(json.dumps(line))
    settings = [f"seed={split}", "trainer.trackers=[]", *asked.settings]
    run = egt.train(path, target="topic", set=settings, out=asked.out / f"{name}-{split}-egt", progress=False)
    path.unlink()
    metric = "roc_auc" if name == "minesweeper" else "accuracy"
    found = run.artifact.metrics
    baseline = (run.artifact.data.get("baseline") or {}).get("metrics", {}).get("test", {}).get(metric)
    return {"test": found["test"][metric], "val": found["val"][metric], "baseline": baseline}


class Rival(nn.Module):
    """Layers of PyG, or linear maps, with ReLU and dropout; with norms, residuals and linear ends, or without."""

    def __init__(
        self, tool: str, inputs: int, outputs: int, num_layers: int, dropout: float, *, residual: bool
    ) -> None:
        super().__init__()
        self.reads_edges, self.residual, self.dropout = tool != "mlp", residual, dropout
        make: Any = nn.Linear
        if self.reads_edges:
            from torch_geometric import nn as layers  # only rivals need PyG

            make = {"gcn": layers.GCNConv, "sage": layers.SAGEConv, "gatedgcn": layers.ResGatedGraphConv}[tool]
        widths = [WIDTH] * (num_layers + 1) if residual else [inputs, *[WIDTH] * (num_layers - 1), outputs]
        self.first = nn.Linear(inputs, WIDTH) if residual else nn.Identity()
        self.layers = nn.ModuleList(make(one, other) for one, other in pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) if residual else nn.Identity() for _ in self.layers)
        self.last = nn.Linear(WIDTH, outputs) if residual else nn.Identity()

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return (N, outputs)."""
        h = self.first(x)
        for k, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            is_last = not self.residual and k == len(self.layers) - 1
            inner = functional.dropout(norm(h), self.dropout, self.training)
            new = layer(inner, edges) if self.reads_edges else layer(inner)
            new = new if is_last else functional.relu(new)
            h = h + new if self.residual else new
        found: Tensor = self.last(h)
        return found


def train_rival(tool: str, graph: Nodes, seed: int) -> dict[str, Any]:
    """Train both recipes and return the score of the one that is better on validation."""
    x, y = torch.from_numpy(graph.x), torch.from_numpy(graph.y)
    both = _matrix(graph, len(y)) if tool in ("gcn", "sage") else _edges(graph)
    masks = {name: torch.from_numpy(mask) for name, mask in graph.masks.items()}
    found = []
    for recipe in RECIPES:
        torch.manual_seed(seed)
        model = Rival(
            tool, x.shape[1], int(y.max()) + 1, recipe["num_layers"], recipe["dropout"], residual=recipe["residual"]
        )
        optimizer = torch.optim.Adam(model.parameters(), recipe["lr"], weight_decay=recipe["weight_decay"])
        best, since = {"val": -1.0}, 0
        for _ in range(EPOCHS):
            model.train()
            optimizer.zero_grad()
            functional.cross_entropy(model(x, both)[masks["train"]], y[masks["train"]]).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                answers = model(x, both)
            scores = {name: score(answers[masks[name]], y[masks[name]]) for name in ("val", "test")}
            best, since = (scores, 0) if scores["val"] > best["val"] else (best, since + 1)
            if since == PATIENCE:
                break
        found.append({**best, "layers": recipe["num_layers"]})
    return max(found, key=lambda each: each["val"])


def _edges(graph: Nodes) -> Tensor:
    """Return (2, 2 E), each edge in both directions."""
    return torch.from_numpy(np.concatenate([graph.edges.T, graph.edges.T[::-1]], axis=1).copy())


def _matrix(graph: Nodes, num_nodes: int) -> Tensor:
    """Return the edges as a sparse matrix, with which these layers give the same in half the time."""
    edges = _edges(graph)
    weight = torch.ones(edges.shape[1])
    return torch.sparse_coo_tensor(edges, weight, (num_nodes, num_nodes)).coalesce().to_sparse_csr()


def score(logits: Tensor, y: Tensor) -> float:
    """Return ROC-AUC of two classes, else the accuracy."""
    if logits.shape[1] == 2:
        return float(roc_auc_score(y, logits[:, 1] - logits[:, 0]))
    return float((logits.argmax(1) == y).double().mean())


def table(done: Mapping[tuple[str, str, int], Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """Write the means as Markdown."""
    yield "| data | tool | runs | val | test | CPU s |"
    yield "|---|---|---|---|---|---|"
    for name in names:
        for tool in TOOLS:
            mine = [record for (data, arm, _), record in sorted(done.items()) if (data, arm) == (name, tool)]
            if mine:
                seconds = np.mean([each["cpu_seconds"] for each in mine])
                val, test = (spread([each[split] for each in mine]) for split in ("val", "test"))
                yield f"| {name} | {tool} | {len(mine)} | {val} | {test} | {seconds:.0f} |"


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    main()
