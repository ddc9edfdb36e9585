"""The fused operators: the pair pass, over all pairs or a list of them, and the node side of a layer.

`egt::pair_pass` keeps only its inputs for the backward pass. For each pair (i, j) of a graph and each head t:

    e_hat = LN(e_ij);  E = W_E e_hat + b_E;  G = W_G e_hat + b_G
    H_hat = clip(scale <Q_i, K_j>) + E
    A_tilde = softmax_j(H_hat) * sigmoid(G);  out_i = s_i sum_j A_tilde_ij V_j
    e1 = e_ij + W_O H_hat + b_O;  e_new = e1 + W2 act(W1 LN(e1) + b1) + b2

with dropout of keys, of A_tilde, of the update W_O H_hat + b_O, and of what the feed-forward block adds; the last two
also as a whole, graph by graph. `egt::norm_linear` and `egt::node_update` are the rest of a layer, row by row:

    norm_linear:  y = W LN(x) + b
    node_update:  h1 = h + D1 (O out + b_O);  a = act(W1 LN(h1) + b1);  h_new = h1 + D2 (W2 a + b2)

D1 and D2 are the factors of dropout, which `egt::node_factors` draws. These keep inputs, h1, and a for ELU or what a is
computed from for the others; norms are computed again. `torch.compile` and `torch.export` see single operators.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from egt.nn.kernels import binding
from egt.nn.randomness import threshold


class PairWeights(NamedTuple):
    """The parameters of a pass as (weight, bias); None leaves the part out.

    Attributes:
        E: (H, d_e), (H).
        norm: (d_e), (d_e) LayerNorm of e before E and G; None: they read e itself.
        G: (H, d_e), (H); None: ungated.
        O: (d_e, H), (d_e); None: frozen edges. The three parts after it come with it.
        ffn_norm: (d_e), (d_e).
        W1: (m, d_e), (m).
        W2: (d_e, m), (d_e).
    """

    E: tuple[Tensor, Tensor]
    norm: tuple[Tensor, Tensor] | None = None
    G: tuple[Tensor, Tensor] | None = None
    O: tuple[Tensor, Tensor] | None = None  # noqa: E741 (the paper's letter)
    ffn_norm: tuple[Tensor, Tensor] | None = None
    W1: tuple[Tensor, Tensor] | None = None
    W2: tuple[Tensor, Tensor] | None = None


class RandomStream(NamedTuple):
    """One use of random numbers: what happens to a pair and head, or pair and channel, with a probability.

    Attributes:
        probability: below 1.
        keys: (B, 2) int64 keys of the graphs, 32 bits each.
    """

    probability: float
    keys: Tensor

    @property
    def threshold(self) -> int:
        """Random bits below this one, of 2^32, mean that it happens."""
        return int(self.probability * 2**32)

    @property
    def scale(self) -> float:
        """The factor of what dropout keeps."""
        return 1.0 / (1.0 - self.probability)


NEVER = RandomStream(0.0, torch.empty(0, 2, dtype=torch.int64))


class RandomStreams(NamedTuple):
    """What is random in a pass.

    Attributes:
        mask: random masking of the attention of a head.
        dropout: of an entry of A_tilde.
        edge_dropout: of a channel of W_O H_hat + b_O.
        ffn_dropout: of a channel of what the feed-forward block adds.
        key_dropout: of a key, for all queries except itself; the keys' gates leave the centrality sum with it.
        edge_path: of the update W_O H_hat + b_O of a whole graph.
        ffn_path: of its feed-forward block.
    """

    mask: RandomStream = NEVER
    dropout: RandomStream = NEVER
    edge_dropout: RandomStream = NEVER
    ffn_dropout: RandomStream = NEVER
    key_dropout: RandomStream = NEVER
    edge_path: RandomStream = NEVER
    ffn_path: RandomStream = NEVER


NOT_RANDOM = RandomStreams()


def available() -> bool:
    """Return whether the kernel is there; the first call compiles it. One line of the log says why not."""
    return binding.library() is not None


def pair_pass(
    qkv: Tensor,
    e: Tensor,
    sizes: Tensor,
    weights: PairWeights,
    *,
    scale: float,
    clip: tuple[float, float],
    listed: Sequence[Tensor] = (),
    allowed: Tensor | None = None,
    edges_only: bool = False,
    centrality: bool = False,
    num_virtual_nodes: int = 0,
    query_rows: int = 0,
    edge_values: str = "none",
    outer_sum: bool = False,
    activation: str = "elu",
    norm_eps: float = 1e-5,
    ffn_norm_eps: float = 1e-5,
    masks_gates: bool = False,
    random: RandomStreams = NOT_RANDOM,
    overwrite: bool = False,
    portable: bool = False,
) -> tuple[Tensor | None, Tensor | None]:
    """Do all pair work of a layer on the packed or edge-list layout (float32, CPU).

    Args:
        qkv: (M, 3 d) Q|K|V of all nodes, channel t * d_k + c of head t; (M, 2 d) Q|K if `edges_only`. With an outer sum
            2 d_e more, A h|B h.
        e: (P, d_e) edge channel; pair (i, j) of a graph is row start + i * N + j, or as listed.
        sizes: (B,) int64, nodes of each graph, virtual nodes included (they come first).
        weights: parameters of the parts.
        scale: of the dot product, 1 / sqrt(d_k).
        clip: range of the scaled dot product.
        listed: (M + 1,) and (P,) int64 of a list of pairs: those from node r are the rows first[r] to first[r + 1] - 1,
            and pair p leads to node second[p] of the same graph; none: all pairs.
        allowed: (P,) bool, True where i may attend j; None: everyone.
        edges_only: no attention, only H_hat and the edge update.
        centrality: scale row i by ln(1 + sum_j g_ij), except rows of virtual nodes.
        num_virtual_nodes: per graph.
        query_rows: compute only the first rows of each graph, the others are zero; 0: all. Only with frozen edges.
        edge_values: what each head gathers of the edges besides values, one of `binding.EDGE_VALUES`: nothing, its own
            share of w = d_e / H channels, or all w = d_e of them.
        outer_sum: whether A h_i + B h_j is added to W_O H_hat + b_O.
        activation: of the edge FFN, one of `binding.ACTIVATIONS`.
        norm_eps: of the norm before E and G.
        ffn_norm_eps: of the norm before the edge FFN.
        masks_gates: random masking closes the gates too, not only the logits.
        random: what is masked and dropped.
        overwrite: write e_new over e if that is contiguous; there are no gradients then.
        portable: do not use the AVX2 path.

    Returns:
        out: (M, d), None if `edges_only`. With edge values each row goes on with H (w + 1) numbers, for each head
            s_i sum_j A_tilde_ij x_ij and s_i sum_j A_tilde_ij: x is e without a norm, else e_hat before the norm's
            weight and bias.
        e_new: (P, d_e), None if edges are frozen.
    """
    has_edge_update = weights.O is not None
    assert has_edge_update or not edges_only, "a pass without attention and without edge update does nothing"
    assert not (query_rows and has_edge_update), "an edge update needs all rows"
    assert has_edge_update or not outer_sum, "an outer sum is part of an edge update"
    assert not centrality or weights.G is not None, "centrality sums gates"
    pairs = (weights.norm, weights.E, None if edges_only else weights.G, *weights[3:])
    switches = Switches(
        has_norm=weights.norm is not None,
        is_gated=weights.G is not None and not edges_only,
        updates=has_edge_update,
        attends=not edges_only,
        activation=binding.ACTIVATIONS.index(activation),
        centrality=centrality,
        num_virtual_nodes=num_virtual_nodes,
        query_rows=query_rows,
        outer_sum=outer_sum,
        edge_values=0 if edges_only else binding.EDGE_VALUES.index(edge_values),
        masks_gates=masks_gates,
        mask_threshold=random.mask.threshold,
        dropout_threshold=random.dropout.threshold,
        edge_dropout_threshold=random.edge_dropout.threshold,
        ffn_dropout_threshold=random.ffn_dropout.threshold,
        key_dropout_threshold=random.key_dropout.threshold,
        edge_path_threshold=random.edge_path.threshold,
        ffn_path_threshold=random.ffn_path.threshold,
        portable=portable,
    )
    numbers = Numbers(norm_eps, ffn_norm_eps, *clip, scale, *(stream.scale for stream in random[1:]))
    present = [tensor for pair in pairs if pair is not None for tensor in pair]
    keys = [stream.keys for stream in random if stream.threshold]
    inputs = (qkv, e, sizes, list(listed), allowed, keys, switches, numbers, present)
    out, e_new = run_over(Inputs(*inputs)) if overwrite and has_edge_update else _run(*inputs)
    return None if edges_only else out, e_new if has_edge_update else None


Function = Callable[..., Any]
_functions: dict[str, Function] = {}
"""What computes each operator, by its name."""


def operator(name: str) -> Callable[[Function], Any]:
    """Decorate the function that computes the operator `egt::name` on a CPU; types are read from its hints.

    What it returns is called like the function, and has gradients through `differentiable`.
    """
    full = f"egt::{name}"

    def register(function: Function) -> Any:
        _functions[name] = function
        torch.library.define(full, torch.library.infer_schema(function, mutates_args=()))
        torch.library.impl(full, "cpu", _untraced(function))
        return getattr(torch.ops.egt, name).default

    return register


def shapes(name: str) -> Callable[[Function], Function]:
    """Decorate the function that gives empty results of the right shapes for `egt::name`, which compilation needs."""

    def register(function: Function) -> Function:
        torch.library.register_fake(f"egt::{name}", function)
        return function

    return register


def differentiable(name: str, backward: Function, save: Function) -> Function:
    """Return a function that computes the operator `egt::name` with all its arguments, and has gradients.

    Only what compiles sees the operator: torch's own node of one walks through all its arguments several times, which
    takes as long as the work on a few small graphs. `backward` and `save` are as `torch.library.register_autograd`
    expects them, but for the function or operator `egt::name_backward` behind the context. Of lists of tensors only one
    that is the last argument has gradients.
    """
    function, function_backward = _functions[name], _functions[f"{name}_backward"]
    operator, operator_backward = (getattr(torch.ops.egt, each).default for each in (name, f"{name}_backward"))

    def traced(ctx: Any, *gradients: Tensor | None) -> Any:
        return backward(ctx, operator_backward, *gradients)

    torch.library.register_autograd(f"egt::{name}", traced, setup_context=save)

    class Node(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, count: int, *inputs: Any) -> Any:
            given = inputs if count == len(inputs) else (*inputs[:count], inputs[count:])
            outputs = function(*given)
            save(ctx, given, outputs)
            return outputs

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
            *first, last = backward(ctx, function_backward, *gradients)
            alone = (None if isinstance(each, list) else each for each in first)
            return None, *alone, *(last if isinstance(last, list) else [last])

    def compute(*inputs: Any) -> Any:
        if torch.compiler.is_compiling():
            return operator(*inputs)
        if isinstance(inputs[-1], list):
            return Node.apply(len(inputs) - 1, *inputs[:-1], *inputs[-1])  # type: ignore[no-untyped-call]
        return Node.apply(len(inputs), *inputs)  # type: ignore[no-untyped-call]

    return compute


def empty_like(*tensors: Tensor) -> list[Tensor]:
    """Return uninitialized contiguous tensors of the same shapes: gradients that a backward pass fills."""
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]


def _untraced(function: Function) -> Function:
    """Return the function, hidden from `torch.compile` where that is in use."""
    hidden = _disable_dynamo(function)

    @wraps(function)
    def run(*args: Any) -> Any:
        return hidden(*args) if "torch._dynamo" in sys.modules else function(*args)

    return run


class Switches(NamedTuple):
    """Whole-number settings of a pass, in the order of the operator's `switches`."""

    has_norm: int
    is_gated: int
    updates: int
    attends: int
    activation: int
    centrality: int
    num_virtual_nodes: int
    query_rows: int
    edge_values: int
    outer_sum: int
    masks_gates: int
    mask_threshold: int
    dropout_threshold: int
    edge_dropout_threshold: int
    ffn_dropout_threshold: int
    key_dropout_threshold: int
    edge_path_threshold: int
    ffn_path_threshold: int
    portable: int

    def key_names(self) -> list[str]:
        """Say which keys of random numbers come with a pass, in the order of the operator's `keys`."""
        return [
            name.replace("threshold", "keys")
            for name, value in self._asdict().items()
            if name.endswith("_threshold") and value
        ]

    def parameter_names(self) -> list[str]:
        """Say which parameters come with a pass, in the order of the operator's `weights`."""
        parts = (self.has_norm, 1, self.is_gated, *(4 * [self.updates]))
        return [name for index, name in enumerate(binding.PARAMETER_NAMES) if parts[index // 2]]


class Numbers(NamedTuple):
    """Real-valued settings of a pass, in the order of the operator's `numbers`."""

    norm_eps: float
    ffn_norm_eps: float
    clip_low: float
    clip_high: float
    scale: float
    dropout_scale: float
    edge_dropout_scale: float
    ffn_dropout_scale: float
    key_dropout_scale: float
    edge_path_scale: float
    ffn_path_scale: float


def _node_width(qkv: Tensor, e: Tensor, switches: Sequence[int]) -> int:
    s = Switches(*switches)
    return (qkv.shape[1] - 2 * s.outer_sum * e.shape[1]) // (3 if s.attends else 2)


def _output_shapes(
    qkv: Tensor, e: Tensor, weights: Sequence[Tensor], switches: Sequence[int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the shapes of out and e_new; one that is not computed has no rows."""
    s = Switches(*switches)
    rows = qkv.shape[0] if s.attends else 0
    pairs = e.shape[0] if s.updates else 0
    num_heads, d_e = weights[2 * s.has_norm].shape  # of E
    gathered = (0, d_e + num_heads, num_heads * (d_e + 1))[s.edge_values]
    return (rows, _node_width(qkv, e, switches) + gathered), (pairs, e.shape[1])


class Inputs:
    """The inputs of a call, checked (a wrong shape would be read as wrong memory), and the C struct of them."""

    def __init__(
        self,
        qkv: Tensor,
        e: Tensor,
        sizes: Tensor,
        listed: Sequence[Tensor],
        allowed: Tensor | None,
        keys: Sequence[Tensor],
        switches: Sequence[int],
        numbers: Sequence[float],
        weights: Sequence[Tensor],
    ) -> None:
        s = Switches(*switches)
        named = dict(zip(s.parameter_names(), weights, strict=True))
        num_graphs, d, d_e, H = sizes.shape[0], _node_width(qkv, e, switches), e.shape[1], named["E_weight"].shape[0]
        m = named["W1_weight"].shape[0] if s.updates else 0
        if d % H:
            raise ValueError(f"pair_pass: node width {d} is not a multiple of {H} heads")
        if s.edge_values == binding.EDGE_VALUES.index("sliced") and d_e % H:
            raise ValueError(f"pair_pass: edge width {d_e} is not a multiple of {H} heads")
        float_shapes: dict[str, tuple[int, ...]] = {
            "qkv": (qkv.shape[0], d * (3 if s.attends else 2) + 2 * s.outer_sum * d_e),
            "e": (e.shape[0], d_e),
        }
        shapes = {"E": (H, d_e), "G": (H, d_e), "O": (d_e, H), "W1": (m, d_e), "W2": (d_e, m)}
        for name in named:
            part, _, kind = name.rpartition("_")
            shape = shapes.get(part, (d_e,))
            float_shapes[name] = shape if kind == "weight" else shape[:1]
        self.tensors = {
            name: binding.checked(name, tensor, float_shapes[name])
            for name, tensor in {"qkv": qkv, "e": e, **named}.items()
        }
        self.tensors["sizes"] = binding.checked("sizes", sizes, (num_graphs,), torch.int64)
        if listed:
            list_shapes = {"row_start": (qkv.shape[0] + 1,), "target": (e.shape[0],)}
            for (name, shape), tensor in zip(list_shapes.items(), listed, strict=True):
                self.tensors[name] = binding.checked(name, tensor, shape, torch.int64)
        if allowed is not None:
            bits = allowed.view(torch.uint8) if allowed.dtype == torch.bool else allowed
            self.tensors["allowed"] = binding.checked("allowed", bits, (e.shape[0],), torch.uint8)
        for name, pair in zip(s.key_names(), keys, strict=True):
            self.tensors[name] = binding.checked(name, pair, (num_graphs, 2), torch.int64)
        addresses = {name: tensor.data_ptr() for name, tensor in self.tensors.items()}
        parameters = binding.PairParameters(**{name: addresses.pop(name) for name in named})
        settings = s._asdict()
        for name in ("has_norm", "is_gated", "updates"):  # the kernel sees them from its pointers
            del settings[name]
        self.struct = binding.PairPass(
            num_graphs=num_graphs,
            num_nodes=qkv.shape[0],
            num_pairs=e.shape[0],
            node_width=d,
            edge_width=d_e,
            num_heads=H,
            hidden_width=m,
            num_threads=torch.get_num_threads(),
            run_parallel=binding.run_parallel(),
            parameters=parameters,
            **addresses,
            **settings,
            **Numbers(*numbers)._asdict(),
        )
        self.names = list(named)
        self.out_shape, self.e_shape = _output_shapes(qkv, e, weights, switches)


@operator("pair_pass")
def run(
    qkv: Tensor,
    e: Tensor,
    sizes: Tensor,
    listed: Sequence[Tensor],
    allowed: Tensor | None,
    keys: Sequence[Tensor],
    switches: Sequence[int],
    numbers: Sequence[float],
    weights: Sequence[Tensor],
) -> tuple[Tensor, Tensor]:
    """Run the forward pass; `egt.nn.kernels.operators.pair_pass` says what the arguments mean."""
    inputs = Inputs(qkv, e, sizes, listed, allowed, keys, switches, numbers, weights)
    out = qkv.new_zeros(inputs.out_shape) if Switches(*switches).query_rows else qkv.new_empty(inputs.out_shape)
    e_new = binding.empty(inputs.e_shape)
    _forward(inputs, out, e_new)
    return out, e_new


def _forward(inputs: Inputs, out: Tensor, e_new: Tensor) -> None:
    """Fill the outputs; one without rows is not wanted."""
    pointers = [tensor.data_ptr() if tensor.shape[0] else None for tensor in (out, e_new)]
    binding.loaded().egt_pair_pass_forward(inputs.struct, *pointers)


@shapes("pair_pass")
def _(qkv: Tensor, e: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    *_, switches, _, weights = others
    out_shape, e_shape = _output_shapes(qkv, e, weights, switches)
    return qkv.new_empty(out_shape), e.new_empty(e_shape)


def run_over(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Run the forward pass of an inference: e_new is written over e, or over a contiguous copy of it.

    Not an operator: what is never differentiated or traced needs none, and each costs some 0.1 ms.
    """
    e = inputs.tensors["e"]
    out = torch.empty(inputs.out_shape)
    _forward(inputs, out, e)
    return out, e


@operator("pair_pass_backward")
def run_backward(
    d_out: Tensor | None,
    d_e_new: Tensor | None,
    qkv: Tensor,
    e: Tensor,
    sizes: Tensor,
    listed: Sequence[Tensor],
    allowed: Tensor | None,
    keys: Sequence[Tensor],
    switches: Sequence[int],
    numbers: Sequence[float],
    weights: Sequence[Tensor],
) -> list[Tensor]:
    """Compute the gradients of qkv, e and the weights, from those of the outputs (None: the output was not used)."""
    inputs = Inputs(qkv, e, sizes, listed, allowed, keys, switches, numbers, weights)
    s = Switches(*switches)
    d_out = None if d_out is None or not s.attends else binding.checked("d_out", d_out, inputs.out_shape)
    d_e_new = None if d_e_new is None or not s.updates else binding.checked("d_e_new", d_e_new, inputs.e_shape)
    counts = [weight.numel() for weight in weights]
    parts = zip(torch.zeros(sum(counts)).split(counts), weights, strict=True)
    d_weights = [part.view(weight.shape) for part, weight in parts]
    if d_out is None and d_e_new is None:
        return [torch.zeros(qkv.shape), torch.zeros(e.shape), *d_weights]
    # Rows that were not computed have no gradient; values have none without `out`, and an outer sum without `e_new`.
    is_partial = s.query_rows or (s.attends and d_out is None) or (s.outer_sum and d_e_new is None)
    d_qkv = torch.zeros(qkv.shape) if is_partial else torch.empty(qkv.shape)
    d_e = torch.zeros(e.shape) if s.query_rows else binding.empty(e.shape)
    named = zip(inputs.names, d_weights, strict=True)
    d_parameters = binding.PairParameters(**{name: tensor.data_ptr() for name, tensor in named})
    binding.loaded().egt_pair_pass_backward(
        inputs.struct,
        None if d_out is None else d_out.data_ptr(),
        None if d_e_new is None else d_e_new.data_ptr(),
        d_qkv.data_ptr(),
        d_e.data_ptr(),
        d_parameters,
    )
    return [d_qkv, d_e, *d_weights]


@shapes("pair_pass_backward")
def _(d_out: Any, d_e_new: Any, qkv: Tensor, e: Tensor, *others: Any) -> list[Tensor]:
    weights = others[-1]
    return empty_like(qkv, e, *weights)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    qkv, e, sizes, listed, allowed, keys, ctx.switches, ctx.numbers, weights = inputs
    ctx.set_materialize_grads(False)
    ctx.counts = len(listed), len(keys)
    ctx.save_for_backward(qkv, e, sizes, allowed, *listed, *keys, *weights)


def _backward(ctx: Any, compute: Function, d_out: Tensor | None, d_e_new: Tensor | None) -> tuple[Any, ...]:
    saved = ctx.saved_tensors  # once: under activation checkpointing each look unpacks them
    (qkv, e, sizes, allowed), others = saved[:4], list(saved[4:])
    num_listed, num_keys = ctx.counts
    listed, keys, weights = others[:num_listed], others[num_listed:][:num_keys], others[num_listed + num_keys :]
    inputs = (qkv, e, sizes, listed, allowed, keys, ctx.switches, ctx.numbers, weights)
    d_qkv, d_e, *d_weights = compute(d_out, d_e_new, *inputs)
    return d_qkv, d_e, None, [None] * num_listed, None, [None] * num_keys, None, None, d_weights


_run = differentiable("pair_pass", _backward, _setup_context)


def _checked(names: Sequence[str], tensors: Sequence[Tensor], sizes: dict[str, int]) -> list[Tensor]:
    """Return the tensors, contiguous, if their shapes are as `_SHAPES` says for these sizes."""
    shapes = [tuple(map(sizes.__getitem__, _SHAPES[name])) for name in names]
    return [binding.checked(*given) for given in zip(names, tensors, shapes, strict=True)]


# M rows, d channels, m hidden ones, o outputs.
_SHAPES = {
    **dict.fromkeys(("x", "h", "h1", "d_h_new", "D1", "D2"), "Md"),
    "out": "Mo",
    **dict.fromkeys(("norm_weight", "norm_bias", "O_bias", "W2_bias"), "d"),
    "weight": "od",
    "bias": "o",
    "d_y": "Mo",
    "O_weight": "do",
    "W1_weight": "md",
    "W1_bias": "m",
    "W2_weight": "dm",
    "hidden": "Mm",
}

_LINEAR_INPUTS = ("x", "norm_weight", "norm_bias", "weight", "bias")

_UPDATE_WEIGHTS = (
    *("O_weight", "O_bias", "norm_weight", "norm_bias"),
    *("W1_weight", "W1_bias", "W2_weight", "W2_bias"),
)


def _pointers(names: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, int]:
    return {name: tensor.data_ptr() for name, tensor in zip(names, tensors, strict=True)}


@operator("norm_linear")
def norm_linear(
    x: Tensor, norm_weight: Tensor, norm_bias: Tensor, weight: Tensor, bias: Tensor, eps: float, portable: bool = False
) -> Tensor:
    """Compute W LN(x) + b, (M, o); `_SHAPES` has the shapes of the others. `portable` avoids the AVX2 path."""
    inputs = (x, norm_weight, norm_bias, weight, bias)
    y = x.new_empty(x.shape[0], weight.shape[0])
    call, _kept = _linear_call(inputs, eps, portable)
    call.y = y.data_ptr()
    binding.loaded().egt_norm_linear(call)
    return y


def _linear_call(inputs: Sequence[Tensor], eps: float, portable: bool) -> tuple[ctypes.Structure, list[Tensor]]:
    """Make the struct of a call, and return the tensors it points to."""
    (num_rows, d), d_out = inputs[0].shape, inputs[3].shape[0]
    checked = _checked(_LINEAR_INPUTS, inputs, {"M": num_rows, "d": d, "o": d_out})
    sizes = (num_rows, d, d_out, torch.get_num_threads(), portable)
    return binding.NormLinear(*sizes, eps, binding.run_parallel(), **_pointers(_LINEAR_INPUTS, checked)), checked


@shapes("norm_linear")
def _(x: Tensor, norm_weight: Any, norm_bias: Any, weight: Tensor, *others: Any) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


@operator("norm_linear_backward")
def norm_linear_backward(
    d_y: Tensor,
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    portable: bool,
) -> list[Tensor]:
    """Compute the gradients of x, the norm, the weight and the bias, in this order."""
    inputs = (x, norm_weight, norm_bias, weight, bias)
    call, checked = _linear_call(inputs, eps, portable)
    (d_y,) = _checked(["d_y"], [d_y], {"M": x.shape[0], "o": weight.shape[0]})
    gradients = [torch.empty_like(tensor) for tensor in checked]
    pointers = [tensor.data_ptr() for tensor in (d_y, *gradients)]
    binding.loaded().egt_norm_linear_backward(call, binding.NormLinearGradients(*pointers))
    return gradients


@shapes("norm_linear_backward")
def _(d_y: Any, *inputs: Any) -> list[Tensor]:
    return empty_like(*inputs[:5])


def _save_linear(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.eps, ctx.portable = inputs
    ctx.save_for_backward(*tensors)


def _linear_backward(ctx: Any, compute: Function, d_y: Tensor) -> tuple[Tensor | None, ...]:
    return (*compute(d_y, *ctx.saved_tensors, ctx.eps, ctx.portable), None, None)


project_rows = differentiable("norm_linear", _linear_backward, _save_linear)


@operator("node_update")
def node_update(
    h: Tensor,
    out: Tensor,
    D1: Tensor | None,
    D2: Tensor | None,
    O_weight: Tensor,
    O_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    W1_weight: Tensor,
    W1_bias: Tensor,
    W2_weight: Tensor,
    W2_bias: Tensor,
    eps: float,
    activation: str,
    keep: bool,
    portable: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the residual update of the nodes and their feed-forward block; `_SHAPES` has the shapes.

    `out` is what the heads gathered, o = d; of a pair its o = H logits. D1 and D2 hold 0 or 1 / (1 - p), None: no
    dropout. `activation` is one of `binding.ACTIVATIONS`.

    Returns:
        h_new (M, d), h1 (M, d), hidden rows (M, m); the last two have no rows without `keep`: a backward pass computes
        them again, some rows at a time, which is faster where there are more rows than the cache holds.
    """
    weights = (O_weight, O_bias, norm_weight, norm_bias, W1_weight, W1_bias, W2_weight, W2_bias)
    call, _kept = _update_call({"h": h, "out": out, "D1": D1, "D2": D2}, weights, eps, activation, portable)
    h_new, h1, hidden = _update_outputs(h, W1_weight.shape[0], keep)
    call.h_new = h_new.data_ptr()
    if keep:
        call.h1, call.hidden = h1.data_ptr(), hidden.data_ptr()
    binding.loaded().egt_node_update(call)
    return h_new, h1, hidden


def _update_call(
    rows: dict[str, Tensor | None], weights: Sequence[Tensor], eps: float, activation: str, portable: bool
) -> tuple[ctypes.Structure, dict[str, Tensor]]:
    """Make the struct of a call, and return the tensors it points to."""
    given = {name: tensor for name, tensor in rows.items() if tensor is not None}
    (num_rows, o), d, m = given["out"].shape, weights[0].shape[0], weights[4].shape[0]
    names = (*given, *_UPDATE_WEIGHTS)
    checked = _checked(names, (*given.values(), *weights), {"M": num_rows, "d": d, "o": o, "m": m})
    sizes = (num_rows, d, o, m, torch.get_num_threads(), portable, binding.ACTIVATIONS.index(activation))
    call = binding.NodeUpdate(*sizes, eps, binding.run_parallel(), **_pointers(names, checked))
    return call, dict(zip(names, checked, strict=True))


def _update_outputs(h: Tensor, hidden_width: int, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    num_rows, d = h.shape
    kept_rows = num_rows if keep else 0
    return h.new_empty(num_rows, d), h.new_empty(kept_rows, d), h.new_empty(kept_rows, hidden_width)


@shapes("node_update")
def _(h: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    W1_weight, keep = others[7], others[13]
    return _update_outputs(h, W1_weight.shape[0], keep)


@operator("node_update_backward")
def node_update_backward(
    d_h_new: Tensor,
    out: Tensor,
    D1: Tensor | None,
    D2: Tensor | None,
    h1: Tensor,
    hidden: Tensor,
    weights: Sequence[Tensor],
    eps: float,
    activation: str,
    portable: bool,
) -> list[Tensor]:
    """Compute the gradients of h, out and the weights, in the order of `node_update`."""
    rows = {"out": out, "D1": D1, "D2": D2, "h1": h1, "hidden": hidden}
    call, checked = _update_call(rows, weights, eps, activation, portable)
    (d_h_new,) = _checked(["d_h_new"], [d_h_new], {"M": out.shape[0], "d": h1.shape[1]})
    gradients = [torch.empty_like(checked[name]) for name in ("h1", "out", *_UPDATE_WEIGHTS)]
    pointers = [tensor.data_ptr() for tensor in (d_h_new, *gradients)]
    binding.loaded().egt_node_update_backward(call, binding.NodeUpdateGradients(*pointers))
    return gradients


@shapes("node_update_backward")
def _(d_h_new: Any, out: Tensor, D1: Any, D2: Any, h1: Tensor, hidden: Any, weights: Any, *_: Any) -> list[Tensor]:
    return empty_like(h1, out, *weights)


def _save_update(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, out, D1, D2, *weights, ctx.eps, ctx.activation, _, ctx.portable = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(out, D1, D2, *output[1:], *weights)


def _update_backward(ctx: Any, compute: Function, d_h_new: Tensor, *_: None) -> tuple[Tensor | None, ...]:
    out, D1, D2, h1, hidden, *weights = ctx.saved_tensors
    settings = (ctx.eps, ctx.activation, ctx.portable)
    d_h, d_out, *d_weights = compute(d_h_new, out, D1, D2, h1, hidden, weights, *settings)
    return (d_h, d_out, None, None, *d_weights, None, None, None, None)


update_rows = differentiable("node_update", _update_backward, _save_update)


@operator("node_factors")
def node_factors(
    sizes: Tensor,
    keys: Tensor,
    num_rows: int,
    width: int,
    salts: Sequence[int],
    probability: float,
    portable: bool = False,
) -> Tensor:
    """Draw the factors of a dropout of node channels, 0 or 1 / (1 - p): those of `egt.nn.randomness.Dropout`.

    sizes: (B,) int64, nodes of each graph; keys: (B, 2) int64; salts: those of the layer and stream. Returns (M, d).
    """
    num_graphs = sizes.shape[0]
    sizes = binding.checked("sizes", sizes, (num_graphs,), torch.int64)
    keys = binding.checked("keys", keys, (num_graphs, 2), torch.int64)
    factors = torch.empty(num_rows, width)
    factor = 1 / ctypes.c_float(1 - probability).value
    call = binding.NodeFactors(
        *(num_graphs, num_rows, width, threshold(probability), *salts, torch.get_num_threads(), portable, factor),
        *(binding.run_parallel(), sizes.data_ptr(), keys.data_ptr(), factors.data_ptr()),
    )
    binding.loaded().egt_node_factors(call)
    return factors


@shapes("node_factors")
def _(sizes: Tensor, keys: Any, num_rows: int, width: int, *others: Any) -> Tensor:
    return sizes.new_empty(num_rows, width, dtype=torch.float32)
