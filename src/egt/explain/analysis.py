"""Numbers as files: a table is columns by name, kept as CSV and as Parquet.

How far nodes look: attention by the number of hops between who looks and who is looked at.

How selective each head is: entropy, sparsity, gates and scalers, averaged over all nodes of all graphs.

How the edge channel changes from layer to layer, for edges and for all other pairs.

The attention of a model over a whole data set, in numbers, with some graphs kept to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.encodings.distances import LARGEST_MAX_HOPS, ShortestPaths
from egt.errors import DataError, RunError
from egt.files import write_atomically
from egt.graph import IntArray
from egt.inference.attention_capture import Attention

Columns = Mapping[str, Sequence[Any]]


def write_columns(folder: Path, name: str, columns: Columns) -> list[Path]:
    """Write a table as NAME.csv and NAME.parquet; returns the files."""
    import pyarrow
    from pyarrow import csv, parquet

    table = pyarrow.table({key: list(values) for key, values in columns.items()})
    files = [folder / f"{name}.csv", folder / f"{name}.parquet"]
    try:
        with write_atomically(files[0]) as draft:
            csv.write_csv(table, draft)
        with write_atomically(files[1]) as draft:
            parquet.write_table(table, draft)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error}); choose another folder (-o)") from error
    return files


UNREACHABLE = LARGEST_MAX_HOPS + 1

TO_VIRTUAL, FROM_VIRTUAL = UNREACHABLE + 1, UNREACHABLE + 2

_CODES = FROM_VIRTUAL + 1

_NAMES = {UNREACHABLE: "unreachable", TO_VIRTUAL: "to virtual", FROM_VIRTUAL: "from virtual"}

Floats = NDArray[np.float64]


def pair_hops(found: Attention) -> IntArray:
    """Return the hops of each pair, (P,), along edges from i to j; one of the codes above where there are none."""
    pairs = found.pair_index - found.num_virtual
    i, j = pairs
    paths, real = ShortestPaths(LARGEST_MAX_HOPS), (i >= 0) & (j >= 0)
    hops: IntArray = np.where(i < 0, FROM_VIRTUAL, TO_VIRTUAL)
    if len(i) < found.num_nodes**2:  # a list of pairs, of a graph that may be too large for a matrix
        hops[real] = paths.at(found.graph, pairs[:, real])
    else:
        hops[real] = paths(found.graph)[i[real], j[real]]
    return hops


@dataclass(eq=False)
class HopProfile:
    """Sums over all nodes of all graphs, from which the profile is made.

    Fields:
        softmax: (L, H, codes) sum of the softmax over all pairs at a hop.
        product: (L, H, codes) the same of A_tilde.
        even: (codes) the same if every node looked at all nodes alike.
        nodes: number of nodes i that look, virtual ones left out.
        virtual: number of virtual ones.
    """

    softmax: Floats
    product: Floats
    even: Floats
    nodes: int = 0
    virtual: int = 0

    @classmethod
    def empty(cls, num_layers: int, num_heads: int) -> HopProfile:
        """Return the profile of no graph."""
        shape = num_layers, num_heads, _CODES
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(_CODES))

    def add(self, found: Attention, hops: IntArray) -> None:
        """Add a graph; `hops` are its `pair_hops`."""
        codes, place = np.unique(hops, return_inverse=True)
        of_code = np.equal.outer(place, np.arange(len(codes))).astype(np.float32)  # (P, codes)
        self.softmax[..., codes] += found.softmax @ of_code
        self.product[..., codes] += found.product @ of_code
        keys = np.bincount(found.pair_index[0], minlength=found.num_nodes)[found.pair_index[0]]
        self.even[codes] += (1 / keys) @ of_code
        self.nodes += found.graph.num_nodes
        self.virtual += found.num_virtual

    @cached_property
    def codes(self) -> list[int]:
        """The hops that occur, in order."""
        return np.flatnonzero(self.even).tolist()

    @property
    def hops(self) -> list[int]:
        """The numbers of hops that occur."""
        return [code for code in self.codes if code < UNREACHABLE]

    def mean(self, sums: Floats) -> Floats:
        """Return the sum over nodes j at each hop, (..., codes), averaged over the nodes i that look."""
        lookers = np.full(_CODES, max(self.nodes, 1))
        lookers[FROM_VIRTUAL] = max(self.virtual, 1)
        found: Floats = sums / lookers
        return found

    def reach(self, sums: Floats) -> Floats:
        """Return the mean number of hops of the weight that goes to nodes within reach. sums: (..., codes)."""
        within = sums[..., self.hops]
        total: Floats = within.sum(-1)
        reached: Floats = within @ np.array(self.hops, np.float64) / np.where(total > 0, total, 1.0)
        return reached

    def within(self, sums: Floats, hops: int) -> Floats:
        """Return the share of the weight to nodes within reach that goes at most so many hops. sums: (..., codes)."""
        total = sums[..., self.hops].sum(-1)
        near: Floats = sums[..., [hop for hop in self.hops if hop <= hops]].sum(-1)
        return near / np.where(total > 0, total, 1.0)

    def columns(self, layers: tuple[int, ...]) -> Columns:
        """Return the profile as a table: a row for each layer and hop, layers from 1."""
        rows = [(number, code) for number in range(len(layers)) for code in self.codes]
        product, softmax = self.mean(self.product.mean(1)), self.mean(self.softmax.mean(1))
        even = self.mean(self.even)
        return {
            "layer": [layers[number] + 1 for number, _ in rows],
            "hop": [_NAMES.get(code, str(code)) for _, code in rows],
            "product": [float(product[row]) for row in rows],
            "softmax": [float(softmax[row]) for row in rows],
            "even": [float(even[code]) for _, code in rows],
        }


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


KINDS = ("self", "edge", "other")
"""A node with itself, an edge, and any other pair of nodes; virtual nodes count nowhere."""


@dataclass(eq=False)
class EdgeEvolution:
    """Sums over the pairs of all graphs, each (D + 1, kinds); D layers.

    Fields:
        norm: |e_l|.
        change: |e_l - e_(l-1)|, 0 before the first layer.
        likeness: cosine of e_l and e_0.
        pairs: (kinds) how many.
    """

    norm: NDArray[np.float64]
    change: NDArray[np.float64]
    likeness: NDArray[np.float64]
    pairs: NDArray[np.int64]

    @classmethod
    def empty(cls, num_layers: int) -> EdgeEvolution:
        """Return the sums of no graph."""
        shape = num_layers + 1, len(KINDS)
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(len(KINDS), np.int64))

    def add(self, found: Attention, hops: IntArray) -> None:
        """Add a graph; `hops` are its `pair_hops`."""
        real = hops < TO_VIRTUAL
        kind = np.minimum(hops[real], 2)
        of_kind = np.equal.outer(kind, np.arange(len(KINDS)))  # (P, kinds)
        e = found.edges[:, real]  # (D + 1, P, d_e)
        norm = np.linalg.norm(e, axis=-1)
        safe = np.maximum(norm, 1e-12)
        self.norm += norm @ of_kind
        self.change[1:] += np.linalg.norm(np.diff(e, axis=0), axis=-1) @ of_kind
        self.likeness += ((e * e[:1]).sum(-1) / (safe * safe[:1])) @ of_kind
        self.pairs += of_kind.sum(0)

    def mean(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean over pairs of each kind, (D + 1, kinds)."""
        return sums / np.maximum(self.pairs, 1)

    def relative_change(self) -> NDArray[np.float64]:
        """Return the change in each layer as a part of the length that entered it, (D, kinds)."""
        found: NDArray[np.float64] = self.change[1:] / np.maximum(self.norm[:-1], 1e-12)
        return found

    def columns(self) -> Columns:
        """Return a row for each layer (0 is what enters the first) and kind of pair."""
        places = [(layer, kind) for layer in range(len(self.norm)) for kind in range(len(KINDS))]
        change = np.concatenate([np.zeros((1, len(KINDS))), self.relative_change()])
        values = {"norm": self.mean(self.norm), "change": change, "likeness_to_input": self.mean(self.likeness)}
        return {
            "layer": [layer for layer, _ in places],
            "pairs": [KINDS[kind] for _, kind in places],
            **{name: [float(value[place]) for place in places] for name, value in values.items()},
        }


@dataclass(eq=False)
class Analysis:
    """What was found.

    Fields:
        layers: (L) numbers of the layers that attend, from 0.
        hops: how far they look.
        heads: how selective their heads are.
        edges: how the edge channel changes.
        shown: some graphs by their row, with everything about them.
        graphs: how many were looked at.
        unread: how many rows could not be read.
    """

    layers: tuple[int, ...]
    hops: HopProfile
    heads: HeadStatistics
    edges: EdgeEvolution
    shown: dict[int, Attention]
    graphs: int = 0
    unread: int = 0

    @classmethod
    def like(cls, found: Attention) -> Analysis:
        """Return an analysis of no graph, with the sizes of a model."""
        num_layers, num_heads, _ = found.product.shape
        sizes = num_layers, num_heads
        edges = EdgeEvolution.empty(len(found.edges) - 1)
        return cls(found.layers, HopProfile.empty(*sizes), HeadStatistics.empty(*sizes), edges, {})

    def add(self, found: Attention) -> None:
        """Add a graph."""
        hops = pair_hops(found)
        self.hops.add(found, hops)
        self.heads.add(found)
        self.edges.add(found, hops)
        self.graphs += 1


def analyze(attentions: Iterable[Attention | None], show: Sequence[int] = ()) -> Analysis:
    """Return the analysis of graphs that are seen one after another and forgotten, except those to be shown.

    Args:
        attentions: one per row of the data, None where it could not be read.
        show: rows of graphs to keep; without any, the first that could be read.
    """
    analysis: Analysis | None = None
    unread = rows = 0
    for row, found in enumerate(attentions):
        rows += 1
        if found is None:
            unread += 1
            continue
        analysis = analysis or Analysis.like(found)
        analysis.add(found)
        if row in show or not (show or analysis.shown):
            analysis.shown[row] = found
    if analysis is None:
        raise DataError("there is no graph to look at: none of the rows could be read")
    if missing := [row for row in show if row not in analysis.shown]:
        raise DataError(
            f"--show {missing[0]}: there is no such row, or it could not be read; the rows are 0..{rows - 1}"
        )
    analysis.unread = unread
    return analysis
