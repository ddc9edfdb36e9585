"""Attention over a list of pairs in the kernel equals that of the plain edge list: values and gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from egt.batching.edge_list import EdgeList
from egt.nn.kernels import node_operator
from egt.nn.kernels.fused import available
from egt.nn.kernels.list_operator import list_dot, list_softmax, list_sum
from egt.nn.kernels.node_operator import node_update


@pytest.fixture(autouse=True, params=[1, 2])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    if not available():
        pytest.skip("the fused kernel needs a C++ compiler")
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def pair_list() -> EdgeList:
    """Rows of 0 to 40 pairs, of nodes in two graphs; node 3 has none."""
    rng = np.random.default_rng(0)
    linked = rng.random((50, 50)) < rng.random((50, 1))
    linked[3] = False
    query, key = (torch.from_numpy(ends) for ends in np.nonzero(linked))
    return EdgeList([20, 30], query, key)


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_()


def assert_same(fast: Tensor, plain: Tensor, inputs: list[Tensor]) -> None:
    torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-5)
    upstream = rows(*fast.shape).detach()
    for got, expected in zip(
        torch.autograd.grad(fast, inputs, upstream),
        torch.autograd.grad(plain, inputs, upstream, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize(("heads", "width"), [(8, 6), (3, 5), (11, 1)])
def test_list_operators(heads: int, width: int, portable: bool) -> None:
    layout = pair_list()
    i, j = layout.query, layout.key
    x, y, weight = rows(50, heads, width), rows(50, heads, width), rows(layout.num_pairs, heads)
    assert_same(list_dot(x, y, i, j, portable), layout.dot(x, y), [x, y])
    assert_same(list_sum(weight, y, i, j, portable), layout.aggregate(weight, y), [weight, y])
    assert_same(list_softmax(3 * weight, i, portable), layout.softmax(3 * weight, None), [weight])


@pytest.mark.parametrize("drops", [False, True])
def test_rows_of_pairs_are_updated_with_and_without_what_was_kept(drops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The o logits of a pair are not as many as its d channels; gradients are computed in blocks, or all at once."""
    monkeypatch.setattr(node_operator, "_BLOCK", 16)
    d, o, m = 6, 4, 12
    shapes = [(50, d), (50, o), (d, o), (d,), (d,), (d,), (m, d), (m,), (d, m), (d,)]
    inputs = [rows(*shape) for shape in shapes]
    factors = [2.0 * (rows(50, d) > 0) if drops else None] * 2
    h, out, O_weight, O_bias, gamma, beta, W1, b1, W2, b2 = inputs
    D = 1.0 if factors[0] is None else factors[0]
    h1 = h + D * (out @ O_weight.t() + O_bias)
    hidden = functional.elu(functional.layer_norm(h1, (d,), gamma, beta) @ W1.t() + b1)
    for keep in (True, False):
        fast = node_update(*inputs[:2], *factors, *inputs[2:], 1e-5, "elu", keep)[0]
        assert_same(fast, h1 + D * (hidden @ W2.t() + b2), inputs)
