"""A cheap baseline beside a trained model, fitted to the same rows: what the model has to beat.

Molecules have a forest and a Gaussian process (GP) on fragments and descriptors (`fit_learner`), nodes label
propagation (Zhou et al., 2004) and a linear model of propagated features (Wu et al., 2019), links their common
neighbors. Everything has the mean of the training labels, or the share of each class. Validation chooses among them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_task
from egt.config.run import RunConfig
from egt.data.encodings.encoding import Sample, neighbors_of, spread
from egt.data.molecule_descriptors import descriptor_names
from egt.data.source import NUMBERS, Source
from egt.data.store import Store
from egt.errors import ConfigError
from egt.graph import Graph
from egt.inference.evaluation import Evaluation, evaluate_answers
from egt.inference.learner import Blend, Learner, describe_rows
from egt.parts.tasks.task import TargetScale, Task
from egt.training.fit_learner import fit_learner

Rows = NDArray[np.float64]
Answers = Mapping[str, Rows]  # split -> (rows, outputs) decoded answers, in the order of its graphs
_FEW_HOPS, _HOPS = 10, 50

_RIDGE = (0.1, 1.0)  # penalties that are tried, in units of the mean square of a row of features
_MOST_ENTRIES = 50_000_000  # of a table of features: 400 MB
_MOST_CATEGORIES = 64


@dataclass(frozen=True)
class Baseline:
    """What was measured.

    Fields:
        metrics: split -> metric -> value, as those of a model.
    """

    name: str
    metrics: Mapping[str, Mapping[str, float]]
    seconds: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """Learners without a network that were fitted to the training rows of a run, one for each kind of targets.

    Fields:
        answers: those of validation and test.
        truth: the labels of all splits.
    """

    learners: Sequence[Learner]
    answers: Answers
    truth: Answers
    seconds: float

    def answers_with_labels(self, split: str) -> Rows:
        """(rows, T) the answers of the rows that have a label."""
        return self.answers[split][~np.isnan(self.truth[split]).all(1)]


def share_of_network(ours: Rows, theirs: Rows, truth: Rows) -> float:
    """Return the share of `ours` in the mean with `theirs`, from 0 to 1, that the labels surely speak for.

    It is the one with the smallest squared error, less its standard error: on few rows the best share is chance, and
    the smaller one was better on others (benchmarks/results/learners.md). Each target counts in deviations of its
    labels. All are (rows, T), labels NaN where one is missing.
    """
    unit = np.array(TargetScale.of([truth]).std)
    apart, wanted = (ours - theirs) / unit, (truth - theirs) / unit
    squares = np.nansum(np.where(np.isnan(truth), 0.0, np.square(apart)))
    if not squares:
        return 1.0
    best = np.nansum(apart * wanted) / squares
    variance = np.nansum(np.square(wanted - best * apart)) / max(np.count_nonzero(~np.isnan(truth)) - 1, 1)
    return float(np.clip(best - np.sqrt(variance / squares), 0, 1))


def measure_baseline(
    config: RunConfig,
    source: Source,
    stores: Mapping[str, Store],
    labels: Sequence[Rows],
    fitted: Fitted | None = None,
) -> Baseline | None:
    """Return the best of the baselines that the data allows, as validation says; the first split without one.

    None for a task of a plug-in that does not say what an uninformed model answers. `labels` are those of training,
    each (rows, label_width); `fitted` are the learners, where the data is molecules.
    """
    began = time.monotonic() - (0 if fitted is None else fitted.seconds)
    held_out = [split for split in ("val", "test") if split in stores]
    truth = {split: _labels(config, stores[split]) for split in stores}
    task, metric, sign = build_task(config), config.task.deciding_metric, 1 if config.task.higher_is_better else -1
    best: tuple[str, dict[str, Evaluation]] | None = None
    for name, answers in _candidates(config, source, stores, truth, labels, fitted):
        found = {
            split: evaluate_answers(task, answers[split], truth[split], num_graphs=len(stores[split]))
            for split in held_out
        }
        score = sign * found[held_out[0]].metrics[metric]
        if best is None or score > sign * best[1][held_out[0]].metrics[metric]:
            best = name, found
    if best is None:
        return None
    name, found = best
    return Baseline(name, {split: each.metrics for split, each in found.items()}, time.monotonic() - began)


def _candidates(
    config: RunConfig,
    source: Source,
    stores: Mapping[str, Store],
    truth: Answers,
    labels: Sequence[Rows],
    fitted: Fitted | None,
) -> Iterator[tuple[str, Answers]]:
    """Yield the baselines for the level and the task of a run, by name."""
    kind, level = _kind(config), config.model.level
    constant = config.task.uninformed(iter(labels))
    if constant is not None:
        answer = build_task(config).decode(torch.tensor(constant)[None]).numpy()
        name = "most common class" if config.task.has_classes else "mean of the training labels"
        yield name, {split: np.repeat(answer, len(rows), 0) for split, rows in truth.items()}
    if fitted is not None:
        yield fitted.learners[0].title, fitted.answers
    if kind is None or fitted is not None:
        return
    truth = {split: config.task.numbers(rows) for split, rows in truth.items()}  # of bounds, too
    if level == "node":
        if source.is_divided_within:
            yield "label propagation", _propagated_labels(config, stores, truth)
        for answers in _linear(config, stores, truth):
            yield "linear model of propagated features", answers
    elif kind == "binary" and stores["train"][0].graph.query_index is not None:
        yield "common neighbors", _common_neighbors(stores, truth)


def _kind(config: RunConfig) -> str | None:
    """Return how answers are made of numbers: values, probabilities of yes, or those of classes; None if otherwise."""
    task = config.task
    if task.kind in ("regression", "censored", "binary") and task.num_outputs == len(task.names):
        return "binary" if task.kind == "binary" else "regression"
    return "multiclass" if task.kind == "multiclass" else None


def _labels(config: RunConfig, store: Sequence[Sample]) -> Rows:
    """(rows, label_width) the labels of a split, NaN where one is missing, graph after graph."""
    level, width = config.model.level, config.task.label_width
    rows = [np.zeros((0, width))]
    for sample in store:
        graph = sample.graph
        found = getattr(graph, f"{level}_targets")
        queries = graph.edge_index if graph.query_index is None else graph.query_index
        count = {"graph": 1, "node": graph.num_nodes, "edge": queries.shape[1]}[level]
        rows.append(np.full((count, width), np.nan) if found is None else found.reshape(count, width))
    return np.concatenate(rows)


def fit_learners(config: RunConfig, source: Source, stores: Mapping[str, Store]) -> Fitted | None:
    """Fit learners to the training molecules of a run, and let them answer the others; None where they cannot."""
    pieces = config.task.pieces
    if config.model.level != "graph" or source.smiles() is None:
        return None
    if any(piece.part.kind not in (*NUMBERS, "binary") for piece in pieces):
        return None
    began, names, smiles = time.monotonic(), tuple(descriptor_names()), source.smiles() or ()
    found = {
        split: describe_rows([str(smiles[row]) for row in store.rows.tolist()], store, names)
        for split, store in stores.items()
    }
    truth = {split: _labels(config, store) for split, store in stores.items()}
    known = config.task.numbers(truth["train"])  # of bounds, too
    learners = [
        fit_learner(
            found["train"], known[:, piece.targets], names, chances=piece.part.kind == "binary", seed=config.seed
        )
        for piece in pieces
    ]
    answers = {
        split: np.concatenate([learner.predict(each) for learner in learners], axis=1)
        for split, each in found.items()
        if split != "train"
    }
    return Fitted(learners, answers, truth, time.monotonic() - began)


def why_no_learner(config: RunConfig, source: Source) -> str:
    """Return why a run has no learner beside its network, or "" where it has one."""
    if config.model.level != "graph" or _kind(config) not in ("regression", "binary"):
        task = f"{config.task.kind} targets of {config.model.level}s"
        return f"a learner predicts regression and binary targets of whole molecules, not {task}"
    if source.smiles() is None:
        return "the data has no SMILES"
    return ""


def check_blend(config: RunConfig, source: Source) -> None:
    """Raise a `ConfigError` before training if no learner can be fitted afterwards."""
    why = why_no_learner(config, source)
    if not source.card.split_sizes.get("val"):
        why = why or "there are no validation rows to choose the share of the network on"
    if why:
        raise ConfigError(f"{config.name}: nothing to blend the network with: {why}; leave out --blend")


def fit_blend(task: Task, fitted: Fitted, answers: Rows, truth: Rows) -> Blend:
    """Return the blend of a network with a learner. answers: of the network on validation; truth: the labels there."""
    share = share_of_network(answers, fitted.answers_with_labels("val"), task.part.numbers(truth))
    return Blend(fitted.learners[0], share)


def _propagated_labels(config: RunConfig, stores: Mapping[str, Store], truth: Answers) -> Answers:
    """Spread the training labels of each graph along its edges; what they do not reach gets their mean."""
    default = _one_hot(config, truth["train"][~np.isnan(truth["train"]).any(1)]).mean(0)
    found = []
    for sample in stores["train"]:
        targets = config.task.numbers(_labels(config, [sample]))
        known = ~np.isnan(targets).any(1)
        start = np.zeros((len(targets), len(default) + 1))
        start[known] = np.concatenate([_one_hot(config, targets[known]), np.ones((known.sum(), 1))], 1)
        state = spread(neighbors_of(sample.graph), start, _HOPS)
        weight = state[:, -1:]
        found.append(np.where(weight > 0, state[:, :-1] / np.where(weight > 0, weight, 1), default))
    return dict.fromkeys(stores, np.concatenate(found))


def _linear(config: RunConfig, stores: Mapping[str, Store], truth: Answers) -> Iterator[Answers]:
    """Fit ridge regression to features of the nodes, to those two hops around (Wu et al., 2019), and to both.

    Yields their answers, and those averaged over neighbors, which helps where these are alike; nothing where the
    features would fill the memory.
    """
    graphs = {split: [sample.graph for sample in store] for split, store in stores.items()}
    every = [graph for found in graphs.values() for graph in found]
    width = every[0].node_values.shape[1] + 1 + every[0].node_categories.shape[1] * _MOST_CATEGORIES
    if 3 * width * sum(graph.num_nodes for graph in every) > _MOST_ENTRIES:
        return
    known = ~np.isnan(truth["train"]).any(1)
    labels = _one_hot(config, truth["train"][known])
    neighbors = {split: [neighbors_of(graph) for graph in found] for split, found in graphs.items()}
    for hops in ((0,), (2,), (0, 1, 2)):
        inputs = {
            split: np.concatenate([_around(graph, S, hops) for graph, S in zip(found, neighbors[split], strict=True)])
            for split, found in graphs.items()
        }
        for penalty in _RIDGE:
            weights, shift = _ridge(inputs["train"][known], labels, penalty)
            answers = {split: rows @ weights + shift for split, rows in inputs.items()}
            averaged = {split: _average(neighbors[split], rows) for split, rows in answers.items()}
            for each in (answers, averaged):
                yield {split: _valid(config, rows) for split, rows in each.items()}


def _one_hot(config: RunConfig, targets: Rows) -> Rows:
    """(rows, outputs) labels as decoded answers would be."""
    if _kind(config) != "multiclass":
        return targets
    found: Rows = (targets == np.arange(config.task.num_outputs)).astype(np.float64)
    return found


def _valid(config: RunConfig, answers: Rows) -> Rows:
    """Return answers as probabilities where the task has classes."""
    if not config.task.has_classes:
        return answers
    clipped = np.clip(answers, 1e-6, 1 - 1e-6)
    return clipped / clipped.sum(1, keepdims=True) if _kind(config) == "multiclass" else clipped


def _common_neighbors(stores: Mapping[str, Store], truth: Answers) -> Answers:
    """Rate each query pair by the number of nodes that both are linked to."""
    counts = {split: np.concatenate([_in_common(s.graph) for s in store]) for split, store in stores.items()}
    known = truth["train"][:, 0]
    levels = np.arange(9)  # 8 or more are alike
    shares = []
    for level in levels:
        rows = known[np.minimum(counts["train"], levels[-1]) == level]
        shares.append((np.nansum(rows) + known[~np.isnan(known)].mean()) / (np.count_nonzero(~np.isnan(rows)) + 1))
    rising = np.maximum.accumulate(shares)
    return {
        split: np.clip(rising[np.minimum(found, levels[-1])] + 1e-6 * found, 1e-6, 1 - 1e-6)[:, None]
        for split, found in counts.items()
    }


def _in_common(graph: Graph) -> NDArray[np.int64]:
    """(R,) how many neighbors the two nodes of each query pair share."""
    A = neighbors_of(graph)
    A.data[:] = 1.0
    i, j = graph.edge_index if graph.query_index is None else graph.query_index
    found: NDArray[np.int64] = A[i].multiply(A[j]).sum(1).astype(np.int64)
    return found


def _ridge(X: Rows, y: Rows, penalty: float) -> tuple[Rows, Rows]:
    """Return (F, T) weights and (T,) shifts of a linear model of the rows."""
    center, middle = X.mean(0), y.mean(0)
    X, y = X - center, y - middle
    few = len(X) < X.shape[1]
    gram = X @ X.T if few else X.T @ X
    penalized = gram + max(penalty * np.square(X).sum() / len(X), 1e-9) * np.eye(len(gram))
    weights: Rows = X.T @ np.linalg.solve(penalized, y) if few else np.linalg.solve(penalized, X.T @ y)
    return weights, middle - center @ weights


def _average(neighbors: Sequence[Any], answers: Rows) -> Rows:
    ends = np.cumsum([S.shape[0] for S in neighbors])[:-1]
    parts = zip(neighbors, np.split(answers, ends), strict=True)
    return np.concatenate([spread(S, part, _FEW_HOPS) for S, part in parts])


def _around(graph: Graph, S: Any, hops: Sequence[int]) -> Rows:
    """(N, F) features of the nodes and their degree, averaged over neighbors so many times, one beside another."""
    degree = np.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    one_hot = (graph.node_categories[:, :, None] == np.arange(_MOST_CATEGORIES)).reshape(graph.num_nodes, -1)
    state = np.concatenate([graph.node_values, np.log1p(degree)[:, None], one_hot], 1).astype(np.float64)
    found = []
    for hop in range(max(hops) + 1):
        found += [state] if hop in hops else []
        state = S @ state
    return np.concatenate(found, 1)
