"""`egt::norm_linear` and `egt::node_update`: the node side of a layer as two operators with shapes and gradients.

    norm_linear:  y = W LN(x) + b
    node_update:  h1 = h + O out + b_O;  a = ELU(W1 LN(h1) + b1);  h_new = h1 + W2 a + b2

Their backward passes are compositions of torch's own products, on what the forward kept: inputs, h1 and a. Norms are
computed again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from egt.nn.kernels import binding


@torch.library.custom_op("egt::norm_linear", mutates_args=(), device_types="cpu")
def norm_linear(
    x: Tensor, norm_weight: Tensor, norm_bias: Tensor, weight: Tensor, bias: Tensor, eps: float, portable: bool = False
) -> Tensor:
    """W LN(x) + b.

    Args:
        x: (M, d).
        norm_weight: (d).
        norm_bias: (d).
        weight: (d_out, d).
        bias: (d_out).
        eps: of the norm.
        portable: do not use the AVX2 path.

    Returns:
        (M, d_out).
    """
    (num_rows, d), d_out = x.shape, weight.shape[0]
    shapes = {"x": (num_rows, d), "norm_weight": (d,), "norm_bias": (d,), "weight": (d_out, d), "bias": (d_out,)}
    given = (x, norm_weight, norm_bias, weight, bias)
    inputs = [binding.checked(name, t, shape) for t, (name, shape) in zip(given, shapes.items(), strict=True)]
    y = x.new_empty(num_rows, d_out)
    pointers = [tensor.data_ptr() for tensor in (*inputs, y)]
    sizes = (num_rows, d, d_out, torch.get_num_threads(), portable)
    call = binding.NormLinear(*sizes, eps, binding.run_parallel(), *pointers)
    binding.raise_for(binding.loaded().egt_norm_linear(call))
    return y


@norm_linear.register_fake
def _(
    x: Tensor, norm_weight: Any, norm_bias: Any, weight: Tensor, bias: Any, eps: Any, portable: Any = False
) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


def _keep_norm_linear(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, norm_weight, norm_bias, weight, _, ctx.eps, _ = inputs
    ctx.save_for_backward(x, norm_weight, norm_bias, weight)


def _norm_linear_backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
    x, norm_weight, norm_bias, weight = ctx.saved_tensors
    normalized, *moments = _norm(x, norm_weight, norm_bias, ctx.eps)
    d_x, d_norm_weight, d_norm_bias = _norm_backward(d_y @ weight, x, moments, norm_weight, norm_bias)
    return d_x, d_norm_weight, d_norm_bias, d_y.t() @ normalized, d_y.sum(0), None, None


norm_linear.register_autograd(_norm_linear_backward, setup_context=_keep_norm_linear)


@torch.library.custom_op("egt::node_update", mutates_args=(), device_types="cpu")
def node_update(
    h: Tensor,
    out: Tensor,
    O_weight: Tensor,
    O_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    W1_weight: Tensor,
    W1_bias: Tensor,
    W2_weight: Tensor,
    W2_bias: Tensor,
    eps: float,
    keep: bool,
    portable: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The residual update of the nodes and their feed-forward block.

    Args:
        h: (M, d) node channel.
        out: (M, d) what the heads gathered.
        O_weight: (d, d).
        O_bias: (d).
        norm_weight: (d).
        norm_bias: (d).
        W1_weight: (m, d).
        W1_bias: (m).
        W2_weight: (d, m).
        W2_bias: (d).
        eps: of the norm.
        keep: return h1 and a as well, for a backward pass.
        portable: do not use the AVX2 path.

    Returns:
        h_new (M, d), h1 (M, d), a (M, m); the last two have no rows unless kept.
    """
    (num_rows, d), m = h.shape, W1_weight.shape[0]
    shapes = {
        "h": (num_rows, d),
        "out": (num_rows, d),
        "O_weight": (d, d),
        "O_bias": (d,),
        "norm_weight": (d,),
        "norm_bias": (d,),
        "W1_weight": (m, d),
        "W1_bias": (m,),
        "W2_weight": (d, m),
        "W2_bias": (d,),
    }
    given = (h, out, O_weight, O_bias, norm_weight, norm_bias, W1_weight, W1_bias, W2_weight, W2_bias)
    inputs = [binding.checked(name, t, shape) for t, (name, shape) in zip(given, shapes.items(), strict=True)]
    h_new, h1, a = _update_outputs(h, m, keep)
    pointers = [tensor.data_ptr() for tensor in (*inputs, h_new)]
    kept = [tensor.data_ptr() if keep else None for tensor in (h1, a)]
    sizes = (num_rows, d, m, torch.get_num_threads(), portable)
    call = binding.NodeUpdate(*sizes, eps, binding.run_parallel(), *pointers, *kept)
    binding.raise_for(binding.loaded().egt_node_update(call))
    return h_new, h1, a


def _update_outputs(h: Tensor, hidden_width: int, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    num_rows, d = h.shape
    kept_rows = num_rows if keep else 0
    return h.new_empty(num_rows, d), h.new_empty(kept_rows, d), h.new_empty(kept_rows, hidden_width)


@node_update.register_fake
def _(
    h: Tensor,
    out: Any,
    O_weight: Any,
    O_bias: Any,
    norm_weight: Any,
    norm_bias: Any,
    W1_weight: Tensor,
    W1_bias: Any,
    W2_weight: Any,
    W2_bias: Any,
    eps: Any,
    keep: bool,
    portable: Any = False,
) -> tuple[Tensor, Tensor, Tensor]:
    return _update_outputs(h, W1_weight.shape[0], keep)


def _keep_update(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, out, O_weight, _, norm_weight, norm_bias, W1_weight, _, W2_weight, _, ctx.eps, keep, _ = inputs
    assert keep, "a backward pass needs h1 and a"
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(out, O_weight, norm_weight, norm_bias, W1_weight, W2_weight, output[1], output[2])


def _update_backward(ctx: Any, d_h_new: Tensor, *_: None) -> tuple[Tensor | None, ...]:
    out, O_weight, norm_weight, norm_bias, W1_weight, W2_weight, h1, a = ctx.saved_tensors
    normalized, *moments = _norm(h1, norm_weight, norm_bias, ctx.eps)
    # The derivative of ELU follows from its value.
    d_hidden = torch.ops.aten.elu_backward(d_h_new @ W2_weight, 1.0, 1.0, 1.0, True, a)
    d_h1, d_norm_weight, d_norm_bias = _norm_backward(d_hidden @ W1_weight, h1, moments, norm_weight, norm_bias)
    d_h1 += d_h_new
    return (
        *(d_h1, d_h1 @ O_weight, d_h1.t() @ out, d_h1.sum(0)),
        *(d_norm_weight, d_norm_bias),
        *(d_hidden.t() @ normalized, d_hidden.sum(0)),
        *(d_h_new.t() @ a, d_h_new.sum(0)),
        *(None, None, None),
    )


node_update.register_autograd(_update_backward, setup_context=_keep_update)


def _norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """LN(x), and the mean and inverse deviation of each row."""
    normalized, mean, inverse_std = torch.native_layer_norm(x, x.shape[-1:], weight, bias, eps)
    return normalized, mean, inverse_std


def _norm_backward(
    d_normalized: Tensor, x: Tensor, moments: list[Tensor], weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x and of the affine part of a norm."""
    d_x, d_weight, d_bias = torch.ops.aten.native_layer_norm_backward(
        d_normalized, x, x.shape[-1:], *moments, weight, bias, [True, True, True]
    )
    return d_x, d_weight, d_bias
