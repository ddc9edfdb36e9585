"""Classes of the nodes of a large graph in pieces, through the command line only: seconds, memory and accuracy.

    python -m benchmarks.pieces [--nodes 200000] [--edges 2000000] [--communities 400] [--within 0.4] [--noise 4] \
        [--seed 0] [--set KEY=VALUE ...]

Every community is of one of ten classes, and a share of the edges stays within it. A node has sixteen numbers: the mean
of its class, which says little beside the noise (`--noise inf`: nothing but noise). One node in twenty is labeled for
training, one in twenty for validation, and the others are the test. Beside the model stand label propagation
(`egt.baselines`) from the same training labels, which sees no numbers, and a logistic regression on the numbers alone,
which sees no edges.

    python -m benchmarks.pieces --profile 5 --nodes 1000000 --edges 10000000

Only measures the parts of such a run in one process, without files: preparing, so many steps, and one piece of answers.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.links import IntArray, block_model, egt
from egt.assemble import build_model, build_task
from egt.config.defaults import for_pieces, infer_run
from egt.config.run import PiecesConfig
from egt.config.run_data import in_pieces, preparation
from egt.data.batching.batch import collate
from egt.data.custom import open_custom
from egt.data.source import TargetSchema
from egt.graph import UNKNOWN, Graph
from egt.inference.backends import execution
from egt.paper.rules import propagation

CLASSES, VALUES = 10, 16
LABELED = 0.05
TARGET = TargetSchema("node", "multiclass", ("topic",), num_classes=CLASSES)


def write_folder(
    folder: Path, values: NDArray[np.float64], topic: IntArray, split: NDArray[np.str_], edges: IntArray
) -> Path:
    """Write a graph as tables; training sees the topics of its split only."""
    folder.mkdir(parents=True)
    with (folder / "nodes.csv").open("w") as file:
        print("node", *(f"x{k}" for k in range(values.shape[1])), "topic", "split", sep=",", file=file)
        for node, (row, name, part) in enumerate(zip(values, topic, split, strict=True)):
            print(node, *(f"{value:.3f}" for value in row), f"t{name}", part, sep=",", file=file)
    np.savetxt(folder / "edges.csv", edges.T, "%d", ",", header="source,target", comments="")
    return folder


def propagated(edges: IntArray, topic: IntArray, known: NDArray[np.bool_]) -> IntArray:
    """Return the classes that label propagation gives to all nodes."""
    labels = np.where(known, topic, np.nan)[:, None]
    graph = Graph.undirected(num_nodes=len(topic), edge_index=edges, node_targets=labels, id="0")
    [scores] = propagation([graph], TARGET, 0, [graph])
    found: IntArray = scores.argmax(axis=1)
    return found


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Train, which evaluates the test nodes, and predict all nodes; files go to `folder`."""
    num_nodes, num_communities = given.nodes, given.communities
    random = np.random.default_rng(given.seed)
    edges, community = block_model(num_nodes, given.edges, num_communities, random, within=given.within)
    order = random.permutation(num_nodes)  # neighbors in the file are no neighbors in the graph
    topic = random.permutation(np.arange(num_communities) % CLASSES)[community][np.argsort(order)]
    edges = order[edges]
    means, noise = random.normal(size=(CLASSES, VALUES))[topic], random.normal(size=(num_nodes, VALUES))
    values = noise if np.isinf(given.noise) else means + given.noise * noise
    split = random.choice(["train", "val", "test"], num_nodes, p=[LABELED, LABELED, 1 - 2 * LABELED])
    train, test = split == "train", split == "test"
    data = write_folder(folder / "graph", values, topic, split, edges)
    words = ["--set", *given.settings] if given.settings else []
    trained, training = egt("train", str(data), "--target", "topic", "--out", str(folder / "run"), "--json", *words)
    _, predicting = egt("predict", str(folder / "run"), str(data), "-o", str(folder / "answers.csv"))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "answers.csv").open() as file:
        answers = np.array([int(row["topic"].removeprefix("t")) for row in csv.DictReader(file)])
    alone = LogisticRegression(max_iter=200).fit(values[train], topic[train])
    spread = propagated(edges, topic, train)
    return {
        "nodes": num_nodes,
        "edges": given.edges,
        "communities": num_communities,
        "within": given.within,
        "noise": given.noise,
        "training_nodes": int(train.sum()),
        "training_seconds": round(training, 1),
        "predicting_seconds": round(predicting, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_gb": round(used.ru_maxrss * 1024 / 1e9, 2),
        "trained": json.loads(trained.strip().splitlines()[-1])["metrics"],
        "accuracy": round(float(np.mean(answers[test] == topic[test])), 4),
        "accuracy_label_propagation": round(float(np.mean(spread[test] == topic[test])), 4),
        "accuracy_numbers_alone": round(float(alone.score(values[test], topic[test])), 4),
    }


def profile(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the processor seconds of preparing a graph, of a step and of a piece of answers, and the peak memory."""
    random, used = np.random.default_rng(given.seed), [time.process_time()]
    edges, community = block_model(given.nodes, given.edges, given.communities, random, within=given.within)
    topic = community % CLASSES
    few = np.arange(2_000)  # settings follow from a small file of the same kind
    split, ring = np.array(["train", "val", "test", "test"] * 500), np.stack([few, np.roll(few, 1)])
    values = random.normal(size=(given.nodes, VALUES)).astype(np.float32)
    source = open_custom(
        write_folder(folder, values[few].astype(np.float64), few % CLASSES, split, ring), target="topic"
    )
    config = for_pieces(infer_run(source, str(folder), "profile"), source).replace(data={"pieces": PiecesConfig()})
    known = np.where(random.random(given.nodes) < LABELED, topic, UNKNOWN)
    targets = np.where(known == UNKNOWN, np.nan, topic)[:, None]
    graph = Graph.undirected(
        num_nodes=given.nodes, edge_index=edges, node_values=values, node_targets=targets, known_labels=known
    )
    del edges, values
    used.append(time.process_time())
    sample = preparation(config)(graph)
    used.append(time.process_time())
    training = in_pieces(config, [sample], training=True)
    model, task = build_model(config, backend=execution(config).backend), build_task(config)
    model.fit([sample])
    optimizer = torch.optim.Adam(model.parameters())
    nodes: list[int] = []
    steps: list[float] = []
    for number in range(given.profile):
        began = time.process_time()
        piece = training[number]
        batch = collate([piece], "edge_list")
        nodes.append(piece.graph.num_nodes)
        optimizer.zero_grad()
        task.loss_sum(model(batch), batch).backward()
        optimizer.step()
        steps.append(round(time.process_time() - began, 2))
    pieces = in_pieces(config, [sample], every=True)
    used.append(time.process_time())
    with torch.inference_mode():
        model.eval()(collate([pieces[0]], "edge_list"))
    answering = time.process_time() - used[-1]
    return {
        "making_graph": round(used[1] - used[0], 1),
        "preparing": round(used[2] - used[1], 1),
        "steps": steps,
        "nodes_of_a_step": nodes,
        "steps_of_an_epoch": len(training),
        "piece_of_answers": round(answering, 1),
        "pieces_of_answers": len(pieces),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--communities", type=int, default=400)
    parser.add_argument("--within", type=float, default=0.4)
    parser.add_argument("--noise", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", type=int, default=0, metavar="STEPS")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", dest="settings")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("EGT_CACHE_DIR", f"{scratch}/cache")
        folder = Path(scratch) / "pieces"
        found = profile(given, folder) if given.profile else measure(given, folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
