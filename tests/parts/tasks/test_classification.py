"""Binary and multi-class tasks: losses by hand, metrics against scikit-learn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from egt.data.batching.batch import GraphBatch
from egt.errors import ConfigError
from egt.parts.tasks.classification import Binary, Multiclass
from egt.parts.tasks.scores import ClassScores, RankingScores, average_precision, roc_auc
from egt.parts.tasks.task import Task

NAN = float("nan")
BINARY = Task(Binary(names=("a", "b")), "graph")
BALANCED = Binary(names=("a",), class_weights="balanced")
Build = Callable[[Sequence[Sequence[float]]], GraphBatch]


def test_binary_loss_is_cross_entropy_of_known_labels(graph_batch: Build) -> None:
    batch = graph_batch([[1.0, NAN], [0.0, 0.0]])
    logits = torch.tensor([[2.0, 50.0], [-1.0, 0.0]])
    total, count = BINARY.loss(logits, batch)
    expected = math.log1p(math.exp(-2)) + math.log1p(math.exp(-1)) + math.log(2)
    assert total.item() == pytest.approx(expected)
    assert count.item() == 3


def test_class_weights_weigh_each_label_and_the_count_stays_that_of_labels(graph_batch: Build) -> None:
    batch = graph_batch([[0.0], [1.0], [NAN]])
    task = Task(Multiclass(num_classes=2, class_counts=(3, 1)), "graph")
    total, count = task.loss(torch.tensor([[0.0, 0.0], [0.0, math.log(3)], [9.0, 9.0]]), batch)
    assert total.item() == pytest.approx(0.25 * math.log(2) + 0.75 * math.log(4 / 3))
    assert count.item() == 2


def test_given_weights_of_classes(graph_batch: Build) -> None:
    classes = Task(Multiclass(num_classes=2, class_weights=(0.5, 4)), "graph")
    total, _ = classes.loss(torch.tensor([[0.0, 0.0], [0.0, math.log(3)]]), graph_batch([[0.0], [1.0]]))
    assert total.item() == pytest.approx(0.5 * math.log(2) + 4 * math.log(4 / 3))
    labels = graph_batch([[1.0, NAN], [0.0, 1.0]])
    logits = torch.tensor([[2.0, 50.0], [-1.0, 0.0]])
    no, yes, other = math.log1p(math.exp(-1)), math.log1p(math.exp(-2)), math.log(2)
    alike, _ = Task(Binary(names=("a", "b"), class_weights=(0.5, 3)), "graph").loss(logits, labels)
    assert alike.item() == pytest.approx(0.5 * no + 3 * yes + 3 * other)
    each, count = Task(Binary(names=("a", "b"), class_weights=((0.5, 3), (1, 7))), "graph").loss(logits, labels)
    assert each.item() == pytest.approx(0.5 * no + 3 * yes + 7 * other)
    assert count.item() == 3, "the number of labels is not weighted"


def test_balanced_weights_come_from_labels() -> None:
    targets = [np.array([0.0]), np.array([[0.0], [0.0], [2.0], [NAN]])]
    fitted = Multiclass(num_classes=4, class_weights="balanced").fitted(iter(targets))
    assert fitted.class_weights == pytest.approx((4 / (2 * 3), 1.0, 4 / (2 * 1), 1.0)), "1 and 3 have no label"
    pairs = Binary(names=("a", "b"), class_weights="balanced").fitted([np.array([[0, 1], [0, 0], [1, NAN], [0, 1]])])
    np.testing.assert_allclose(np.array(pairs.class_weights), [[4 / 6, 4 / 2], [3 / 2, 3 / 4]])
    plain = Multiclass(num_classes=2)
    assert plain.fitted(targets) is plain


@pytest.mark.parametrize("task", [Multiclass(num_classes=2, class_weights="balanced"), BALANCED])
def test_weights_that_nobody_has_fitted_are_refused(task: Multiclass | Binary, graph_batch: Build) -> None:
    prediction = torch.zeros(1, task.num_outputs)
    with pytest.raises(ConfigError, match=r"class_weights.*'balanced'"):
        Task(task, "graph").loss(prediction, graph_batch([[1.0]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"class_weights": (1.0, 2.0, 3.0)}, "class_weights"),
        ({"class_weights": (1.0, 2.0), "class_counts": (1, 2)}, "classes"),
        ({"class_weights": (1.0, 0.0)}, "greater than 0"),
    ],
)
def test_weights_that_fit_no_classes(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Multiclass(num_classes=2, **settings)
    with pytest.raises(ValidationError, match="class_weights"):
        Binary(names=("a", "b"), class_weights=((1.0, 2.0),))


def test_decoded_classes_and_labels_are_probabilities() -> None:
    logits = torch.tensor([[0.0, math.log(3)]])
    assert Task(Multiclass(num_classes=2), "graph").decode(logits).tolist() == [pytest.approx([0.25, 0.75])]
    assert BINARY.decode(logits).tolist() == [pytest.approx([0.5, 0.75])]


def test_class_scores_are_pooled_over_the_split() -> None:
    # Targets 0 0 0 1 | 1 0, answers 0 0 1 1 | 0 0; one label is missing.
    scores = ClassScores(2)
    answers = torch.eye(2)[[0, 0, 1, 1, 1]]
    scores.update(answers, torch.tensor([[0.0], [0.0], [0.0], [1.0], [NAN]]))
    scores.update(torch.eye(2)[[0, 0]], torch.tensor([[1.0], [0.0]]))
    assert scores.compute() == {
        "accuracy": pytest.approx(4 / 6),
        "balanced_accuracy": pytest.approx((3 / 4 + 1 / 2) / 2),
        "f1": pytest.approx(2 * 1 / (2 + 1 + 1)),
        "mcc": pytest.approx((1 * 3 - 1 * 1) / math.sqrt(2 * 2 * 4 * 4)),
        "num_labels": 6,
    }


def test_the_mean_recall_has_one_name() -> None:
    """The paper's where the paper's metric decides, else that of scikit-learn."""
    names = {"weighted_accuracy", "balanced_accuracy"}
    for metric in ("accuracy", *names):
        found = Multiclass(num_classes=3, metric=metric).scores().compute()
        assert names & found.keys() == {metric if metric in names else "balanced_accuracy"}


@pytest.mark.parametrize("num_classes", [2, 3, 6])
@pytest.mark.parametrize("count", [5, 200])
def test_scores_of_classes_equal_scikit_learn(num_classes: int, count: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(count + num_classes)
    logit = rng.normal(size=(count, num_classes))
    label = np.where(rng.random(count) < 0.4, logit.argmax(1), rng.integers(0, num_classes, count) // 2 * 2)
    scores = ClassScores(num_classes)
    scores.update(torch.tensor(logit), torch.tensor(label[:, None], dtype=torch.float64))
    found, answer = scores.compute(), logit.argmax(1)
    average = "binary" if num_classes == 2 else "macro"
    assert found["f1"] == pytest.approx(metrics.f1_score(label, answer, average=average))
    assert found["mcc"] == pytest.approx(metrics.matthews_corrcoef(label, answer))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are answered and do not occur
        assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(label, answer))


def test_labels_of_one_class_correlate_with_nothing() -> None:
    scores = ClassScores(3)
    scores.update(torch.eye(3), torch.zeros(3, 1))
    assert scores.compute()["mcc"] == 0


def test_any_score_of_classes_may_decide() -> None:
    for name in ("f1", "mcc", "balanced_accuracy"):
        task = Multiclass(num_classes=3, metric=name)
        assert task.deciding_metric in task.scores().compute()


@pytest.mark.parametrize("seed", range(5))
def test_ranking_equals_scikit_learn_with_ties(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 12, 200).astype(np.float32)
    positive = rng.random(200) < 0.2 + 0.03 * score
    assert roc_auc(score, positive) == pytest.approx(metrics.roc_auc_score(positive, score), abs=1e-12)
    assert average_precision(score, positive) == pytest.approx(
        metrics.average_precision_score(positive, score), abs=1e-12
    )


def test_ranking_averages_the_targets_with_both_classes_and_counts_labels() -> None:
    scores = RankingScores()
    target = torch.tensor([[1.0, 1.0, NAN], [0.0, 1.0, 0.0], [NAN, 1.0, 1.0]])
    scores.update(torch.tensor([[2.0, 0.0, 9.0], [1.0, 0.0, 5.0], [9.0, 0.0, 4.0]]), target)
    found = scores.compute()
    assert {name: found[name] for name in ("roc_auc", "average_precision", "num_targets", "num_labels")} == {
        "roc_auc": 0.5, "average_precision": 0.75, "num_targets": 2, "num_labels": 7,
    }  # fmt: skip
    assert [each["num_labels"] for each in scores.by_target()] == [2, 3, 2]
    assert math.isnan(scores.by_target()[1]["roc_auc"])  # its labels are all 1


@pytest.mark.parametrize("seed", range(3))
def test_scores_of_yes_and_no_equal_scikit_learn_for_each_target(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    logit = rng.normal(size=(300, 2)).astype(np.float32)
    target = (rng.random((300, 2)) < 1 / (1 + np.exp(-2 * logit))).astype(np.float32)
    target[rng.random((300, 2)) < 0.2] = NAN
    scores = RankingScores()
    scores.update(torch.tensor(logit), torch.tensor(target))
    each = scores.by_target()
    for k, found in enumerate(each):
        known = ~np.isnan(target[:, k])
        label, answer = target[known, k] == 1, logit[known, k] >= 0
        assert found["accuracy"] == pytest.approx(metrics.accuracy_score(label, answer))
        assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(label, answer))
        assert found["f1"] == pytest.approx(metrics.f1_score(label, answer))
        assert found["mcc"] == pytest.approx(metrics.matthews_corrcoef(label, answer))
    means = scores.compute()
    for name in ("accuracy", "balanced_accuracy", "f1", "mcc", "roc_auc"):
        assert means[name] == pytest.approx(np.mean([found[name] for found in each]))


def test_scores_do_not_depend_on_how_a_split_was_divided() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(40, 3, generator=generator)
    classes = torch.randint(0, 3, (40, 1), generator=generator).float()
    for make, target in ((lambda: ClassScores(3), classes), (RankingScores, (classes == 1).float().expand(-1, 3))):
        whole, first, second = make(), make(), make()
        whole.update(logits, target)
        first.update(logits[:13], target[:13])
        second.update(logits[13:], target[13:])
        first.absorb(second)
        assert first.compute() == whole.compute()


def test_a_split_without_labels_has_no_score() -> None:
    scores = ClassScores(2)
    scores.update(torch.zeros(1, 2), torch.tensor([[NAN]]))
    result = scores.compute()
    assert all(math.isnan(result[name]) for name in result if name != "num_labels")
    assert result["num_labels"] == 0
    assert math.isnan(RankingScores().compute()["roc_auc"])


def test_without_a_look_at_the_graph_the_shares_of_the_classes_are_answered() -> None:
    rows = [np.array([[1.0, 0.0]]), np.array([[1.0, NAN], [0.0, 1.0]])]
    logits = Binary(names=("a", "b")).uninformed(rows)
    np.testing.assert_allclose(logits, [math.log(2), 0.0], atol=1e-12)
    counts = Multiclass(num_classes=3).uninformed([np.array([[2.0], [NAN]]), np.array([[0.0], [2.0]])])
    assert counts.tolist() == [1, 0, 2]
