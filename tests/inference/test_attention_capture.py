"""The attention of whole graphs: alike on every backend and layout, in order, in little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from egt.assemble import build_model
from egt.config.run_data import preparation
from egt.data.batching.batch import LayoutName, collate
from egt.errors import ConfigError
from egt.graph import Graph
from egt.inference import attention_capture as module
from egt.inference.artifact import Artifact
from egt.inference.attention_capture import Attention, attentions
from egt.inference.backends import on_backend
from egt.inference.predictor import Predictor
from egt.nn.layer import PairPass
from egt.paper.presets import preset
from tests.graphs import KINDS, backend_named, lively, random_graph, tiny_config

VIRTUAL = {"kind": "virtual_nodes", "num_virtual": 2}


def graphs() -> list[Graph]:
    random = np.random.default_rng(0)
    return [random_graph(random, kind) for kind in KINDS]


def captured(layout: str = "auto", backend: str = "plain", **model: Any) -> list[Attention]:
    config = tiny_config(gate="centrality", readout=VIRTUAL, **model)
    config = config.model_copy(update={"data": config.data.model_copy(update={"layout": layout})})
    torch.manual_seed(0)
    built = on_backend(lively(build_model(config)), config, backend_named(backend))
    return list(attentions(built, config, [preparation(config)(graph) for graph in graphs()]))


def test_rows_are_shares_and_the_parts_have_their_shapes() -> None:
    for graph, found in zip(graphs(), captured(), strict=True):
        n = graph.num_nodes + 2
        assert found.graph.id == graph.id
        assert found.softmax.shape == found.gates.shape == found.product.shape == (2, 4, n * n)
        assert found.scalers.shape == (2, 4, n)
        assert found.edges.shape == (3, n * n, 6)
        np.testing.assert_allclose(found.matrix(found.softmax).sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(found.product, found.softmax * found.gates, atol=1e-7)
        assert (found.scalers[:, :, :2] == 1).all()  # virtual nodes are not scaled
        expected = np.log1p(found.matrix(found.gates).sum(-1))[:, :, 2:]
        np.testing.assert_allclose(found.scalers[:, :, 2:], expected, atol=1e-5)


@pytest.mark.parametrize(("layout", "backend"), [("padded", "plain"), ("auto", "cpu")])
def test_every_layout_and_backend_sees_the_same(layout: str, backend: str) -> None:
    for one, other in zip(captured(), captured(layout, backend), strict=True):
        np.testing.assert_array_equal(one.pair_index, other.pair_index)
        for name in ("softmax", "gates", "product", "scalers", "edges"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=2e-5, err_msg=name)


def test_the_edge_list_sees_the_pairs_that_exist() -> None:
    for whole, sparse in zip(captured(scope="neighbors"), captured("edge_list", scope="neighbors"), strict=True):
        rows = sparse.pair_index[0] * whole.num_nodes + sparse.pair_index[1]
        np.testing.assert_allclose(sparse.product, whole.product[..., rows], atol=2e-5)
        np.testing.assert_allclose(sparse.matrix(sparse.softmax), whole.matrix(whole.softmax), atol=2e-5)


def test_the_fused_pass_gathers_with_the_same_matrices() -> None:
    """What each backend's pair pass gives for the same inputs is the product of the captured matrices and V."""
    config = tiny_config(gate="centrality")
    torch.manual_seed(0)
    built = on_backend(lively(build_model(config)), config, backend_named("cpu")).eval()
    sample = preparation(config)(graphs()[-1])
    passed: list[tuple[torch.Tensor, torch.Tensor]] = []
    for part in built.modules():
        if isinstance(part, PairPass):
            part.register_forward_hook(lambda _, given, result: passed.append((given[0], result[0])))
    with torch.no_grad():
        built.encode(collate([sample]))
    [found] = attentions(built, config, [sample])
    assert len(passed) == 2
    for layer, (qkv, out) in enumerate(passed):
        V = qkv[:, 2].numpy()  # (N, H, d_k)
        gathered = np.einsum("hij,jhc->ihc", found.matrix(found.product[layer]), V)
        gathered *= found.scalers[layer].T[:, :, None]
        np.testing.assert_allclose(out.detach().numpy(), gathered, atol=2e-5)


def test_only_a_batch_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches give what large ones give, and nothing is computed before it is asked for."""
    expected = captured()
    sizes: list[int] = []
    collated = collate

    def counted(samples: list[Any], layout: LayoutName) -> Any:
        sizes.append(len(samples))
        return collated(samples, layout)

    monkeypatch.setattr(module, "collate", counted)
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 40_000)
    for one, other in zip(expected, captured(), strict=True):
        np.testing.assert_allclose(one.product, other.product, atol=1e-5)
    assert len(sizes) > 1
    assert sum(sizes) == len(expected)


def test_an_edge_model_has_attention_in_all_layers_but_the_last() -> None:
    config = tiny_config(readout={"kind": "edge"})
    found = next(attentions(build_model(config), config, [preparation(config)(graphs()[0])]))
    assert found.layers == (0,)
    assert found.product.shape[0] == 1
    assert found.edges.shape[0] == 3


def test_a_baseline_has_none() -> None:
    config = preset("zinc-100k-mlp")
    with pytest.raises(ConfigError, match="attention"):
        next(attentions(build_model(config), config, []))


def test_a_predictor_yields_one_per_row() -> None:
    config = tiny_config()
    model = Predictor(Artifact(config, build_model(config).eval()))
    data = graphs()
    assert [found.graph.id for found in model.attention(data) if found] == [graph.id for graph in data]
    assert len(list(model.attention(data, limit=3))) == 3
