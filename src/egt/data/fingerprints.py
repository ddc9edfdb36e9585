"""Fingerprints of graphs: which neighborhoods of its nodes a graph has, as bits.

A neighborhood of radius r is a node with all nodes and edges within r hops, as refined by Weisfeiler and Lehman:

    c_0(i) = f(categories of i),  c_r(i) = f(c_{r-1}(i), sum over edges i-j of f(c_{r-1}(j), categories of the edge))

with f a mixing of 64 bits. Each c_r(i) sets one bit. Of molecules these are the circular fragments of Morgan's
algorithm with OGB's features as invariants; chirality is left out, so enantiomers have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egt.data.molecules import CHIRALITY, OGB_ATOM_FEATURES
from egt.graph import Graph, IntArray

BITS = 1024
RADIUS = 2

_IDENTITY_RADIUS = 12  # molecules that agree in all neighborhoods of this radius are taken for one
Codes = NDArray[np.uint64]
Bits = NDArray[np.bool_]

_FACTORS = tuple(np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def fingerprints(graphs: Sequence[Graph]) -> Bits:
    """(graphs, BITS) the neighborhoods of up to `RADIUS` hops that each graph has."""
    found = np.zeros((len(graphs), BITS), np.bool_)
    if graphs:
        owner = np.repeat(np.arange(len(graphs)), [graph.num_nodes for graph in graphs])
        for codes in _refine(graphs, RADIUS, chiral=False):
            found[owner, codes % np.uint64(BITS)] = True
    return found


def tanimoto(bits: Bits, others: Bits) -> NDArray[np.float32]:
    """(m, n) bits in common / bits of either, of fingerprints (m, BITS) and (n, BITS)."""
    common = bits.astype(np.float32) @ others.astype(np.float32).T
    found: NDArray[np.float32] = common / (bits.sum(1)[:, None] + others.sum(1) - common)
    return found


def identities(graphs: Sequence[Graph]) -> Codes:
    """(graphs,) a number for each graph, the same for all its numberings; with chirality."""
    if not graphs:
        return np.zeros(0, np.uint64)
    *_, codes = _refine(graphs, _IDENTITY_RADIUS, chiral=True)
    starts = np.cumsum([0, *(graph.num_nodes for graph in graphs[:-1])])
    return np.add.reduceat(codes, starts)


def _refine(graphs: Sequence[Graph], radius: int, *, chiral: bool) -> list[Codes]:
    """Return c_0, ..., c_radius, (nodes,) each, of all graphs one after another."""
    categories = np.concatenate([graph.node_categories for graph in graphs])
    if not chiral and categories.shape[1] >= len(OGB_ATOM_FEATURES):
        categories = np.delete(categories, CHIRALITY, axis=1)
    starts = np.cumsum([0, *(graph.num_nodes for graph in graphs[:-1])])
    edges = np.concatenate([graph.edge_index + start for graph, start in zip(graphs, starts, strict=True)], axis=1)
    bonds = _codes_of(np.concatenate([graph.edge_categories for graph in graphs]))
    order = np.argsort(edges[0], kind="stable")
    i, j, bonds = edges[0][order], edges[1][order], bonds[order]
    firsts = np.flatnonzero(np.diff(i, prepend=-1))
    found = [_codes_of(categories)]
    for _ in range(radius):
        codes = found[-1]
        messages = np.zeros_like(codes)
        if len(i):
            messages[i[firsts]] = np.add.reduceat(mix_bits(codes[j] + bonds), firsts)
        found.append(mix_bits(codes * _FACTORS[1] + messages))
    return found


def _codes_of(categories: IntArray) -> Codes:
    """(rows,) a code for the categories of each row."""
    codes = np.full(len(categories), len(_FACTORS), np.uint64)
    for column in categories.T.astype(np.uint64):
        codes = mix_bits(codes + column * _FACTORS[0])
    return codes


def mix_bits(codes: Codes) -> Codes:
    """Spread every bit over all 64 (the finalizer of splitmix64)."""
    codes = codes + _FACTORS[0]
    codes = (codes ^ (codes >> np.uint64(30))) * _FACTORS[1]
    codes = (codes ^ (codes >> np.uint64(27))) * _FACTORS[2]
    return codes ^ (codes >> np.uint64(31))
