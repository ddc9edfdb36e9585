"""Config -> objects: parts are joined here; each knows itself what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from torch import nn

from egt.config.model import ModelConfig
from egt.config.preparation import pair_choice
from egt.config.run import RunConfig
from egt.nn.dropout import Dropout, RandomMasking
from egt.nn.embed import Embed, chosen, everyone, neighbors
from egt.nn.layer import EdgeOnlyLayer, EGTLayer, head_width
from egt.nn.model import EGT, directly, initialize_like_keras, recomputed
from egt.nn.pair_pass import (
    CentralityGate,
    EdgePass,
    FeedForward,
    FrozenEdges,
    Logits,
    NoGate,
    PairPass,
    ResidualEdges,
    SigmoidGate,
)
from egt.nn.randomness import Stream
from egt.nn.readout import MLP, PairHead
from egt.parts.tasks.task import TargetScale, Task

if TYPE_CHECKING:
    from egt.nn.edge_values import EdgeValues
    from egt.nn.layer import DegreeScaling

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"elu": nn.ELU, "gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU}

_GATES: dict[str, Callable[[int, int], NoGate | SigmoidGate]] = {
    "none": lambda edge_width, num_heads: NoGate(),
    "sigmoid": SigmoidGate,
    "centrality": CentralityGate,
}

_SCOPES = {"everyone": everyone, "neighbors": neighbors}


class LayerClasses(Protocol):
    """The classes that the layers of a model are built of; every backend (`egt.inference.backends`) has its own."""

    @property
    def name(self) -> str:
        """The backend's name."""

    @property
    def layer(self) -> type[EGTLayer]:
        """The class of a whole layer."""

    @property
    def pairs(self) -> type[PairPass]:
        """The class of its pair work."""

    @property
    def edges(self) -> type[EdgePass]:
        """The class of the pair work of a last layer that only edges are read from."""


class PlainLayers:
    """The classes of the plain specification."""

    name = "plain"
    layer = EGTLayer
    pairs = PairPass
    edges = EdgePass


_PLAIN = PlainLayers()


def build_model(config: RunConfig, *, backend: LayerClasses = _PLAIN) -> EGT:
    """Return the model of a run, with fresh parameters (seed torch's generator first for a given start).

    Args:
        config: the run.
        backend: that computes the layers, by default the plain specification; `egt.execution` knows the best one.
    """
    model = config.model
    auxiliary = {objective.kind: _pair_head(model, objective.num_outputs) for objective in config.task.auxiliary}
    readout = model.readout.module(model)
    widths = [model.readout.width(model), *_hidden(model, model.head_ratios), config.task.num_outputs]
    head = MLP(widths, _ACTIVATIONS[model.activation])
    embed = Embed(
        [term.module(model.node_width) for term in model.node_inputs],
        [*(term.module(model.edge_width) for term in model.pair_inputs), *_pair_types(model)],
        chosen if model.pairs else _SCOPES[model.scope],
    )
    egt = EGT(
        embed,
        build_layers(config, backend=backend),
        readout,
        head,
        auxiliary,
        run_layer=recomputed if config.trainer.recompute else directly,
        reads_only_virtual_nodes=model.readout.reads(model) == "virtual_nodes",
        backend=backend.name,
    )
    if model.initialization == "keras":
        initialize_like_keras(egt)
    return egt


def _pair_types(model: ModelConfig) -> list[nn.Module]:
    """Return the term of the types of chosen pairs, where they are chosen."""
    if not (choices := pair_choice(model)):
        return []
    from egt.nn.terms import PairTypes

    return [PairTypes(choice.num_types, model.edge_width) for choice in choices]


def build_layers(config: RunConfig, *, backend: LayerClasses = _PLAIN) -> list[nn.Module]:
    """Return the layers of a run's model alone; arguments as for `build_model`."""
    edges_are_read = bool(config.task.auxiliary) or config.model.readout.reads(config.model) == "both"
    return _layers(config.model, backend, edges_are_read=edges_are_read)


def build_task(config: RunConfig, scale: TargetScale | None = None) -> Task:
    """Return the task of a run: loss, metrics and decoding.

    Args:
        config: the run.
        scale: mean and std of the training targets where the task standardizes them; None leaves them unchanged.
    """
    return Task(config.task, config.model.level, scale)


def _pair_head(model: ModelConfig, num_outputs: int) -> PairHead:
    widths = [model.edge_width, *_hidden(model, (0.5, 0.25)), num_outputs]
    return PairHead(model.norm(model.edge_width), MLP(widths, nn.ELU))


def _hidden(model: ModelConfig, ratios: Sequence[float]) -> list[int]:
    return [round(model.node_width * ratio) for ratio in ratios]


def _layers(model: ModelConfig, backend: LayerClasses, *, edges_are_read: bool) -> list[nn.Module]:
    """Make all layers alike except the last: what nobody reads behind it is left out (it shows in parameter counts)."""
    if model.layer is not None:
        return _numbered([model.layer.module(model) for _ in range(model.num_layers)])
    layers: list[nn.Module] = [
        _layer(model, backend, k, frozen=not model.updates_edges) for k in range(model.num_layers - 1)
    ]
    last = model.num_layers - 1
    if model.readout.reads(model) == "pairs":
        layers.append(_edge_only_layer(model, backend, last))
    else:
        layers.append(_layer(model, backend, last, frozen=not (model.updates_edges and edges_are_read)))
    return layers


def _numbered(layers: list[nn.Module]) -> list[nn.Module]:
    """Give the random parts of layers that were made alike the number of their layer: each draws masks of its own."""
    for number, layer in enumerate(layers):
        for part in layer.modules():
            if isinstance(part, Dropout | RandomMasking):
                part.layer = number
    return layers


def _layer(model: ModelConfig, backend: LayerClasses, k: int, *, frozen: bool) -> EGTLayer:
    d_h, d_e, heads = model.node_width, model.edge_width, model.num_heads
    pairs = backend.pairs(
        _logits(model),
        _masking(model, k),
        _GATES[model.gate](d_e, heads),
        Dropout(model.attention_dropout, Stream.ATTENTION_DROPOUT, k, "pair"),
        FrozenEdges() if frozen else _residual_edges(model, k),
        _edge_values(model),
    )
    hidden = round(d_h * model.node_ffn_multiplier)
    ffn_dropout = _branch_dropout(model, model.node_ffn_dropout, Stream.NODE_FFN_DROPOUT, k, "node")
    return backend.layer(
        d_h,
        d_e,
        heads,
        norm_h=model.norm(d_h),
        pairs=pairs,
        dropout=_branch_dropout(model, model.node_dropout, Stream.NODE_DROPOUT, k, "node"),
        ffn=FeedForward(d_h, hidden, _ACTIVATIONS[model.activation], model.norm(d_h), ffn_dropout),
        scaling=_node_scaling(model),
        outer=None if frozen else _outer(model),
    )


def _edge_only_layer(model: ModelConfig, backend: LayerClasses, k: int) -> EdgeOnlyLayer:
    pairs = backend.edges(_logits(model), _residual_edges(model, k))
    return EdgeOnlyLayer(model.node_width, model.num_heads, model.norm(model.node_width), pairs, _outer(model))


def _logits(model: ModelConfig) -> Logits:
    norm_e = model.norm(model.edge_width) if model.edges.normalize else nn.Identity()
    scale = head_width(model.node_width, model.num_heads) ** -0.5 if model.scale_dot else 1.0
    return Logits(model.edge_width, model.num_heads, scale, model.clip, norm_e)


def _residual_edges(model: ModelConfig, k: int) -> ResidualEdges:
    d_e = model.edge_width
    dropout = _branch_dropout(model, model.edge_dropout, Stream.EDGE_DROPOUT, k, "pair")
    ffn_dropout = _branch_dropout(model, model.edge_ffn_dropout, Stream.EDGE_FFN_DROPOUT, k, "pair")
    hidden = round(d_e * model.edge_ffn_multiplier)
    ffn = FeedForward(d_e, hidden, _ACTIVATIONS[model.activation], model.norm(d_e), ffn_dropout)
    return ResidualEdges(d_e, model.num_heads, dropout, ffn)


def _masking(model: ModelConfig, k: int) -> RandomMasking:
    probability, gates = model.masking.probability, model.masking.gates
    if model.key_dropout == 0:
        return RandomMasking(probability, model.num_heads, k, gates=gates)
    from egt.nn.dropout import KeyDropout

    return KeyDropout(probability, model.num_heads, k, gates=gates, key_probability=model.key_dropout)


def _branch_dropout(
    model: ModelConfig, probability: float, stream: Stream, k: int, level: Literal["node", "pair"]
) -> Dropout:
    """Return what is dropped of a branch in front of its residual sum."""
    if model.drop_path == 0:
        return Dropout(probability, stream, k, level)
    from egt.nn.dropout import DropPath, path_probability

    rate = path_probability(model.drop_path, k, model.num_layers)
    return DropPath(probability, stream, k, level, path_probability=rate)


def _edge_values(model: ModelConfig) -> EdgeValues | None:
    if model.edge_values == "none":
        return None
    from egt.nn.edge_values import EdgeValues

    d_k = head_width(model.node_width, model.num_heads)
    return EdgeValues(model.edge_width, model.num_heads, d_k, model.edge_values)


def _outer(model: ModelConfig) -> nn.Linear | None:
    if not model.edges.reads_nodes:
        return None
    return nn.Linear(model.node_width, 2 * model.edge_width, bias=False)


def _node_scaling(model: ModelConfig) -> DegreeScaling | None:
    if model.node_scaling == "none":
        return None
    from egt.nn.layer import DegreeScaling

    return DegreeScaling(model.node_width)
