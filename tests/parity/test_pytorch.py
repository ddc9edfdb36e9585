"""Equality with the authors' PyTorch code, with their treatment of padding and with ours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.inference.backends import PLAIN, Backend
from egt.nn.model import EGT
from egt.paper.official import convert, with_padding_attended
from egt.parts.inputs import Distance
from egt.parts.tasks.task import DistanceObjective
from tests.graphs import WAYS, backend_named, fastest
from tests.parity.golden import Golden, pytorch_config, pytorch_samples

CASES = ["o1_full_vn4_degree_svd", "o2_avgpool_nosvd", "o3_egt_simple_vn2_svd4", "o4_trainstep_vn1_edge_ended"]
TRAINED = CASES[3]


def load(config: RunConfig, case: Golden, backend: Backend = PLAIN) -> EGT:
    model = build_model(config, backend=backend)
    model.load_state_dict(convert(case.under("param/"), config), strict=not config.task.auxiliary)
    return model.eval()


def with_last_edge_update(config: RunConfig) -> RunConfig:
    """As their `edge_ended`: a reader of the final edges makes our last layer update them, too."""
    task = config.task.model_copy(update={"auxiliary": (DistanceObjective(weight=0.0),)})
    return config.model_copy(update={"task": task})


@pytest.mark.parametrize("name", CASES)
def test_states_and_output_with_their_padding(name: str) -> None:
    case = Golden.read(name)
    config = with_padding_attended(pytorch_config(case))
    if case.about["config"].get("edge_ended"):
        config = with_last_edge_update(config)
    batch = collate(pytorch_samples(case, config), "padded")
    model = load(config, case)
    x = model.readout.prepare(model.embed(batch))
    for k, layer in enumerate([None, *model.layers]):
        x = x if layer is None else x.updated(*layer(x.h, x.e, x.context))
        torch.testing.assert_close(x.h, case.tensors[f"state/h_{k}"], rtol=0, atol=1e-5, msg=f"h after {k} layers")
        torch.testing.assert_close(x.e, case.tensors[f"state/e_{k}"], rtol=0, atol=1e-5, msg=f"e after {k} layers")
    torch.testing.assert_close(model.read(x), case.tensors["output"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("backend", "layout"), WAYS)
@pytest.mark.parametrize("name", CASES)
def test_output_with_correct_masking(name: str, backend: str, layout: LayoutName) -> None:
    case = Golden.read(name)
    config = pytorch_config(case)
    output = load(config, case, backend_named(backend))(collate(pytorch_samples(case, config), layout))
    torch.testing.assert_close(output, case.tensors["output_unpadded"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("layout", "their_padding"), [("padded", True), ("padded", False), ("packed", False)], ids=str)
def test_gradients(layout: LayoutName, their_padding: bool) -> None:
    case = Golden.read(TRAINED)
    config = pytorch_config(case)
    if their_padding:
        config = with_padding_attended(config)
    model = load(config, case, fastest(layout))
    batch = collate(pytorch_samples(case, config), layout)
    loss = (model(batch) - case.tensors["target"]).abs().mean()
    loss.backward()
    suffix = "" if their_padding else "_unpadded"
    torch.testing.assert_close(loss, case.tensors[f"loss{suffix}"][0], rtol=0, atol=1e-5)
    expected = convert(case.under(f"grad{suffix}/"), config)
    ours = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert ours.keys() == expected.keys()
    for name, gradient in expected.items():
        assert_close_relative(ours[name], gradient, name)


def assert_close_relative(ours: Tensor | None, expected: Tensor, name: str) -> None:
    assert ours is not None, name
    error = (ours - expected).abs().max() / expected.abs().max().clamp(min=1e-3)
    assert error < 1e-4, f"{name}: relative error {error:.1e}"


@pytest.mark.parametrize("name", CASES)
def test_our_preparation_gives_their_inputs(name: str) -> None:
    """Distances and, up to the joint sign of u_k and v_k and rotations of equal singular values, the SVD."""
    case = Golden.read(name)
    config = pytorch_config(case)
    distance = config.model.pair_inputs[0]
    assert isinstance(distance, Distance)
    hops = distance.max_hops
    for k, sample in enumerate(pytorch_samples(case, config)):
        n = sample.graph.num_nodes
        theirs = np.minimum(case.array("input/distance_matrix")[k, :n, :n], hops + 1)
        np.testing.assert_array_equal(sample.pair["distance"], theirs)
        if "svd" in sample.node:
            rank = sample.node["svd"].shape[1] // 2
            ours = preparation(config)(sample.graph).node["svd"]
            values = np.linalg.svd(sample.graph.adjacency(), compute_uv=False)
            distinct = [c for c in range(min(rank, n)) if (np.abs(np.delete(values, c) - values[c]) > 1e-3).all()]
            for c in distinct:
                pair_ours, pair_theirs = ours[:, [c, rank + c]], sample.node["svd"][:, [c, rank + c]]
                sign = np.sign((pair_ours * pair_theirs).sum())
                np.testing.assert_allclose(pair_ours * sign, pair_theirs, atol=1e-4)


def test_their_virtual_nodes_make_an_answer_depend_on_its_batch_and_ours_do_not() -> None:
    case = Golden.read(CASES[0])
    config = pytorch_config(case)
    samples = pytorch_samples(case, config)

    def answers(run: RunConfig, batches: list[GraphBatch]) -> Tensor:
        model = load(run, case)
        return torch.cat([model(batch) for batch in batches])

    together, alone = [collate(samples, "padded")], [collate([sample], "padded") for sample in samples]
    theirs = with_padding_attended(config)
    assert (answers(theirs, together) - answers(theirs, alone)).abs().max() > 0.1
    torch.testing.assert_close(answers(config, together), answers(config, alone), rtol=0, atol=1e-6)
