"""`egt::pair_pass` and `egt::pair_pass_backward`: the kernel as operators with shapes and gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from egt.nn.kernels import allocator, binding

Function = Callable[..., Any]


def operator(name: str) -> Callable[[Function], Any]:
    """Decorate the function that computes the operator `egt::name` on a CPU; types are read from its hints.

    What it returns is called like the function; `torch.library.register_autograd` takes its full name.
    """
    full = f"egt::{name}"

    def register(function: Function) -> Any:
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
        weights: Sequence[Tensor],
        switches: Sequence[int],
        numbers: Sequence[float],
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
    weights: Sequence[Tensor],
    switches: Sequence[int],
    numbers: Sequence[float],
) -> tuple[Tensor, Tensor]:
    """Run the forward pass; `egt.nn.kernels.fused.pair_pass` says what the arguments mean."""
    inputs = Inputs(qkv, e, sizes, listed, allowed, keys, weights, switches, numbers)
    out = qkv.new_zeros(inputs.out_shape) if Switches(*switches).query_rows else qkv.new_empty(inputs.out_shape)
    e_new = allocator.empty(inputs.e_shape)
    _forward(inputs, out, e_new)
    return out, e_new


def _forward(inputs: Inputs, out: Tensor, e_new: Tensor) -> None:
    """Fill the outputs; one without rows is not wanted."""
    pointers = [tensor.data_ptr() if tensor.shape[0] else None for tensor in (out, e_new)]
    binding.loaded().egt_pair_pass_forward(inputs.struct, *pointers)


@shapes("pair_pass")
def _(qkv: Tensor, e: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    *_, weights, switches, _ = others
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
    weights: Sequence[Tensor],
    switches: Sequence[int],
    numbers: Sequence[float],
) -> list[Tensor]:
    """Compute the gradients of qkv, e and the weights, from those of the outputs (None: the output was not used)."""
    inputs = Inputs(qkv, e, sizes, listed, allowed, keys, weights, switches, numbers)
    s = Switches(*switches)
    d_out = None if d_out is None or not s.attends else binding.checked("d_out", d_out, inputs.out_shape)
    d_e_new = None if d_e_new is None or not s.updates else binding.checked("d_e_new", d_e_new, inputs.e_shape)
    d_weights = [torch.zeros(weight.shape) for weight in weights]
    if d_out is None and d_e_new is None:
        return [torch.zeros(qkv.shape), torch.zeros(e.shape), *d_weights]
    # Rows that were not computed have no gradient; values have none without `out`, and an outer sum without `e_new`.
    is_partial = s.query_rows or (s.attends and d_out is None) or (s.outer_sum and d_e_new is None)
    d_qkv = torch.zeros(qkv.shape) if is_partial else torch.empty(qkv.shape)
    d_e = torch.zeros(e.shape) if s.query_rows else allocator.empty(e.shape)
    named = zip(inputs.names, d_weights, strict=True)
    d_parameters = binding.PairParameters(**{name: tensor.data_ptr() for name, tensor in named})
    binding.loaded().egt_pair_pass_backward(
        inputs.struct,
        binding.pointer(d_out),
        binding.pointer(d_e_new),
        d_qkv.data_ptr(),
        d_e.data_ptr(),
        d_parameters,
    )
    return [d_qkv, d_e, *d_weights]


@shapes("pair_pass_backward")
def _(d_out: Any, d_e_new: Any, qkv: Tensor, e: Tensor, *others: Any) -> list[Tensor]:
    *_, weights, _, _ = others
    return empty_like(qkv, e, *weights)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    qkv, e, sizes, listed, allowed, keys, weights, ctx.switches, ctx.numbers = inputs
    ctx.set_materialize_grads(False)
    ctx.counts = len(listed), len(keys)
    ctx.save_for_backward(qkv, e, sizes, allowed, *listed, *keys, *weights)


def _backward(ctx: Any, d_out: Tensor | None, d_e_new: Tensor | None) -> tuple[Any, ...]:
    saved = ctx.saved_tensors  # once: under activation checkpointing each look unpacks them
    (qkv, e, sizes, allowed), others = saved[:4], list(saved[4:])
    num_listed, num_keys = ctx.counts
    listed, keys, weights = others[:num_listed], others[num_listed:][:num_keys], others[num_listed + num_keys :]
    inputs = (qkv, e, sizes, listed, allowed, keys, weights, ctx.switches, ctx.numbers)
    d_qkv, d_e, *d_weights = run_backward(d_out, d_e_new, *inputs)
    return d_qkv, d_e, None, [None] * num_listed, None, [None] * num_keys, d_weights, None, None


torch.library.register_autograd("egt::pair_pass", _backward, setup_context=_setup_context)
