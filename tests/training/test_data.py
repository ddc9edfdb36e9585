"""The loaders of a run."""

from __future__ import annotations

from egt.batching.sampling import Sampling
from egt.training.data import ValidationSteps
from egt.training.interruption import Interruption
from tests.training.tiny import tiny_config, tiny_samples


def test_a_validation_covers_its_split_once_and_ends_early_when_asked() -> None:
    config = tiny_config(data={"batch_size": 4})
    samples, interruption = tiny_samples(config, 14), Interruption()
    sampling = Sampling([1, 2, 3], 2, seed=0, layout="packed")
    steps = ValidationSteps(samples, sampling, config.data, interruption)
    for _ in range(2):
        batches = [batch for step in steps for batch in step]
        assert sorted(k for batch in batches for k in batch.graph_ids.tolist()) == list(range(14))
    seen = []
    for step in steps:
        seen.append(step)
        interruption.requested = "SIGTERM"
    assert len(seen) == 1
