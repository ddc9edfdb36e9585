"""A pass to compute, and the slow obvious float64 computation of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from egt.native.library import compiler
from egt.nn.kernels.operators import PairWeights, RandomStream, RandomStreams, available, pair_pass

MASK32 = 0xFFFFFFFF
ACTIVATIONS = {"elu": F.elu, "gelu": F.gelu, "relu": F.relu, "silu": F.silu}
RANDOM = RandomStreams._fields


def _mix(x: int) -> int:
    x ^= x >> 16
    x = x * 0x7FEB352D & MASK32
    x ^= x >> 15
    x = x * 0x846CA68B & MASK32
    return x ^ x >> 16


def _kept(keys: Sequence[int], n: int, heads: int, probability: float) -> Tensor:
    """(n, n, heads or channels) boolean, from the definition, one number at a time."""
    k0, k1 = keys
    result = torch.empty(n, n, heads, dtype=torch.bool)
    for i in range(n):
        for j in range(n):
            pair = _mix(_mix(k0 ^ (i * 0x9E3779B1 & MASK32)) ^ (j * 0x85EBCA77 & MASK32))
            for t in range(heads):
                result[i, j, t] = _mix(pair ^ k1 ^ (t * 0xC2B2AE3D & MASK32)) >= int(probability * 2**32)
    return result


@dataclass
class Case:
    """Inputs of a pass. `settings` are keyword arguments of `pair_pass`, `probabilities` those of what is random.

    With `listed_share` this share of the pairs is a list; the first node of each graph with more than one has none.
    """

    sizes: list[int]
    heads: int = 8
    head_width: int = 8
    edge_width: int = 8
    hidden_width: int = 16
    norm: bool = True
    gate: bool = True
    edges: bool = True
    allowed_share: float | None = None
    listed_share: float | None = None
    logit_size: float = 3.0
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    probabilities: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)

        def normal(*shape: int, size: float = 1.0) -> Tensor:
            return (torch.randn(*shape, generator=random) * size).requires_grad_()

        def linear(rows: int, cols: int) -> tuple[Tensor, Tensor]:
            return normal(rows, cols, size=cols**-0.5), normal(rows, size=0.3)

        H, d_e, m = self.heads, self.edge_width, self.hidden_width
        nodes, pairs = sum(self.sizes), sum(n * n for n in self.sizes)
        d = H * self.head_width
        ends = 2 * d_e if self.settings.get("outer_sum") else 0
        qkv = torch.randn(nodes, d * (2 if self.settings.get("edges_only") else 3) + ends, generator=random)
        qkv[:, : 2 * d] *= self.logit_size**0.5
        self.qkv = qkv.requires_grad_()
        self.e = normal(pairs, d_e)
        self.weights = PairWeights(
            norm=(normal(d_e), normal(d_e, size=0.3)) if self.norm else None,
            E=linear(H, d_e),
            G=linear(H, d_e) if self.gate else None,
            O=linear(d_e, H) if self.edges else None,
            ffn_norm=(normal(d_e), normal(d_e, size=0.3)) if self.edges else None,
            W1=linear(m, d_e) if self.edges else None,
            W2=linear(d_e, m) if self.edges else None,
        )
        self.num_nodes, self.num_pairs = nodes, pairs
        keys = torch.randint(2**32, (len(RANDOM), len(self.sizes), 2), generator=random)
        self.random = RandomStreams(
            *(RandomStream(self.probabilities.get(name, 0.0), keys[k]) for k, name in enumerate(RANDOM))
        )
        self.settings = {
            "scale": self.head_width**-0.5,
            "clip": (-5.0, 5.0),
            "random": self.random,
            **self.settings,
        }
        self.listed = torch.ones(pairs, dtype=torch.bool)
        if self.listed_share is not None:
            first = torch.cat([torch.arange(n * n) < n for n in self.sizes])
            of_one = torch.cat([torch.full((n * n,), n == 1) for n in self.sizes])
            self.listed = ((torch.rand(pairs, generator=random) < self.listed_share) & ~first) | of_one
        if self.allowed_share is not None:
            self.settings["allowed"] = torch.rand(pairs, generator=random) < self.allowed_share
        form = self.settings.get("edge_values")
        gathered = d_e + H if form == "sliced" else H * (d_e + 1) if form == "full" else 0
        self.d_out = torch.randn(nodes, d + gathered, generator=random)
        self.d_e_new = torch.randn(pairs, d_e, generator=random)

    def inputs(self) -> dict[str, Tensor]:
        """All differentiable inputs by name."""
        named = {"qkv": self.qkv, "e": self.e}
        for name, pair in self.weights._asdict().items():
            if pair is not None:
                named |= {f"{name}_weight": pair[0], f"{name}_bias": pair[1]}
        return named

    def fused(self, **settings: Any) -> tuple[Tensor | None, Tensor | None]:
        """The outputs of the kernel."""
        sizes = torch.tensor(self.sizes, dtype=torch.int64)
        settings = {**self.settings, **settings}
        e = self.e
        if self.listed_share is not None:
            e, settings["listed"] = e[self.listed], self.pair_list()
            if (allowed := settings.get("allowed")) is not None:
                settings["allowed"] = allowed[self.listed]
        return pair_pass(self.qkv, e, sizes, self.weights, **settings)

    def pair_list(self) -> tuple[Tensor, Tensor]:
        """(M + 1,) the first listed pair of each node, and (P,) where the pairs lead."""
        nodes = torch.arange(self.num_nodes).split(self.sizes)
        query = torch.cat([of_graph.repeat_interleave(len(of_graph)) for of_graph in nodes])
        key = torch.cat([of_graph.repeat(len(of_graph)) for of_graph in nodes])
        counts = torch.bincount(query[self.listed], minlength=self.num_nodes)
        return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]), key[self.listed]

    def gradients(self, outputs: tuple[Tensor | None, Tensor | None]) -> dict[str, Tensor]:
        """Gradients of all inputs for a fixed random direction of the outputs."""
        loss = sum(
            (output * d.to(output.dtype)).sum()
            for output, d in zip(outputs, (self.d_out, self.d_e_new[self.listed]), strict=True)
            if output is not None
        )
        inputs = self.inputs()
        assert isinstance(loss, Tensor)
        found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True)
        return {
            name: torch.zeros_like(t) if g is None else g for (name, t), g in zip(inputs.items(), found, strict=True)
        }

    def dropped(self, x: Tensor, name: str, graph: int) -> Tensor:
        """Dropout of a graph's (n, n, heads or channels)."""
        stream: RandomStream = getattr(self.random, name)
        if stream.probability == 0.0:
            return x
        return x * _kept(stream.keys[graph].tolist(), len(x), x.shape[-1], stream.probability) * stream.scale

    def branch(self, x: Tensor, name: str, graph: int) -> Tensor:
        """Drop-path of a graph's branch."""
        stream: RandomStream = getattr(self.random, name)
        return x * _kept(stream.keys[graph].tolist(), 1, 1, stream.probability).item() * stream.scale

    def kept_keys(self, n: int, graph: int) -> Tensor:
        """(n, n, 1) how often a key counts for a query."""
        stream = self.random.key_dropout
        keep = _kept(stream.keys[graph].tolist(), n, 1, stream.probability)[:, 0, 0] * stream.scale
        return torch.eye(n).double().maximum((1 - torch.eye(n)) * keep).unsqueeze(-1)

    def reference(self) -> tuple[Tensor | None, Tensor | None]:
        """The outputs in float64, one graph at a time. Logits must stay away from the edge of the clip range."""
        s = self.settings
        activation = ACTIVATIONS[s.get("activation", "elu")]
        H, d_k, d_e = self.heads, self.head_width, self.edge_width
        low, high = s["clip"]
        q = s.get("num_virtual_nodes", 0)
        norm, E, G, O, ffn_norm, W1, W2 = (  # noqa: E741
            None if pair is None else tuple(t.double() for t in pair)
            for pair in (self.weights[1], self.weights[0], *self.weights[2:])
        )
        assert E is not None
        node_rows = self.qkv.double().split(self.sizes)
        pair_rows = self.e.double().split([n * n for n in self.sizes])
        attended_pairs = s.get("allowed", torch.ones(self.num_pairs, dtype=torch.bool)) & self.listed
        allowed = attended_pairs.split([n * n for n in self.sizes])
        outs, edges = [], []
        for b, n in enumerate(self.sizes):
            ends = 2 * d_e if s.get("outer_sum") else 0
            Q, K, *V = node_rows[b][:, : -ends or None].reshape(n, -1, H, d_k).unbind(1)
            e = pair_rows[b].view(n, n, d_e)
            e_hat = F.layer_norm(e, (d_e,), norm[0], norm[1], s.get("norm_eps", 1e-5)) if norm else e
            logits = s["scale"] * torch.einsum("itc,jtc->ijt", Q, K)
            assert min((logits - low).abs().min(), (logits - high).abs().min()) > 1e-5, "at the clip edge: other seed"
            H_hat = logits.clamp(low, high) + F.linear(e_hat, *E)
            if O is not None:
                assert ffn_norm is not None
                assert W1 is not None
                assert W2 is not None
                update = F.linear(H_hat, *O)
                if ends:
                    Ah, Bh = node_rows[b][:, -ends:].chunk(2, -1)
                    update = update + Ah.unsqueeze(1) + Bh.unsqueeze(0)
                e1 = e + self.branch(self.dropped(update, "edge_dropout", b), "edge_path", b)
                e1_hat = F.layer_norm(e1, (d_e,), ffn_norm[0], ffn_norm[1], s.get("ffn_norm_eps", 1e-5))
                hidden = activation(F.linear(e1_hat, *W1))
                added = self.branch(self.dropped(F.linear(hidden, *W2), "ffn_dropout", b), "ffn_path", b)
                edges.append((e1 + added).reshape(n * n, d_e))
            if not V:
                continue
            counted = self.kept_keys(n, b)
            open_ = (allowed[b].view(n, n, 1) & (counted > 0)).expand(n, n, H)
            attended = open_
            if self.random.mask.probability > 0.0:
                attended = open_ & _kept(self.random.mask.keys[b].tolist(), n, H, self.random.mask.probability)
            S = H_hat.masked_fill(~attended, -torch.inf).softmax(1).nan_to_num(0.0)
            A, scaler = S, torch.ones(n, H, dtype=torch.float64)
            if G is not None:
                g = F.linear(e_hat, *G).sigmoid() * (attended if s.get("masks_gates") else open_)
                A = S * g
                if s.get("centrality"):
                    scaler = torch.cat([scaler[:q], (1.0 + (g * counted).sum(1)).log()[q:]])
            A = self.dropped(A, "dropout", b)
            out = (scaler.unsqueeze(-1) * torch.einsum("ijt,jtc->itc", A, V[0])).flatten(1)
            if form := s.get("edge_values"):
                x = F.layer_norm(e, (d_e,), eps=s.get("norm_eps", 1e-5)) if norm else e
                x = x.view(n, n, H, -1) if form == "sliced" else x.unsqueeze(2).expand(n, n, H, d_e)
                x = torch.cat([x, torch.ones_like(x[..., :1])], -1)
                out = torch.cat([out, (scaler.unsqueeze(-1) * torch.einsum("ijt,ijtc->itc", A, x)).flatten(1)], -1)
            rows = s.get("query_rows") or n
            outs.append(torch.cat([out[:rows], torch.zeros_like(out[rows:])]))
        return torch.cat(outs) if outs else None, torch.cat(edges)[self.listed] if edges else None


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    if compiler() is None:
        pytest.skip("no C++ compiler: the fused kernel is not tested")
    assert available(), "there is a compiler, so the kernel must build"
    return Case


@pytest.fixture
def num_threads() -> Any:
    """A function that sets torch's number of threads until the end of the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
