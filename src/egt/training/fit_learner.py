"""Fits a `Learner` to molecules: trees by scikit-learn, where it is installed, and a kernel machine.

Of the learners that were compared on open tables (benchmarks/results/learners.md), test rows left out, this mean was
the best at ten seconds for 2,000 rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from threadpoolctl import threadpool_limits

from egt.data.molecule_descriptors import Described
from egt.inference.learner import Kernel, Learner, Rows, Trees
from egt.processors import num_processors

_TREES, _MOST_TREES = 100, 600  # trees of a target, and of all targets together
_MOST_ROWS = 20_000  # that trees learn from: more would take minutes
_KERNEL_ROWS = 5_000  # that the kernel machine learns from; its time grows with their cube
_PENALTY_ROWS = 1_000  # enough to choose the penalty on
_PENALTIES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_SHARES = (0.15, 0.5)  # of the descriptors in the kernel: activities follow fragments, physical properties both
_BINS, _RARE = 2048, 3  # a fragment in fewer molecules than this says nothing about others to trees


def fit_learner(molecules: Described, labels: Rows, names: tuple[str, ...], *, chances: bool, seed: int = 0) -> Learner:
    """Fit trees and a kernel machine to each target, on the molecules whose label is known.

    labels: (molecules, T) numbers, or 0 and 1 where `chances` are learned; NaN where one is missing. names: of the
    descriptors, behind which the molecules may have values of rows.
    """
    rng = np.random.default_rng(seed)
    bins = np.flatnonzero((molecules.counts(_BINS) > 0).sum(0) >= _RARE).astype(np.int32)
    with threadpool_limits(1, user_api="blas"):  # digits must not depend on the number of threads, which also spin
        kernel = _fit_kernel(molecules, labels, rng)
    learner = Learner(names, _BINS, bins, kernel, None, chances)
    return replace(learner, trees=_fit_trees(learner.features(molecules), labels, chances, rng, seed))


def _fit_trees(X: NDArray[np.float32], labels: Rows, chances: bool, rng: Any, seed: int) -> Trees | None:
    """Return trees of each target; trees of numbers, which for 0 and 1 are those of classes. X: (rows, features)."""
    try:
        from sklearn.ensemble import ExtraTreesRegressor
    except ImportError:
        return None
    num_targets = labels.shape[1]
    found = []
    for target in labels.T:
        known = rng.permutation(np.flatnonzero(~np.isnan(target)))[:_MOST_ROWS]
        forest = ExtraTreesRegressor(
            min(_TREES, max(20, _MOST_TREES // num_targets)),
            max_features="sqrt" if chances else 0.2,
            min_samples_leaf=2 if chances else 1,
            n_jobs=num_processors(),
            random_state=seed,
        )
        if len(known):
            forest.fit(X[known], target[known])
        else:
            forest.fit(X[:1], [0.5 if chances else 0.0])  # nothing is known of this target
        found.append([tree.tree_ for tree in forest.estimators_])
    every = [tree for trees in found for tree in trees]
    return Trees(
        np.array([[tree.node_count for tree in trees] for trees in found], np.int32),
        np.concatenate([np.maximum(tree.feature, -1) for tree in every]).astype(np.int16),
        np.concatenate([_values(tree) for tree in every]),
    )


def _values(tree: Any) -> NDArray[np.float32]:
    """(nodes,) thresholds, rounded down so that the same float32 are below, and the answers of leaves."""
    inner = np.flatnonzero(tree.children_left >= 0)
    assert (tree.children_left[inner] == inner + 1).all(), "trees are built in depth-first order"
    thresholds = tree.threshold.astype(np.float32)
    thresholds = np.where(thresholds > tree.threshold, np.nextafter(thresholds, np.float32(-np.inf)), thresholds)
    found: NDArray[np.float32] = np.where(tree.children_left < 0, tree.value[:, 0, 0], thresholds).astype(np.float32)
    return found


def _fit_kernel(molecules: Described, labels: Rows, rng: Any) -> Kernel:
    """Return the kernel machine of all targets; share and penalty are chosen by leaving out one molecule at a time."""
    num_targets = labels.shape[1]
    most = max(int(_KERNEL_ROWS / num_targets ** (1 / 3)), _PENALTY_ROWS)
    chosen = np.sort(rng.permutation(np.flatnonzero(~np.isnan(labels).all(1)))[:most])
    keys = [molecules.keys[k] for k in chosen]
    values, labels = molecules.values[chosen], labels[chosen]
    vocabulary, places = np.unique(np.concatenate([*keys, np.zeros(0, np.int64)]), return_inverse=True)
    scales = values.std(0) if len(values) else np.zeros(values.shape[1], np.float32)
    kernel = Kernel(
        vocabulary,
        np.cumsum([0, *map(len, keys)]).astype(np.int32),
        places.astype(np.int32),
        values.mean(0) if len(values) else scales,
        np.where(scales > 1e-6, scales, 0).astype(np.float32),
        np.zeros(values.shape, np.float16),
        np.zeros(labels.shape),
        np.zeros(num_targets),
        np.zeros(num_targets),
    )
    kernel = replace(kernel, values=kernel.standardize(values))
    alike, near = kernel.parts(Described(keys, values))
    weights, means, shares = np.zeros(labels.shape), np.zeros(num_targets), np.zeros(num_targets)
    for k, target in enumerate(labels.T):
        known = np.flatnonzero(~np.isnan(target))
        if len(known):
            rows = np.ix_(known, known)
            means[k] = target[known].mean()
            weights[known, k], shares[k] = _solve(alike[rows], near[rows], target[known] - means[k], rng)
    return replace(kernel, weights=weights, means=means, shares=shares)


def _solve(alike: Rows, near: Rows, y: Rows, rng: Any) -> tuple[Rows, float]:
    """(n,) (K + lambda I)^-1 y, and s in K = (1 - s) alike + s near, with the best s and lambda.

    alike, near: (n, n); y: (n,).
    """
    some = rng.permutation(len(y))[:_PENALTY_ROWS]
    rows, errors = np.ix_(some, some), {}
    for share in _SHARES:
        sizes, vectors = eigh((1 - share) * alike[rows] + share * near[rows])
        along, squares = vectors.T @ y[some], np.square(vectors)
        for penalty in _PENALTIES:
            inverse = 1 / (sizes + penalty)  # in the eigenvectors
            residuals = vectors @ (inverse * along) / (squares @ inverse)  # of each molecule without it
            errors[share, penalty] = np.square(residuals).mean()
    share, penalty = min(errors, key=errors.__getitem__)
    K = (1 - share) * alike + share * near
    return cho_solve(cho_factor(K + penalty * np.eye(len(y)), lower=True), y), share
