"""How much each node and each pair matters for one prediction: by what attention carries, and by what gradients say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egt.analysis.copies import Question
from egt.graph import Graph, IntArray
from egt.inference.attention_capture import Attention

Floats = NDArray[np.float64]
STEPS = (32, 128, 512)
"""Of integrated gradients."""
MOST_PAIRS = 3_000_000
"""No more steps are tried for a graph than together have so many pairs: some seconds."""
LARGEST_GAP = 0.1
"""Values that miss what they explain by more than this part of their size are not believed."""


@dataclass(frozen=True, eq=False)
class Importance:
    """What one method says.

    Fields:
        method: its name.
        nodes: (N,) of the nodes.
        pairs: (P,) of the pairs.
        signed: whether a negative value means that the part lowers the prediction.
        gap: by how much of their size the values miss what they should add up to; 0 where they need not.
    """

    method: str
    nodes: Floats
    pairs: Floats
    signed: bool
    gap: float = 0.0

    @property
    def adds_up(self) -> bool:
        """Whether the values add up to what they explain."""
        return abs(self.gap) <= LARGEST_GAP

    def of_edges(self, members: IntArray) -> Floats:
        """Return the importance of edges, (E,): the sum over the pairs of each. members: (P,) edge of a pair or -1."""
        kept = members >= 0
        sums = np.bincount(members[kept], self.pairs[kept], minlength=int(members.max(initial=-1)) + 1)
        return sums.astype(np.float64)


def edges_of(graph: Graph, pair_index: IntArray) -> tuple[IntArray, IntArray]:
    """Return the edges of a graph without their direction, and the edge of each pair.

    Returns:
        (2, E) ends with i <= j; (P,) the number of the edge that a pair belongs to, -1 for pairs without one.
    """
    low, high = np.sort(graph.edge_index, axis=0)
    codes = np.unique(low * graph.num_nodes + high)
    asked = np.sort(pair_index, axis=0)
    pair_codes = asked[0] * graph.num_nodes + asked[1]
    place = np.searchsorted(codes, pair_codes)
    found = np.isin(pair_codes, codes)
    return np.stack(np.divmod(codes, graph.num_nodes)), np.where(found, place, -1)


def integrated_gradients(question: Question, steps: Sequence[int] = STEPS) -> Importance:
    """Return the integral of the gradient from no input (all embeddings zero) to the input, times the embeddings.

    Sundararajan et al. 2017. A zero embedding is what a model gives to a category that it never saw. The values of all
    nodes and pairs add up to the prediction minus the one for no input, up to the error of the rule: midpoints of t,
    with t^4 of the input, as layer norms make most of the way in the first hundredth of it.

    Args:
        question: whose answer is explained.
        steps: how many, and how many more if the values do not add up and the graph is not too large.
    """
    value, nothing = question.ends()
    for count in steps:
        t = (np.arange(count) + 0.5) / count
        nodes, pairs = question.gradients((t**4).astype(np.float32), (4 * t**3 / count).astype(np.float32))
        size = float(np.abs(nodes).sum() + np.abs(pairs).sum())
        gap = float(nodes.sum() + pairs.sum() - (value - nothing))
        if abs(gap) <= 0.02 * size or 4 * count * len(pairs) > MOST_PAIRS:
            break
    return Importance("gradients", nodes, pairs, signed=True, gap=gap / max(size, 1e-30))


def rollout(found: Attention, readers: Floats) -> Importance:
    """Follow what is read at the end back through the layers to the nodes that it came from.

    A layer hands node i the share 1 / (1 + w_i) of what it had and A_ij / (1 + w_i) of node j, with
    A_ij = mean over heads of s_i A_tilde_ij (gates and scalers included) and w_i = sum_j A_ij. Abnar and Zuidema 2020,
    except that closed gates let less pass.

    Args:
        found: the attention of the graph.
        readers: (n,) how much of each node, virtual ones first, is read at the end; adds up to 1.

    Returns:
        Of each node its share of the prediction's sources; of each pair (i, j) what went from j to i in all layers.
    """
    i, j = found.pair_index
    size = found.num_nodes
    pairs = np.zeros(len(i))
    for product, scalers in zip(found.product[::-1], found.scalers[::-1], strict=True):
        weight = (product * scalers[:, i]).mean(0).astype(np.float64)  # (P,)
        kept = 1 / (1 + np.bincount(i, weight, minlength=size))  # (n,)
        flow = readers[i] * kept[i] * weight
        pairs += np.where(i != j, flow, 0.0)
        readers = readers * kept + np.bincount(j, flow, minlength=size)
    q = found.num_virtual
    real = (i >= q) & (j >= q)
    return Importance("rollout", readers[q:], pairs[real], signed=False)


def readers_of(found: Attention, level: str, row: int, pairs: IntArray) -> Floats:
    """Return how much of each node is read at the end for one row of the prediction, (n,).

    Args:
        found: the attention of the graph.
        level: of the prediction.
        row: of the prediction.
        pairs: (2, R) the edges or query pairs that are asked about.
    """
    q, readers = found.num_virtual, np.zeros(found.num_nodes)
    if level == "graph":
        readers[: q or None] = 1.0
    elif level == "node":
        readers[q + row] = 1.0
    else:
        readers[q + pairs[:, row]] = 1.0
    shares: Floats = readers / readers.sum()
    return shares
