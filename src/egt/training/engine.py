"""One process of a run: Lightning's Trainer around our steps, loaders and checkpoints."""

from __future__ import annotations

import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as lightning
import torch
from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.strategies import DDPStrategy

from egt.assemble import build_model, build_task
from egt.batching.loader import graph_sizes
from egt.batching.sampling import Sampling
from egt.config.run import RunConfig
from egt.encodings.encoding import Sample
from egt.errors import RunError
from egt.execution.backends import Backend
from egt.execution.execution import execution
from egt.model import EGT
from egt.nn.kernels.allocator import keep_freed_memory
from egt.tasks.scale import TargetScale
from egt.training.bar import RunBar
from egt.training.data import TrainingSteps, ValidationSteps
from egt.training.interruption import Interruption, ending_at_once
from egt.training.module import TrainingModule
from egt.training.run import Run, checkpoints_of
from egt.training.transfer import Start, start_from

_PRECISION: dict[str, Literal["32-true", "bf16-mixed", "16-mixed"]] = {
    "32": "32-true",
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}


def train(
    config: RunConfig,
    train_samples: Sequence[Sample],
    validation_samples: Sequence[Sample] | None,
    out_dir: Path,
    facts: Mapping[str, Any],
    start: Start | None,
    show_progress: bool,
) -> None:
    """Train to the end, from the latest checkpoint in `out_dir` if there is one. Arguments as in `fit`.

    facts: goes into every checkpoint; "scale" holds mean and std of the targets, or None.
    """
    keep_freed_memory()
    with Interruption() as interruption, _quiet(), ExitStack() as stack:
        trainer = _trainer(config, out_dir)
        if trainer.world_size > 1:  # Lightning would do this later, where a signal waits until all have come
            with ending_at_once("while waiting for the other processes"):
                trainer.strategy.setup_environment()
        if trainer.is_global_zero:
            stack.enter_context(checkpoints_of(out_dir).claimed())
        how = execution(config, trainer.strategy.root_device)
        sampling = Sampling(
            graph_sizes(train_samples),
            config.data.batch_size,
            seed=config.seed,
            mode=config.data.batching,
            layout=how.layout,
            pair_budget=config.data.pair_budget,
            accumulate=config.trainer.accumulate,
            rank=trainer.global_rank,
            num_ranks=trainer.world_size,
        )
        run = Run(
            config,
            _model(config, how.backend, start),
            facts,
            out_dir,
            sampling.num_steps,
            writes=trainer.is_global_zero,
        )
        latest = run.checkpoints.latest()
        if latest is not None:
            run.restore(*latest)
        if run.finished:
            return
        scale = None if facts["scale"] is None else TargetScale(**facts["scale"])
        task = build_task(config, scale)
        bar = RunBar(run, task.metric, shown=show_progress and trainer.is_global_zero)
        named = {"training": train_samples, "validation": validation_samples or ()}
        trainer.fit(
            TrainingModule(config, run.model, task, run, interruption, named, [bar]),
            TrainingSteps(train_samples, sampling, run, config.data.num_workers),
            ValidationSteps(validation_samples, sampling, config.data, interruption) if validation_samples else None,
        )
        if interruption.requested:  # too late for a step to see it
            raise RunError(f"stopped by {interruption.requested} after the last step; continue with --resume")


def _model(config: RunConfig, backend: Backend, start: Start | None) -> EGT:
    """The model at its start, the same in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = build_model(config, backend=backend)
    if start is not None:
        start_from(model, start)
    if config.trainer.compile:
        for layer in model.layers:  # layers are alike: one compilation serves them all
            layer.compile(dynamic=True)
    return model


def _trainer(config: RunConfig, out_dir: Path) -> lightning.Trainer:
    settings = config.trainer
    several = settings.num_nodes > 1 or settings.devices != 1
    loggers: list[Logger] = []
    if importlib.util.find_spec("tensorboard") is not None:
        loggers.append(TensorBoardLogger(out_dir, name="tensorboard", version=""))
    # Weights & Biases asks for a login unless its environment says what to do: only then is it meant.
    if importlib.util.find_spec("wandb") is not None and {"WANDB_API_KEY", "WANDB_MODE"} & os.environ.keys():
        loggers.append(WandbLogger(name=config.name, project="egt", save_dir=out_dir))
    return lightning.Trainer(
        accelerator=settings.accelerator,
        devices=settings.devices,
        num_nodes=settings.num_nodes,
        # Buffers are the same everywhere; sending them would need as many evaluation batches in each process.
        strategy=DDPStrategy(broadcast_buffers=False) if several else "auto",
        precision=_PRECISION[settings.precision],
        max_epochs=-1,  # the run knows its end
        logger=loggers,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        inference_mode=False,
        default_root_dir=out_dir,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's hints, which are about settings that this package takes care of."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
