"""Config -> objects: parts are joined here; each knows itself what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from egt.config.run import ModelConfig, RunConfig
from egt.config.run_data import pair_choice
from egt.errors import ConfigError
from egt.nn.layer import (
    CentralityGate,
    DegreeScaling,
    EdgeOnlyLayer,
    EdgePass,
    EdgeValues,
    EGTLayer,
    FeedForward,
    FrozenEdges,
    Logits,
    NoGate,
    PairPass,
    ResidualEdges,
    SigmoidGate,
    head_width,
)
from egt.nn.model import EGT, directly, initialize_like_keras, recomputed
from egt.nn.randomness import Dropout, RandomMasking, Stream
from egt.nn.readout import MLP, PairHead
from egt.nn.terms import Embed, PairTypes, chosen, everyone, neighbors
from egt.parts.readouts import LayerPart, LayerPlace, Reads
from egt.parts.tasks.task import TargetScale, Task

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"elu": nn.ELU, "gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU}

_GATES: dict[str, Callable[[int, int], NoGate | SigmoidGate]] = {
    "none": lambda edge_width, num_heads: NoGate(),
    "sigmoid": SigmoidGate,
    "centrality": CentralityGate,
}

_SCOPES = {"everyone": everyone, "neighbors": neighbors}


class LayerClasses(Protocol):
    """The classes that the layers of a model are built of; every backend (`egt.inference.backends`) has its own."""

    name: str
    layer: type[EGTLayer]
    pairs: type[PairPass]
    edges: type[EdgePass]


class PlainLayers:
    """The classes of the plain specification."""

    name = "plain"
    layer: type[EGTLayer] = EGTLayer
    pairs: type[PairPass] = PairPass
    edges: type[EdgePass] = EdgePass


_PLAIN = PlainLayers()


def build_model(config: RunConfig, *, backend: LayerClasses = _PLAIN) -> EGT:
    """Return the model of a run, with fresh parameters (seed torch's generator first for a given start).

    The backend computes the layers; `egt.inference.backends.execution` knows the best one.
    """
    model = config.model
    auxiliary = {}
    for objective in config.task.auxiliary:
        widths = [model.edge_width, *_hidden(model, (0.5, 0.25)), objective.num_outputs]
        auxiliary[objective.kind] = PairHead(model.norm(model.edge_width), MLP(widths, nn.ELU))
    readout = model.readout.module(model)
    hidden = [max(width, model.head_min_width) for width in _hidden(model, model.head_ratios)]
    head = MLP([model.readout.width(model), *hidden, config.task.num_outputs], _ACTIVATIONS[model.activation])
    embed = Embed(
        [term.module(model.node_width) for term in model.node_inputs],
        [
            *(term.module(model.edge_width) for term in model.pair_inputs),
            *(PairTypes(choice.num_types, model.edge_width) for choice in pair_choice(model)),
        ],
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


class Unallocated(TorchFunctionMode):
    """New tensors have a shape and no content.

    With `torch.device("meta")`, or with random numbers there, torch would load its compiler or sympy.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (torch.empty, torch.zeros, torch.ones, torch.randn, torch.rand):
            return torch.empty(*args, **{**kwargs, "device": "meta"})
        if function is torch.full:
            return torch.full(*args, **{**kwargs, "device": "meta"})
        if function in (Tensor.normal_, Tensor.uniform_) or getattr(function, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def weight_shapes(config: RunConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of a run's model, by their names, before memory is taken for any."""
    with unallocated(config):
        return {name: tuple(tensor.shape) for name, tensor in build_model(config).state_dict().items()}


@contextmanager
def unallocated(config: RunConfig) -> Iterator[None]:
    """Build models of a run without memory for their weights; a `ConfigError` if no machine has so much."""
    try:
        with Unallocated():
            yield
    except (RuntimeError, OverflowError, TypeError) as error:
        raise ConfigError(
            f"the model cannot be built: {str(error).splitlines()[0]}; lower model.node_width "
            f"({config.model.node_width}), model.edge_width ({config.model.edge_width}) or the sizes of its inputs"
        ) from error


def build_layers(config: RunConfig, *, backend: LayerClasses = _PLAIN) -> list[nn.Module]:
    """Return the layers of a run's model alone; arguments as for `build_model`.

    They are alike except the last: what is not read behind it is left out (it shows in parameter counts).
    """
    model = config.model
    last: Reads = "both" if config.task.auxiliary else model.readout.reads(model)
    places = [
        LayerPlace(k, model.num_layers, "both" if k < model.num_layers - 1 else last) for k in range(model.num_layers)
    ]
    if model.layer is not None:
        return [_custom_layer(model.layer, model, place) for place in places]
    if model.readout.reads(model) == "pairs":
        layers: list[nn.Module] = [_layer(model, backend, place) for place in places[:-1]]
        pairs = backend.edges(_logits(model), _residual_edges(model, places[-1].index))
        norm_h = model.norm(model.node_width)
        last_layer = EdgeOnlyLayer(
            model.node_width, model.num_heads, norm_h, pairs, _outer(model), _triplets(model, places[-1].index)
        )
        return [*layers, last_layer]
    return [_layer(model, backend, place) for place in places]


def _custom_layer(part: LayerPart, model: ModelConfig, place: LayerPlace) -> nn.Module:
    """Return a layer of another kind, whose random numbers are those of its number in the model."""
    takes_place = len(signature(part.module).parameters) > 1  # those of 0.1 do not
    layer = part.module(model, place) if takes_place else part.module(model)  # type: ignore[call-arg]
    for dropping in layer.modules():
        if isinstance(dropping, Dropout | RandomMasking):
            dropping.layer = place.index
    return layer


def build_task(config: RunConfig, scale: TargetScale | None = None) -> Task:
    """Return the task of a run; `scale` is that of the training targets where the task standardizes them."""
    return Task(config.task, config.model.level, scale)


def _hidden(model: ModelConfig, ratios: Sequence[float]) -> list[int]:
    return [round(model.node_width * ratio) for ratio in ratios]


def _layer(model: ModelConfig, backend: LayerClasses, place: LayerPlace) -> EGTLayer:
    d_h, d_e, heads, k = model.node_width, model.edge_width, model.num_heads, place.index
    frozen = not (model.updates_edges and place.reads == "both")
    pairs = backend.pairs(
        _logits(model),
        RandomMasking(
            model.masking.probability, heads, k, gates=model.masking.gates, key_probability=model.key_dropout
        ),
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
        scaling=None if model.node_scaling == "none" else DegreeScaling(d_h),
        outer=None if frozen else _outer(model),
        triplets=_triplets(model, k),
    )


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


def _branch_dropout(
    model: ModelConfig, probability: float, stream: Stream, k: int, level: Literal["node", "pair"]
) -> Dropout:
    """Return the dropout of a branch in front of its residual sum; drop-path grows from 0 in the first layer."""
    path = model.drop_path * k / max(model.num_layers - 1, 1)
    return Dropout(probability, stream, k, level, path_probability=path)


def _edge_values(model: ModelConfig) -> EdgeValues | None:
    if model.edge_values == "none":
        return None
    d_k = head_width(model.node_width, model.num_heads)
    return EdgeValues(model.edge_width, model.num_heads, d_k, model.edge_values)


def _outer(model: ModelConfig) -> nn.Linear | None:
    return nn.Linear(model.node_width, 2 * model.edge_width, bias=False) if model.edges.reads_nodes else None


def _triplets(model: ModelConfig, k: int) -> nn.Module | None:
    if model.triplets is None:
        return None
    return model.triplets.module(model, Dropout(model.edge_dropout, Stream.TRIPLET_DROPOUT, k, "pair"))
