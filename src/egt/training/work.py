"""The parts of a run in one process, joined: what the loop works with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from torch import Tensor, nn

from egt.assemble import build_task
from egt.config.run import RunConfig
from egt.config.run_data import in_pieces
from egt.data.batching.batch import GraphBatch, collate
from egt.data.batching.loader import Sampling, graph_sizes, in_epoch, step_loader
from egt.data.encodings.encoding import Sample
from egt.errors import RunError, RunStopped
from egt.inference.backends import execution
from egt.nn.model import EGT
from egt.parts.tasks.task import TargetScale, Task
from egt.processes import Interruption
from egt.training.callbacks import Callback, LogLine, MetricsFile, RunBar, trackers
from egt.training.checkpoint import checkpoints_of
from egt.training.checks import check_same_run
from egt.training.engine import Engine
from egt.training.state import State, starting_model

if TYPE_CHECKING:
    from egt.training.finetune import Start

_MOST_NAMED = 20
"""How many graphs a message lists."""


@dataclass(frozen=True, eq=False)
class Job:
    """What is to be trained.

    Fields:
        config: everything that decides the result.
        training: prepared graphs to learn from.
        validation: prepared graphs that select the weights and steer the schedule; may be empty.
        folder: of the run; gets `checkpoints/` and `metrics.csv`.
        facts: goes into every checkpoint; "scale" holds the scale of the targets as JSON, or None.
        start: weights of another model to start with.
        show_progress: show a progress bar.
        callbacks: of the user; called in the first process.
    """

    config: RunConfig
    training: Sequence[Sample]
    validation: Sequence[Sample]
    folder: Path
    facts: dict[str, Any]
    start: Start | None = None
    show_progress: bool = True
    callbacks: Sequence[Callback] = ()


class Losses(nn.Module):
    """Batch -> the sums of the task's loss and of the weighted auxiliary losses over its graphs."""

    def __init__(self, model: EGT, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return the two sums."""
        if not self.task.auxiliary:
            primary = self.task.loss_sum(self.model(batch), batch)
            return primary, primary.new_zeros(())
        x = self.model.encode(batch)
        primary = self.task.loss_sum(self.model.read(x), batch)
        auxiliary = primary.new_zeros(())
        for objective in self.task.auxiliary:
            auxiliary = auxiliary + objective.loss(self.model.auxiliary[objective.kind], x, batch)
        return primary, auxiliary


class Work:
    """The parts of a run in one process.

    Args:
        job: what is to be trained.
        engine: that computes it.
        interruption: whether someone wants the run to stop.

    Attributes:
        training, validation: what the model computes: the graphs of the job, or pieces of them.
        task: loss and metrics.
        state: model, optimizer, progress; as in the last checkpoint, if there is one.
        losses: `Losses`, with gradients over all processes.
        callbacks: receive each step and epoch; in the first process only.
    """

    def __init__(self, job: Job, engine: Engine, interruption: Interruption) -> None:
        self.job, self.config, self.engine, self.interruption = job, job.config, engine, interruption
        self.training = in_pieces(job.config, job.training, training=True)
        self.validation = in_pieces(job.config, job.validation)
        self.sampling = _sampling(job.config, self.training, engine)
        self.task = build_task(job.config, TargetScale.from_json(job.facts["scale"]))
        kept = checkpoints_of(job.folder).latest()
        if kept is not None:  # perhaps written while this run waited for the folder
            check_same_run(kept[0], job.facts, job.folder)
        model = starting_model(job.config, engine, job.training, job.start, kept)
        self.state = State(job.config, model, engine, job.facts, job.folder, self.sampling.num_steps)
        if kept is not None:
            self.state.restore(kept)
        self.losses = engine.spread(Losses(model, self.task))
        self.callbacks = _callbacks(job, self.task.metric) if engine.processes.is_first else []

    def remaining_steps(self) -> Iterable[list[GraphBatch]]:
        """For each step that is left of the running epoch, the micro-batches of this process, possibly none."""
        progress = self.state.progress
        plans = self.sampling.epoch(progress.epoch, start=progress.position)
        left = plans[: self.state.last_position - progress.position]
        samples = in_epoch(self.training, progress.epoch)
        return step_loader(samples, left, self.sampling.layout, self.config.data.num_workers)

    def spares(self, count: int) -> list[GraphBatch]:
        """Return micro-batches that count nowhere, to be computed behind the `count` of a step.

        The others wait for the gradients of this process even if it has no graph. Where the weights are spread over the
        processes, all of them compute equally many micro-batches.
        """
        counts = self.engine.processes.gather(count) if self.engine.sharded else [count]
        return [self._spare] * (max(1, *counts) - count)

    @cached_property
    def _spare(self) -> GraphBatch:
        return collate([self.training[0]], self.sampling.layout, [0])

    def is_stopping(self) -> bool:
        """Return whether to end a validation early."""
        return self.engine.agree(bool(self.interruption.requested))

    def stop(self) -> NoReturn:
        """Keep the run and end it, because someone wants so."""
        self.state.checkpoint()
        reason = next(name for name in self.engine.processes.gather(self.interruption.requested) if name)
        progress = self.state.progress
        raise RunStopped(
            f"stopped by {reason} in epoch {progress.epoch + 1} after step {progress.step}; "
            f"the state is kept in {self.state.checkpoints.folder}, continue with --resume"
        )

    def diverged(self, what: str, split: str, graphs: Sequence[int]) -> NoReturn:
        """End the run, because a number is not finite.

        Args:
            what: the number.
            split: "training" or "validation".
            graphs: that it came from, those of this process.
        """
        samples = {"training": self.training, "validation": self.validation}[split]
        numbers = sorted(k for part in self.engine.processes.gather(list(graphs)) for k in part)
        named = [samples[k].graph.id or f"number {k}" for k in numbers[:_MOST_NAMED]]
        names = ", ".join(named) + (", ..." if len(numbers) > _MOST_NAMED else "")
        kept = "the last checkpoint is kept" if self.state.checkpoints.latest() else "there is no checkpoint yet"
        raise RunError(
            f"{what} is not finite in epoch {self.state.progress.epoch + 1}, step {self.state.progress.step}, "
            f"with the graphs {names} of the {split} split; {kept}. "
            "Look at these graphs, or try a lower optimizer.lr or trainer.gradient_clip"
        )


@contextmanager
def opened(job: Job, interruption: Interruption) -> Iterator[Work]:
    """Join the parts of a run; the first process keeps other runs out of its folder."""
    engine = Engine(job.config.trainer)
    if not engine.processes.is_first:
        yield Work(job, engine, interruption)
        return
    with checkpoints_of(job.folder).claimed():
        yield Work(job, engine, interruption)


def _sampling(config: RunConfig, training: Sequence[Sample], engine: Engine) -> Sampling:
    return Sampling(
        graph_sizes(training),
        config.data.batch_size,
        seed=config.seed,
        mode=config.data.batching,
        layout=execution(config, engine.device).layout,
        pair_budget=config.data.pair_budget,
        accumulate=config.trainer.accumulate,
        rank=engine.processes.rank,
        num_ranks=engine.processes.count,
    )


def _callbacks(job: Job, metric: str) -> list[Callback]:
    bar = [RunBar(metric)] if job.show_progress else []
    return [MetricsFile(), LogLine(), *trackers(job.config.trainer), *bar, *job.callbacks]
