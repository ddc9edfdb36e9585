"""What is checked before a run starts: labels, devices, and what a launcher has started.

No label at all is an error, a metric without a value a warning.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import egt
from egt.config.run import RunConfig, TrainerConfig
from egt.data.encodings.encoding import Sample
from egt.data.schema import CustomSchema, Fold, SplitPlan
from egt.data.source import DataCard, TargetSchema
from egt.errors import ConfigError, DataError
from egt.graph import FeatureSchema
from egt.inference.backends import num_devices
from egt.parts.tasks.task import TargetScale
from egt.training.checks import (
    check_columns,
    check_devices,
    check_labels,
    check_launch,
    check_rows,
    check_spread,
    check_threads,
    read_labels,
)
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


def check(config: RunConfig, training: list[Sample], validation: list[Sample]) -> None:
    check_labels(config, read_labels(config, training), validation)


@pytest.mark.parametrize("split", ["training", "validation"])
def test_a_split_without_labels_is_an_error(split: str) -> None:
    config = tiny_config()
    good, bad = labelled(config, NONE, [1.0, np.nan]), labelled(config, NONE, NONE, NONE)
    with pytest.raises(DataError, match=split):
        check(config, *((bad, good) if split == "training" else (good, bad)))
    check(config, good, good)
    check(config, good, [])


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
        check(config, labelled(config, *good), labelled(config, *good))
        assert not caplog.messages
        check(config, labelled(config, *good), labelled(config, *bad))
    (message,) = caplog.messages
    assert "cannot be computed on the validation split" in message
    assert "split=stratified" in message


def with_gpus(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"accelerator": "gpu"}, "PyTorch"),
        ({"accelerator": "cuda"}, "PyTorch"),
        ({"accelerator": "mps"}, "PyTorch"),
        ({"precision": "16"}, "precision 16"),
    ],
)
def test_without_a_gpu(settings: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(0, monkeypatch)
    with pytest.raises(ConfigError, match=message):
        check_devices(TrainerConfig.model_validate(settings))
    check_devices(TrainerConfig(devices=4))
    assert num_devices(TrainerConfig(devices="auto")) == 1


def test_with_two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(2, monkeypatch)
    check_devices(TrainerConfig(accelerator="gpu", devices=2, precision="16"))
    with pytest.raises(ConfigError, match="devices"):
        check_devices(TrainerConfig(devices=3))
    check_devices(TrainerConfig(accelerator="cpu", devices=3))
    assert num_devices(TrainerConfig(devices="auto")) == 2
    assert num_devices(TrainerConfig(accelerator="cpu", devices="auto")) == 1


def test_a_launcher_must_have_started_as_many_processes_as_the_run_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    check_launch(1, 1)
    check_launch("auto", 1)
    with pytest.raises(ConfigError, match="num_nodes"):
        check_launch(1, 2)
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    check_launch(2, 2)
    check_launch("auto", 1)
    with pytest.raises(ConfigError, match=r"--set.*trainer\.devices"):
        check_launch(1, 1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([3.5, 3.5, np.nan, 3.5], "target y: all 3 training labels are 3.5"),
        ([-40000.002, -40000.0, -39999.998], "single precision can hardly tell apart"),
        ([0.002, 0.0, -0.002], ""),
        ([1e-19, 2e-19, 4e-19], ""),
    ],
)
def test_labels_without_a_spread_that_can_be_learned_are_told(
    labels: list[float], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [np.array([label]) for label in labels]
    check_spread(["y"], rows, TargetScale.of(rows))
    assert message in caplog.text
    assert bool(message) == bool(caplog.text)


def test_labels_too_small_for_single_precision_are_refused() -> None:
    rows = [np.array([label]) for label in (1e-40, 3e-40)]
    with pytest.raises(DataError, match="3e-40"):
        check_spread(["y"], rows, TargetScale.of(rows))


def test_another_number_of_threads_is_told(caplog: pytest.LogCaptureFixture) -> None:
    for kept in ({}, {"threads": 4}):  # checkpoints of earlier versions do not know it
        check_threads(kept, {"threads": 4})
    assert not caplog.text
    check_threads({"threads": 2}, {"threads": 4})
    assert "started with 2 threads and continues with 4" in caplog.text


def test_labels_of_one_class_are_refused() -> None:
    config = tiny_config(task={"kind": "binary", "names": ["a", "b"], "auxiliary": []})
    samples = [
        replace(sample, graph=replace(sample.graph, graph_targets=np.array([1.0, np.nan])))
        for sample in tiny_samples(config, 5)
    ]
    with pytest.raises(DataError, match="training"):
        check(config, samples, [])
    two = replace(samples[0], graph=replace(samples[0].graph, graph_targets=np.array([0.0, np.nan])))
    check(config, [*samples, two], [])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"kind": "regression", "names": ["error"]}, "'error'"),
        ({"kind": "regression", "names": ["a", "a"]}, "target 'a'"),
        ({"kind": "regression", "names": ["a", "a_true"]}, "target 'a_true'"),
        ({"kind": "binary", "names": ["a_probability", "a"]}, "target 'a': .* 'a_probability'"),
        ({"kind": "gaussian", "names": ["a", "a_std"]}, "target 'a_std'"),
    ],
)
def test_targets_whose_columns_would_be_mixed_up(task: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_columns(classes(**task))


def test_deviations_are_columns_of_ensembles_only() -> None:
    config = classes(kind="regression", names=["a", "a_std"])
    check_columns(config)
    with pytest.raises(DataError, match="target 'a_std'"):
        check_columns(config, spread=True)


@pytest.mark.parametrize(("rows", "refused"), [(1, True), (2, True), (3, False)])
def test_one_or_two_rows_teach_nothing(tmp_path: Path, rows: int, refused: bool) -> None:
    graphs = [nx.path_graph(n + 2) for n in range(rows)]
    for n, graph in enumerate(graphs):
        graph.graph["y"] = n + 0.5
    settings = {"trainer.max_epochs": 1, "model.num_layers": 1, "trainer.baseline": False, "split.fractions": [1, 0, 0]}
    with pytest.raises(DataError, match=str(rows)) if refused else nullcontext():
        egt.train(graphs, "y", set=settings, out=tmp_path / "run", progress=False)


def test_few_rows_are_better_tested_in_folds(caplog: pytest.LogCaptureFixture) -> None:
    schema = CustomSchema(format="molecules", level="graph", kind="regression", targets=("a", "b"))
    config = tiny_config(data={"custom": schema.model_dump(mode="json")})
    card = card_of({"train": 16, "val": 2, "test": 2})
    check_rows(config, card, is_divided_within=False)
    assert "--folds 5" in caplog.text
    caplog.clear()
    check_rows(config, card_of({"train": 17, "val": 2, "test": 2}), is_divided_within=False)
    fold = schema.model_copy(update={"split": SplitPlan(kind="random", fold=Fold(number=0, of=5))})
    check_rows(tiny_config(data={"custom": fold.model_dump(mode="json")}), card, is_divided_within=False)
    assert not caplog.text


def card_of(sizes: dict[str, int]) -> DataCard:
    target = TargetSchema("graph", "regression", ("a", "b"))
    return DataCard("custom", "custom", FeatureSchema(), target, sizes, num_nodes=(1, 2.0, 3), mean_edges=2.0)
