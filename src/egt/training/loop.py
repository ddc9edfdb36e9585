"""The training loop: what every process of a run does, from its start or its last checkpoint to its end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from egt.assemble import build_task
from egt.batching.batch import GraphBatch, collate
from egt.batching.loader import graph_sizes, step_loader
from egt.batching.sampling import Sampling
from egt.config.run import RunConfig
from egt.encodings.encoding import Sample
from egt.errors import RunError
from egt.execution.execution import execution
from egt.execution.interruption import Interruption
from egt.execution.processes import leave_processes
from egt.inference.evaluation import evaluate
from egt.model import EGT
from egt.nn.kernels.allocator import keep_freed_memory
from egt.nn.randomness import graph_keys
from egt.tasks.scale import TargetScale
from egt.tasks.task import Task, count_labels
from egt.training.bar import RunBar
from egt.training.callbacks import Callback, LogLine, MetricsFile, told
from egt.training.checkpoint import checkpoints_of
from egt.training.engine import Engine, whole
from egt.training.progress import StepSums
from egt.training.state import State, starting_model
from egt.training.trackers import trackers
from egt.training.transfer import Start

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


def loop(job: Job) -> None:
    """Train to the end of a run, from its last checkpoint if there is one.

    Raises:
        RunError: a signal has stopped it, or it has diverged. Its last checkpoint is kept.
    """
    keep_freed_memory()
    with Interruption() as interruption, _opened(job, interruption) as work:
        state = work.state
        if state.finished:
            return
        interruption.listen()  # from here on there is something to keep, and a moment to keep it
        with told(work.callbacks, state):
            while not state.finished:
                for batches in work.remaining_steps():
                    step = work.train_step(batches)
                    state.count(step)
                    if state.checkpoint_due:
                        state.checkpoint()
                    for callback in work.callbacks:
                        callback.on_step(state, step)
                row = state.close_epoch(work.validate())
                for callback in work.callbacks:
                    callback.on_epoch(state, row)
            work.engine.processes.wait()  # until the last checkpoint is written
        leave_processes()
        if interruption.requested:  # too late for a step to see it
            raise RunError(f"stopped by {interruption.requested} after the last step; continue with --resume")


class Losses(nn.Module):
    """Batch -> the sums of the task's loss and of the weighted auxiliary losses over its graphs."""

    def __init__(self, model: EGT, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The two sums."""
        if not self.task.auxiliary:
            primary, _ = self.task.loss(self.model(batch), batch)
            return primary, primary.new_zeros(())
        x = self.model.encode(batch)
        primary, _ = self.task.loss(self.model.read(x), batch)
        auxiliary = primary.new_zeros(())
        for objective in self.task.auxiliary:
            auxiliary = auxiliary + objective.loss(self.model.auxiliary[objective.kind], x, batch)
        return primary, auxiliary


class Work:
    """The parts of a run in one process, and the two things it does with them: a step, and a validation.

    The losses of micro-batches are divided by the counts of the whole batch over all processes: however a batch is
    split, the gradient is that of the whole batch.
    """

    def __init__(self, job: Job, engine: Engine, interruption: Interruption) -> None:
        self.job, self.config, self.engine, self.interruption = job, job.config, engine, interruption
        self.sampling = _sampling(job, engine)
        self.task = build_task(job.config, TargetScale.from_json(job.facts["scale"]))
        kept = checkpoints_of(job.folder).latest()
        model = starting_model(job.config, engine, job.start, kept)
        self.state = State(job.config, model, engine, job.facts, job.folder, self.sampling.num_steps)
        if kept is not None:
            self.state.restore(kept)
        self.losses = engine.spread(Losses(model, self.task))
        self.callbacks = _callbacks(job, self.task.metric) if engine.processes.is_first else []

    @cached_property
    def _spare(self) -> GraphBatch:
        """A batch for a process that has none, or fewer than the others; it counts nowhere."""
        return collate([self.job.training[0]], self.sampling.layout, [0])

    def remaining_steps(self) -> Iterable[list[GraphBatch]]:
        """For each step that is left of the running epoch, the micro-batches of this process, possibly none."""
        self.state.model.train()
        self.state.start_clock()
        progress = self.state.progress
        plans = self.sampling.epoch(progress.epoch, start=progress.position)
        left = plans[: self.state.last_position - progress.position]
        return step_loader(self.job.training, left, self.sampling.layout, self.config.data.num_workers)

    def train_step(self, batches: Sequence[GraphBatch]) -> StepSums:
        """Take one optimizer step: forward, backward, clip, update."""
        engine, state, processes = self.engine, self.state, self.engine.processes
        labels, graphs, stop = processes.total(
            sum(count_labels(batch, self.task.level).item() for batch in batches),
            sum(batch.num_graphs for batch in batches),
            float(bool(self.interruption.requested)),
        )
        if stop:
            self._stop()
        state.optimizer.rate = state.schedule.rate(state.progress.step)
        state.optimizer.zero_grad()
        sums = []
        padded = [*batches, *(self._spare for _ in range(len(batches), self._num_parts(batches)))]
        for k, batch in enumerate(padded):
            batch = batch.to(engine.device, non_blocking=True)
            batch = replace(batch, random_keys=graph_keys(self.config.seed, state.progress.step, batch.graph_ids))
            with engine.accumulating(last=k == len(padded) - 1):
                with engine.precision():
                    primary, auxiliary = self.losses(batch)
                # The mean over processes of losses that are divided by the counts of all of them.
                loss = (primary / max(labels, 1) + auxiliary / graphs) * processes.count
                engine.scaler.scale(loss if k < len(batches) else loss * 0).backward()
            sums.append(torch.stack([primary.detach(), auxiliary.detach()]))
        own = torch.stack(sums)[: len(batches)].double().cpu()
        bad = _not_finite(batches, own)
        loss_sum, auxiliary_sum, any_bad = processes.total(*own.sum(0).tolist(), float(bool(bad)))
        if any_bad:
            self._diverged("the training loss", "training", _all(processes.gather(bad)))
        self._clip([k for batch in batches for k in batch.graph_ids.tolist()])
        engine.scaler.step(state.optimizer)  # type: ignore[arg-type]
        engine.scaler.update()
        return StepSums(loss_sum, labels, auxiliary_sum, graphs)

    def validate(self) -> dict[str, float]:
        """The loss and the metrics on the validation split, with the averaged weights if there are any."""
        if not self.job.validation:
            return {}
        state, processes = self.state, self.engine.processes
        if state.average is not None:
            state.average.swap()
        with self.engine.precision():
            found = evaluate(
                state.model,
                self.task,
                self.config,
                self.job.validation,
                processes=processes,
                layout=self.sampling.layout,
                num_workers=self.config.data.num_workers,
                in_step=self.engine.sharded,
                stop=self._is_stopping,
            )
        if state.average is not None:
            state.average.swap()
        if any(processes.total(float(bool(self.interruption.requested)))):
            self._stop()  # the whole validation is computed again
        if found.diverged:
            self._diverged("the validation loss", "validation", found.diverged)
        return {"loss": found.loss, **{name: value for name, value in found.metrics.items() if name != "num_graphs"}}

    def _num_parts(self, batches: Sequence[GraphBatch]) -> int:
        """How many parts this process computes in a step: its gradients are awaited even if it has no graph.

        Where the weights are spread over the processes, all of them compute equally many.
        """
        return max(1, *self.engine.processes.gather(len(batches)) if self.engine.sharded else [len(batches)])

    def _is_stopping(self) -> bool:
        """Whether to end a validation early; processes that share the weights have to end together."""
        requested = float(bool(self.interruption.requested))
        return any(self.engine.processes.total(requested)) if self.engine.sharded else bool(requested)

    def _clip(self, graphs: list[int]) -> None:
        """Clip the gradient if asked, and stop the run when it is not finite. graphs: of this process, in this step."""
        self.engine.scaler.unscale_(self.state.optimizer)  # type: ignore[arg-type]
        limit = self.config.trainer.gradient_clip or math.inf
        norm = whole(nn.utils.clip_grad_norm_(self.state.optimizer.parameters.values(), limit))
        # In float16 single steps overflow as a matter of course: the scaler skips them.
        if self.config.trainer.precision != "16" and not norm.isfinite():
            self._diverged("the gradient", "training", _all(self.engine.processes.gather(graphs)))

    def _stop(self) -> NoReturn:
        self.state.checkpoint()
        reason = next(name for name in self.engine.processes.gather(self.interruption.requested) if name)
        progress = self.state.progress
        raise RunError(
            f"stopped by {reason} in epoch {progress.epoch} after step {progress.step}; "
            f"the state is kept in {self.state.checkpoints.folder}, continue with --resume"
        )

    def _diverged(self, what: str, split: str, graphs: list[int]) -> NoReturn:
        samples = {"training": self.job.training, "validation": self.job.validation}[split]
        named = [samples[k].graph.id or f"number {k}" for k in sorted(graphs)[:_MOST_NAMED]]
        names = ", ".join(named) + (", ..." if len(graphs) > _MOST_NAMED else "")
        kept = "the last checkpoint is kept" if self.state.checkpoints.latest() else "there is no checkpoint yet"
        raise RunError(
            f"{what} is not finite in epoch {self.state.progress.epoch}, step {self.state.progress.step}, "
            f"with the graphs {names} of the {split} split; {kept}. "
            "Look at these graphs, or try a lower optimizer.lr or trainer.gradient_clip"
        )


@contextmanager
def _opened(job: Job, interruption: Interruption) -> Iterator[Work]:
    """The parts of a run; the first process keeps other runs out of its folder."""
    engine = Engine(job.config.trainer)
    if not engine.processes.is_first:
        yield Work(job, engine, interruption)
        return
    with checkpoints_of(job.folder).claimed():
        yield Work(job, engine, interruption)


def _sampling(job: Job, engine: Engine) -> Sampling:
    config = job.config
    return Sampling(
        graph_sizes(job.training),
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
    """Everyone who is told how the run goes."""
    bar = [RunBar(metric)] if job.show_progress else []
    return [MetricsFile(), LogLine(), *trackers(job.config.trainer), *bar, *job.callbacks]


def _not_finite(batches: Sequence[GraphBatch], sums: Tensor) -> list[int]:
    """The numbers of the graphs in micro-batches whose loss is not finite. sums: (micro-batches, 2)."""
    bad = [batch for batch, part in zip(batches, sums, strict=True) if not part.isfinite().all()]
    return _all(batch.graph_ids.tolist() for batch in bad)


def _all(parts: Iterable[list[int]]) -> list[int]:
    return [k for part in parts for k in part]
