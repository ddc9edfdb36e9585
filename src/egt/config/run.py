"""A whole run: data, model, task and how it is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from egt.config.model import ModelConfig
from egt.data.schema import CustomSchema
from egt.parts.schedules import Plateau, SchedulePart
from egt.parts.tasks.task import TaskPart
from egt.registry import Part, Section

_Share = Annotated[float, Field(ge=0, lt=1)]


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
        neighbors: for each hop from the roots, how many neighbors of a node come along, or "all".
    """

    roots: PositiveInt = 256
    evaluation_roots: PositiveInt = 16_384
    neighbors: Annotated[tuple[PositiveInt | Literal["all"], ...], Field(min_length=1)] = (10, 5)


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
    betas: tuple[_Share, _Share] = (0.9, 0.999)
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
