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
from egt.config.task import TaskConfig
from egt.section import Section
from egt.sources.custom.schema import CustomSchema

_Share = Annotated[float, Field(ge=0, lt=1)]


class DataConfig(Section):
    """Where the graphs come from and how they are batched.

    `batching`: "exact" takes the paper's random batches and splits them into groups of like size without changing the
    gradient; "buckets" batches graphs of like size. `layout` "auto" is packed on a CPU, and padded on a GPU or with
    `trainer.compile`; "edge_list" is for EGT-Constrained on large graphs. `pair_budget` caps the sum of N^2 of what is
    computed at once.
    `custom` says what the columns of the user's own data mean; `egt train` infers and writes it.
    """

    source: str
    batch_size: PositiveInt = 128
    num_workers: Annotated[int, Field(ge=0, le=256)] = 0
    layout: Literal["auto", "packed", "padded", "edge_list"] = "auto"
    batching: Literal["exact", "buckets"] = "exact"
    pair_budget: PositiveInt | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    custom: CustomSchema | None = None


class OptimizerConfig(Section):
    """Adam; `eps` 1e-7 as in the paper (DISCREPANCY: the authors' PyTorch code runs torch's 1e-8)."""

    lr: PositiveFloat = 5e-4
    betas: tuple[_Share, _Share] = (0.9, 0.999)
    eps: PositiveFloat = 1e-7
    weight_decay: NonNegativeFloat = 0.0


class Plateau(Section):
    """Multiply the learning rate by `factor` after `patience` epochs without a strictly better validation loss."""

    kind: Literal["plateau"] = "plateau"
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    patience: PositiveInt = 10
    min_lr: PositiveFloat = 5e-6


class WarmupCosine(Section):
    """Linear from `min_lr` to the optimizer's rate over `warmup_steps`, then half a cosine down until `total_steps`."""

    kind: Literal["warmup_cosine"] = "warmup_cosine"
    warmup_steps: NonNegativeInt
    total_steps: PositiveInt
    min_lr: PositiveFloat = 1e-6

    @model_validator(mode="after")
    def _check_consistency(self) -> WarmupCosine:
        if self.warmup_steps >= self.total_steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} must be below total_steps {self.total_steps}")
        return self


class Constant(Section):
    """The same learning rate throughout."""

    kind: Literal["constant"] = "constant"


def _as_text(value: Any) -> Any:
    """In YAML and on the command line 16 and 32 are numbers."""
    return str(value) if isinstance(value, int) else value


class TrainerConfig(Section):
    """How long, where and how carefully. `select` decides which weights a run leaves.

    `recompute` runs each layer again in the backward pass instead of keeping what is inside (the fused kernel on a CPU
    does so by itself). `compile` hands the layers to `torch.compile`, on the padded layout; it takes minutes to start.
    """

    max_epochs: PositiveInt | None = None
    max_steps: PositiveInt | None = None
    select: Literal["best", "last"] = "best"
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    devices: PositiveInt | Literal["auto"] = 1
    num_nodes: PositiveInt = 1
    precision: Annotated[Literal["32", "bf16", "16"], BeforeValidator(_as_text)] = "32"
    gradient_clip: PositiveFloat | None = None
    accumulate: PositiveInt = 1
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    compile: bool = False
    recompute: bool = False
    checkpoint_minutes: PositiveFloat = 10.0


class StartConfig(Section):
    """The model whose weights a run starts from, and what of it is kept and trained; written by `egt train --from`.

    `artifact` is its folder or shipped name, `name` that of its run, `sha256` the checksum of its weights. The last
    linear map starts anew unless `keep_head`. Layers below `freeze_below`, and the embeddings, stay as they are; `tune`
    "edges" trains the edge channel alone and keeps the head.
    """

    artifact: str
    name: str
    sha256: str
    keep_head: bool = False
    freeze_below: NonNegativeInt = 0
    tune: Literal["all", "edges"] = "all"


class RunConfig(Section):
    """Everything that decides a run's result. `start` is None for a run from random weights."""

    name: str
    seed: NonNegativeInt = 0
    data: DataConfig
    model: ModelConfig
    task: TaskConfig
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: Annotated[Plateau | WarmupCosine | Constant, Field(discriminator="kind")] = Plateau()
    trainer: TrainerConfig
    start: StartConfig | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> RunConfig:
        if self.task.auxiliary and self.model.edges.kind == "frozen":
            raise ValueError(
                "the distance objective reads the edge channel, which EGT-Simple (edges: frozen) does not update; "
                "drop task.auxiliary or use edges: residual"
            )
        if self.trainer.max_epochs is None and self.trainer.max_steps is None:
            raise ValueError("the run has no end; set trainer.max_epochs or trainer.max_steps")
        readout = self.model.readout
        if readout.kind == "virtual_nodes" and readout.attend_padding and self.data.layout != "padded":
            raise ValueError("readout.attend_padding exists only on the padded layout; set data.layout to padded")
        if self.trainer.compile and self.data.layout == "packed":
            raise ValueError(
                "trainer.compile works on shapes, and packed batches have another one at every step: "
                "set data.layout to auto or padded"
            )
        if self.data.layout == "edge_list":
            self._check_edge_list()
        return self

    def _check_edge_list(self) -> None:
        if self.model.scope != "neighbors":
            raise ValueError("data.layout edge_list holds only edges; it needs model.scope neighbors (EGT-Constrained)")
        if self.task.auxiliary or any(term.kind == "random_walk" for term in self.model.pair_inputs):
            raise ValueError(
                "data.layout edge_list has no pairs but edges; drop task.auxiliary and the random_walk input, "
                "or use the packed layout"
            )
