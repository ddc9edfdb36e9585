"""Labels are looked at before the first epoch: none at all is an error, a metric without a value a warning."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from egt.config.run import RunConfig
from egt.encodings.encoding import Sample
from egt.errors import DataError
from egt.training.labels import check_labels
from tests.training.tiny import tiny_config, tiny_samples


def labelled(config: RunConfig, *rows: list[float]) -> list[Sample]:
    """Graphs with these targets."""
    samples = tiny_samples(config, len(rows))
    for sample, row in zip(samples, rows, strict=True):
        object.__setattr__(sample.graph, "graph_targets", np.array(row))
    return samples


def classes(**more: Any) -> RunConfig:
    return RunConfig.model_validate(tiny_config().model_dump(mode="json") | {"task": more})


NONE = [np.nan, np.nan]


@pytest.mark.parametrize("split", ["training", "validation"])
def test_a_split_without_labels_is_an_error(split: str) -> None:
    config = tiny_config()
    good, bad = labelled(config, NONE, [1.0, np.nan]), labelled(config, NONE, NONE, NONE)
    with pytest.raises(DataError, match=rf"none of the 3 graphs of the {split} split has a label \(a, b\); give some"):
        check_labels(config, *((bad, good) if split == "training" else (good, bad)))
    check_labels(config, good, good)
    check_labels(config, good, None)


@pytest.mark.parametrize(
    ("task", "good", "bad"),
    [
        # One class in each of two labels; both classes of one of them are enough.
        ({"kind": "binary", "names": ["a", "b"]}, [[1, 1], [1, 0]], [[1, 0], [1, 0], [1, 0]]),
        ({"kind": "multiclass", "num_classes": 2, "metric": "f1"}, [[0], [0], [1]], [[0], [0]]),
    ],
)
def test_a_metric_that_cannot_be_computed_is_a_warning(
    task: dict[str, Any], good: list[list[float]], bad: list[list[float]], caplog: pytest.LogCaptureFixture
) -> None:
    config = classes(**task)
    with caplog.at_level(logging.WARNING):
        check_labels(config, labelled(config, *good), labelled(config, *good))
        assert not caplog.messages
        check_labels(config, labelled(config, *good), labelled(config, *bad))
    (message,) = caplog.messages
    assert "cannot be computed on the validation split" in message
    assert "split=stratified" in message
