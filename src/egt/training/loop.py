"""The training loop: what every process of a run does, from its start or its last checkpoint to its end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from egt import processors
from egt.config.run import RunConfig
from egt.data.batching.batch import GraphBatch
from egt.errors import RunError, RunStopped
from egt.inference.backends import execution, recompute_hint
from egt.nn.kernels.allocator import keep_freed_memory
from egt.nn.randomness import graph_keys
from egt.processes import Interruption, device_of
from egt.training.callbacks import told
from egt.training.checkpoint import StepSums
from egt.training.engine import whole
from egt.training.work import Job, Work, opened


def loop(job: Job) -> None:
    """Train to the end of a run, from its last checkpoint if there is one.

    Raises:
        RunError: a signal has stopped it, or it has diverged. Its last checkpoint is kept.
    """
    keep_freed_memory()
    if processors.SPINS:
        from egt.inference.threads import stop_spinning  # here: not where egt was imported before torch

        stop_spinning()
    with (
        _told_lack_of_memory(job.config),
        Interruption() as interruption,
        opened(job, interruption) as work,
    ):
        state = work.state
        if state.is_finished():
            work.engine.close()
            return
        # From here on there is something to keep, and a moment to keep it. A pause is no time of training.
        interruption.listen(state.start_clock)
        with told(work.callbacks, state):
            while not state.is_finished():
                state.start_clock()
                for batches in work.remaining_steps():
                    step = train_step(work, batches)
                    state.count(step)
                    if state.checkpoint_due:
                        state.checkpoint()
                    for callback in work.callbacks:
                        callback.on_step(state, step)
                row = state.close_epoch(validate(work))
                for callback in work.callbacks:
                    callback.on_epoch(state, row)
            work.engine.processes.wait()  # until the last checkpoint is written
        work.engine.close()
        if interruption.requested:  # too late for a step to see it
            raise RunStopped(f"stopped by {interruption.requested} after the last step; continue with --resume")


@contextmanager
def _told_lack_of_memory(config: RunConfig) -> Iterator[None]:
    """Tell a lack of memory, or of a process that loads graphs, as what to do about it."""
    try:
        yield
    except (MemoryError, RuntimeError, ConnectionError, FileNotFoundError, EOFError) as error:
        lost = isinstance(error, OSError | EOFError) or "DataLoader worker" in str(error)
        if lost and config.data.num_workers:
            raise RunError(
                "a process that loads graphs was ended by the system, mostly because memory ran out; the last "
                "checkpoint is kept: continue with --resume and fewer of them (--set data.num_workers=0)"
            ) from error
        told = any(words in str(error) for words in ("allocate memory", "out of memory"))
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not told:
            raise
        how = execution(config, device_of(accelerator=config.trainer.accelerator))
        hint = recompute_hint(config, how.backend.name)
        raise RunError(
            f"out of memory; compute a batch in smaller parts (data.pair_budget), {hint and f'{hint}, '}"
            "or lower data.batch_size (`egt plan` estimates what a run needs)"
        ) from error


def train_step(work: Work, batches: Sequence[GraphBatch]) -> StepSums:
    """Take one optimizer step: forward, backward, clip, update.

    The losses of micro-batches are divided by the counts of the whole batch over all processes: however a batch is
    divided, the gradient is that of the whole batch.

    Args:
        work: the parts of the run.
        batches: the micro-batches of this process, possibly none.
    """
    state, scaler, processes = work.state, work.engine.scaler, work.engine.processes
    batches = [posed(work, batch) for batch in batches]
    labels, graphs, stop = processes.total(
        sum(work.task.count_labels(batch).item() for batch in batches),
        sum(batch.num_graphs for batch in batches),
        float(bool(work.interruption.requested)),
    )
    if stop:
        work.stop()

    state.optimizer.rate = state.schedule.rate(state.progress.step)
    state.optimizer.zero_grad()
    sums = add_gradients(work, batches, labels, graphs)
    norm = clip_gradients(work)
    *numbers, norm_value = fetched(*sums, norm)
    own = torch.tensor(numbers, dtype=torch.float64).view(-1, 2)[: len(batches)]  # (micro-batches, 2)
    bad = [
        number
        for batch, part_sums in zip(batches, own, strict=True)
        if not part_sums.isfinite().all()
        for number in batch.graph_ids.tolist()
    ]
    loss_sum, auxiliary_sum, any_bad = processes.total(*own.sum(0).tolist(), float(bool(bad)))
    if any_bad:
        work.diverged("the training loss", "training", bad)
    # In float16 single steps overflow as a matter of course: the scaler skips them.
    if work.config.trainer.precision != "16" and not math.isfinite(norm_value):
        work.diverged("the gradient", "training", [k for batch in batches for k in batch.graph_ids.tolist()])
    scaler.step(state.optimizer)  # type: ignore[arg-type]
    scaler.update()
    return StepSums(loss_sum, labels, auxiliary_sum, graphs)


def add_gradients(work: Work, batches: Sequence[GraphBatch], labels: float, graphs: float) -> list[Tensor]:
    """Add up the gradients of micro-batches, and of spare ones that count nowhere.

    Args:
        work: the parts of the run.
        batches: the micro-batches of this process, `posed`, possibly none.
        labels: of the whole batch, over all processes.
        graphs: of the whole batch.

    Returns:
        For each of them two sums, () each: of the task's loss, and of the auxiliary ones.
    """
    engine, sums = work.engine, []
    parts = [*batches, *(posed(work, spare) for spare in work.spares(len(batches)))]
    for k, part in enumerate(parts):
        batch = work.task.prepared(part).to(engine.device)
        with engine.accumulating(last=k == len(parts) - 1):
            with engine.precision():
                primary, auxiliary = work.losses(batch)
            # The engine takes the mean over processes.
            loss = (primary / max(labels, 1) + auxiliary / graphs) * engine.processes.count
            engine.scaler.scale(loss if k < len(batches) else loss * 0).backward()
        sums += [primary.detach(), auxiliary.detach()]
    return sums


def posed(work: Work, batch: GraphBatch) -> GraphBatch:
    """Return a batch with the random keys of this step, as the task poses it."""
    keys = graph_keys(work.config.seed, work.state.progress.step, batch.graph_ids)
    return work.task.posed(replace(batch, random_keys=keys))


def clip_gradients(work: Work) -> Tensor:
    """Clip the gradient if asked, and return the norm that it had, ()."""
    optimizer, settings = work.state.optimizer, work.config.trainer
    work.engine.scaler.unscale_(optimizer)  # type: ignore[arg-type]
    return whole(nn.utils.clip_grad_norm_(optimizer.parameters.values(), settings.gradient_clip or math.inf))


def fetched(*numbers: Tensor) -> list[float]:
    """Return single numbers from the device. A step asks once: here the host waits for all that it has handed out."""
    values: list[float] = torch.stack(numbers).cpu().tolist()
    return values


def validate(work: Work) -> dict[str, float]:
    """Compute loss and metrics on the validation split, with averaged weights if there are any; {} without one."""
    if not work.validation:
        return {}
    average, processes = work.state.average, work.engine.processes
    if average is not None:
        average.swap()
    with work.engine.precision():
        from egt.inference.evaluation import evaluate

        found = evaluate(
            work.state.model,
            work.task,
            work.config,
            work.validation,
            processes=processes,
            layout=work.sampling.layout,
            num_workers=work.config.data.num_workers,
            in_step=work.engine.sharded,
            stop=work.is_stopping,
        )
    if average is not None:
        average.swap()
    if any(processes.total(float(bool(work.interruption.requested)))):
        work.stop()  # the whole validation is computed again
    if not math.isfinite(found.loss):
        work.diverged("the validation loss", "validation", found.diverged)
    return {"loss": found.loss, **{name: value for name, value in found.metrics.items() if name != "num_graphs"}}
