"""The model's settings; every variant of the paper is a choice of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from egt.graph import Level
from egt.parts.inputs import NodeInput, PairChoice, PairInput
from egt.parts.layers import LayerPart
from egt.parts.readouts import ReadoutPart
from egt.registry import Part, Section

if TYPE_CHECKING:
    from torch import nn

Probability = Annotated[float, Field(ge=0, lt=1)]


class ResidualEdgesConfig(Section):
    """EGT: the edge channel is updated by every layer."""

    kind: Literal["residual"] = "residual"
    normalize: ClassVar[bool] = True
    reads_nodes: ClassVar[bool] = False


class OuterSumEdgesConfig(Section):
    """EGT+: the update of a pair also reads both of its nodes, A h_i + B h_j."""

    kind: Literal["outer_sum"] = "outer_sum"
    normalize: ClassVar[bool] = True
    reads_nodes: ClassVar[bool] = True


class FrozenEdgesConfig(Section):
    """EGT-Simple: the edge embeddings stay unchanged; `normalize` puts a LayerNorm before E and G in each layer."""

    kind: Literal["frozen"] = "frozen"
    normalize: bool = False
    reads_nodes: ClassVar[bool] = False


class RandomMaskingConfig(Section):
    """Random attention masking.

    Fields:
        probability: of a pair to be masked in a training step.
        gates: mask the gates as well as the logits.
    """

    probability: Probability = 0.0
    gates: bool = False


class ModelConfig(Section):
    """Sizes and parts of an EGT.

    Fields:
        num_layers: L.
        node_width: d_h, numbers per node.
        edge_width: d_e, numbers per pair of nodes.
        num_heads: of the attention; each takes an equal share of the node channel.
        node_inputs: the terms of the sum that enters the node channel.
        pair_inputs: the terms of the sum that enters the edge channel.
        edges: what a layer does with the edge channel.
        gate: what multiplies the attention: a sigmoid of the edge channel (with centrality scalers), or nothing.
        scope: whom a node attends: everyone (EGT), or its neighbors (EGT-Constrained).
        pairs: EGT+: which pairs of nodes a list (data.layout edge_list) has; [] for its edges.
        readout: how the channels become one row per graph, node or edge.
        head_ratios: hidden widths of the head over d_h; [] is a linear head.
        head_min_width: no hidden layer of the head is narrower; for many targets `egt train` sets it to their number.
        node_ffn_multiplier: hidden width of the feed-forward block of nodes over d_h.
        edge_ffn_multiplier: the same for pairs, over d_e.
        activation: of the feed-forward blocks and the head.
        clip: range of the scaled dot product; null for none.
        scale_dot: divide the dot product by sqrt(d_k).
        norm_eps: of every LayerNorm.
        edge_values: EGT+: what nodes receive from the edge channel: nothing, a slice for each head, or all of it.
        node_scaling: EGT+: scale what a node receives by its degree.
        masking: random attention masking.
        key_dropout: EGT+: chance of a node to be withheld as a key for a layer of a training step.
        attention_dropout: of the attention after softmax and gate.
        node_dropout: of what attention adds to the node channel.
        edge_dropout: of what the update adds to the edge channel.
        node_ffn_dropout: of what the feed-forward block adds to the node channel.
        edge_ffn_dropout: of what the feed-forward block adds to the edge channel.
        drop_path: EGT+: chance of a graph to skip a branch of the last layer in a training step; 0 in the first layer.
        initialization: of the weights, as PyTorch or as Keras does it.
        layer: layers of another kind in the place of EGT's own (`egt.baselines`).
    """

    num_layers: Annotated[int, Field(gt=0, le=10_000)]
    node_width: PositiveInt
    edge_width: PositiveInt
    num_heads: PositiveInt = 8
    node_inputs: tuple[NodeInput, ...]
    pair_inputs: tuple[PairInput, ...]
    edges: Annotated[ResidualEdgesConfig | OuterSumEdgesConfig | FrozenEdgesConfig, Field(discriminator="kind")] = (
        ResidualEdgesConfig()
    )
    gate: Literal["sigmoid", "centrality", "none"] = "sigmoid"
    scope: Literal["everyone", "neighbors"] = "everyone"
    pairs: tuple[PairChoice, ...] = ()
    readout: ReadoutPart = Field(default_factory=lambda: ReadoutPart.of_kind("mean"))
    head_ratios: tuple[PositiveFloat, ...] = (0.5, 0.25)
    head_min_width: NonNegativeInt = 0
    node_ffn_multiplier: PositiveFloat = 2.0
    edge_ffn_multiplier: PositiveFloat = 2.0
    activation: Literal["elu", "gelu", "relu", "silu"] = "elu"
    clip: tuple[float, float] | None = (-5.0, 5.0)
    scale_dot: bool = True
    norm_eps: PositiveFloat = 1e-5
    edge_values: Literal["none", "sliced", "full"] = "none"
    node_scaling: Literal["none", "degree"] = "none"
    masking: RandomMaskingConfig = RandomMaskingConfig()
    key_dropout: Probability = 0.0
    attention_dropout: Probability = 0.0
    node_dropout: Probability = 0.0
    edge_dropout: Probability = 0.0
    node_ffn_dropout: Probability = 0.0
    edge_ffn_dropout: Probability = 0.0
    drop_path: Probability = 0.0
    initialization: Literal["torch", "keras"] = "torch"
    layer: LayerPart | None = None

    @property
    def level(self) -> Level:
        """What there is one prediction for."""
        return self.readout.level

    @property
    def updates_edges(self) -> bool:
        """Whether the layers update the edge channel; EGT-Simple does not."""
        return self.edges.kind != "frozen"

    @property
    def parts(self) -> tuple[Part, ...]:
        """Inputs, chosen pairs, readout, and the layer if it is not EGT's own."""
        layer = () if self.layer is None else (self.layer,)
        return (*self.node_inputs, *self.pair_inputs, *self.pairs, self.readout, *layer)

    def norm(self, width: int) -> nn.LayerNorm:
        """Return a LayerNorm as all of this model are."""
        from torch import nn

        return nn.LayerNorm(width, eps=self.norm_eps)

    @model_validator(mode="after")
    def _check_consistency(self) -> ModelConfig:
        if self.node_width % self.num_heads:
            raise ValueError(
                f"node_width {self.node_width} is not a multiple of num_heads {self.num_heads}; "
                "each head takes an equal share of the node channel"
            )
        if self.edge_values == "sliced" and self.edge_width % self.num_heads:
            raise ValueError(
                f"edge_width {self.edge_width} is not a multiple of num_heads {self.num_heads}; sliced edge values "
                "give each head an equal share of the edge channel, full ones give it all"
            )
        if not self.node_inputs:
            raise ValueError("node_inputs is empty; give a graph without node features the input {kind: constant}")
        if not self.pair_inputs:
            raise ValueError("pair_inputs is empty; a graph without edge features still has {kind: distance}")
        if self.pairs and self.scope == "neighbors":
            raise ValueError("pairs says who attends whom; leave scope at everyone, or choose the pairs [edges] alone")
        for name in ("node_inputs", "pair_inputs", "pairs"):
            kinds = [term.kind for term in getattr(self, name)]
            if len(set(kinds)) < len(kinds):
                raise ValueError(f"{name} holds a kind twice ({', '.join(kinds)}); list several features in one entry")
        if self.clip is not None and self.clip[0] >= self.clip[1]:
            raise ValueError(f"clip {list(self.clip)} is empty; give [low, high], or null for no clip")
        return self
