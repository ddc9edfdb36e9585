"""The loaders of a run: training steps from wherever the run is, and the validation split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egt.batching.batch import GraphBatch
from egt.batching.loader import graph_sizes, step_loader
from egt.batching.sampling import Sampling, evaluation_batches
from egt.config.run import DataConfig
from egt.encodings.encoding import Sample
from egt.inference.forward import evaluation_budget
from egt.training.interruption import Interruption
from egt.training.run import Run


class TrainingSteps:
    """The remaining steps of the running epoch, each a list of micro-batches.

    An epoch that was left in its validation has none; it gets an empty one, for Lightning to go on from.
    It has no length: Lightning would keep that of the first epoch, which a resumed run enters in the middle.

    Args:
        samples: of the training split.
        sampling: in which order they come.
        run: knows the epoch and the position.
        num_workers: of the loader.
    """

    def __init__(self, samples: Sequence[Sample], sampling: Sampling, run: Run, num_workers: int) -> None:
        self.samples, self.sampling, self.run, self.num_workers = samples, sampling, run, num_workers

    def __iter__(self) -> Iterator[list[GraphBatch]]:
        position = self.run.progress.position
        plans = self.sampling.epoch(self.run.progress.epoch, start=position)
        left = plans[: self.run.last_position - position] or [[]]
        return iter(step_loader(self.samples, left, self.sampling.layout, self.num_workers))


class ValidationSteps:
    """This process' share of a split, in batches of like size; it ends early when someone wants the run to stop.

    Args:
        samples: of the validation split.
        sampling: of the training split, whose layout and processes are taken.
        data: batch size, budget and workers.
        interruption: whether someone wants the run to stop.
    """

    def __init__(
        self, samples: Sequence[Sample], sampling: Sampling, data: DataConfig, interruption: Interruption
    ) -> None:
        self.interruption = interruption
        sizes = graph_sizes(samples)
        batches = evaluation_batches(
            sizes,
            data.batch_size,
            sampling.layout,
            pair_budget=evaluation_budget(data.pair_budget, sizes),
            rank=sampling.rank,
            num_ranks=sampling.num_ranks,
        )
        # A process without graphs takes an empty step, to meet the others at the end.
        plans = [[batch] for batch in batches] or [[]]
        self.loader = step_loader(samples, plans, sampling.layout, data.num_workers)

    def __iter__(self) -> Iterator[list[GraphBatch]]:
        for batches in self.loader:
            yield batches
            if self.interruption.requested:
                return
