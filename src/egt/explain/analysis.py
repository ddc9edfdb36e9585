"""The attention of a model over a whole data set, in numbers: reach, selectivity, and change of the edge channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import csv, parquet

from egt.data.encodings.encoding import LARGEST_MAX_HOPS, ShortestPaths
from egt.errors import DataError
from egt.files import write_result
from egt.graph import IntArray
from egt.inference.attention_capture import Attention

Columns = Mapping[str, Sequence[Any]]
Floats = NDArray[np.float64]
UNREACHABLE = LARGEST_MAX_HOPS + 1
TO_VIRTUAL, FROM_VIRTUAL = UNREACHABLE + 1, UNREACHABLE + 2
_CODES = FROM_VIRTUAL + 1
_NAMES = {UNREACHABLE: "unreachable", TO_VIRTUAL: "to virtual", FROM_VIRTUAL: "from virtual"}
KINDS = ("self", "edge", "other")  # a node with itself, an edge, any other pair; virtual nodes count nowhere

_FAINT = 0.1  # a weight below this part of an even share counts as none


def write_columns(folder: Path, name: str, columns: Columns) -> list[Path]:
    """Write a table as NAME.csv and NAME.parquet, and return both paths."""
    table = pyarrow.table({key: list(values) for key, values in columns.items()})
    files = [folder / f"{name}.csv", folder / f"{name}.parquet"]
    for file, write in zip(files, (csv.write_csv, parquet.write_table), strict=True):
        with write_result(file) as draft:
            write(table, draft)
    return files


def _cross(rows: tuple[str, Sequence[Any]], columns: tuple[str, Sequence[Any]], **values: Floats) -> Columns:
    """Return a table with a row for each entry of some matrices, all of one shape, whose axes have names and labels."""
    return {
        rows[0]: [label for label in rows[1] for _ in columns[1]],
        columns[0]: [label for _ in rows[1] for label in columns[1]],
        **{name: matrix.ravel().tolist() for name, matrix in values.items()},
    }


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


class HopProfile:
    """Attention by the number of hops between query and key, as sums over all nodes of all graphs.

    softmax, product: (L, H, codes) sums of the softmax, and of the softmax times the gates, over all pairs at a hop.
    even_product: (L, H, codes) the same as `product` if every node attended to all nodes equally, through these gates.
    even: (codes) the same as `softmax` for equal attention.
    nodes, virtual: numbers of real and of virtual nodes as queries.
    """

    def __init__(self, num_layers: int, num_heads: int) -> None:
        self.softmax, self.product, self.even_product = np.zeros((3, num_layers, num_heads, _CODES))
        self.even = np.zeros(_CODES)
        self.nodes = self.virtual = 0

    def add(self, found: Attention, hops: IntArray) -> None:
        """Add a graph; `hops` are its `pair_hops`."""
        codes, place = np.unique(hops, return_inverse=True)
        of_code = np.equal.outer(place, np.arange(len(codes))).astype(np.float32)  # (P, codes)
        share = 1 / np.bincount(found.pair_index[0], minlength=found.num_nodes)[found.pair_index[0]]
        self.softmax[..., codes] += found.softmax @ of_code
        self.product[..., codes] += found.product @ of_code
        self.even_product[..., codes] += (found.gates * share) @ of_code
        self.even[codes] += share @ of_code
        self.nodes += found.graph.num_nodes
        self.virtual += found.num_virtual

    @property
    def codes(self) -> list[int]:
        """The hops that occur, in order, then the codes for pairs without any."""
        return np.flatnonzero(self.even).tolist()

    @property
    def hops(self) -> list[int]:
        """The numbers of hops that occur."""
        return [code for code in self.codes if code < UNREACHABLE]

    @property
    def names(self) -> list[str]:
        """The names of `codes`."""
        return [_NAMES.get(code, str(code)) for code in self.codes]

    def mean(self, sums: Floats) -> Floats:
        """Return the weight on keys at each hop, averaged over queries. sums: (..., codes)."""
        queries = np.full(_CODES, max(self.nodes, 1))
        queries[FROM_VIRTUAL] = max(self.virtual, 1)
        means: Floats = sums / queries
        return means

    def reach(self, sums: Floats) -> Floats:
        """Return the mean number of hops of the weight on reachable nodes. sums: (..., codes)."""
        within = sums[..., self.hops]
        total: Floats = within.sum(-1)
        reached: Floats = within @ np.array(self.hops, np.float64) / np.where(total > 0, total, 1.0)
        return reached

    def within(self, sums: Floats, hops: int) -> Floats:
        """Return the share of the weight on reachable nodes that is at most so many hops away. sums: (..., codes)."""
        total = sums[..., self.hops].sum(-1)
        near: Floats = sums[..., [hop for hop in self.hops if hop <= hops]].sum(-1)
        return near / np.where(total > 0, total, 1.0)

    def columns(self, layers: Sequence[int]) -> Columns:
        """Return the means over heads as a table with a row for each layer (from 1) and hop."""
        means = {name: self.mean(getattr(self, name).mean(1)) for name in ("product", "softmax", "even_product")}
        means["even"] = np.broadcast_to(self.mean(self.even), means["product"].shape)
        numbers = [layer + 1 for layer in layers]
        chosen = {name: means[name][:, self.codes] for name in ("product", "softmax", "even", "even_product")}
        return _cross(("layer", numbers), ("hop", self.names), **chosen)


class HeadStatistics:
    """How selective each head is, as sums over nodes and pairs of all graphs, each (L, H).

    Virtual nodes count as keys, not as queries.

    entropy: of the softmax of each node, in nats.
    faint: the number of pairs whose A_tilde is below a tenth of an even share.
    gates: the gates of all pairs.
    opened: the number of pairs whose gate is above one half.
    scalers: the centrality scalers of all nodes.
    nodes, pairs: how many were added.
    """

    def __init__(self, num_layers: int, num_heads: int) -> None:
        self.entropy, self.faint, self.gates, self.opened, self.scalers = np.zeros((5, num_layers, num_heads))
        self.nodes = self.pairs = 0

    def add(self, found: Attention) -> None:
        """Add a graph."""
        i = found.pair_index[0]  # ascending: a slice is no copy
        queries = slice(int(np.searchsorted(i, found.num_virtual)), None)
        softmax, gates, product = (x[..., queries] for x in (found.softmax, found.gates, found.product))
        even = 1 / np.bincount(i, minlength=found.num_nodes)[i][queries]
        self.entropy -= (softmax * np.log(np.maximum(softmax, 1e-30))).sum(-1)
        self.faint += (product < _FAINT * even).sum(-1)
        self.gates += gates.sum(-1)
        self.opened += (gates > 0.5).sum(-1)
        self.scalers += found.scalers[..., found.num_virtual :].sum(-1)
        self.nodes += found.graph.num_nodes
        self.pairs += softmax.shape[-1]

    @property
    def mean_entropy(self) -> Floats:
        """(L, H) mean entropy of a node's softmax, in nats."""
        return self.entropy / max(self.nodes, 1)

    @property
    def attended(self) -> Floats:
        """(L, H) the effective number of keys of a node: the exponential of the entropy."""
        return np.asarray(np.exp(self.mean_entropy))

    @property
    def sparsity(self) -> Floats:
        """(L, H) share of the pairs with next to no weight."""
        return self.faint / max(self.pairs, 1)

    @property
    def gate_density(self) -> Floats:
        """(L, H) mean gate."""
        return self.gates / max(self.pairs, 1)

    def columns(self, layers: Sequence[int], reach: Floats) -> Columns:
        """Return a row for each layer and head, both from 1; reach: (L, H) mean hops of A_tilde."""
        numbers, heads = [layer + 1 for layer in layers], [head + 1 for head in range(self.entropy.shape[1])]
        return _cross(
            ("layer", numbers),
            ("head", heads),
            reach=reach,
            entropy=self.mean_entropy,
            attended_nodes=self.attended,
            sparsity=self.sparsity,
            gate_density=self.gate_density,
            open_gates=self.opened / max(self.pairs, 1),
            scaler=self.scalers / max(self.nodes, 1),
        )


class EdgeEvolution:
    """How the edge channel changes from layer to layer, as sums over pairs of all graphs, each (D + 1, kinds).

    norm: |e_l|.
    change: |e_l - e_(l-1)|, 0 before the first layer.
    likeness: cosine of e_l and e_0.
    pairs: (kinds) how many were added.
    """

    def __init__(self, num_layers: int) -> None:
        self.norm, self.change, self.likeness = np.zeros((3, num_layers + 1, len(KINDS)))
        self.pairs = np.zeros(len(KINDS), np.int64)

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

    def mean(self, sums: Floats) -> Floats:
        """Return the mean over pairs of each kind, (D + 1, kinds)."""
        return sums / np.maximum(self.pairs, 1)

    def relative_change(self) -> Floats:
        """Return the change in each layer as a part of the length before it, (D, kinds)."""
        relative: Floats = self.change[1:] / np.maximum(self.norm[:-1], 1e-12)
        return relative

    def columns(self) -> Columns:
        """Return a row for each layer (0 is the input of the first) and kind of pair."""
        return _cross(
            ("layer", range(len(self.norm))),
            ("pairs", KINDS),
            norm=self.mean(self.norm),
            change=np.concatenate([np.zeros((1, len(KINDS))), self.relative_change()]),
            likeness_to_input=self.mean(self.likeness),
        )


@dataclass(eq=False)
class Analysis:
    """All statistics of a model on some data.

    Fields:
        layers: (L) numbers of the layers with attention, from 0.
        unread: The number of rows that could not be read.
    """

    layers: tuple[int, ...]
    hops: HopProfile
    heads: HeadStatistics
    edges: EdgeEvolution
    shown: dict[int, Attention]
    graphs: int = 0
    unread: int = 0

    @property
    def head_values(self) -> dict[str, Floats]:
        """Name -> (L, H), what pages and figures show of each head."""
        return {
            "mean hops": self.hops.reach(self.hops.product),
            "nodes looked at": self.heads.attended,
            "pairs without weight": self.heads.sparsity,
            "mean gate": self.heads.gate_density,
        }


def analyze(attentions: Iterable[Attention | None], show: Sequence[int] = ()) -> Analysis:
    """Return the analysis of graphs, one per row of the data, None where it could not be read.

    Only the rows in `show` stay in memory; without any, the first that could be read.
    """
    analysis: Analysis | None = None
    unread = rows = 0
    for row, found in enumerate(attentions):
        rows += 1
        if found is None:
            unread += 1
            continue
        if analysis is None:
            sizes = found.product.shape[:2]
            edges = EdgeEvolution(len(found.edges) - 1)
            analysis = Analysis(found.layers, HopProfile(*sizes), HeadStatistics(*sizes), edges, {})
        hops = pair_hops(found)
        analysis.hops.add(found, hops)
        analysis.heads.add(found)
        analysis.edges.add(found, hops)
        analysis.graphs += 1
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
