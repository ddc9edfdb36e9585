"""Dropout at prediction: the mean and the deviation over draws, which belong to the run and to nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from egt.assemble import build_model, build_task
from egt.config.run import RandomMaskingConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import collate
from egt.errors import DataError
from egt.graph import Graph
from egt.inference.artifact import Artifact, EnsembleArtifact
from egt.inference.predictor import Predictor
from egt.inference.uncertainty import Calibration
from egt.nn.randomness import graph_keys
from egt.parts.inputs import NodeValues, Svd
from egt.parts.tasks.classification import Multiclass
from egt.parts.tasks.regression import Gaussian, Regression
from egt.parts.tasks.task import TaskPart
from tests.inference.test_predictor import chain, make

GRAPHS = [chain(size) for size in (5, 2, 9, 3)]
NODES = {"attention_dropout": 0.3, "node_dropout": 0.2, "node_ffn_dropout": 0.2, "masking": {"probability": 0.2}}
EVERYTHING = {**NODES, "edge_dropout": 0.2, "edge_ffn_dropout": 0.2, "key_dropout": 0.2, "drop_path": 0.3}
CLASSES = Multiclass(names=("y",), num_classes=3)
N = 4


def dropping(
    level: str = "graph", task: TaskPart | None = None, seed: int = 0, backend: str = "auto", **model: Any
) -> Artifact:
    """A model with random weights that has had such dropout in its training."""
    config = make(level, task).config
    sections = config.model_dump(mode="json")
    sections["model"] |= model or EVERYTHING
    changed = type(config).model_validate(sections | {"seed": seed, "trainer": {"max_epochs": 1, "backend": backend}})
    torch.manual_seed(seed)
    return Artifact(changed, build_model(changed).eval())


def by_hand(artifact: Artifact, graph: Graph) -> NDArray[np.float64]:
    """(N, rows, outputs) the answers of the plain model in training mode, a graph alone."""
    model, task = artifact.model.train(), build_task(artifact.config)
    batch = collate([preparation(artifact.config)(graph)], "packed", [0])
    draws = []
    with torch.no_grad():
        for number in range(N):
            keys = graph_keys(artifact.config.seed, -1 - number, torch.zeros(1, dtype=torch.int64))
            draws.append(task.decode(model(replace(batch, random_keys=keys))).double().numpy())
    return np.stack(draws)


def values(artifact: Artifact, graphs: list[Graph] = GRAPHS) -> NDArray[np.float32]:
    """(2, rows, outputs) means and deviations."""
    found = Predictor(artifact).predict(graphs, dropout_samples=N)
    means = [answer.values for answer in found if answer.values is not None]
    return np.stack([np.concatenate(means), np.concatenate([each.std for each in found if each.std is not None])])


@pytest.mark.parametrize("task", [Regression(names=("y",)), CLASSES])
@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_answers_are_the_mean_and_the_deviation_of_draws(level: str, task: TaskPart) -> None:
    found = Predictor(dropping(level, task)).predict(GRAPHS, dropout_samples=N)
    assert "y_std" in found.columns
    for graph, answer in zip(GRAPHS, found, strict=True):
        draws = by_hand(dropping(level, task), graph)
        np.testing.assert_allclose(answer.values, draws.mean(0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(answer.std, draws.std(0, ddof=1), rtol=1e-3, atol=1e-6)
        assert draws.std(0).min() > 0


PARTS: list[dict[str, Any]] = [
    *({name: 0.3} for name in ("attention_dropout", "node_dropout", "edge_dropout", "node_ffn_dropout")),
    *({name: 0.3} for name in ("edge_ffn_dropout", "key_dropout", "drop_path")),
    {"masking": RandomMaskingConfig(probability=0.3, gates=True).model_dump()},
    {"node_inputs": [NodeValues(num_values=1, dropout=0.3).model_dump()]},
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: next(iter(part)))
def test_each_kind_of_dropout_is_drawn_alike_by_every_backend(part: dict[str, Any]) -> None:
    plain, fused = (values(dropping(backend=backend, **part)) for backend in ("plain", "cpu"))
    assert plain[1].max() > 1e-4
    np.testing.assert_allclose(plain, fused, rtol=1e-3, atol=1e-5)


def test_an_answer_depends_on_the_seed_of_the_run_and_not_on_other_rows() -> None:
    artifact = dropping("node")
    together = values(artifact)
    np.testing.assert_array_equal(together, values(dropping("node")))
    apart = np.concatenate([values(artifact, [graph]) for graph in GRAPHS], axis=1)
    np.testing.assert_allclose(together, apart, rtol=1e-4, atol=1e-6)
    backwards = Predictor(artifact).predict(GRAPHS[::-1], dropout_samples=N)[-1]
    np.testing.assert_allclose(backwards.std, together[1, :5], rtol=1e-4, atol=1e-6)
    other = replace(artifact, config=artifact.config.model_copy(update={"seed": 1}))
    assert np.abs(values(other) - together).max() > 1e-3


def test_signs_are_not_flipped_and_afterwards_the_model_answers_as_before() -> None:
    inputs = [NodeValues(num_values=1).model_dump(), Svd(rank=2).model_dump()]
    model = Predictor(dropping(node_inputs=inputs, node_dropout=1e-9))  # never drops anything
    plain = model.predict(GRAPHS)
    drawn = model.predict(GRAPHS, dropout_samples=N)
    for before, with_draws, after in zip(plain, drawn, model.predict(GRAPHS), strict=True):
        np.testing.assert_allclose(with_draws.values, before.values, rtol=1e-5)
        np.testing.assert_allclose(with_draws.std, 0, atol=1e-6)
        np.testing.assert_array_equal(before.values, after.values)
        assert before.std is None
    assert not any(part.training for part in model.model.modules())


def test_the_draws_of_all_members_of_an_ensemble_count_alike() -> None:
    members = tuple(dropping(seed=seed) for seed in (0, 1, 2))
    found = Predictor(EnsembleArtifact("seeds", members)).predict(GRAPHS[:1], dropout_samples=N)[0]
    draws = np.concatenate([by_hand(dropping(seed=seed), GRAPHS[0]) for seed in (0, 1, 2)])
    np.testing.assert_allclose(found.values, draws.mean(0), rtol=1e-4)
    np.testing.assert_allclose(found.std, draws.std(0, ddof=1), rtol=1e-3)


def test_a_gaussian_head_and_its_draws_are_a_mixture() -> None:
    task = Gaussian(names=("y",))
    row = Predictor(dropping(task=task)).predict(GRAPHS[:1], dropout_samples=N).table()[0]
    means, stds = by_hand(dropping(task=task), GRAPHS[0])[:, 0].T
    assert row["y"] == pytest.approx(means.mean(), rel=1e-4)
    # Of the deviations themselves the sample variance is taken too.
    expected = stds.mean() ** 2 + stds.var(ddof=1) + means.var(ddof=1)
    assert row["y_std"] == pytest.approx(np.sqrt(expected), rel=1e-4)


def test_progress_counts_all_draws_once() -> None:
    told: list[tuple[int, int | None]] = []

    def watch(stage: str, done: int, total: int | None) -> None:
        if stage == "predicting":
            told.append((done, total))

    Predictor(dropping()).predict(GRAPHS, dropout_samples=N, watch=watch)
    assert told == sorted(told)
    assert told[-1] == (4, 4)
    assert len(told) == N


def test_what_cannot_be_asked() -> None:
    with pytest.raises(DataError, match=r"--set.*model.node_dropout"):
        Predictor(make()).predict(GRAPHS, dropout_samples=20)
    for few in (1, -3):
        with pytest.raises(DataError, match="at least 2"):
            Predictor(dropping()).predict(GRAPHS, dropout_samples=few)
    numbers = Calibration.of_numbers(np.zeros((9, 1)), np.arange(9.0)[:, None])
    with pytest.raises(DataError, match="intervals"):
        Predictor(replace(dropping(), calibration=numbers)).predict(GRAPHS, interval=0.5, dropout_samples=2)
    sets = Calibration.of_classes(np.full((9, 1, 3), 1 / 3), np.zeros((9, 1)))
    warm = Predictor(replace(dropping(task=CLASSES), calibration=sets), calibrated=True)
    with pytest.raises(DataError, match="probabilities"):
        warm.predict(GRAPHS, dropout_samples=2)
