"""Config -> objects: the only place that matches on backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import nn

from egt.config import inputs
from egt.config.model import ModelConfig
from egt.config.run import RunConfig
from egt.config.task import Binary, Multiclass, Regression
from egt.encodings.degrees import Degrees as DegreeEncoding
from egt.encodings.distances import ShortestPaths
from egt.encodings.encoding import Encoding, Preparation
from egt.encodings.laplacian import LaplacianEigenvectors
from egt.encodings.random_walks import RandomWalks as RandomWalkEncoding
from egt.encodings.svd import SvdEncoding
from egt.graph import FeatureSchema
from egt.model import EGT, directly, recomputed
from egt.nn import terms
from egt.nn.dropout import Dropout, RandomMasking
from egt.nn.edges import FrozenEdges, ResidualEdges
from egt.nn.embed import Embed
from egt.nn.feedforward import FeedForward
from egt.nn.gate import CentralityGate, NoGate, SigmoidGate
from egt.nn.head import MLP, PairHead
from egt.nn.initialization import initialize_like_keras
from egt.nn.layer import EdgeOnlyLayer, EGTLayer, head_width
from egt.nn.logits import Logits
from egt.nn.masks import everyone, neighbors
from egt.nn.pair_pass import EdgePass, PairPass
from egt.nn.randomness import Stream
from egt.nn.readout import MeanPool, PaddingVirtualNodes, PerEdge, PerEdgeOfNodes, PerNode, Readout, VirtualNodes
from egt.tasks.binary import BinaryTask
from egt.tasks.distance import DistanceObjective
from egt.tasks.multiclass import MulticlassTask
from egt.tasks.regression import RegressionTask
from egt.tasks.scale import TargetScale
from egt.tasks.task import Task

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"elu": nn.ELU, "gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU}
_SCOPES = {"everyone": everyone, "neighbors": neighbors}


class LayerClasses(Protocol):
    """The classes that the layers of a model are built of; every backend (`egt.execution.backends`) has its own."""

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


def feature_schema(config: ModelConfig) -> FeatureSchema:
    """The features that the model reads."""
    categories: dict[str, tuple[int, ...]] = {"node_categories": (), "edge_categories": ()}
    values = {"node_values": 0, "edge_values": 0}
    for term in (*config.node_inputs, *config.pair_inputs):
        if isinstance(term, inputs.NodeCategories | inputs.EdgeCategories):
            categories[term.kind] = term.sizes
        elif isinstance(term, inputs.NodeValues | inputs.EdgeValues):
            values[term.kind] = term.num_values
    return FeatureSchema(
        node_categories=categories["node_categories"],
        num_node_values=values["node_values"],
        edge_categories=categories["edge_categories"],
        num_edge_values=values["edge_values"],
    )


def preparation(config: RunConfig) -> Preparation:
    """What has to be computed for each graph before the model can read it."""
    encodings: list[Encoding] = []
    hops = [objective.max_hops for objective in config.task.auxiliary]
    for term in (*config.model.node_inputs, *config.model.pair_inputs):
        match term:
            case inputs.Svd():
                encodings.append(SvdEncoding(rank=term.rank, weighted=term.weighted))
            case inputs.Laplacian():
                encodings.append(LaplacianEigenvectors(rank=term.rank))
            case inputs.Degree():
                encodings.append(DegreeEncoding(max_degree=term.max_degree))
            case inputs.RandomWalk():
                encodings.append(RandomWalkEncoding(num_steps=term.num_steps))
            case inputs.Distance():
                hops.append(term.max_hops)
            case inputs.Reachability():
                hops.append(term.num_hops)
            case _:
                pass
    if config.data.layout == "edge_list":  # nothing of size N^2; distances of edges need no search
        encodings = [encoding for encoding in encodings if encoding.level == "node"]
    elif hops:
        encodings.append(ShortestPaths(max_hops=max(hops)))
    return Preparation(feature_schema(config.model), tuple(encodings))


def build_model(config: RunConfig, *, backend: LayerClasses = _PLAIN) -> EGT:
    """The model of a run, with fresh parameters (seed torch's generator first for a given start).

    Args:
        config: the run.
        backend: that computes the layers, by default the plain specification; `egt.execution` knows the best one.
    """
    model = config.model
    auxiliary: dict[str, PairHead] = {
        objective.kind: PairHead(
            nn.LayerNorm(model.edge_width, eps=model.norm_eps),
            MLP([model.edge_width, *_hidden(model, (0.5, 0.25)), objective.max_hops + 1], _ACTIVATIONS["elu"]),
        )
        for objective in config.task.auxiliary
    }
    readout, width = _readout(model)
    head = MLP([width, *_hidden(model, model.head_ratios), config.task.num_outputs], _ACTIVATIONS[model.activation])
    embed = _embed(model)
    layers = _layers(model, backend, edges_are_read=bool(auxiliary))
    run_layer = recomputed if config.trainer.recompute else directly
    egt = EGT(embed, layers, readout, head, auxiliary, run_layer, backend.name)
    if model.initialization == "keras":
        initialize_like_keras(egt)
    return egt


def build_task(config: RunConfig, scale: TargetScale | None = None) -> Task:
    """The task of a run: loss, metrics and decoding.

    Args:
        config: the run.
        scale: mean and std of the training targets where regression standardizes them; None leaves them as they are.
    """
    task, level = config.task, config.model.level
    auxiliary = [DistanceObjective(objective.max_hops, objective.weight) for objective in task.auxiliary]
    match task:
        case Regression():
            return RegressionTask(level, task.loss, scale or TargetScale.identity(task.num_outputs), auxiliary)
        case Binary():
            return BinaryTask(level, task.metric, auxiliary)
        case Multiclass():
            return MulticlassTask(level, task.num_classes, task.metric, task.class_weights, auxiliary)


def _hidden(model: ModelConfig, ratios: Sequence[float]) -> list[int]:
    return [round(model.node_width * ratio) for ratio in ratios]


def _embed(model: ModelConfig) -> Embed:
    return Embed(
        [_node_term(term, model.node_width) for term in model.node_inputs],
        [_pair_term(term, model.edge_width) for term in model.pair_inputs],
        _SCOPES[model.scope],
    )


def _node_term(term: inputs.NodeTerm, width: int) -> nn.Module:
    match term:
        case inputs.NodeCategories():
            return terms.NodeCategories(term.sizes, width)
        case inputs.NodeValues():
            return terms.NodeValues(term.num_values, width)
        case inputs.Constant():
            return terms.Constant(width)
        case inputs.Svd():
            return terms.SignedEncoding("svd", term.rank, 2, width)
        case inputs.Laplacian():
            return terms.SignedEncoding("laplacian", term.rank, 1, width)
        case inputs.Degree():
            return terms.Degrees(term.max_degree, width)


def _pair_term(term: inputs.PairTerm, width: int) -> nn.Module:
    match term:
        case inputs.EdgeCategories():
            return terms.EdgeCategories(term.sizes, width, term.absent)
        case inputs.EdgeValues():
            return terms.EdgeValues(term.num_values, width, term.absent)
        case inputs.Distance():
            return terms.DistanceTable(term.max_hops, width)
        case inputs.Reachability():
            return terms.Reachability(term.num_hops, width)
        case inputs.RandomWalk():
            return terms.RandomWalks(term.num_steps, width)


def _readout(model: ModelConfig) -> tuple[Readout, int]:
    """The readout and the width of a row it gives."""
    d_h, d_e = model.node_width, model.edge_width
    readout = model.readout
    match readout.kind:
        case "mean":
            return MeanPool(_norm(d_h, model)), d_h
        case "virtual_nodes":
            nodes = PaddingVirtualNodes if readout.attend_padding else VirtualNodes
            return nodes(readout.num_virtual, d_h, d_e, _norm(d_h, model)), readout.num_virtual * d_h
        case "node":
            return PerNode(_norm(d_h, model)), d_h
        case "edge" if model.edges.kind == "frozen":
            return PerEdgeOfNodes(_norm(d_h, model)), 2 * d_h + d_e
        case "edge":
            return PerEdge(_norm(d_e, model)), d_e


def _layers(model: ModelConfig, backend: LayerClasses, *, edges_are_read: bool) -> list[nn.Module]:
    """Make all layers alike except the last: what nobody reads behind it is left out (it shows in parameter counts)."""
    layers: list[nn.Module] = [
        _layer(model, backend, k, frozen=model.edges.kind == "frozen") for k in range(model.num_layers - 1)
    ]
    last = model.num_layers - 1
    if model.readout.kind == "edge" and model.edges.kind == "residual":
        layers.append(_edge_only_layer(model, backend, last))
    else:
        layers.append(_layer(model, backend, last, frozen=model.edges.kind == "frozen" or not edges_are_read))
    return layers


def _layer(model: ModelConfig, backend: LayerClasses, k: int, *, frozen: bool) -> EGTLayer:
    d_h, d_e, heads = model.node_width, model.edge_width, model.num_heads
    gate: NoGate | SigmoidGate
    match model.gate:
        case "none":
            gate = NoGate()
        case "sigmoid":
            gate = SigmoidGate(d_e, heads)
        case "centrality":
            gate = CentralityGate(d_e, heads)
    pairs = backend.pairs(
        _logits(model),
        RandomMasking(model.masking.probability, heads, k, gates=model.masking.gates),
        gate,
        Dropout(model.attention_dropout, Stream.ATTENTION_DROPOUT, k, "pair"),
        FrozenEdges() if frozen else _residual_edges(model, k),
    )
    hidden = round(d_h * model.node_ffn_multiplier)
    ffn_dropout = Dropout(model.node_ffn_dropout, Stream.NODE_FFN_DROPOUT, k, "node")
    return backend.layer(
        d_h,
        d_e,
        heads,
        norm_h=_norm(d_h, model),
        pairs=pairs,
        dropout=Dropout(model.node_dropout, Stream.NODE_DROPOUT, k, "node"),
        ffn=FeedForward(d_h, hidden, _ACTIVATIONS[model.activation], _norm(d_h, model), ffn_dropout),
    )


def _edge_only_layer(model: ModelConfig, backend: LayerClasses, k: int) -> EdgeOnlyLayer:
    pairs = backend.edges(_logits(model), _residual_edges(model, k))
    return EdgeOnlyLayer(model.node_width, model.num_heads, _norm(model.node_width, model), pairs)


def _logits(model: ModelConfig) -> Logits:
    normalize = model.edges.kind == "residual" or model.edges.normalize
    norm_e = _norm(model.edge_width, model) if normalize else nn.Identity()
    scale = head_width(model.node_width, model.num_heads) ** -0.5 if model.scale_dot else 1.0
    return Logits(model.edge_width, model.num_heads, scale, model.clip, norm_e)


def _residual_edges(model: ModelConfig, k: int) -> ResidualEdges:
    d_e = model.edge_width
    ffn_dropout = Dropout(model.edge_ffn_dropout, Stream.EDGE_FFN_DROPOUT, k, "pair")
    hidden = round(d_e * model.edge_ffn_multiplier)
    ffn = FeedForward(d_e, hidden, _ACTIVATIONS[model.activation], _norm(d_e, model), ffn_dropout)
    return ResidualEdges(d_e, model.num_heads, Dropout(model.edge_dropout, Stream.EDGE_DROPOUT, k, "pair"), ffn)


def _norm(width: int, model: ModelConfig) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=model.norm_eps)
