"""What an analysis says, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from egt.analysis.analysis import Analysis
from egt.analysis.hops import FROM_VIRTUAL, TO_VIRTUAL, UNREACHABLE

MOST = 0.7
"""The part of a layer's weight that decides where it looks."""


def summary(analysis: Analysis) -> list[str]:
    """Return some sentences: how far layers look, how selective heads are, what gates and edge channel do."""
    return [*_reach(analysis), *_apart(analysis), *_heads(analysis), *_gates(analysis), *_edges(analysis)]


def _kind(near: float, nearby: float) -> str:
    if near >= MOST:
        return "near"
    return "around" if nearby >= MOST else "far"


def _reach(analysis: Analysis) -> list[str]:
    hops = analysis.hops
    weight = hops.product.mean(1)  # (L, codes)
    near, nearby, reach = hops.within(weight, 1), hops.within(weight, 3), hops.reach(weight)
    even = float(hops.reach(hops.even))
    kinds = [_kind(a, b) for a, b in zip(near.tolist(), nearby.tolist(), strict=True)]
    said = []
    for kind, group in groupby(range(len(kinds)), key=kinds.__getitem__):
        some = list(group)
        where = _named([analysis.layers[number] for number in some])
        mean = reach[some].mean()
        verb = "s" if len(some) == 1 else ""
        if kind == "near":
            text = f"look{verb} at the node itself and its neighbors ({_percent(near[some].mean())} within 1 hop"
        elif kind == "around":
            text = f"look{verb} at 1-3 hops ({_percent(nearby[some].mean())} within 3 hops"
        else:
            text = f"spread{verb} over the graph ({_percent(nearby[some].mean())} within 3 hops"
        said.append(f"{where} {text}, {mean:.1f} hops on average; even attention would have {even:.1f}).")
    return said


def _apart(analysis: Analysis) -> list[str]:
    """Say what goes to virtual nodes and to nodes that cannot be reached."""
    mean = analysis.hops.mean(analysis.hops.product.mean(1))
    total = mean[:, :FROM_VIRTUAL].sum(1)  # all other codes are of nodes that are real
    said = []
    for code, name in ((TO_VIRTUAL, "virtual nodes"), (UNREACHABLE, "nodes that no path leads to")):
        if code in analysis.hops.codes:
            shares = mean[:, code] / np.where(total > 0, total, 1)
            most = int(shares.argmax())
            said.append(
                f"{_percent(shares.mean())} of the weight goes to {name}, most in layer {analysis.layers[most] + 1} "
                f"({_percent(shares[most])})."
            )
    return said


def _heads(analysis: Analysis) -> list[str]:
    attended = analysis.heads.attended
    layer, head = np.unravel_index(int(attended.argmin()), attended.shape)
    keys = analysis.heads.pairs / max(analysis.heads.nodes, 1)
    return [
        f"A head effectively looks at {np.median(attended):.1f} of {keys:.1f} nodes (median over heads); the most "
        f"selective is head {head + 1} of layer {analysis.layers[int(layer)] + 1} ({attended.min():.1f})."
    ]


def _gates(analysis: Analysis) -> list[str]:
    gates = analysis.heads.gate_density.mean(1)
    if np.all(gates == 1):
        return ["The model has no gates."]
    least, most = int(gates.argmin()), int(gates.argmax())
    return [
        f"Gates let {_percent(gates.mean())} pass on average: least in layer {analysis.layers[least] + 1} "
        f"({_percent(gates[least])}), most in layer {analysis.layers[most] + 1} ({_percent(gates[most])})."
    ]


def _edges(analysis: Analysis) -> list[str]:
    change = analysis.edges.change.sum(1)[1:] / np.maximum(analysis.edges.norm.sum(1)[:-1], 1e-12)
    if not change.any():
        return ["The edge channel is the same after every layer."]
    most = int(change.argmax())
    return [f"The edge channel changes most in layer {most + 1}, by {_times(change[most])} its length before it."]


def _named(layers: Sequence[int]) -> str:
    """Return "Layer 3" or "Layers 1-3" for numbers from 0."""
    first, last = layers[0] + 1, layers[-1] + 1
    return f"Layer {first}" if first == last else f"Layers {first}-{last}"


def _times(share: float) -> str:
    """Return "45% of" or, of more than the whole, "22 times"."""
    if share < 1:
        return f"{_percent(share)} of"
    return f"{share:.1f} times" if share < 10 else f"{share:.0f} times"


def _percent(share: float) -> str:
    return f"{100 * float(share):.0f}%"
