"""What tasks compute of predictions and targets while they train; missing labels are NaN and count nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from egt.data.batching.batch import GraphBatch

_MISSING = -100

_MOST = 10.0  # the logarithm of a variance, of standardized targets, is kept between minus this and this


def sum_known(
    loss: Callable[[Tensor, Tensor], Tensor], prediction: Tensor, target: Tensor, weight: Tensor | None = None
) -> Tensor:
    """Sum a loss of each entry over the labels that are not missing; each is weighted where there is a weight.

    The length of a selection depends on values, for which the host of a device would wait; zeros in place of what is
    missing do not. A CPU does not wait, and its sums keep the order, and so the last digits, of earlier versions.

    prediction, target, weight: (rows, T).
    """
    known = ~target.isnan()
    if target.device.type == "cpu":
        each = loss(prediction[known], target[known])
        return (each if weight is None else each * weight[known]).sum()
    each = loss(prediction, target.nan_to_num())
    return torch.where(known, each if weight is None else each * weight, 0.0).sum()


def each_known(loss: Callable[[Tensor, Tensor], Tensor], prediction: Tensor, target: Tensor) -> Tensor:
    """(rows, T) a loss of each entry, 0 where the label is missing. prediction, target: (rows, T)."""
    missing = target.isnan()
    return loss(prediction, target.masked_fill(missing, 0.0)).masked_fill(missing, 0.0)


def absolute(y_hat: Tensor, y: Tensor) -> Tensor:
    """|y_hat - y|."""
    return (y_hat - y).abs()


def squared(y_hat: Tensor, y: Tensor) -> Tensor:
    """(y_hat - y)^2."""
    return (y_hat - y).square()


def distance_from(y_hat: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """max(low - y_hat, 0) + max(y_hat - high, 0), with NaN for no bound. All are (rows, T)."""
    below, above = low.nan_to_num(nan=-math.inf) - y_hat, y_hat - high.nan_to_num(nan=math.inf)
    return functional.relu(below) + functional.relu(above)


def gaussian(prediction: Tensor, target: Tensor) -> Tensor:
    """Sum (log v + (y - m)^2 / v) / 2. prediction: (rows, 2 T), m and then log v; target: (rows, T)."""
    mean, log_variance = prediction.float().chunk(2, dim=1)
    log_variance = log_variance.clamp(-_MOST, _MOST)
    missing = target.isnan()
    errors = (target.masked_fill(missing, 0.0) - mean).square()
    each = (log_variance + errors * (-log_variance).exp()) / 2
    return each.masked_fill(missing, 0.0).sum()


def means_and_deviations(prediction: Tensor) -> Tensor:
    """Turn m and log v into m and sqrt(v). prediction: (rows, 2 T). Returns (rows, 2 T)."""
    mean, log_variance = prediction.float().chunk(2, dim=1)
    return torch.cat([mean, (log_variance.clamp(-_MOST, _MOST) / 2).exp()], dim=1)


def binary_entropy(logits: Tensor, target: Tensor, no: Tensor | None = None, yes: Tensor | None = None) -> Tensor:
    """Sum the cross-entropy of labels 0 and 1, which weigh (T,) `no` and `yes`. logits, target: (rows, T)."""
    weight = None if no is None or yes is None else torch.where(target > 0.5, yes, no)
    return sum_known(surprise, logits.float(), target, weight)


def surprise(logits: Tensor, target: Tensor) -> Tensor:
    """-log p(y), of labels 0 and 1. logits, target: (rows, T)."""
    return functional.binary_cross_entropy_with_logits(logits, target, reduction="none")


def entropy(logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Sum the cross-entropy of classes. logits: (rows, C), target: (rows,) class ids, weight: (C,)."""
    classes = target.nan_to_num(nan=_MISSING).long()
    return functional.cross_entropy(logits.float(), classes, weight, ignore_index=_MISSING, reduction="sum")


def scored_pairs(batch: GraphBatch, max_hops: int) -> Tensor:
    """(R,) flat rows of the real ordered pairs within nu hops, self pairs included."""
    near = batch.pair["distance"] <= max_hops
    if batch.layout.real_pairs is not None:
        near = near & batch.layout.real_pairs
    return near.flatten().nonzero().squeeze(-1)


def distance_targets(distance: Tensor, max_hops: int) -> Tensor:
    """Return the class of pairs within nu hops: at how many hop counts k in 1..nu one node is reachable from the other.

    DISCREPANCY: the paper's D^(nu) distinguishes a node from its neighbors; in the TensorFlow code, as here, distances
    0 and 1 share class nu, distance t in 2..nu is class nu + 1 - t, and the rest is ignored: class 0 has no target.

    distance: (R,) hops, at most nu = max_hops. Returns (R,) int64 in 1..nu.
    """
    return max_hops + 1 - distance.to(torch.int64).clamp(min=1)


def distance_loss(
    head: Callable[[Tensor], Tensor], e: Tensor, batch: GraphBatch, max_hops: int, num_virtual: int = 0
) -> Tensor:
    """Cross-entropy summed over the `scored_pairs` of all graphs of a batch.

    The head reads only these pairs: in molecules they are a third of all.

    DISCREPANCY: the paper does not say how pairs are reduced. In the TensorFlow code the objective is kappa times
    the mean over graphs of this sum; the caller divides by the number of graphs.

    Args:
        head: (pairs, d_e) -> (pairs, nu + 1) logits.
        e: (pairs..., d_e), with the pairs of virtual nodes if there are any.
        batch: the graphs, with their encoding "distance".
        max_hops: nu.
        num_virtual: q, how many nodes the readout put in front of each graph.
    """
    scored = batch.scored.get("distance")
    if scored is None:
        scored = scored_pairs(batch, max_hops)
    rows = scored
    if num_virtual:
        _, _, pair_rows = batch.layout.with_virtual(num_virtual)
        rows = pair_rows[scored]
    logits = head(e.flatten(0, -2).index_select(0, rows))
    classes = distance_targets(batch.pair["distance"].flatten()[scored], max_hops)
    return functional.cross_entropy(logits.float(), classes, reduction="sum")


def constant(values: tuple[float, ...], device: torch.device | str) -> Tensor:
    """Return numbers as a tensor, which travels to its device once; while a model is traced, a new one each time."""
    device = torch.device(device)
    return _tensor(values, device) if torch.compiler.is_compiling() else _cached_tensor(values, device)


def _tensor(values: tuple[float, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # a tensor first made in inference mode could not be used in training
        return torch.tensor(values, device=device)


_cached_tensor = cache(_tensor)
