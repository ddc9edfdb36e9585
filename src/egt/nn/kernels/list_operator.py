"""`egt::list_dot`, `egt::list_sum` and `egt::list_softmax`: attention over a list of pairs, with shapes and gradients.

    list_dot:      product_p = <x_from(p), y_to(p)>
    list_sum:      sum_i = sum over the pairs p from i of weight_p y_to(p)
    list_softmax:  over the pairs from each node

The gradients of the first two are the first two again, with the ends of the pairs as they are or exchanged.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from egt.nn.kernels import binding
from egt.nn.kernels.operator import operator, shapes


def _list(
    start: Tensor, end: Tensor, num_nodes: int, num_heads: int, width: int, portable: bool
) -> tuple[binding.PairList, tuple[Tensor, Tensor]]:
    """Make the struct of a list, and return the tensors it points to."""
    num_pairs = len(start)
    start = binding.checked("start", start, (num_pairs,), torch.int64)
    end = binding.checked("end", end, (num_pairs,), torch.int64)
    sizes = (num_nodes, num_pairs, num_heads, width, torch.get_num_threads(), portable)
    return binding.PairList(*sizes, binding.run_parallel(), start.data_ptr(), end.data_ptr()), (start, end)


@operator("list_dot")
def list_dot(x: Tensor, y: Tensor, start: Tensor, end: Tensor, portable: bool = False) -> Tensor:
    """Compute the dot products of the two nodes of each pair.

    Args:
        x: (M, H, d_k) rows of the nodes that pairs are from.
        y: (M, H, d_k) rows of the nodes that they lead to.
        start: (P,) int64 node that each pair is from.
        end: (P,) int64 node that it leads to.
        portable: do not use the AVX2 path.

    Returns:
        (P, H).
    """
    M, H, d_k = x.shape
    nodes = (M, H, d_k)
    x, y = binding.checked("x", x, nodes), binding.checked("y", y, nodes)
    product = x.new_empty(len(start), nodes[1])
    call, _kept = _list(start, end, *nodes, portable)
    binding.raise_for(binding.loaded().egt_list_dot(call, x.data_ptr(), y.data_ptr(), product.data_ptr()))
    return product


@shapes("list_dot")
def _(x: Tensor, y: Any, start: Tensor, end: Any, portable: Any = False) -> Tensor:
    return x.new_empty(len(start), x.shape[1])


@operator("list_sum")
def list_sum(weight: Tensor, y: Tensor, start: Tensor, end: Tensor, portable: bool = False) -> Tensor:
    """Compute the weighted sum of the nodes that the pairs from each node lead to.

    Args:
        weight: (P, H).
        y: (M, H, d_k).
        start: (P,) int64 node that each pair is from, in any order.
        end: (P,) int64 node that it leads to.
        portable: do not use the AVX2 path.

    Returns:
        (M, H, d_k).
    """
    M, H, d_k = y.shape
    nodes = (M, H, d_k)
    weight, y = binding.checked("weight", weight, (len(start), nodes[1])), binding.checked("y", y, nodes)
    total = torch.empty(nodes)
    call, _kept = _list(start, end, *nodes, portable)
    binding.raise_for(binding.loaded().egt_list_sum(call, weight.data_ptr(), y.data_ptr(), total.data_ptr()))
    return total


@shapes("list_sum")
def _(weight: Any, y: Tensor, start: Any, end: Any, portable: Any = False) -> Tensor:
    return y.new_empty(y.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.portable = inputs
    ctx.save_for_backward(*tensors)


def _dot_backward(ctx: Any, d_product: Tensor) -> tuple[Tensor | None, ...]:
    x, y, start, end = ctx.saved_tensors
    d_x, d_y = list_sum(d_product, y, start, end, ctx.portable), list_sum(d_product, x, end, start, ctx.portable)
    return d_x, d_y, None, None, None


def _sum_backward(ctx: Any, d_sum: Tensor) -> tuple[Tensor | None, ...]:
    weight, y, start, end = ctx.saved_tensors
    d_weight, d_y = list_dot(d_sum, y, start, end, ctx.portable), list_sum(weight, d_sum, end, start, ctx.portable)
    return d_weight, d_y, None, None, None


torch.library.register_autograd("egt::list_dot", _dot_backward, setup_context=_keep)
torch.library.register_autograd("egt::list_sum", _sum_backward, setup_context=_keep)


@operator("list_softmax")
def list_softmax(logits: Tensor, start: Tensor, portable: bool = False) -> Tensor:
    """Compute the softmax over the pairs from each node.

    Args:
        logits: (P, H).
        start: (P,) int64 node that each pair is from; those from one node follow one another.
        portable: do not use the AVX2 path.

    Returns:
        (P, H).
    """
    logits = binding.checked("logits", logits, (len(start), logits.shape[1]))
    softmax = torch.empty_like(logits)
    call, _kept = _list(start, start, 0, logits.shape[1], 0, portable)
    binding.raise_for(binding.loaded().egt_list_softmax(call, logits.data_ptr(), softmax.data_ptr()))
    return softmax


@shapes("list_softmax")
def _(logits: Tensor, start: Any, portable: Any = False) -> Tensor:
    return logits.new_empty(logits.shape)


@operator("list_softmax_backward")
def list_softmax_backward(d_softmax: Tensor, softmax: Tensor, start: Tensor, portable: bool) -> Tensor:
    """Compute the gradient of the logits."""
    d_softmax = binding.checked("d_softmax", d_softmax, tuple(softmax.shape))
    d_logits = torch.empty_like(softmax)
    call, _kept = _list(start, start, 0, softmax.shape[1], 0, portable)
    pointers = [tensor.data_ptr() for tensor in (softmax, d_softmax, d_logits)]
    binding.raise_for(binding.loaded().egt_list_softmax_backward(call, *pointers))
    return d_logits


@shapes("list_softmax_backward")
def _(d_softmax: Any, softmax: Tensor, start: Any, portable: Any) -> Tensor:
    return softmax.new_empty(softmax.shape)


def _keep_softmax(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, start, ctx.portable = inputs
    ctx.save_for_backward(output, start)


def _softmax_backward(ctx: Any, d_softmax: Tensor) -> tuple[Tensor | None, ...]:
    return list_softmax_backward(d_softmax, *ctx.saved_tensors, ctx.portable), None, None


torch.library.register_autograd("egt::list_softmax", _softmax_backward, setup_context=_keep_softmax)
