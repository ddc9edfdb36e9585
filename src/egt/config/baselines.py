"""Baselines as forms of a preset: the same data, task, readout and recipe, and as many parameters."""

from __future__ import annotations

from typing import Any

from egt.baselines.gatedgcn import GatedGcn
from egt.baselines.gcn import Gcn
from egt.baselines.gin import Gin
from egt.baselines.layer import LayerPart
from egt.baselines.mlp import Mlp
from egt.config.model import FrozenEdgesConfig, RandomMaskingConfig, ResidualEdgesConfig
from egt.config.run import RunConfig
from egt.inputs.distance import Reachability
from egt.readouts.mean import MeanPool

_WIDTHS = {
    # source and layers: (gcn and mlp, gin, gatedgcn)
    ("zinc", 4): (160, 116, 76),
    ("tsp", 4): (147, 108, 73),
    ("", 4): (172, 124, 81),
    ("", 6): (1125, 862, 580),
    ("", 10): (220, 155, 100),
    ("tsp", 16): (173, 122, 79),
    ("", 16): (180, 127, 81),
}
"""Node widths by the data and the layers of the EGT beside it; a test holds them to its number of parameters."""
_KINDS = {"gcn": 0, "mlp": 0, "gin": 1, "gatedgcn": 2}
_EDGE_WIDTH = 8


def gcn(run: RunConfig) -> RunConfig:
    """Baseline: GCN layers in place of EGT's."""
    return _with_layer(run, Gcn())


def gin(run: RunConfig) -> RunConfig:
    """Baseline: GIN layers (with features of edges) in place of EGT's."""
    return _with_layer(run, Gin())


def gatedgcn(run: RunConfig) -> RunConfig:
    """Baseline: GatedGCN layers in place of EGT's."""
    return _with_layer(run, GatedGcn())


def mlp(run: RunConfig) -> RunConfig:
    """Baseline: a perceptron on each node, without any edge."""
    return _with_layer(run, Mlp())


def _with_layer(run: RunConfig, layer: LayerPart) -> RunConfig:
    """No positional encodings and no objective on pairs: what the layer cannot read is left out."""
    model = run.model
    width = _width(run, layer)
    gated = layer.kind == "gatedgcn"
    edges = tuple(term for term in model.pair_inputs if term.kind.startswith("edge_"))
    changes: dict[str, Any] = {
        "layer": layer,
        "node_width": width,
        "edge_width": width if gated else _EDGE_WIDTH,
        "num_heads": 1,
        "node_inputs": tuple(term for term in model.node_inputs if term.kind != "svd"),
        "pair_inputs": edges or (Reachability(num_hops=1),),
        "edges": ResidualEdgesConfig() if gated else FrozenEdgesConfig(),
        "gate": "none",
        "scope": "neighbors",
        "readout": MeanPool() if model.readout.added_nodes() else model.readout,
        "masking": RandomMaskingConfig(),
        "edge_values": "none",
        "node_scaling": "none",
        "attention_dropout": 0.0,
        "key_dropout": 0.0,
        "drop_path": 0.0,
        "initialization": "torch",
    }
    return run.model_copy(
        update={
            "model": model.model_copy(update=changes),
            "data": run.data.model_copy(update={"layout": "edge_list"}),
            "task": run.task.model_copy(update={"auxiliary": ()}),
        }
    )


def _width(run: RunConfig, layer: LayerPart) -> int:
    known = [(source, layers) for source, layers in _WIDTHS if source in (run.data.source, "")]
    nearest = min(known, key=lambda size: (abs(size[1] - run.model.num_layers), not size[0]))
    return _WIDTHS[nearest][_KINDS[layer.kind]]
