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
from egt.config.run import RunConfig
from egt.config.run_data import in_pieces
from egt.data.batching.batch import GraphBatch, collate
from egt.data.batching.loader import Sampling, graph_sizes, in_epoch, step_loader
from egt.data.encodings.encoding import Sample
from egt.errors import RunError, RunStopped
from egt.inference.backends import device_of, execution, recompute_hint, stop_spinning
from egt.inference.evaluation import Seen, evaluate
from egt.nn.kernels.binding import keep_freed_memory
from egt.nn.model import EGT
from egt.nn.randomness import graph_keys
from egt.parts.tasks.task import TargetScale, Task
from egt.processes import Interruption, is_first
from egt.training.callbacks import Callback, LogLine, MetricsFile, RunBar, trackers
from egt.training.finetune import Start
from egt.training.held_out import CrossFit
from egt.training.run_folder import Kept, StepSums, checkpoints_of, hold_folder
from egt.training.state import Engine, State, starting_model, whole

_MOST_NAMED = 20  # how many graphs a message lists


@dataclass(frozen=True, eq=False)
class Job:
    """What is to be trained, on prepared graphs.

    `facts` go into every checkpoint; "scale" is that of the targets as JSON, or None. `start` holds weights of another
    model, `callbacks` are those of the user, called in the first process.
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
        if not self.task.part.auxiliary:
            primary = self.task.loss_sum(self.model(batch), batch)
            return primary, primary.new_zeros(())
        x = self.model.encode(batch)
        primary = self.task.loss_sum(self.model.read(x), batch)
        auxiliary = primary.new_zeros(())
        for objective in self.task.part.auxiliary:
            auxiliary = auxiliary + objective.loss(self.model.auxiliary[objective.kind], x, batch)
        return primary, auxiliary


class Work:
    """The parts of a run in one process, as in the checkpoint `kept` if there is one.

    Attributes:
        training, validation: what the model computes: the graphs of the job, or pieces of them.
        losses: `Losses`, with gradients over all processes.
        callbacks: receive each step and epoch; in the first process only.
    """

    def __init__(self, job: Job, engine: Engine, interruption: Interruption, kept: Kept | None = None) -> None:
        self.job, self.config, self.engine, self.interruption = job, job.config, engine, interruption
        self.training = in_pieces(job.config, job.training, training=True)
        self.validation = in_pieces(job.config, job.validation)
        self.sampling = Sampling(
            graph_sizes(self.training),
            job.config.data.batch_size,
            seed=job.config.seed,
            mode=job.config.data.batching,
            layout=execution(job.config, engine.device).layout,
            pair_budget=job.config.data.pair_budget,
            accumulate=job.config.trainer.accumulate,
            rank=engine.processes.rank,
            num_ranks=engine.processes.count,
        )
        self.task = build_task(job.config, TargetScale.from_json(job.facts["scale"]))
        model = starting_model(job.config, engine, job.training, job.start, kept)
        self.state = State(job.config, model, engine, job.facts, job.folder, self.sampling.num_steps)
        if self.validation and job.config.trainer.select == "best" and job.config.task.answers:
            self.state.held_out = CrossFit(job.config, self.task)
        if kept is not None:
            self.state.restore(kept)
        self.losses = engine.spread(Losses(model, self.task))
        self.callbacks: list[Callback] = []
        if engine.processes.is_first:
            bar = [RunBar(self.task.part.deciding_metric)] if job.show_progress else []
            self.callbacks = [MetricsFile(), LogLine(), *trackers(job.config.trainer), *bar, *job.callbacks]

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

    def stop(self) -> NoReturn:
        """Write a checkpoint and end the run, on request."""
        self.state.checkpoint()
        reason = next(name for name in self.engine.processes.gather(self.interruption.requested) if name)
        progress = self.state.progress
        raise RunStopped(
            f"stopped by {reason} in epoch {progress.epoch + 1} after step {progress.step}; "
            f"the state is kept in {self.state.checkpoints.folder}, continue with --resume"
        )

    def fail(self, what: str, split: str, graphs: Sequence[int]) -> NoReturn:
        """End the run because a number is not finite that came from these graphs of a split, in this process."""
        samples = {"training": self.training, "validation": self.validation}[split]
        numbers = sorted(k for part in self.engine.processes.gather(list(graphs)) for k in part)
        names = ", ".join(samples[k].graph.id or f"number {k}" for k in numbers[:_MOST_NAMED])
        more = ", ..." if len(numbers) > _MOST_NAMED else ""
        kept = "the last checkpoint is kept" if self.state.checkpoints.generations() else "there is no checkpoint yet"
        raise RunError(
            f"{what} is not finite in epoch {self.state.progress.epoch + 1}, step {self.state.progress.step}, "
            f"with the graphs {names}{more} of the {split} split; {kept}. "
            "Look at these graphs, or try a lower optimizer.lr or trainer.gradient_clip"
        )


def loop(job: Job, kept: Kept | None) -> Kept | None:
    """Train to the end of a run, and return its last checkpoint; None if no process holds it, but the disk.

    kept: the one to continue from.

    A run that a signal has stopped, or that has diverged, is a `RunError`; its last checkpoint is kept.
    """
    keep_freed_memory()
    stop_spinning()
    with Interruption() as interruption:
        with _explain_loss(job.config):
            work = Work(job, Engine(job.config.trainer), interruption, kept)
        state = work.state
        if not state.is_finished():
            # From here on there is something to keep, and a moment to keep it. A pause is no time of training.
            interruption.listen(state.start_clock)
            try:
                for callback in work.callbacks:
                    callback.on_start(state)
                while not state.is_finished():
                    for step in _steps(work):
                        state.count(step)
                        if state.is_checkpoint_due():
                            state.checkpoint()
                        for callback in work.callbacks:
                            callback.on_step(state, step)
                    with _explain_loss(job.config):
                        scores = validate(work)
                    row = state.close_epoch(scores)
                    for callback in work.callbacks:
                        callback.on_epoch(state, row)
            finally:
                for callback in work.callbacks:
                    callback.on_end(state)
            kept = None if work.engine.sharded else state.checkpoint_content()
            work.engine.processes.wait()  # until the last checkpoint is written
        work.engine.close()
        if interruption.requested:  # too late for a step to see it
            raise RunStopped(f"stopped by {interruption.requested} after the last step; continue with --resume")
        return kept


def loop_in_child(job: Job) -> None:
    """Do the same in a process that was started for it; the first one holds the checkpoints, for it may outlive us."""
    checkpoints = checkpoints_of(job.folder)
    if not is_first():
        loop(job, checkpoints.latest())
        return
    with hold_folder(checkpoints.folder):
        loop(job, checkpoints.latest())


def _steps(work: Work) -> Iterator[StepSums]:
    """Take the steps that are left of the running epoch. What the caller does in between is none of them."""
    with _explain_loss(work.config):
        work.state.start_clock()
        for batches in work.remaining_steps():
            yield train_step(work, batches)


_LOST = ("Connection closed by peer", "Connection reset by peer", "Timed out waiting", "gloo/transport")
"""What torch says of processes that have gone."""


@contextmanager
def _explain_loss(config: RunConfig) -> Iterator[None]:
    """Re-raise out-of-memory, and the loss of a process of the run or of one that loads graphs, with a remedy."""
    try:
        yield
    except (MemoryError, RuntimeError, ConnectionError, FileNotFoundError, EOFError) as error:
        is_lost = isinstance(error, OSError | EOFError) or "DataLoader worker" in str(error)
        if is_lost and config.data.num_workers:
            raise RunError(
                "a process that loads graphs was ended by the system, mostly because memory ran out; the last "
                "checkpoint is kept: continue with --resume and fewer of them (--set data.num_workers=0)"
            ) from error
        if any(words in str(error) for words in _LOST):
            raise RunError(
                "the other processes of this run do not answer: one of them has ended, or its machine is gone; the "
                "last checkpoint is kept: continue with --resume (torchrun --max-restarts 3 does it by itself)"
            ) from error
        is_full = any(words in str(error) for words in ("allocate memory", "out of memory"))
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not is_full:
            raise
        how = execution(config, device_of(accelerator=config.trainer.accelerator))
        hint = recompute_hint(config, how.backend.name)
        raise RunError(
            f"out of memory; compute a batch in smaller parts (data.pair_budget), {hint and f'{hint}, '}"
            "or lower data.batch_size (`egt plan` estimates what a run needs)"
        ) from error


def train_step(work: Work, batches: Sequence[GraphBatch]) -> StepSums:
    """Take one optimizer step on the micro-batches of this process: forward, backward, clip, update.

    The losses of micro-batches are divided by the counts of the whole batch over all processes: however a batch is
    divided, the gradient is that of the whole batch.
    """
    state, scaler, processes = work.state, work.engine.scaler, work.engine.processes
    batches = [_with_random_keys(work, batch) for batch in batches]
    labels, graphs, stop = processes.total(
        sum(work.task.count_labels(batch).item() for batch in batches),
        sum(batch.num_graphs for batch in batches),
        float(bool(work.interruption.requested)),
    )
    if stop:
        work.stop()

    state.optimizer.rate = state.schedule.rate(state.progress.step)
    state.optimizer.zero_grad()
    sums = _add_gradients(work, batches, labels, graphs)
    norm = clip_gradients(work)
    *numbers, norm_value = fetch(*sums, norm)
    own = torch.tensor(numbers, dtype=torch.float64).view(-1, 2)[: len(batches)]  # (micro-batches, 2)
    bad = [
        number
        for batch, part_sums in zip(batches, own, strict=True)
        if not part_sums.isfinite().all()
        for number in batch.graph_ids.tolist()
    ]
    loss_sum, auxiliary_sum, any_bad = processes.total(*own.sum(0).tolist(), float(bool(bad)))
    if any_bad:
        work.fail("the training loss", "training", bad)
    # In float16 single steps overflow as a matter of course: the scaler skips them.
    if work.config.trainer.precision != "16" and not math.isfinite(norm_value):
        work.fail("the gradient", "training", [k for batch in batches for k in batch.graph_ids.tolist()])
    scaler.step(state.optimizer)  # type: ignore[arg-type]
    scaler.update()
    return StepSums(loss_sum, labels, auxiliary_sum, graphs)


def _add_gradients(work: Work, batches: Sequence[GraphBatch], labels: float, graphs: float) -> list[Tensor]:
    """Add up the gradients of micro-batches with random keys, and of spare ones that count nowhere.

    labels, graphs: counts of the whole batch over all processes. Returns two sums () for each part: the loss of the
    task and the auxiliary ones.
    """
    engine, sums = work.engine, []
    parts = [*batches, *(_with_random_keys(work, spare) for spare in work.spares(len(batches)))]
    for k, part in enumerate(parts):
        batch = work.task.prepared(part).to(engine.device)
        with engine.accumulation(last=k == len(parts) - 1):
            with engine.precision():
                primary, auxiliary = work.losses(batch)
            # The engine takes the mean over processes.
            loss = (primary / max(labels, 1) + auxiliary / graphs) * engine.processes.count
            engine.scaler.scale(loss if k < len(batches) else loss * 0).backward()
        sums += [primary.detach(), auxiliary.detach()]
    return sums


def _with_random_keys(work: Work, batch: GraphBatch) -> GraphBatch:
    """Return a batch with the random keys of this step, as the task poses it."""
    keys = graph_keys(work.config.seed, work.state.progress.step, batch.graph_ids)
    return work.task.part.posed(replace(batch, random_keys=keys))


def clip_gradients(work: Work) -> Tensor:
    """Clip the gradient if `trainer.gradient_clip` is set, and return the norm that it had, ()."""
    optimizer, most = work.state.optimizer, work.config.trainer.gradient_clip
    work.engine.scaler.unscale_(optimizer)  # type: ignore[arg-type]
    parameters = optimizer.parameters.values()
    norm = nn.utils.get_total_norm([each.grad for each in parameters if each.grad is not None])
    if most is not None:
        nn.utils.clip_grads_with_norm_(parameters, most, norm)
    return whole(norm)


def fetch(*numbers: Tensor) -> list[float]:
    """Return single numbers from the device; called once a step, for the host waits here for all of its work."""
    values: list[float] = torch.stack(numbers).cpu().tolist()
    return values


def validate(work: Work) -> dict[str, float]:
    """Compute loss and metrics on the validation split, with averaged weights if there are any; {} without one."""
    if not work.validation:
        return {}
    average, engine, held_out = work.state.average, work.engine, work.state.held_out
    seen = Seen(work.task)
    if average is not None:
        average.swap()
    with engine.precision(), _explain_loss(work.config):
        found = evaluate(
            work.state.model,
            work.task,
            work.config,
            work.validation,
            processes=engine.processes,
            see=None if held_out is None else seen,
            layout=work.sampling.layout,
            num_workers=work.config.data.num_workers,
            in_step=engine.sharded,
            stop=lambda: engine.agree(bool(work.interruption.requested)),
        )
    if average is not None:
        average.swap()
    if any(engine.processes.total(float(bool(work.interruption.requested)))):
        work.stop()  # the whole validation is computed again
    if not math.isfinite(found.loss):
        work.fail("the validation loss", "validation", found.diverged)
    if held_out is not None:
        held_out.observe(seen, engine.processes)
    return {"loss": found.loss, **{name: value for name, value in found.metrics.items() if name != "num_graphs"}}
