"""A whole run: data, model (every variant of the paper is a choice of parts), task and how it is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from egt.data.schema import CustomSchema
from egt.graph import Level
from egt.parts.inputs import NodeInput, PairChoice, PairInput
from egt.parts.readouts import LayerPart, ReadoutPart, TripletPart
from egt.parts.schedules import Plateau, SchedulePart
from egt.parts.tasks.task import TaskPart
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
        layer: layers of another kind in the place of EGT's own (`egt.paper.baselines`).
        triplets: beyond the paper: how pairs (i, j) read pairs (j, k) in front of each layer; null for not at all.
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
    triplets: TripletPart | None = None

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
        """Inputs, chosen pairs, readout, the layer if it is not EGT's own, and triplets."""
        layer = [part for part in (self.layer, self.triplets) if part is not None]
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


@dataclass(frozen=True)
class Affects:
    """What a setting affects, where that is not the result of a run; an annotation of its field.

    Fields:
        what: "speed": how fast, where and in which parts it runs. "chance": the result, but only as another seed or
            other rounding does. "length": how long it trains. "data": which data is read.
    """

    what: Literal["speed", "chance", "length", "data"]


Speed, Chance, Length, Data = Affects("speed"), Affects("chance"), Affects("length"), Affects("data")


class PiecesConfig(Section):
    """Graphs that are not computed whole: each piece has some roots and a neighborhood drawn around them.

    Fields:
        roots: nodes, edges or pairs that a training step learns from.
        evaluation_roots: of a piece without gradients: more of them share more neighbors, and it needs less memory.
        neighbors: for each hop from the roots, how many neighbors of a node come along, or "all"; "graph" alone is the
            whole graph.
    """

    roots: PositiveInt = 256
    evaluation_roots: PositiveInt = 16_384
    neighbors: Annotated[tuple[PositiveInt | Literal["all"], ...], Field(min_length=1)] | Literal["graph"] = (10, 5)


class DataConfig(Section):
    """Where the graphs come from and how they are batched.

    Fields:
        source: a benchmark (`egt data list`), or the path of custom data.
        batch_size: graphs in a training step, over all processes.
        num_workers: processes that prepare batches beside the training.
        layout: how graphs lie in a tensor; "auto" is packed on a CPU, and padded on a GPU or with `trainer.compile`;
            "edge_list" is for EGT-Constrained on large graphs.
        batching: "exact" takes the paper's random batches and splits them into groups of like size without changing
            the gradient; "buckets" batches graphs of like size.
        pair_budget: at most this sum of N^2 is computed at once; null takes what fits the memory.
        pieces: cut each graph into pieces, which are then what `batch_size` counts; null computes graphs whole.
        options: of the benchmark's source, such as the sizes of generated splits.
        train_share: take only this part of the training graphs of a benchmark.
        custom: what the columns of custom data mean; `egt train` infers and writes it.
    """

    source: Annotated[str, Data]
    batch_size: PositiveInt = 128
    num_workers: Annotated[int, Field(ge=0, le=256), Speed] = 0
    layout: Literal["auto", "packed", "padded", "edge_list"] = "auto"
    batching: Literal["exact", "buckets"] = "exact"
    pair_budget: Annotated[PositiveInt | None, Speed] = None
    pieces: PiecesConfig | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    train_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    custom: Annotated[CustomSchema | None, Data] = None

    @model_validator(mode="after")
    def _check_share(self) -> DataConfig:
        if self.custom is not None and self.train_share < 1:
            raise ValueError("train_share is for benchmarks; give custom data as fewer rows, or set split.fractions")
        return self


class OptimizerConfig(Section):
    """Adam.

    Fields:
        lr: the learning rate, which the schedule changes.
        betas: of the running means of the gradient and of its square.
        eps: added to the denominator; 1e-7 as in the paper (DISCREPANCY: the authors' PyTorch code runs torch's 1e-8).
        weight_decay: decoupled, as in AdamW.
        decays: what weight decay acts on: "all" weights, or only the "matrices" of linear maps, which leaves out norms,
            biases and embeddings.
    """

    lr: PositiveFloat = 5e-4
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    eps: PositiveFloat = 1e-7
    weight_decay: NonNegativeFloat = 0.0
    decays: Literal["all", "matrices"] = "all"


def _as_text(value: Any) -> Any:
    """In YAML and on the command line 16 and 32 are numbers."""
    return str(value) if isinstance(value, int) else value


class TrainerConfig(Section):
    """How long, where and how carefully; a run needs `max_epochs` or `max_steps`.

    Fields:
        max_epochs: passes over the training graphs.
        max_steps: steps of the optimizer.
        select: the weights that a run leaves: those of the "best" validation, or the "last" ones.
        select_by: what decides which validation is better: its loss, or the metric of the task.
        patience: end a run after so many epochs without a better validation; null trains to the end.
        accelerator: where it runs; "auto" takes a GPU if there is one.
        devices: processes on each machine; "auto" takes as many as there are devices.
        num_nodes: machines.
        timeout_minutes: how long a process waits for the others before it ends with an error.
        strategy: what several processes hold: "ddp" the whole model each, "fsdp" each its part of the weights and of
            the optimizer.
        precision: "tf32" rounds what enters the matrix products of a GPU to 10 bits (NVIDIA since Ampere: several times
            faster; elsewhere it is "32"); "bf16" and "16" compute them in half precision.
        gradient_clip: scale a longer gradient down to this norm.
        accumulate: batches whose gradients are added up for one step.
        ema_decay: validate and keep a running mean of the weights with this decay.
        compile: hand the layers to `torch.compile`, on the padded layout; it takes minutes to start.
        recompute: run each layer again in the backward pass instead of keeping what is inside (the fused kernel on a
            CPU does so by itself).
        backend: what computes the layers: "cpu" is the fused kernel, "plain" is PyTorch, "auto" the fastest that can.
        checkpoint_minutes: write a checkpoint within an epoch this often.
        baseline: measure a cheap baseline on the same rows after training: a forest, label propagation, a mean.
        blend: average the answers with those of a learner without a network (a forest and a Gaussian process), which
            the artifact keeps; only for numbers and yes/no of molecules.
        trackers: "auto" are TensorBoard and Weights & Biases where they are installed and set up; [] none.
    """

    max_epochs: Annotated[PositiveInt | None, Length] = None
    max_steps: Annotated[PositiveInt | None, Length] = None
    select: Literal["best", "last"] = "best"
    select_by: Literal["loss", "metric"] = "loss"
    patience: Annotated[PositiveInt | None, Length] = None
    accelerator: Annotated[Literal["auto", "cpu", "gpu", "cuda", "mps"], Speed] = "auto"
    devices: Annotated[PositiveInt | Literal["auto"], Speed] = 1
    num_nodes: Annotated[PositiveInt, Speed] = 1
    timeout_minutes: Annotated[PositiveFloat, Speed] = 30.0
    strategy: Annotated[Literal["ddp", "fsdp"], Speed] = "ddp"
    precision: Annotated[Literal["32", "tf32", "bf16", "16"], BeforeValidator(_as_text)] = "32"
    gradient_clip: PositiveFloat | None = None
    accumulate: PositiveInt = 1
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    compile: Annotated[bool, Chance] = False
    recompute: Annotated[bool, Chance] = False
    backend: Annotated[Literal["auto", "plain", "cpu"], Chance] = "auto"
    checkpoint_minutes: Annotated[PositiveFloat, Speed] = 10.0
    baseline: Annotated[bool, Speed] = False
    blend: Annotated[bool, Speed] = False
    trackers: Annotated[Literal["auto"] | tuple[Literal["tensorboard", "wandb"], ...], Speed] = "auto"


class StartConfig(Section):
    """The model whose weights a run starts from, and what of it is kept and trained; written by `egt train --from`.

    Fields:
        artifact: its folder.
        name: of its run.
        sha256: the checksum of its weights.
        keep_head: keep the last linear map, which is otherwise re-initialized.
        freeze_below: layers below this one, and the embeddings, stay unchanged.
        tune: "edges" trains the edge channel alone and keeps the head.
    """

    artifact: Annotated[str, Speed]
    name: str
    sha256: str
    keep_head: bool = False
    freeze_below: NonNegativeInt = 0
    tune: Literal["all", "edges"] = "all"


class RunConfig(Section):
    """Everything that decides a run's result.

    Fields:
        name: of the run, and of its folder.
        seed: of the weights, the order of the graphs and everything else that is random.
        data: where the graphs come from and how they are batched.
        model: sizes and parts of the network.
        task: loss, metrics and decoding.
        optimizer: how the weights move.
        schedule: the learning rate over time.
        trainer: how long, where and how carefully.
        start: the model whose weights it starts from; null for random weights.
        plugins: the packages that its parts come from, besides egt; found out from the parts.
    """

    name: str
    seed: Annotated[NonNegativeInt, Chance] = 0
    data: DataConfig
    model: ModelConfig
    task: TaskPart
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: SchedulePart = Plateau()
    trainer: TrainerConfig
    start: StartConfig | None = None
    plugins: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the run."""
        return (*self.model.parts, self.task, *self.task.auxiliary, self.schedule)

    def replace(self, **changes: Any) -> RunConfig:
        """Return the run with other fields, unchecked; a mapping replaces settings of a section: `trainer={...}`."""
        fields = {
            name: getattr(self, name).model_copy(update=dict(value)) if isinstance(value, Mapping) else value
            for name, value in changes.items()
        }
        return self.model_copy(update=fields)

    @model_validator(mode="after")
    def _check_consistency(self) -> RunConfig:
        self.__dict__["plugins"] = tuple(sorted({part.plugin for part in self.parts} - {""}))  # the section is frozen
        if self.trainer.max_epochs is None and self.trainer.max_steps is None:
            raise ValueError("the run has no end; set trainer.max_epochs or trainer.max_steps")
        if self.trainer.compile and self.data.layout == "packed":
            raise ValueError(
                "trainer.compile works on shapes, and packed batches have another one at every step: "
                "set data.layout to auto or padded"
            )
        if self.data.layout == "edge_list" and self.model.scope != "neighbors" and not self.model.pairs:
            raise ValueError(
                "data.layout edge_list holds only edges; it needs model.scope neighbors (EGT-Constrained), or a choice "
                "of model.pairs"
            )
        self._check_pieces()
        for part in self.parts:
            part.check(self)
        return self

    def _check_pieces(self) -> None:
        if self.data.pieces is None:
            return
        if self.data.layout != "edge_list":
            raise ValueError(
                "data.pieces cuts lists of edges; set data.layout to edge_list and model.scope to neighbors "
                "(or choose model.pairs)"
            )
        if self.model.level == "graph" or not self.task.answers:
            raise ValueError(
                "data.pieces answers nodes, edges and links; what is predicted for a whole graph, and pre-training, "
                "needs it whole: set data.pieces to null"
            )


@cache
def settings_that_affect(*what: str) -> frozenset[tuple[str, ...]]:
    """Return the paths of the settings that are marked as affecting one of these (`Affects`)."""

    def walk(section: type[Section], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, field in section.model_fields.items():
            if any(isinstance(mark, Affects) and mark.what in what for mark in field.metadata):
                yield (*above, name)
            for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
                if isinstance(inner, type) and issubclass(inner, Section) and not issubclass(inner, Part):
                    yield from walk(inner, (*above, name))

    return frozenset(walk(RunConfig, ()))
