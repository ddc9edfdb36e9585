"""Key dropout: whom it withholds, what it leaves, and what it does to centrality."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from egt.data.batching.batch import LayoutName, collate
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.layer import CentralityGate
from egt.nn.randomness import RandomMasking, graph_keys
from tests.graphs import graphs_of_every_kind, samples_of, tiny_config, tiny_model


def dropout(p: float, layer: int = 0) -> RandomMasking:
    return RandomMasking(0.0, 2, layer, gates=False, key_probability=p)


def context(n: int, step: int = 0, num_graphs: int = 1) -> AttentionContext:
    return replace(
        AttentionContext.dense(torch.zeros(num_graphs, n, 1)),
        random_keys=graph_keys(0, step, torch.arange(num_graphs)),
    )


def attended(p: float, n: int, step: int = 0, layer: int = 0) -> Tensor:
    """(n, n) boolean: who attends whom in a graph of n nodes."""
    keep, _ = dropout(p, layer)(context(n, step))
    assert keep is not None
    return keep[0, :, :, 0]


def test_all_queries_share_a_draw_and_attend_themselves() -> None:
    keep = attended(0.5, 40)
    off_diagonal = ~torch.eye(40, dtype=torch.bool)
    withheld = [~keep[off_diagonal[:, j], j] for j in range(40)]
    assert {bool(column.all()) for column in withheld if column.any()} == {True}
    assert 10 <= sum(bool(column.any()) for column in withheld) <= 30
    assert keep.diagonal().all()


def test_no_row_is_ever_emptied() -> None:
    for step in range(20):
        assert attended(0.999, 6, step).any(1).all()
    assert attended(0.999, 1).item()


def test_layers_steps_and_graphs_draw_for_themselves() -> None:
    first = attended(0.5, 30)
    assert not torch.equal(first, attended(0.5, 30, layer=1))
    assert not torch.equal(first, attended(0.5, 30, step=1))
    both, _ = dropout(0.5)(context(30, num_graphs=2))
    assert both is not None
    assert torch.equal(both[0, :, :, 0], first)
    assert not torch.equal(both[0], both[1])


def test_the_share_of_withheld_keys_is_the_probability() -> None:
    kept = torch.stack([attended(0.3, 21, step)[0, 1:] for step in range(500)]).double()
    assert abs(kept.mean().item() - 0.7) < 0.02


def test_the_mean_of_the_centrality_sum_is_unchanged() -> None:
    torch.manual_seed(0)
    gate, many = CentralityGate(4, 2), context(7, num_graphs=4000)  # many copies of a graph, each with its own draws
    e_hat, S = torch.randn(1, 7, 7, 4).expand(4000, -1, -1, -1), torch.ones(4000, 7, 7, 2)
    _, counted = dropout(0.4)(many)
    with torch.no_grad():
        sums, expected = (torch.expm1(gate(S, e_hat, times, many.layout)[1]) for times in (counted, None))
    assert (sums.mean(0) - expected[0]).abs().max() / expected.max() < 0.02
    assert sums.std(0).min() > 0.1  # it was random


def test_nothing_is_withheld_in_evaluation() -> None:
    assert dropout(0.5).eval()(context(5)) == (None, None)


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_a_graph_draws_the_same_alone_and_among_others(layout: LayoutName) -> None:
    """So the number of processes, the order of a batch and a resumed run do not matter."""
    config = tiny_config(key_dropout=0.4, drop_path=0.5, gate="centrality", readout={"kind": "virtual_nodes"})
    model = tiny_model(config).train()
    samples = samples_of(config, graphs_of_every_kind(3))
    keys = graph_keys(5, 11, torch.arange(len(samples)))
    with torch.no_grad():
        together = model(replace(collate(samples, layout), random_keys=keys))
        alone = [
            model(replace(collate([sample], layout), random_keys=keys[k : k + 1])) for k, sample in enumerate(samples)
        ]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-5)
    assert not torch.allclose(together, model.eval()(collate(samples, layout)), atol=1e-3)


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"1\.0"):
        dropout(1.0)
