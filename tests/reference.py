"""An independent float64 EGT: plain loops over i, j and head, straight from the paper's equations.

It shares no code with the package: parameters come in as arrays by name, random numbers from integer arithmetic here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
M32 = 0xFFFFFFFF


def mix(x: int) -> int:
    x &= M32
    x ^= x >> 16
    x = x * 0x7FEB352D & M32
    x ^= x >> 15
    x = x * 0x846CA68B & M32
    return x ^ (x >> 16)


def bits(keys: tuple[int, int], i: int, j: int, t: int) -> int:
    inner = mix(mix(keys[0] ^ (i * 0x9E3779B1 & M32)) ^ (j * 0x85EBCA77 & M32))
    return mix(inner ^ keys[1] ^ (t * 0xC2B2AE3D & M32))


def stream_keys(keys: tuple[int, int], layer: int, stream: int) -> tuple[int, int]:
    salt = layer * 16 + stream
    return mix(keys[0] ^ mix(salt)), mix(keys[1] ^ mix(salt ^ 0x5BD1E995))


def dropped(keys: tuple[int, int], i: int, j: int, t: int, p: float) -> bool:
    return bits(keys, i, j, t) < int(p * 2**32)


@dataclass(frozen=True)
class Variant:
    """What a layer of one graph does."""

    heads: int
    gate: str = "sigmoid"
    edges: str = "residual"
    clip: tuple[float, float] | None = (-5.0, 5.0)
    eps: float = 1e-5
    normalize_e: bool = True
    num_virtual: int = 0
    scale: bool = True
    keys: tuple[int, int] | None = None
    layer: int = 0
    mask_probability: float = 0.0
    mask_gates: bool = False
    attention_dropout: float = 0.0
    node_dropout: float = 0.0
    edge_dropout: float = 0.0
    node_ffn_dropout: float = 0.0
    edge_ffn_dropout: float = 0.0
    key_dropout: float = 0.0
    path_probability: float = 0.0
    edge_values: str = "none"
    triplet_heads: int = 0
    degrees: tuple[int, ...] | None = None


def layer_norm(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    return (x - x.mean()) / math.sqrt(x.var() + eps) * weight + bias


def elu(x: float) -> float:
    return x if x > 0 else math.expm1(x)


def drop_row(x: Array, variant: Variant, stream: int, i: int, j: int, p: float) -> Array:
    if variant.keys is None or p == 0:
        return x
    keys = stream_keys(variant.keys, variant.layer, stream)
    return np.array([0.0 if dropped(keys, i, j, c, p) else value / (1 - p) for c, value in enumerate(x)])


def drop_branch(x: Array, variant: Variant, stream: int) -> Array:
    p = variant.path_probability
    if variant.keys is None or p == 0:
        return x
    return x * (0.0 if dropped(stream_keys(variant.keys, variant.layer, stream), 0, 0, 0, p) else 1 / (1 - p))


def withheld_keys(n: int, variant: Variant) -> set[int]:
    if variant.keys is None or variant.key_dropout == 0:
        return set()
    keys = stream_keys(variant.keys, variant.layer, 10)
    return {j for j in range(n) if dropped(keys, j, 0, 0, variant.key_dropout)}


def feed_forward(x: Array, params: Mapping[str, Array], prefix: str, eps: float) -> Array:
    inside = layer_norm(x, params[f"{prefix}norm.weight"], params[f"{prefix}norm.bias"], eps)
    hidden = np.array([elu(v) for v in params[f"{prefix}W1.weight"] @ inside + params[f"{prefix}W1.bias"]])
    return params[f"{prefix}W2.weight"] @ hidden + params[f"{prefix}W2.bias"]


def triplets(e: Array, allowed: NDArray[np.bool_], params: Mapping[str, Array], variant: Variant) -> Array:
    """Pairs (i, j) read pairs (j, k), and pairs (k, j), one product at a time."""
    n, heads = len(e), variant.triplet_heads
    width = params["triplets.BGV.weight"].shape[0] // 2
    c = width // heads - 2
    maps = np.zeros((n, n, 2 * width))
    for i in range(n):
        for j in range(n):
            e_hat = layer_norm(e[i, j], params["triplets.norm.weight"], params["triplets.norm.bias"], variant.eps)
            maps[i, j] = params["triplets.BGV.weight"] @ e_hat + params["triplets.BGV.bias"]
    result = np.zeros_like(e)
    for i in range(n):
        for j in range(n):
            found = []
            for direction in range(2):
                b, g, v = np.split(maps[..., direction * width : (direction + 1) * width], [heads, 2 * heads], axis=-1)
                for t in range(heads):
                    if direction == 0:
                        attended = {k: (i, k) for k in range(n) if allowed[i, k]}
                    else:
                        attended = {k: (k, i) for k in range(n) if allowed[k, i]}
                    total = sum(math.exp(b[pair][t]) for pair in attended.values())
                    gathered = np.zeros(c)
                    for k, pair in attended.items():
                        a = math.exp(b[pair][t]) / total / (1 + math.exp(-g[pair][t]))
                        gathered += a * v[(j, k) if direction == 0 else (k, j)][t * c : (t + 1) * c]
                    found.append(gathered)
            update = params["triplets.O.weight"] @ np.concatenate(found) + params["triplets.O.bias"]
            result[i, j] = e[i, j] + drop_row(update, variant, 16, i, j, variant.edge_dropout)
    return result


def layer(
    h: Array, e: Array, allowed: NDArray[np.bool_], params: Mapping[str, Array], variant: Variant
) -> tuple[Array, Array]:
    """One layer on one graph. h: (N, d_h), e: (N, N, d_e), allowed: (N, N)."""
    n, width = h.shape
    heads, d_k = variant.heads, width // variant.heads
    if variant.triplet_heads:
        e = triplets(e, allowed, params, variant)
    h_hat = np.array([layer_norm(h[i], params["norm_h.weight"], params["norm_h.bias"], variant.eps) for i in range(n)])
    qkv = h_hat @ params["qkv.weight"].T + params["qkv.bias"]
    Q, K, V = qkv[:, :width], qkv[:, width : 2 * width], qkv[:, 2 * width :]
    H_hat = np.zeros((n, n, heads))
    gates = np.ones((n, n, heads))
    pair_values = np.zeros((n, n, width))  # V_j, and what the pair itself holds
    for i in range(n):
        for j in range(n):
            e_hat = e[i, j]
            if variant.normalize_e:
                norm = "pairs.logits.norm_e."
                e_hat = layer_norm(e_hat, params[f"{norm}weight"], params[f"{norm}bias"], variant.eps)
            for t in range(heads):
                head = slice(t * d_k, (t + 1) * d_k)
                pair_values[i, j, head] = V[j, head]
                if variant.edge_values != "none":
                    d = len(e_hat) // heads
                    read = e_hat[t * d : (t + 1) * d] if variant.edge_values == "sliced" else e_hat
                    pair_values[i, j, head] += read @ params["pairs.edge_values.U"][t]
                score = float(Q[i, head] @ K[j, head]) / (math.sqrt(d_k) if variant.scale else 1.0)
                if variant.clip is not None:
                    score = min(max(score, variant.clip[0]), variant.clip[1])
                H_hat[i, j, t] = score + float(
                    params["pairs.logits.E.weight"][t] @ e_hat + params["pairs.logits.E.bias"][t]
                )
                if variant.gate != "none":
                    G = float(params["pairs.gate.G.weight"][t] @ e_hat + params["pairs.gate.G.bias"][t])
                    gates[i, j, t] = 1 / (1 + math.exp(-G))
    updated = _edges(e, H_hat, h_hat, params, variant)
    return _nodes(h, pair_values, H_hat, gates, allowed, params, variant), updated


def _nodes(
    h: Array,
    pair_values: Array,
    H_hat: Array,
    gates: Array,
    allowed: NDArray[np.bool_],
    params: Mapping[str, Array],
    variant: Variant,
) -> Array:
    n, width = h.shape
    d_k = width // variant.heads
    out = np.zeros((n, width))
    closed = withheld_keys(n, variant)
    for i in range(n):
        for t in range(variant.heads):
            open_keys = [j for j in range(n) if allowed[i, j] and (j == i or j not in closed)]
            withheld: set[int] = set()
            if variant.keys is not None and variant.mask_probability:
                keys = stream_keys(variant.keys, variant.layer, 1)
                withheld = {j for j in open_keys if dropped(keys, i, j, t, variant.mask_probability)}
            attended = [j for j in open_keys if j not in withheld]
            if not attended:
                continue
            top = max(H_hat[i, j, t] for j in attended)
            total = sum(math.exp(H_hat[i, j, t] - top) for j in attended)
            counted = attended if variant.mask_gates else open_keys
            s = 1.0
            if variant.gate == "centrality" and i >= variant.num_virtual:
                p = variant.key_dropout if variant.keys is not None else 0.0
                s = math.log(1 + sum(gates[i, j, t] / (1 if j == i else 1 - p) for j in counted))
            for j in attended:
                a = math.exp(H_hat[i, j, t] - top) / total * gates[i, j, t]
                if variant.keys is not None and variant.attention_dropout:
                    keys = stream_keys(variant.keys, variant.layer, 2)
                    a = (
                        0.0
                        if dropped(keys, i, j, t, variant.attention_dropout)
                        else a / (1 - variant.attention_dropout)
                    )
                out[i, t * d_k : (t + 1) * d_k] += s * a * pair_values[i, j, t * d_k : (t + 1) * d_k]
    result = np.zeros_like(h)
    for i in range(n):
        if variant.degrees is not None:
            degree = variant.degrees[i - variant.num_virtual] if i >= variant.num_virtual else 0
            out[i] *= params["scaling.t1"] + params["scaling.t2"] * math.log(1 + degree)
        update = params["O_h.weight"] @ out[i] + params["O_h.bias"]
        row = h[i] + drop_branch(drop_row(update, variant, 3, i, 0, variant.node_dropout), variant, 11)
        update = feed_forward(row, params, "ffn.", variant.eps)
        result[i] = row + drop_branch(drop_row(update, variant, 5, i, 0, variant.node_ffn_dropout), variant, 12)
    return result


def _edges(e: Array, H_hat: Array, h_hat: Array, params: Mapping[str, Array], variant: Variant) -> Array:
    if variant.edges == "frozen":
        return e
    result = np.zeros_like(e)
    for i in range(len(e)):
        for j in range(len(e)):
            update = params["pairs.edges.O_e.weight"] @ H_hat[i, j] + params["pairs.edges.O_e.bias"]
            if variant.edges == "outer_sum":
                A, B = params["outer.weight"][: e.shape[-1]], params["outer.weight"][e.shape[-1] :]
                update = update + A @ h_hat[i] + B @ h_hat[j]
            row = e[i, j] + drop_branch(drop_row(update, variant, 4, i, j, variant.edge_dropout), variant, 13)
            update = feed_forward(row, params, "pairs.edges.ffn.", variant.eps)
            dropped_update = drop_row(update, variant, 6, i, j, variant.edge_ffn_dropout)
            result[i, j] = row + drop_branch(dropped_update, variant, 14)
    return result


def numbers(module: Any) -> dict[str, Array]:
    """The parameters of a torch module as float64 arrays by name."""
    return {name: tensor.detach().double().numpy() for name, tensor in module.state_dict().items()}
