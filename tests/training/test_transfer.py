"""Fine-tuning: what is taken over, what is re-initialized, what trains."""

from __future__ import annotations

import pytest
import torch

from egt.assemble import build_model
from egt.config.run import RunConfig
from egt.errors import ArtifactError, ConfigError
from egt.nn.model import EGT
from egt.training.finetune import Remap, Start, freeze, start_from
from tests.training.tiny import tiny_config


def fresh(seed: int, config: RunConfig | None = None) -> EGT:
    torch.manual_seed(seed)
    return build_model(config or tiny_config())


def trained(model: EGT) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize("keep_head", [True, False])
def test_all_but_the_last_linear_map_is_taken_over(keep_head: bool) -> None:
    given, model = fresh(1).state_dict(), fresh(2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    start_from(model, Start(given, keep_head=keep_head))
    last = {name for name in before if name.startswith("head.linears.2.")}
    assert len(last) == 2
    for name, tensor in model.state_dict().items():
        expected = before[name] if name in last and not keep_head else given[name]
        assert torch.equal(tensor, expected), name
    assert trained(model) == {name for name, _ in model.named_parameters()}


def test_a_head_of_another_size_is_fine_unless_it_is_to_be_kept() -> None:
    three = tiny_config(task={"names": ["a", "b", "c"]})
    start_from(fresh(2, three), Start(fresh(1).state_dict()))
    with pytest.raises(ArtifactError, match=r"head\.linears\.2\.weight.*keep_head"):
        start_from(fresh(2, three), Start(fresh(1).state_dict(), keep_head=True))


def test_weights_of_another_model_are_refused_by_name() -> None:
    wide = tiny_config(model={"node_width": 16})
    with pytest.raises(ArtifactError, match="weights"):
        start_from(fresh(0, wide), Start(fresh(0).state_dict()))
    deep = tiny_config(model={"num_layers": 3})
    with pytest.raises(ArtifactError, match=r"layers\.2"):
        start_from(fresh(0, deep), Start(fresh(0).state_dict()))


def test_a_new_auxiliary_objective_starts_anew() -> None:
    weights = {name: weight for name, weight in fresh(1).state_dict().items() if not name.startswith("auxiliary")}
    model = fresh(2)
    start_from(model, Start(weights))
    name = "auxiliary.distance.mlp.linears.0.weight"
    assert torch.equal(model.state_dict()[name], fresh(2).state_dict()[name])


def test_rows_move_by_name() -> None:
    table, blank = torch.arange(8.0).view(4, 2), -torch.ones(3, 2)
    remap = Remap(old=[("",), ("atom", "C"), ("atom", "N"), ("bond", "C")], new=[("",), ("bond", "C"), ("atom", "O")])
    assert remap(table, blank).tolist() == [[0, 1], [6, 7], [-1, -1]]


def test_columns_move_by_name() -> None:
    weight, blank = torch.arange(6.0).view(2, 3), -torch.ones(2, 2)
    remap = Remap(old=[("x",), ("y",), ("z",)], new=[("z",), ("w",)], dim=1)
    assert remap(weight, blank).tolist() == [[2, -1], [5, -1]]


def test_a_table_of_another_width_is_refused() -> None:
    with pytest.raises(ArtifactError, match="widths"):
        Remap([("x",)], [("x",)])(torch.zeros(1, 2), torch.zeros(1, 3))


def test_a_remapped_table_finds_its_place() -> None:
    four = tiny_config(model={"node_inputs": [{"kind": "node_categories", "sizes": [4]}, {"kind": "svd", "rank": 2}]})
    name = "embed.node_terms.0.categories.table.weight"
    given, model = fresh(1).state_dict(), fresh(2, four)
    remap = Remap([("",), ("a",), ("b",), ("c",)], [("",), ("c",), ("x",), ("a",), ("b",)])
    start_from(model, Start(given, vocabularies={name: remap}))
    assert torch.equal(model.state_dict()[name][[1, 3, 4]], given[name][[3, 1, 2]])


def test_layers_below_k_are_frozen_with_the_embeddings() -> None:
    model = fresh(0)
    freeze(model, below=1)
    names = {name for name, _ in model.named_parameters()}
    assert trained(model) == {name for name in names if not name.startswith(("layers.0.", "embed."))}
    freeze(model)
    assert trained(model) == names
    with pytest.raises(ConfigError, match=r"layers 0\.\.1"):
        freeze(model, below=3)


def test_t_tuning_trains_the_edge_channel_only() -> None:
    model = fresh(0, tiny_config(model={"readout": {"kind": "virtual_nodes", "num_virtual": 2}}))
    freeze(model, tuned="edges")
    parts = {name for name in trained(model) if name.startswith("layers.0.")}
    assert {name.removeprefix("layers.0.pairs.").rsplit(".", 1)[0] for name in parts} == {
        "logits.norm_e",
        "logits.E",
        "gate.G",
        "edges.O_e",
        "edges.ffn.norm",
        "edges.ffn.W1",
        "edges.ffn.W2",
    }
    rest = {name for name in trained(model) if not name.startswith("layers.")}
    assert {name.split(".")[0] for name in rest} == {"embed", "readout", "auxiliary"}
    assert "readout.edges" in rest
    assert not any("node_terms" in name or "nodes" in name or "qkv" in name for name in trained(model))
