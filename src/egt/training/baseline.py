"""A cheap baseline beside a trained model, fitted to the same rows: what the model has to beat.

Molecules have a random forest on Morgan counts and physical-chemical descriptors (Svetnik et al., 2003), nodes label
propagation (Zhou et al., 2004) and a linear model of propagated features (Wu et al., 2019), links their common
neighbors. Everything has the mean of the training labels, or the share of each class. Validation chooses among them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_task
from egt.config.run import RunConfig
from egt.data.encodings.encoding import Sample
from egt.data.molecules import parse_or_none
from egt.data.propagation import linear_models, neighbors_of, spread
from egt.data.source import Source
from egt.data.store import Store
from egt.graph import Graph
from egt.inference.evaluation import Evaluation, evaluate_answers
from egt.processors import num_processors

Rows = NDArray[np.float64]
Answers = Mapping[str, Rows]
"""split -> (rows, outputs) decoded answers, in the order of its graphs."""

_TREES, _MOST_TREES = 300, 1200
"""Trees of a forest, and of the forests of all targets together."""

_MOST_ROWS = 20_000
"""Of the training split that a forest learns from: more would take minutes."""

_BITS, _RARE = 2048, 3
"""A fragment in fewer molecules than this says nothing about others."""

_HOPS = 50


@dataclass(frozen=True)
class Baseline:
    """What was measured.

    Fields:
        metrics: split -> metric -> value, as those of a model.
    """

    name: str
    metrics: Mapping[str, Mapping[str, float]]
    seconds: float


def measure_baseline(
    config: RunConfig, source: Source, stores: Mapping[str, Store], labels: Sequence[Rows]
) -> Baseline | None:
    """Return the best of the baselines that the data allows, as validation says; the first split without one.

    None for a task of a plug-in that does not say what an uninformed model answers.

    Args:
        config: The run.
        source: Its data.
        stores: split -> its graphs.
        labels: Those of training, each (rows, label_width).
    """
    began = time.monotonic()
    held_out = [split for split in ("val", "test") if split in stores]
    truth = {split: _labels(config, stores[split]) for split in stores}
    task, metric = build_task(config), config.task.deciding_metric
    best: tuple[str, dict[str, Evaluation]] | None = None
    for name, answers in _candidates(config, source, stores, truth, labels):
        found = {
            split: evaluate_answers(task, answers[split], truth[split], num_graphs=len(stores[split]))
            for split in held_out
        }
        if best is None or _is_better(config, found[held_out[0]].metrics[metric], best[1][held_out[0]].metrics[metric]):
            best = name, found
    if best is None:
        return None
    name, found = best
    return Baseline(name, {split: each.metrics for split, each in found.items()}, time.monotonic() - began)


def _is_better(config: RunConfig, one: float, other: float) -> bool:
    return (one > other) if config.task.higher_is_better else (one < other)


def _candidates(
    config: RunConfig, source: Source, stores: Mapping[str, Store], truth: Answers, labels: Sequence[Rows]
) -> Iterator[tuple[str, Answers]]:
    """Yield the baselines for the level and the task of a run, by name."""
    kind, level = _kind(config), config.model.level
    constant = config.task.uninformed(iter(labels))
    if constant is not None:
        answer = build_task(config).decode(torch.tensor(constant)[None]).numpy()
        name = "most common class" if config.task.has_classes else "mean of the training labels"
        yield name, {split: np.repeat(answer, len(rows), 0) for split, rows in truth.items()}
    if kind is None:
        return
    truth = {split: config.task.numbers(rows) for split, rows in truth.items()}  # of bounds, too
    if level == "graph" and kind != "multiclass" and _has_forest(source):
        yield "random forest", _forest(kind, source, stores, truth)
    elif level == "node":
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


def _has_forest(source: Source) -> bool:
    try:
        import rdkit  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError:
        return False
    return source.smiles() is not None


def _forest(kind: str, source: Source, stores: Mapping[str, Store], truth: Answers) -> Answers:
    """Fit a forest for each target to the molecules whose label is known."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    smiles = source.smiles() or ()
    inputs = {split: _describe_all([str(smiles[row]) for row in store.rows], store) for split, store in stores.items()}
    common = (inputs["train"] > 0).sum(0) >= _RARE
    common[_BITS:] = True
    inputs = {split: rows[:, common] for split, rows in inputs.items()}
    rng, num_targets = np.random.default_rng(0), truth["train"].shape[1]
    options: dict[str, Any] = {
        "n_estimators": min(_TREES, max(50, _MOST_TREES // num_targets)),
        "n_jobs": num_processors(),
        "random_state": 0,
    }
    columns: dict[str, list[Rows]] = {split: [] for split in stores}
    for k in range(num_targets):
        known = np.flatnonzero(~np.isnan(truth["train"][:, k]))
        known = rng.permutation(known)[:_MOST_ROWS]
        classes = kind == "binary"
        forest: Any = (
            RandomForestClassifier(max_features="sqrt", min_samples_leaf=2, **options)
            if classes
            else RandomForestRegressor(max_features=1 / 3, **options)
        )
        forest.fit(inputs["train"][known], truth["train"][known, k])
        for split, rows in inputs.items():
            columns[split].append(_yes(forest, rows) if classes else forest.predict(rows))
    return {split: np.stack(found, 1) for split, found in columns.items()}


def _yes(forest: Any, rows: Rows) -> Rows:
    probabilities: Rows = forest.predict_proba(rows)
    return probabilities[:, 1] if probabilities.shape[1] == 2 else np.full(len(rows), float(forest.classes_[0]))


def _describe_all(smiles: Sequence[str], store: Sequence[Sample]) -> Rows:
    """(molecules, features) counts of Morgan fragments, descriptors, and what the table says about the whole row."""
    described = np.stack([describe(text) for text in smiles])
    of_rows = np.stack([sample.graph.graph_values for sample in store])
    return np.concatenate([described, of_rows], 1)


def describe(smiles: str) -> NDArray[np.float32]:
    """(2048 + 14,) how often each Morgan fragment of up to two bonds occurs, and physical-chemical descriptors.

    What RDKit does not accept is zero.
    """
    from rdkit.Chem import Crippen, Descriptors, GetFormalCharge, MolSurf, rdFingerprintGenerator, rdMolDescriptors

    molecule = parse_or_none(smiles)
    if molecule is None:
        return np.zeros(_BITS + 14, np.float32)
    counts = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=_BITS).GetCountFingerprintAsNumPy(molecule)
    functions: tuple[Callable[[Any], float], ...] = (
        Descriptors.MolWt,  # type: ignore[attr-defined]
        Crippen.MolLogP,  # type: ignore[attr-defined]
        Crippen.MolMR,  # type: ignore[attr-defined]
        MolSurf.TPSA,  # type: ignore[attr-defined]
        MolSurf.LabuteASA,  # type: ignore[attr-defined]
        rdMolDescriptors.CalcNumHBD,
        rdMolDescriptors.CalcNumHBA,
        rdMolDescriptors.CalcNumRotatableBonds,
        rdMolDescriptors.CalcNumRings,
        rdMolDescriptors.CalcNumAromaticRings,
        rdMolDescriptors.CalcFractionCSP3,
        rdMolDescriptors.CalcNumHeavyAtoms,
        rdMolDescriptors.CalcNumHeteroatoms,
        GetFormalCharge,
    )
    return np.concatenate([counts, [function(molecule) for function in functions]]).astype(np.float32)


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
    graphs = {split: [sample.graph for sample in store] for split, store in stores.items()}
    known = np.asarray(~np.isnan(truth["train"]).any(1))
    labels = _one_hot(config, truth["train"])
    for _, answers in linear_models(graphs, labels, known):
        yield {split: _valid(config, rows) for split, rows in answers.items()}


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
