"""A whole run: data, model, task and how it is trained."""

from __future__ import annotations

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
from egt.parts import Part, Section
from egt.schedules.plateau import Plateau
from egt.schedules.schedule import SchedulePart
from egt.sources.custom.schema import CustomSchema
from egt.tasks.task import TaskPart

_Share = Annotated[float, Field(ge=0, lt=1)]


class DataConfig(Section):
    """Where the graphs come from and how they are batched.

    `batching`: "exact" takes the paper's random batches and splits them into groups of like size without changing the
    gradient; "buckets" batches graphs of like size. `layout` "auto" is packed on a CPU, and padded on a GPU or with
    `trainer.compile`; "edge_list" is for EGT-Constrained on large graphs. `pair_budget` caps the sum of N^2 of what is
    computed at once.
    `train_share` takes only a part of the training graphs of a benchmark.
    `custom` says what the columns of the user's own data mean; `egt train` infers and writes it.
    """

    source: str
    batch_size: PositiveInt = 128
    num_workers: Annotated[int, Field(ge=0, le=256)] = 0
    layout: Literal["auto", "packed", "padded", "edge_list"] = "auto"
    batching: Literal["exact", "buckets"] = "exact"
    pair_budget: PositiveInt | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    train_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    custom: CustomSchema | None = None

    @model_validator(mode="after")
    def _check_share(self) -> DataConfig:
        if self.custom is not None and self.train_share < 1:
            raise ValueError("train_share is for benchmarks; give custom data as fewer rows, or set split.fractions")
        return self


class OptimizerConfig(Section):
    """Adam; `eps` 1e-7 as in the paper (DISCREPANCY: the authors' PyTorch code runs torch's 1e-8).

    `weight_decay` is decoupled (AdamW); `decays` says what it acts on: "all" weights, or only the "matrices" of linear
    maps, which leaves out norms, biases and embeddings.
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
    """How long, where and how carefully. `select` decides which weights a run leaves.

    `patience` ends a run early, after so many epochs without a better validation; None trains to the end. What is
    better is decided by the validation loss, or with `select_by` "metric" by the metric of the task.
    `recompute` runs each layer again in the backward pass instead of keeping what is inside (the fused kernel on a CPU
    does so by itself). `compile` hands the layers to `torch.compile`, on the padded layout; it takes minutes to start.
    `backend` computes the layers: "cpu" is the fused kernel, "plain" is PyTorch, "auto" is the fastest one that can.
    `precision` "tf32" rounds what enters the matrix products of a GPU to 10 bits (NVIDIA since Ampere: several times
    faster; elsewhere it is "32"); "bf16" and "16" compute them in half precision.
    `strategy` says what several processes hold: "ddp" the whole model each, "fsdp" each its part of the weights and of
    the optimizer. `trackers` "auto" are TensorBoard and Weights & Biases where they are installed and set up; [] none.
    """

    max_epochs: PositiveInt | None = None
    max_steps: PositiveInt | None = None
    select: Literal["best", "last"] = "best"
    select_by: Literal["loss", "metric"] = "loss"
    patience: PositiveInt | None = None
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    devices: PositiveInt | Literal["auto"] = 1
    num_nodes: PositiveInt = 1
    strategy: Literal["ddp", "fsdp"] = "ddp"
    precision: Annotated[Literal["32", "tf32", "bf16", "16"], BeforeValidator(_as_text)] = "32"
    gradient_clip: PositiveFloat | None = None
    accumulate: PositiveInt = 1
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    compile: bool = False
    recompute: bool = False
    backend: Literal["auto", "plain", "cpu"] = "auto"
    checkpoint_minutes: PositiveFloat = 10.0
    trackers: Literal["auto"] | tuple[Literal["tensorboard", "wandb"], ...] = "auto"


class StartConfig(Section):
    """The model whose weights a run starts from, and what of it is kept and trained; written by `egt train --from`.

    `artifact` is its folder, `name` that of its run, `sha256` the checksum of its weights. The last
    linear map is re-initialized unless `keep_head`. Layers below `freeze_below`, and the embeddings, stay unchanged;
    `tune` "edges" trains the edge channel alone and keeps the head.
    """

    artifact: str
    name: str
    sha256: str
    keep_head: bool = False
    freeze_below: NonNegativeInt = 0
    tune: Literal["all", "edges"] = "all"


class RunConfig(Section):
    """Everything that decides a run's result.

    `start` is None for a run from random weights. `plugins` are the packages that its parts come from, besides egt;
    they are found out from the parts.
    """

    name: str
    seed: NonNegativeInt = 0
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
        if self.data.layout == "edge_list" and self.model.scope != "neighbors":
            raise ValueError("data.layout edge_list holds only edges; it needs model.scope neighbors (EGT-Constrained)")
        for part in self.parts:
            part.check(self)
        return self
