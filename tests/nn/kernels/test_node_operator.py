"""The node side in the kernel equals the plain float64 equations: values, gradients, any width and number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from egt.data.batching.layout import Packed
from egt.nn.channels import AttentionContext
from egt.nn.kernels.operators import (
    available,
    node_factors,
    node_update,
    node_update_backward,
    norm_linear,
    norm_linear_backward,
    project_rows,
    update_rows,
)
from egt.nn.randomness import Dropout, Stream, graph_keys, salts

ROWS = [1, 7, 8, 16, 65, 66, 67, 140, 300]
WIDTHS = [(5, 7), (8, 16), (48, 96), (130, 100)]
WIDE = [(24, 530), (530, 24)]
"""More channels than are multiplied at a time."""
EPS = 1e-3


@pytest.fixture(autouse=True)
def _kernel() -> None:
    if not available():
        pytest.skip("the fused kernel needs a C++ compiler")


@pytest.fixture(params=[1, 2])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def _random(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(sum(map(sum, shapes)))
    return [(torch.randn(shape) / shape[-1] ** (0.5 * (len(shape) - 1))).requires_grad_() for shape in shapes]


def projection_inputs(rows: int, d: int, d_out: int) -> list[Tensor]:
    return _random((rows, d), (d,), (d,), (d_out, d), (d_out,))


def update_inputs(rows: int, d: int, m: int) -> list[Tensor]:
    return _random((rows, d), (rows, d), (d, d), (d,), (d,), (d,), (m, d), (m,), (d, m), (d,))


def plain_projection(x: Tensor, norm_weight: Tensor, norm_bias: Tensor, W: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], norm_weight, norm_bias, EPS) @ W.t() + b


def _update(activation: str, drops: bool = False) -> tuple[Callable[..., list[Tensor]], Callable[..., Tensor], Any]:
    """Inputs, fused and plain form of an update."""

    def factors(rows: int, d: int) -> list[Tensor | None]:
        if not drops:
            return [None, None]
        generator = torch.Generator().manual_seed(rows)
        return [(torch.rand(rows, d, generator=generator) > p).float() / (1 - p) for p in (0.2, 0.4)]

    def plain(h: Tensor, out: Tensor, *weights: Tensor) -> Tensor:
        O_h, b_O, norm_weight, norm_bias, W1, b1, W2, b2 = weights
        D1, D2 = (1.0 if D is None else D for D in factors(*h.shape))
        h1 = h + D1 * (out @ O_h.t() + b_O)
        hidden = F.layer_norm(h1, h1.shape[-1:], norm_weight, norm_bias, EPS) @ W1.t() + b1
        return h1 + D2 * (getattr(F, activation)(hidden) @ W2.t() + b2)

    def fused(h: Tensor, out: Tensor, *weights: Tensor, portable: bool = False) -> Tensor:
        return update_rows(h, out, *factors(*h.shape), *weights, EPS, activation, True, portable)[0]

    return update_inputs, fused, plain


def fused_projection(*inputs: Tensor, portable: bool = False) -> Tensor:
    return project_rows(*inputs, EPS, portable)


OPERATORS: dict[str, tuple[Callable[..., list[Tensor]], Callable[..., Tensor], Callable[..., Tensor]]] = {
    "projection": (projection_inputs, fused_projection, plain_projection),
    **{f"update with {activation}": _update(activation) for activation in ("elu", "gelu", "relu", "silu")},
    "update with dropout": _update("elu", drops=True),
    "update with dropout and gelu": _update("gelu", drops=True),
}


def _close(found: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> None:
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.double() - b).abs().max() <= tolerance * max(1.0, b.abs().max().item()), f"input {number}"


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("widths", WIDTHS + WIDE)
def test_values_and_gradients_equal_float64(name: str, widths: tuple[int, int]) -> None:
    make, fused, plain = OPERATORS[name]
    for rows in [9] if widths in WIDE else ROWS:
        inputs = make(rows, *widths)
        exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
        found, expected = fused(*inputs), plain(*exact)
        _close([found], [expected], 2e-5)
        direction = torch.randn(expected.shape, dtype=torch.float64)
        _close(
            torch.autograd.grad(found, inputs, direction.float()),
            torch.autograd.grad(expected, exact, direction),
            5e-5,
        )


@pytest.mark.parametrize("name", OPERATORS)
def test_portable_path_is_the_same(name: str) -> None:
    make, fused, _ = OPERATORS[name]
    inputs = make(70, 21, 34)
    portable = fused(*inputs, portable=True)
    fast = fused(*inputs)
    _close([portable], [fast.double()], 1e-5)
    direction = torch.randn(fast.shape)
    expected = torch.autograd.grad(fast, inputs, direction)
    _close(torch.autograd.grad(portable, inputs, direction), [tensor.double() for tensor in expected], 1e-5)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("name", OPERATORS)
def test_the_same_bits_each_time(name: str) -> None:
    make, fused, _ = OPERATORS[name]
    inputs = make(500, 16, 32)
    first, *others = [torch.autograd.grad(fused(*inputs).square().sum(), inputs) for _ in range(5)]
    for gradients in others:
        assert all(torch.equal(a, b) for a, b in zip(gradients, first, strict=True))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_row_does_not_depend_on_others(name: str) -> None:
    make, fused, _ = OPERATORS[name]
    inputs = make(100, 16, 32)
    whole = fused(*inputs)
    several = [tensor[:5] if tensor.shape[0] == 100 else tensor for tensor in inputs]
    if "dropout" not in name:  # its factors here depend on the number of rows
        assert torch.equal(fused(*several), whole[:5])


def test_seen_as_operators() -> None:
    inputs = projection_inputs(9, 8, 16)
    torch.library.opcheck(norm_linear, (*inputs, EPS))
    plain = [tensor.detach() for tensor in inputs]
    torch.library.opcheck(norm_linear_backward, (torch.randn(9, 16), *plain, EPS, False))
    for activation, D in (("elu", None), ("gelu", torch.ones(9, 8)), ("relu", None), ("silu", None)):
        h, out, *weights = update_inputs(9, 8, 16)
        torch.library.opcheck(node_update, (h, out, D, D, *weights, EPS, activation, True))
        out, *weights = [tensor.detach() for tensor in (out, *weights)]
        h1, hidden = torch.randn(9, 8), torch.randn(9, 16)
        rows = (torch.randn(9, 8), out, D, D, h1, hidden)
        torch.library.opcheck(node_update_backward, (*rows, weights, EPS, activation, False))


def test_update_keeps_inputs_for_a_backward_only() -> None:
    h, out, *weights = update_inputs(9, 8, 16)
    with torch.no_grad():
        h_new, h1, hidden = node_update(h, out, None, None, *weights, EPS, "elu", False)
    assert (h1.shape, hidden.shape) == ((0, 8), (0, 16))
    assert torch.equal(h_new, OPERATORS["update with elu"][1](h, out, *weights))


def test_wrong_shape_is_refused() -> None:
    inputs = projection_inputs(4, 8, 16)
    inputs[3] = inputs[3][:, :5]
    with pytest.raises(ValueError, match=r"\(16, 5\).*\(16, 8\)"):
        norm_linear(*inputs, EPS)
    h, out, *weights = update_inputs(4, 8, 16)
    with pytest.raises(ValueError, match=r"\(4, 8\).*torch.float64"):
        node_update(h, out.detach().double(), None, None, *weights, EPS, "elu", True)


@pytest.mark.parametrize("name", OPERATORS)
def test_no_rows(name: str) -> None:
    make, fused, plain = OPERATORS[name]
    inputs = make(0, 8, 16)
    found = fused(*inputs)
    assert found.shape == plain(*inputs).shape
    for gradient, tensor in zip(torch.autograd.grad(found.sum(), inputs), inputs, strict=True):
        assert torch.equal(gradient, torch.zeros_like(tensor))


def factors_of(dropout: Dropout, context: AttentionContext, width: int, portable: bool = False) -> Tensor:
    layout = context.layout
    assert isinstance(layout, Packed)
    of_layer = salts(dropout.layer, dropout.stream)
    sizes, rows = layout.size_tensor, layout.num_nodes
    drawn: Tensor = node_factors(sizes, context.keys, rows, width, of_layer, dropout.probability, portable)
    return drawn


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.93])
def test_factors_are_those_of_dropout(portable: bool, probability: float) -> None:
    dropout = Dropout(probability, Stream.NODE_FFN_DROPOUT, 3, "node")
    for sizes, width in (([1], 1), ([5, 1, 17, 17], 7), ([300, 2, 150], 64), ([], 8)):
        keys = graph_keys(2**40 + 7, 12, torch.arange(len(sizes)) + 2**33)
        context = AttentionContext(Packed(sizes), None, keys)
        expected = dropout(torch.ones(sum(sizes), width), context)
        assert torch.equal(factors_of(dropout, context, width, portable), expected)


def test_factors_need_sizes_that_add_up() -> None:
    keys = torch.zeros(2, 2, dtype=torch.int64)
    for sizes in ([3, 4], [9, -1]):
        with pytest.raises(ValueError, match="do not add up"):
            node_factors(torch.tensor(sizes), keys, 8, 4, [1, 2], 0.5)
    with pytest.raises(ValueError, match=r"\(2, 2\).*\(3, 2\)"):
        node_factors(torch.tensor([1, 2, 5]), keys, 8, 4, [1, 2], 0.5)


def test_factors_are_an_operator() -> None:
    keys = graph_keys(1, 2, torch.arange(2))
    torch.library.opcheck(node_factors, (torch.tensor([3, 5]), keys, 8, 4, [1, 2], 0.5))
