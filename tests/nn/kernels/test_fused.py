"""The fused pass equals the float64 computation in every variant, and is a pure function of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

MIXED = [9, 1, 60, 2, 45, 8, 30]  # enough pairs for several parts on two threads

VARIANTS: dict[str, dict[str, Any]] = {
    "gated": {},
    "ungated": {"gate": False},
    "centrality": {"settings": {"centrality": True}},
    "centrality, virtual nodes": {"sizes": [9, 5, 53], "settings": {"centrality": True, "num_virtual_nodes": 4}},
    "frozen edges": {"edges": False},
    "simple without norm": {"edges": False, "norm": False},
    "update without norm": {"norm": False},
    "edges only": {"gate": False, "settings": {"edges_only": True}},
    "constrained": {"allowed_share": 0.15},
    "constrained ungated": {"allowed_share": 0.15, "gate": False},
    "masked logits": {"probabilities": {"mask": 0.3}},
    "masked logits, centrality": {"probabilities": {"mask": 0.3}, "settings": {"centrality": True}},
    "masked logits and gates": {
        "probabilities": {"mask": 0.3},
        "settings": {"masks_gates": True, "centrality": True},
    },
    "all masked": {"sizes": [5, 1], "probabilities": {"mask": 0.95}, "settings": {"masks_gates": True}},
    "dropout": {"probabilities": {"dropout": 0.4}},
    "dropout of edges": {"sizes": [9, 1, 30, 2, 25], "probabilities": {"edge_dropout": 0.4}},
    "dropout of the edge FFN": {"sizes": [9, 1, 30, 2, 25], "probabilities": {"ffn_dropout": 0.4}},
    "edges only, dropout": {
        "sizes": [9, 1, 30],
        "gate": False,
        "probabilities": {"edge_dropout": 0.2, "ffn_dropout": 0.3},
        "settings": {"edges_only": True},
    },
    "key dropout": {"probabilities": {"key_dropout": 0.4}},
    "key dropout, ungated": {"probabilities": {"key_dropout": 0.4}, "gate": False},
    "key dropout, centrality": {
        "sizes": [9, 1, 33, 2, 25],
        "probabilities": {"key_dropout": 0.4},
        "settings": {"centrality": True, "num_virtual_nodes": 1},
    },
    "key dropout, first rows": {
        "edges": False,
        "sizes": [90, 5, 130],
        "probabilities": {"key_dropout": 0.4},
        "settings": {"query_rows": 4, "centrality": True},
    },
    "drop-path": {"sizes": [9, 1, 30, 2, 25], "probabilities": {"edge_path": 0.5, "ffn_path": 0.4}},
    "edges only, drop-path": {
        "sizes": [9, 1, 30, 12],
        "gate": False,
        "probabilities": {"edge_dropout": 0.2, "edge_path": 0.5, "ffn_path": 0.5},
        "settings": {"edges_only": True},
    },
    "sliced edge values": {"edge_width": 16, "settings": {"edge_values": "sliced"}},
    "full edge values": {"settings": {"edge_values": "full"}},
    "sliced edge values of frozen edges": {"edges": False, "norm": False, "settings": {"edge_values": "sliced"}},
    "full edge values, odd widths": {
        "heads": 3,
        "head_width": 7,
        "edge_width": 5,
        "hidden_width": 11,
        "allowed_share": 0.3,
        "settings": {"edge_values": "full", "centrality": True, "num_virtual_nodes": 1},
    },
    "edge values without norm": {"norm": False, "gate": False, "settings": {"edge_values": "full"}},
    "edge values, first rows": {
        "edges": False,
        "sizes": [90, 5, 130],
        "edge_width": 24,
        "settings": {"query_rows": 4, "centrality": True, "edge_values": "sliced"},
    },
    "edge values of zinc": {
        "edge_width": 48,
        "head_width": 6,
        "hidden_width": 96,
        "settings": {"centrality": True, "edge_values": "sliced"},
    },
    "outer sum": {"settings": {"outer_sum": True}},
    "outer sum, odd widths": {
        "heads": 3,
        "head_width": 7,
        "edge_width": 5,
        "hidden_width": 11,
        "norm": False,
        "settings": {"outer_sum": True},
    },
    "outer sum, edges only, dropout": {
        "sizes": [9, 1, 30],
        "gate": False,
        "probabilities": {"edge_dropout": 0.2},
        "settings": {"edges_only": True, "outer_sum": True},
    },
    "outer sum, many rows of one graph": {"sizes": [3, 130], "settings": {"outer_sum": True}},
    "everything": {
        "sizes": [9, 1, 30, 2, 25],
        "allowed_share": 0.6,
        "probabilities": {
            "mask": 0.1,
            "dropout": 0.2,
            "edge_dropout": 0.1,
            "ffn_dropout": 0.2,
            "key_dropout": 0.2,
            "edge_path": 0.3,
            "ffn_path": 0.3,
        },
        "settings": {
            "activation": "gelu",
            "centrality": True,
            "num_virtual_nodes": 1,
            "edge_values": "full",
            "outer_sum": True,
        },
    },
    **{name: {"settings": {"activation": name}} for name in ("gelu", "relu", "silu")},
    "silu, edges only": {"gate": False, "settings": {"activation": "silu", "edges_only": True}},
    "gelu, odd widths": {"edge_width": 5, "hidden_width": 11, "settings": {"activation": "gelu"}},
    "first rows": {"edges": False, "sizes": [90, 5, 230], "settings": {"query_rows": 4}},
    "odd widths": {"heads": 3, "head_width": 7, "edge_width": 5, "hidden_width": 11},
    "one of everything": {"heads": 1, "head_width": 1, "edge_width": 1, "hidden_width": 1},
    "zinc": {"edge_width": 48, "head_width": 6, "hidden_width": 96},
    "small": {"heads": 32, "head_width": 16, "edge_width": 64, "hidden_width": 64, "sizes": [25, 14]},
    "many rows of one graph": {"sizes": [180]},
    "tight clip": {"settings": {"clip": (-0.5, 1.5)}},
    "other eps": {"settings": {"norm_eps": 0.1, "ffn_norm_eps": 0.03}},
}


def assert_near(found: torch.Tensor, expected: torch.Tensor, tolerance: float, what: str) -> None:
    size = max(1.0, expected.abs().max().item())
    error = (found.double() - expected.double()).abs().max().item() / size
    assert error <= tolerance, f"{what}: {error:.2e} above {tolerance:.0e} (largest entry {size:.3g})"


def check(case: Any, **settings: Any) -> None:
    outputs, expected = case.fused(**settings), case.reference()
    for name, found, right in zip(("out", "e_new"), outputs, expected, strict=True):
        assert (found is None) == (right is None), name
        if found is not None:
            assert_near(found, right, 2e-5, name)
    right = case.gradients(expected)
    for name, found in case.gradients(outputs).items():
        assert_near(found, right[name], 5e-5, f"gradient of {name}")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_equals_float64(make_case: Any, num_threads: Callable[[int], None], variant: str, threads: int) -> None:
    num_threads(threads)
    check(make_case(**{"sizes": MIXED, **VARIANTS[variant]}))


@pytest.mark.parametrize("variant", VARIANTS)
def test_listed_pairs_equal_float64(make_case: Any, num_threads: Callable[[int], None], variant: str) -> None:
    num_threads(2)  # some graphs have rows in two parts
    check(make_case(**{"sizes": MIXED, **VARIANTS[variant]}, listed_share=0.3))


@pytest.mark.parametrize("variant", VARIANTS)
def test_portable_path_equals_float64(make_case: Any, variant: str) -> None:
    check(make_case(**{"sizes": MIXED, **VARIANTS[variant]}), portable=True)


def test_portable_path_of_listed_pairs_equals_float64(make_case: Any) -> None:
    check(make_case(**{"sizes": MIXED, **VARIANTS["everything"]}, listed_share=0.3), portable=True)


@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
def test_lists_of_few_and_of_all_pairs(make_case: Any, num_threads: Callable[[int], None], share: float) -> None:
    """Among few pairs are nodes without any and hundreds of rows in a tile; long rows fill a tile of their own."""
    num_threads(2)
    check(make_case(sizes=[1, 200, 3, 90], heads=3, head_width=5, edge_width=4, logit_size=0.3, listed_share=share))


def test_all_listed_pairs_are_all_pairs(make_case: Any) -> None:
    case = make_case(sizes=[9, 1, 30], probabilities={"dropout": 0.2, "key_dropout": 0.2})
    found = case.fused()
    case.listed_share = 1.0
    for name, a, b in zip(("out", "e_new"), case.fused(), found, strict=True):
        assert_near(a, b, 1e-6, name)


def test_large_graph(make_case: Any, num_threads: Callable[[int], None]) -> None:
    num_threads(2)
    check(make_case(sizes=[1000, 3], heads=2, head_width=4, edge_width=8, logit_size=0.3))


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize(
    "sizes", [[3, 40, 40, 40, 25, 30, 2, 60, 2, 2, 2, 30], [61, 1, 1, 1, 60, 1, 2], [1] * 3 + [200]]
)
def test_parts_of_several_threads_in_any_order_of_sizes(
    make_case: Any, num_threads: Callable[[int], None], sizes: list[int], threads: int
) -> None:
    num_threads(threads)
    check(make_case(sizes=sizes, heads=2, head_width=4, edge_width=8, logit_size=0.3))


def test_wide_edges_on_a_long_row(make_case: Any) -> None:
    check(make_case(sizes=[300], heads=2, head_width=3, edge_width=64, hidden_width=20, logit_size=0.3))


def test_clip_acts_in_these_tests(make_case: Any) -> None:
    case = make_case(sizes=MIXED)
    wide = case.fused(clip=(-1e9, 1e9))[0]
    assert (case.fused()[0] - wide).abs().max() > 1e-3


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_same_bits_again(make_case: Any, num_threads: Callable[[int], None], threads: int) -> None:
    num_threads(threads)
    case = make_case(sizes=[60, 7, 41], probabilities={"dropout": 0.1, "mask": 0.1, "edge_dropout": 0.1})
    first, again = case.fused(), case.fused()
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a, b)
    gradients = case.gradients(first)
    for name, gradient in case.gradients(again).items():
        assert torch.equal(gradient, gradients[name]), name


def test_forward_does_not_depend_on_threads(make_case: Any, num_threads: Callable[[int], None]) -> None:
    case = make_case(sizes=[60, 7, 41])
    num_threads(1)
    one = case.fused()
    num_threads(2)
    for a, b in zip(one, case.fused(), strict=True):
        assert torch.equal(a, b)


def test_row_with_nothing_to_attend_gives_zero(make_case: Any) -> None:
    case = make_case(sizes=[5], settings={"allowed": torch.arange(25) >= 5})
    out, _ = case.fused()
    assert torch.equal(out[0], torch.zeros_like(out[0]))
    assert (out[1:] != 0).all()
    assert all(torch.isfinite(g).all() for g in case.gradients(case.fused()).values())


@pytest.mark.parametrize("activation", ["elu", "gelu", "relu", "silu"])
@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FC00001, -0x3FFFFD])
def test_nan_is_not_hidden(make_case: Any, bits: int, activation: str) -> None:
    case = make_case(sizes=[5, 6], settings={"activation": activation})
    with torch.no_grad():
        case.e[3, 0] = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    out, e_new = case.fused()
    assert out[0].isnan().all()
    assert e_new[3].isnan().all()
    assert not out[1:].isnan().any()


@pytest.mark.parametrize("bias", [-16.0, -9.0, 0.0, 20.0])
@pytest.mark.parametrize("portable", [False, True])
def test_centrality_of_nearly_closed_and_of_open_gates(make_case: Any, bias: float, portable: bool) -> None:
    """ln(1 + x) of gates that sum up to a millionth has as many right digits as any other."""
    case = make_case(sizes=[5, 30], settings={"centrality": True})
    with torch.no_grad():
        case.weights.G[1].add_(bias)
    out, expected = case.fused(portable=portable)[0], case.reference()[0]
    torch.testing.assert_close(out.double(), expected.double(), rtol=5e-5, atol=1e-6 * expected.abs().max().item())


def test_nan_of_a_gate_is_not_hidden_by_centrality(make_case: Any) -> None:
    case = make_case(sizes=[5, 6], settings={"centrality": True})
    with torch.no_grad():
        case.e[3, 0] = torch.nan
    out, _ = case.fused()
    assert out[0].isnan().all()
    assert not out[1:].isnan().any()


def test_large_logits_do_not_overflow(make_case: Any) -> None:
    case = make_case(sizes=[9], settings={"clip": (-1e4, 1e4)}, logit_size=3000.0)
    check(case)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("activation", ["elu", "gelu", "relu", "silu"])
def test_activations_of_small_and_large_numbers(make_case: Any, activation: str, portable: bool) -> None:
    numbers = torch.tensor([-200.0, -30, -9, -5.5, -3, -1, -0.3, -1e-3, 1e-4, 0.2, 0.7, 1.6, 2.5, 4.8, 12, 90])
    case = make_case(sizes=[1], heads=1, edge_width=len(numbers), hidden_width=len(numbers))
    W1, W2 = case.weights.W1, case.weights.W2
    with torch.no_grad():
        for tensor in case.inputs().values():
            tensor.zero_()
        W1[1].copy_(numbers)  # all that reaches the activation
        W2[0].copy_(torch.eye(len(numbers)))
    _, e_new = case.fused(activation=activation, portable=portable)
    (slopes,) = torch.autograd.grad(e_new.sum(), W1[1])
    exact = numbers.double().requires_grad_()
    expected = getattr(torch.nn.functional, activation)(exact)
    (expected_slopes,) = torch.autograd.grad(expected.sum(), exact)
    assert ((e_new[0] - expected).abs() <= 1e-6 * numbers.abs().clamp(min=1.0)).all()
    assert ((slopes - expected_slopes).abs() <= 2e-6).all()
