"""The training and validation steps of a run, as Lightning drives them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from egt.batching.batch import GraphBatch
from egt.config.run import RunConfig
from egt.encodings.encoding import Sample
from egt.errors import RunError
from egt.model import EGT
from egt.nn.randomness import graph_keys
from egt.tasks.scores import Scores
from egt.tasks.task import Task, count_labels, targets
from egt.training.collectives import counts, gather, num_processes
from egt.training.interruption import Interruption
from egt.training.run import Run

_MOST_NAMED = 20
"""How many graphs a message lists."""


class TrainingModule(lightning.LightningModule):
    """One optimizer step per `training_step`, over all micro-batches of the step.

    The losses of the micro-batches are divided by the counts of the whole batch over all processes: however a batch is
    split, the gradient is that of the whole batch.

    Args:
        config: the run's settings.
        model: what is trained.
        task: loss and metrics.
        run: progress, schedule and checkpoints.
        interruption: whether someone wants the run to stop.
        samples: the "training" and "validation" split, whose graphs are named when something is wrong with them.
        callbacks: Lightning's, e.g. a progress bar.
    """

    def __init__(
        self,
        config: RunConfig,
        model: EGT,
        task: Task,
        run: Run,
        interruption: Interruption,
        samples: Mapping[str, Sequence[Sample]],
        callbacks: Sequence[Callback] = (),
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.config, self.model, self.task, self.run = config, model, task, run
        self.interruption, self._samples, self._callbacks = interruption, samples, callbacks
        self._scores: Scores = task.scores()
        self._sums = [0.0, 0.0]
        self._clock = time.monotonic()
        self._bad_graphs: list[int] = []
        self._step_graphs: list[int] = []
        self._validation: dict[str, float] = {}

    def configure_callbacks(self) -> Sequence[Callback]:
        """The callbacks of the run."""
        return self._callbacks

    def configure_optimizers(self) -> Optimizer:
        """Adam, with decoupled weight decay where it is asked for."""
        settings = self.config.optimizer
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(
            trained, settings.lr, settings.betas, settings.eps, weight_decay=settings.weight_decay
        )
        self.run.attach(optimizer)
        return optimizer

    def on_train_start(self) -> None:
        """Lightning has set its own signal handlers by now; ours stop at a safe moment instead."""
        self.interruption.listen()
        plugin = self.trainer.precision_plugin
        if self.run.precision:
            plugin.load_state_dict(self.run.precision)

    def on_train_epoch_start(self) -> None:
        """Start the clock of the epoch."""
        self._clock = time.monotonic()

    def training_step(self, batches: Sequence[GraphBatch], _: int) -> None:
        """An optimizer step. batches: this process' micro-batches, possibly none."""
        if self.run.awaits_validation:  # it was stopped there
            return
        labels, graphs, stop = counts(
            self.device,
            sum(count_labels(batch, self.task.level).item() for batch in batches),
            sum(batch.num_graphs for batch in batches),
            float(bool(self.interruption.requested)),
        )
        if stop:
            self._stop()
        optimizer = self.optimizers()
        assert isinstance(optimizer, lightning.core.optimizer.LightningOptimizer)
        for group in optimizer.param_groups:
            group["lr"] = self.run.schedule.rate(self.run.progress.step)
        optimizer.zero_grad()
        parts = []
        for k, batch in enumerate(batches):
            with self._synchronized(k == len(batches) - 1):
                primary, auxiliary = self._losses(batch)
                # Gradients are averaged over processes; the losses are divided by the counts of all of them.
                self.manual_backward((primary / max(labels, 1) + auxiliary / graphs) * num_processes())
            parts.append(torch.stack([primary.detach(), auxiliary.detach()]))
        if not batches:  # the others wait for this process' gradients
            self.manual_backward(torch.stack([p.sum() for p in self.model.parameters() if p.requires_grad]).sum() * 0)
        sums = torch.stack(parts).double().cpu() if parts else torch.zeros(1, 2, dtype=torch.float64)
        bad_graphs = [
            number
            for batch, part in zip(batches, sums, strict=False)
            if not part.isfinite().all()
            for number in batch.graph_ids.tolist()
        ]
        loss, auxiliary_loss, bad = counts(self.device, *sums.sum(0).tolist(), float(bool(bad_graphs)))
        if bad:
            self._diverged("the training loss", "training", [k for ids in gather(bad_graphs) for k in ids])
        self._step_graphs = [k for batch in batches for k in batch.graph_ids.tolist()]
        optimizer.step()
        self.run.precision = self.trainer.precision_plugin.state_dict()
        now = time.monotonic()
        self.run.progress.seconds += now - self._clock
        self._clock = now
        self.run.after_step([loss, labels, auxiliary_loss, graphs])

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Clip the gradient if asked, and stop before a step with one that is not finite."""
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        norm = torch.nn.utils.clip_grad_norm_(trained, self.config.trainer.gradient_clip or math.inf)
        # In half precision single steps overflow as a matter of course: the loss scaler skips them.
        if self.config.trainer.precision != "16" and not norm.isfinite():
            self._diverged("the gradient", "training", [k for ids in gather(self._step_graphs) for k in ids])

    def on_validation_epoch_start(self) -> None:
        """Start counting, with the averaged weights if there are any."""
        self._scores, self._sums, self._bad_graphs = self.task.scores(), [0.0, 0.0], []
        if self.run.average is not None:
            self.run.average.swap()

    def validation_step(self, batches: Sequence[GraphBatch], _: int) -> None:
        """Loss and metrics of a batch. The auxiliary objectives do not count."""
        for batch in batches:
            prediction = self.model.read(self.model.encode(batch))
            loss, labels = self.task.loss(prediction, batch)
            self._sums = [self._sums[0] + loss.double().item(), self._sums[1] + labels.item()]
            self._scores.update(prediction, targets(batch, self.task.level))
            if not loss.isfinite():
                self._bad_graphs += batch.graph_ids.tolist()

    def on_validation_epoch_end(self) -> None:
        """Bring together what all processes saw."""
        if self.run.average is not None:
            self.run.average.swap()
        (stop,) = counts(self.device, float(bool(self.interruption.requested)))
        if stop:  # the whole validation is computed again
            self._stop()
        bad = [k for ids in gather(self._bad_graphs) for k in ids]
        if bad:
            self._diverged("the validation loss", "validation", bad)
        loss, labels = counts(self.device, *self._sums)
        first, *others = gather(self._scores)
        for other in others:
            first.absorb(other)
        self._validation = {"loss": loss / max(labels, 1), **first.compute()}

    def on_train_epoch_end(self) -> None:
        """Close the epoch."""
        row = self.run.end_epoch(self._validation)
        for logger in self.trainer.loggers:
            logger.log_metrics(row, self.run.progress.step)
        self.trainer.should_stop = self.run.finished

    def on_train_end(self) -> None:
        """No process leaves before the last checkpoint is written."""
        self.trainer.strategy.barrier()

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """All micro-batches of a step, to the device that computes them."""
        return [part.to(device, non_blocking=True) for part in batch]

    def _losses(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The sums of the task's loss and of the weighted auxiliary losses over a batch."""
        noise = graph_keys(self.config.seed, self.run.progress.step, batch.graph_ids)
        batch = replace(batch, noise=noise)
        x = self.model.encode(batch)
        primary, _ = self.task.loss(self.model.read(x), batch)
        auxiliary = primary.new_zeros(())
        for objective in self.task.auxiliary:
            auxiliary = auxiliary + objective.loss(self.model.auxiliary[objective.kind], x, batch)
        return primary, auxiliary

    def _synchronized(self, last: bool) -> AbstractContextManager[Any]:
        """Gradients travel between processes once, with the last micro-batch of a step."""
        wrapped = self.trainer.model
        return wrapped.no_sync() if isinstance(wrapped, DistributedDataParallel) and not last else nullcontext()

    def _stop(self) -> None:
        self.run.checkpoint()
        reason = next(name for name in gather(self.interruption.requested) if name)
        raise RunError(
            f"stopped by {reason} in epoch {self.run.progress.epoch} after step {self.run.progress.step}; "
            f"the state is kept in {self.run.checkpoints.folder}, continue with --resume"
        )

    def _diverged(self, what: str, split: str, graphs: list[int]) -> None:
        named = [self._samples[split][k].graph.id or f"number {k}" for k in sorted(graphs)[:_MOST_NAMED]]
        names = ", ".join(named) + (", ..." if len(graphs) > _MOST_NAMED else "")
        kept = "the last checkpoint is kept" if self.run.checkpoints.latest() else "there is no checkpoint yet"
        raise RunError(
            f"{what} is not finite in epoch {self.run.progress.epoch}, step {self.run.progress.step}, "
            f"with the graphs {names} of the {split} split; {kept}. "
            "Look at these graphs, or try a lower optimizer.lr or trainer.gradient_clip"
        )
