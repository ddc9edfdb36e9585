"""`egt::norm_linear` and `egt::node_update`: the node side of a layer as two operators with shapes and gradients.

    norm_linear:  y = W LN(x) + b
    node_update:  h1 = h + D1 (O out + b_O);  a = act(W1 LN(h1) + b1);  h_new = h1 + D2 (W2 a + b2)

D1 and D2 are the factors of dropout, which `egt::node_factors` draws. The backward passes are operators too. They work
on what the forward kept: inputs, h1, and a for ELU or what a is computed from for the others. Norms are computed again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from egt.nn.kernels import binding
from egt.nn.kernels.pair_operator import empty_like, operator, shapes
from egt.nn.randomness import threshold


def _checked(names: Sequence[str], tensors: Sequence[Tensor], sizes: dict[str, int]) -> list[Tensor]:
    """Return the tensors, contiguous, if their shapes are as `_SHAPES` says for these sizes."""
    shapes = [tuple(sizes[letter] for letter in _SHAPES[name]) for name in names]
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


def _linear_backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
    return (*norm_linear_backward(d_y, *ctx.saved_tensors, ctx.eps, ctx.portable), None, None)


torch.library.register_autograd("egt::norm_linear", _linear_backward, setup_context=_save_linear)


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


def _update_backward(ctx: Any, d_h_new: Tensor, *_: None) -> tuple[Tensor | None, ...]:
    out, D1, D2, h1, hidden, *weights = ctx.saved_tensors
    settings = (ctx.eps, ctx.activation, ctx.portable)
    d_h, d_out, *d_weights = node_update_backward(d_h_new, out, D1, D2, h1, hidden, weights, *settings)
    return (d_h, d_out, None, None, *d_weights, None, None, None, None)


torch.library.register_autograd("egt::node_update", _update_backward, setup_context=_save_update)


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
