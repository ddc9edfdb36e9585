"""Drop-path: which graphs skip which branches of which layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.errors import ConfigError
from egt.nn.channels import AttentionContext
from egt.nn.randomness import PATHS, Dropout, Stream, graph_keys
from tests.graphs import tiny_config

GRAPHS = 400


def part(p: float, stream: Stream = Stream.NODE_DROPOUT, layer: int = 1, dropout: float = 0.0) -> Dropout:
    level: Any = "node" if stream in (Stream.NODE_DROPOUT, Stream.NODE_FFN_DROPOUT) else "pair"
    return Dropout(dropout, stream, layer, level, path_probability=p)


def drawn(dropout: Dropout, width: int, where: AttentionContext) -> Tensor:
    """Draw the factors of a dropout as its equation says."""
    return dropout.draw(width, where).float() / (1 - dropout.probability)


def context(step: int = 0) -> AttentionContext:
    dense = AttentionContext.dense(torch.zeros(GRAPHS, 3, 1))
    return replace(dense, random_keys=graph_keys(0, step, torch.arange(GRAPHS)))


def skipped(path: Dropout, step: int = 0) -> Tensor:
    """(GRAPHS,) whether a graph's branch is skipped; asserts that it is so as a whole and that kept ones are scaled."""
    shape = (GRAPHS, 3, 5) if path.level == "node" else (GRAPHS, 3, 3, 5)
    out = path(torch.ones(shape), context(step)).flatten(1)
    assert torch.equal(out.amin(1), out.amax(1))
    assert {round(value, 5) for value in out.unique().tolist()} == {0.0, round(1 / (1 - path.path_probability), 5)}
    return out[:, 0] == 0


@pytest.mark.parametrize("stream", PATHS)
def test_a_branch_is_skipped_by_whole_graphs(stream: Stream) -> None:
    assert abs(skipped(part(0.3, stream)).double().mean().item() - 0.3) < 0.07


def test_branches_layers_and_steps_draw_for_themselves() -> None:
    draws = [skipped(part(0.5, stream)) for stream in PATHS]
    draws += [skipped(part(0.5, layer=2)), skipped(part(0.5), step=1)]
    for k, first in enumerate(draws):
        for second in draws[:k]:
            assert 0.4 < (first == second).double().mean() < 0.6


def test_entries_of_a_kept_branch_drop_as_before() -> None:
    x = torch.ones(GRAPHS, 3, 5)
    plain = Dropout(0.2, Stream.NODE_DROPOUT, 1, "node")(x, context())
    both = part(0.5, dropout=0.2)(x, context())
    kept = ~skipped(part(0.5))
    torch.testing.assert_close(both[kept], 2 * plain[kept])
    assert not both[~kept].any()
    factors = part(0.5, dropout=0.2).factors(5, context(), drawn)
    assert factors is not None
    torch.testing.assert_close(both, factors)


def test_nothing_is_skipped_in_evaluation() -> None:
    x = torch.randn(GRAPHS, 3, 5)
    assert part(0.5).eval()(x, context()) is x
    assert part(0.5).eval().factors(5, context(), drawn) is None


def test_the_probability_is_linear_in_depth() -> None:
    [only] = build_model(tiny_config(num_layers=1, drop_path=0.3)).layers
    assert only.dropout.path_probability == 0.0
    layers = build_model(tiny_config(num_layers=3, drop_path=0.4)).layers
    found = [[layer.dropout, layer.ffn.dropout] for layer in layers]
    found[1] += [layers[1].pairs.edges.dropout, layers[1].pairs.edges.ffn.dropout]
    assert [{dropout.path_probability for dropout in layer} for layer in found] == [{0.0}, {0.2}, {0.4}]


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"-0\.1"):
        part(-0.1)
