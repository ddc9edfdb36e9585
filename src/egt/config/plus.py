"""EGT+: presets of the paper with parts and recipes of later work, and the changes that lead there one by one.

docs/egt_plus.md says what each part is; sizes stay within those of the preset that each one starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from egt.config.model import OuterSumEdgesConfig, RandomMaskingConfig
from egt.config.run import RunConfig
from egt.inputs.distance import Distance
from egt.inputs.input import NodeInput, PairInput
from egt.inputs.random_walk import RandomWalk, WalkReturns
from egt.readouts.scaled_sum import ScaledSumPool
from egt.schedules.cosine import Cosine

Change = Callable[[RunConfig], RunConfig]


def changed(**sections: Mapping[str, Any] | Cosine) -> Change:
    """Return a change of the settings of some sections of a run; a part takes the place of the one before."""

    def change(run: RunConfig) -> RunConfig:
        new = {
            name: getattr(run, name).model_copy(update=dict(value)) if isinstance(value, Mapping) else value
            for name, value in sections.items()
        }
        return run.model_copy(update=new)

    return change


def apply(run: RunConfig, changes: Sequence[Change]) -> RunConfig:
    """Return the run after all changes, in order."""
    for change in changes:
        run = change(run)
    return run


def cosine(epochs: int, lr: float = 1e-3) -> Change:
    """Adam at a higher rate that follows a cosine over fewer epochs, with gradients clipped at norm 1."""
    return changed(
        optimizer={"lr": lr},
        schedule=Cosine(),
        trainer={"max_epochs": epochs, "gradient_clip": 1.0},
    )


def walks(num_steps: int, *, distances: bool = False) -> Change:
    """RRWP on pairs and nodes in place of SVD and adjacency, and no objective that it gives away."""

    def change(run: RunConfig) -> RunConfig:
        nodes = [term for term in run.model.node_inputs if term.kind != "svd"]
        pairs: list[PairInput] = [term for term in run.model.pair_inputs if term.kind != "reachability"]
        table = [Distance(max_hops=16)] if distances else []
        inputs: dict[str, tuple[NodeInput, ...] | tuple[PairInput, ...]] = {
            "node_inputs": (*nodes, WalkReturns(num_steps=num_steps, scaled=True)),
            "pair_inputs": (RandomWalk(num_steps=num_steps, scaled=True, bias=False), *table, *pairs),
        }
        return changed(model=inputs, task={"auxiliary": ()})(run)

    return change


def batches(size: int) -> Change:
    """Return a change of the batch size."""
    return changed(data={"batch_size": size})


def size(layers: int, node_width: int, edge_width: int, edge_ffn_multiplier: float = 2.0) -> Change:
    """Return a change of the size of the model."""
    widths = {"node_width": node_width, "edge_width": edge_width, "edge_ffn_multiplier": edge_ffn_multiplier}
    return changed(model={"num_layers": layers, **widths})


def attention_dropout(probability: float, keys: float = 0.0) -> Change:
    """Dropout of attention, and of whole keys."""
    return changed(model={"attention_dropout": probability, "key_dropout": keys})


def sparse(degree: int = 0) -> Change:
    """Pairs along edges, both ways, and with a degree also along random links, in place of all pairs."""

    def change(run: RunConfig) -> RunConfig:
        from egt.pairs.edges import Edges  # for these presets alone
        from egt.pairs.expander import Expander

        links = (Expander(degree=degree),) if degree else ()
        return changed(model={"pairs": (Edges(), *links)}, data={"layout": "edge_list"})(run)

    return change


def average(decay: float) -> Change:
    """Return a change that averages the weights over the steps."""
    return changed(trainer={"ema_decay": decay})


CENTRALITY = changed(model={"gate": "centrality"})
"""Centrality scalers beside the gates, as in the large-scale models of the paper."""
EDGE_FLOW = changed(model={"edges": OuterSumEdgesConfig(), "edge_values": "sliced", "edge_ffn_multiplier": 1.0})
"""Nodes receive what their pairs hold, pairs receive both nodes; half of the edge feed-forward block pays for it."""
UNMASKED = changed(model={"masking": RandomMaskingConfig()})
"""No random masking."""
SCALED_SUM = changed(model={"readout": ScaledSumPool()})
DECAY = changed(optimizer={"weight_decay": 1e-5, "decays": "matrices"})
"""AdamW's decay of the matrices alone."""


ZINC_STEPS: Mapping[str, tuple[str, Change]] = {
    "cosine": ("paper's model, warm-up cosine", cosine(epochs=400)),
    "batch32": ("+ batches of 32", batches(32)),
    "sum": ("+ sum over the mean size", SCALED_SUM),
    "centrality": ("+ centrality scalers", CENTRALITY),
    "walks": ("+ RRWP, no distance objective", walks(21, distances=True)),
    "flow": ("+ edge values and outer sum, narrower edge feed-forward", EDGE_FLOW),
    "unmasked": ("without random masking", UNMASKED),
    "dropout": ("+ attention dropout 0.2", attention_dropout(0.2)),
    "decay": ("+ weight decay of matrices", DECAY),
    "average": ("+ averaged weights", average(0.999)),
}
"""What leads from the paper's ZINC model to `-plus`, which is the last one: in words, and as a change."""


def zinc_step(run: RunConfig, last: str) -> RunConfig:
    """Return the paper's ZINC run after all changes up to the one of this name."""
    names = list(ZINC_STEPS)
    return apply(run, [ZINC_STEPS[name][1] for name in names[: names.index(last) + 1]])


def _zinc(epochs: int) -> list[Change]:
    return [*(change for _, change in ZINC_STEPS.values()), cosine(epochs)]


def _blocks(num_steps: int, dropout: float, batch: int, lr: float = 1e-3) -> list[Change]:
    """Return what block models share: their answers are where walks from nodes end."""
    return [
        cosine(epochs=40, lr=lr),
        batches(batch),
        CENTRALITY,
        walks(num_steps),
        UNMASKED,
        attention_dropout(dropout, keys=0.1),
        DECAY,
        average(0.999),
    ]


def _images(dropout: float, keys: float, feed_forward: float, batch: int, epochs: int) -> list[Change]:
    """Return what superpixels share: their neighbors and some random links are enough, and dropout as they overfit."""
    ffn = {"node_ffn_dropout": feed_forward, "edge_ffn_dropout": feed_forward}
    return [
        cosine(epochs),
        batches(batch),
        CENTRALITY,
        walks(8),
        sparse(degree=10),
        UNMASKED,
        attention_dropout(dropout, keys),
        changed(model=ffn),
        DECAY,
        average(0.999),
    ]


_TSP = [cosine(epochs=40), CENTRALITY, sparse(), walks(8), UNMASKED, DECAY]

PLUS: Mapping[str, Sequence[Change]] = {
    "zinc-100k": _zinc(epochs=400),
    "zinc-500k": [*_zinc(epochs=300), attention_dropout(0.2, keys=0.1)],
    "pattern-100k": [size(4, 64, 12, 1.0), *_blocks(21, dropout=0.2, batch=32)],
    "pattern-500k": [size(10, 64, 16), *_blocks(21, dropout=0.2, batch=32, lr=5e-4)],
    "cluster-100k": [size(4, 64, 12, 1.0), *_blocks(32, dropout=0.5, batch=16)],
    "cluster-500k": [size(14, 64, 16), *_blocks(32, dropout=0.5, batch=16)],
    "mnist-100k": [size(4, 64, 16, 1.0), *_images(dropout=0.3, keys=0.1, feed_forward=0.05, batch=32, epochs=40)],
    "cifar10-100k": [size(5, 48, 24), *_images(dropout=0.5, keys=0.2, feed_forward=0.1, batch=32, epochs=60)],
    "tsp-100k": [size(4, 64, 12, 1.0), *_TSP],
    "tsp-500k": [size(16, 64, 12, 1.0), *_TSP],
    "molhiv-500k": [
        cosine(epochs=50, lr=5e-4),
        batches(64),
        CENTRALITY,
        walks(16, distances=True),
        UNMASKED,
        attention_dropout(0.3),
        DECAY,
        average(0.999),
        changed(trainer={"select_by": "metric"}),
    ],
}
"""The changes that make `<preset>-plus` of a preset."""
