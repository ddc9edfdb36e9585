"""How selective each head is: entropy, sparsity, gates and scalers, averaged over all nodes of all graphs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from egt.analysis.numbers import Columns
from egt.inference.attention_capture import Attention

_FAINT = 0.1
"""A weight below this part of an even share counts as none."""


@dataclass(eq=False)
class HeadStatistics:
    """Sums over the nodes (and pairs) of all graphs, each (L, H); virtual nodes are looked at, but do not look.

    Fields:
        entropy: of the softmax of each node, in nats.
        faint: pairs whose A_tilde is below a tenth of an even share.
        gates: the gates of all pairs.
        open_gates: pairs whose gate is above one half.
        scalers: of all nodes.
        nodes: how many look.
        pairs: that they look at.
    """

    entropy: NDArray[np.float64]
    faint: NDArray[np.float64]
    gates: NDArray[np.float64]
    open_gates: NDArray[np.float64]
    scalers: NDArray[np.float64]
    nodes: int = 0
    pairs: int = 0

    @classmethod
    def empty(cls, num_layers: int, num_heads: int) -> HeadStatistics:
        """Return the statistics of no graph."""
        entropy, faint, gates, open_gates, scalers = np.zeros((5, num_layers, num_heads))
        return cls(entropy, faint, gates, open_gates, scalers)

    def add(self, found: Attention) -> None:
        """Add a graph."""
        i = found.pair_index[0]  # ascending: a slice is no copy
        looking = slice(int(np.searchsorted(i, found.num_virtual)), None)
        softmax, gates, product = (x[..., looking] for x in (found.softmax, found.gates, found.product))
        even = 1 / np.bincount(i, minlength=found.num_nodes)[i][looking]
        self.entropy -= (softmax * np.log(np.maximum(softmax, 1e-30))).sum(-1)
        self.faint += (product < _FAINT * even).sum(-1)
        self.gates += gates.sum(-1)
        self.open_gates += (gates > 0.5).sum(-1)
        self.scalers += found.scalers[..., found.num_virtual :].sum(-1)
        self.nodes += found.graph.num_nodes
        self.pairs += softmax.shape[-1]

    @cached_property
    def mean_entropy(self) -> NDArray[np.float64]:
        """(L, H) mean entropy of a node's softmax, in nats."""
        return self.entropy / max(self.nodes, 1)

    @cached_property
    def attended(self) -> NDArray[np.float64]:
        """(L, H) how many nodes a node effectively looks at: the exponential of the entropy."""
        return np.asarray(np.exp(self.mean_entropy))

    @cached_property
    def sparsity(self) -> NDArray[np.float64]:
        """(L, H) share of the pairs with next to no weight."""
        return self.faint / max(self.pairs, 1)

    @cached_property
    def gate_density(self) -> NDArray[np.float64]:
        """(L, H) mean gate."""
        return self.gates / max(self.pairs, 1)

    def columns(self, layers: tuple[int, ...], reach: NDArray[np.float64]) -> Columns:
        """Return a row for each layer and head, both from 1; reach: (L, H) mean hops of A_tilde."""
        places = [(layer, head) for layer in range(len(layers)) for head in range(self.entropy.shape[1])]
        values = {
            "reach": reach,
            "entropy": self.mean_entropy,
            "attended_nodes": self.attended,
            "sparsity": self.sparsity,
            "gate_density": self.gate_density,
            "open_gates": self.open_gates / max(self.pairs, 1),
            "scaler": self.scalers / max(self.nodes, 1),
        }
        numbers = {name: [float(value[place]) for place in places] for name, value in values.items()}
        return {
            "layer": [layers[layer] + 1 for layer, _ in places],
            "head": [head + 1 for _, head in places],
            **numbers,
        }
