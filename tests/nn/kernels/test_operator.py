"""The operator as torch sees it: one node in compiled and exported graphs, nothing kept without gradients."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from egt.nn.kernels import binding
from egt.nn.kernels.operators import Numbers, PairWeights, RandomStream, RandomStreams, Switches, pair_pass, run


class Pass(nn.Module):
    """A module around a case's weights, for torch.export."""

    def __init__(self, case: Any) -> None:
        super().__init__()
        self.parameters_in_order = nn.ParameterList(nn.Parameter(t) for pair in case.weights for t in pair)

    def forward(self, qkv: Tensor, e: Tensor, sizes: Tensor) -> tuple[Tensor | None, Tensor | None]:
        p = self.parameters_in_order
        weights = PairWeights(*((p[2 * k], p[2 * k + 1]) for k in range(7)))
        return pair_pass(qkv, e, sizes, weights, scale=0.3, clip=(-5.0, 5.0))


@pytest.mark.parametrize("activation", range(len(binding.ACTIVATIONS)))
@pytest.mark.parametrize("threshold", [0, 2**30])
def test_custom_operator_checks(make_case: Any, activation: int, threshold: int) -> None:
    case = make_case(sizes=[3, 2], heads=2, head_width=2, edge_width=3, hidden_width=4)
    weights = [t.detach() for pair in case.weights for t in pair]
    order = [*weights[2:4], *weights[0:2], *weights[4:]]  # the operator wants the norm first
    switches = [1, 1, 1, 1, activation, 0, 0, 0, 0, 0, 0, *[threshold] * len(case.random), 0]
    assert len(switches) == len(Switches._fields)
    numbers = Numbers(1e-5, 1e-5, -5.0, 5.0, 0.5, *[1.0] * (len(case.random) - 1))
    keys = [stream.keys for stream in case.random] if threshold else []
    for listed in ([], list(case.pair_list()))[: 2 if activation == 0 else 1]:
        arguments = (case.qkv, case.e, torch.tensor([3, 2]), listed, None, keys, switches, list(numbers), order)
        torch.library.opcheck(run, arguments)


def test_exports_as_one_operator(make_case: Any) -> None:
    case = make_case(sizes=[3, 2])
    program = torch.export.export(Pass(case), (case.qkv.detach(), case.e.detach(), torch.tensor([3, 2])))
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert [name for name in called if "getitem" not in name] == ["egt.pair_pass.default"]
    out, e_new = program.module()(case.qkv, case.e, torch.tensor([3, 2]))
    assert torch.equal(out, case.fused(scale=0.3)[0])
    assert torch.equal(e_new, case.fused(scale=0.3)[1])


def test_compiles_without_a_break_and_with_gradients(make_case: Any) -> None:
    case = make_case(sizes=[3, 2])
    module = Pass(case)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    sizes = torch.tensor([3, 2])

    def gradients(outputs: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        loss = (outputs[0] * case.d_out).sum() + (outputs[1] * case.d_e_new).sum()
        return torch.autograd.grad(loss, [case.qkv, case.e, *module.parameters()])

    found, expected = (gradients(f(case.qkv, case.e, sizes)) for f in (compiled, module))
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("used", [0, 1])
def test_one_output_unused(make_case: Any, used: int) -> None:
    case = make_case(sizes=[5, 9])

    def only(outputs: tuple[Tensor | None, Tensor | None]) -> dict[str, Tensor]:
        return case.gradients((outputs[0], None) if used == 0 else (None, outputs[1]))

    found = only(case.fused())
    for name, expected in only(case.reference()).items():
        assert (found[name] - expected).abs().max() <= 5e-5 * max(1.0, expected.abs().max().item()), name


@pytest.fixture
def _empty_is_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)  # fills uninitialized memory, too
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_empty_is_nan")
@pytest.mark.parametrize("listed_share", [None, 0.3])
@pytest.mark.parametrize("used", [(True, True), (True, False), (False, True)])
def test_every_gradient_is_written(
    make_case: Any, num_threads: Callable[[int], None], used: tuple[bool, bool], listed_share: float | None
) -> None:
    num_threads(2)
    assert torch.empty(3).isnan().all()
    case = make_case(sizes=[5, 1, 90, 41], listed_share=listed_share)  # the third belongs to several parts
    outputs = [output if wanted else None for output, wanted in zip(case.fused(), used, strict=True)]
    for name, gradient in case.gradients(tuple(outputs)).items():
        assert gradient.isfinite().all(), name


def test_no_gradients_keep_nothing(make_case: Any) -> None:
    case = make_case(sizes=[5])
    with torch.no_grad():
        out, e_new = case.fused()
    assert out.grad_fn is None
    assert e_new.grad_fn is None


def test_keeps_only_its_inputs(make_case: Any) -> None:
    case = make_case(sizes=[5, 9], probabilities={"mask": 0.1, "dropout": 0.1, "edge_dropout": 0.1})
    saved: list[Tensor] = []

    def keep(t: Tensor) -> Tensor:
        saved.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        case.fused()
    known = {t.data_ptr() for t in case.inputs().values()}
    known |= {stream.keys.data_ptr() for stream in case.random}
    others = [t for t in saved if t.data_ptr() not in known]
    assert [tuple(t.shape) for t in others] == [(2,)]  # sizes


def test_written_over_its_input(make_case: Any) -> None:
    case = make_case(sizes=[5, 9, 1])
    with torch.no_grad():
        expected_out, expected_e = case.fused()
        case.settings["overwrite"] = True
        out, e_new = case.fused()
    assert e_new.data_ptr() == case.e.data_ptr()
    assert torch.equal(out, expected_out)
    assert torch.equal(e_new, expected_e)


def test_noncontiguous_inputs(make_case: Any) -> None:
    case = make_case(sizes=[5, 9])
    expected = case.fused()
    turned = case.e.detach().t().contiguous().t()
    case.e = turned.requires_grad_()
    for a, b in zip(case.fused(), expected, strict=True):
        assert torch.equal(a, b)


def test_wrong_sizes_are_refused(make_case: Any) -> None:
    case = make_case(sizes=[5, 9])
    case.sizes = [5, 8]
    with pytest.raises(ValueError, match="do not add up"):
        case.fused()


@pytest.mark.parametrize(
    ("row_start", "target"),
    [
        ([0, 1, 2, 4], [0, 0, 1, 2]),  # the second leads to another graph
        ([0, 1, 3, 4], [0, 1, 3, 2]),  # there is no node 3
        ([0, 1, 3, 4], [0, 1, -1, 2]),
        ([0, 3, 2, 4], [0, 0, 1, 2]),  # back
        ([0, 1, 3, 5], [0, 1, 2, 2]),  # more than there are
        ([1, 1, 3, 4], [0, 1, 2, 2]),  # the first belongs to nobody
    ],
)
def test_wrong_lists_are_refused(make_case: Any, row_start: list[int], target: list[int]) -> None:
    case = make_case(sizes=[1, 2])
    case.e = case.e[:4]
    case.settings["listed"] = (torch.tensor([0, 1, 3, 4]), torch.tensor([0, 1, 2, 2]))
    case.fused()
    case.settings["listed"] = (torch.tensor(row_start), torch.tensor(target))
    with pytest.raises(ValueError, match="do not add up"):
        case.fused()


def test_lists_of_wrong_lengths_are_refused(make_case: Any) -> None:
    case = make_case(sizes=[1, 2])
    case.settings["listed"] = (torch.tensor([0, 1, 3, 4, 5]), torch.tensor([0, 1, 2, 2, 2]))
    with pytest.raises(ValueError, match=r"row_start.*\(5,\)"):
        case.fused()


def test_wrong_type_is_refused(make_case: Any) -> None:
    case = make_case(sizes=[5])
    case.e = case.e.detach().double()
    with pytest.raises(ValueError, match=r"\(25, 8\).*torch.float64"):
        case.fused()


def test_wrong_keys_are_refused(make_case: Any) -> None:
    case = make_case(sizes=[5], probabilities={"mask": 0.5})
    case.settings["random"] = RandomStreams(mask=RandomStream(0.5, torch.zeros(2, 2, dtype=torch.int64)))
    with pytest.raises(ValueError, match=r"mask_keys.*\(2, 2\)"):
        case.fused()


def test_threads_of_its_own_give_the_same(
    make_case: Any, num_threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    num_threads(2)
    case = make_case(sizes=[60, 41])
    expected = case.gradients(case.fused())
    monkeypatch.setattr(binding, "run_parallel", lambda: None)
    for name, gradient in case.gradients(case.fused()).items():
        assert torch.equal(gradient, expected[name]), name


def test_memory_does_not_grow(make_case: Any) -> None:
    case = make_case(sizes=[40, 30, 20])

    def steps(count: int) -> int:
        for _ in range(count):
            case.gradients(case.fused())
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = steps(50)
    assert steps(300) - before < 4096  # kilobytes
