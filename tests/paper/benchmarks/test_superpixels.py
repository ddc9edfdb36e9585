from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from egt.errors import DataError
from egt.paper.benchmarks.superpixels import (
    CIFAR10,
    MNIST,
    Segmentation,
    SuperpixelSource,
    _most_similar,
    _segments,
    cifar10_superpixels,
    exponentials,
    mnist_superpixels,
    partition_rows,
    superpixel_graph,
)

FOR_MNIST = Segmentation(75, 95, 0.25)


def _digit(seed: int = 0) -> np.ndarray:
    """A ring with noise, in the size of MNIST."""
    y, x = np.mgrid[:28, :28]
    ring = np.abs(np.hypot(y - 14, x - 14) - 8) < 2
    noise = np.random.default_rng(seed).integers(0, 30, (28, 28))
    return np.where(ring, 200 + noise, noise).astype(np.uint8)


@pytest.fixture
def mnist_files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "mnist_train.npz", tmp_path / "mnist_test.npz"
    np.savez(paths[0], x=np.stack([_digit(k) for k in range(6)]), y=np.arange(6, dtype=np.uint8))
    np.savez(paths[1], x=np.stack([_digit(k) for k in range(2)]), y=np.array([8, 9], dtype=np.uint8))
    return paths


def test_segments_are_numbered_without_gaps_and_fit_the_limit() -> None:
    segment = _segments(_digit() / 255, FOR_MNIST)
    assert segment.shape == (28, 28)
    assert np.array_equal(np.unique(segment), np.arange(segment.max() + 1))
    assert 40 <= segment.max() + 1 <= 75


def test_node_values_are_mean_color_and_mean_place() -> None:
    image = _digit()
    graph = superpixel_graph(image, FOR_MNIST, 3, "ring")
    segment = _segments(image / 255, FOR_MNIST)
    MNIST.schema.check(graph)
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [3]
    y, x = np.mgrid[:28, :28]
    for node in (0, 7, graph.num_nodes - 1):
        mask = segment == node
        expected = [image[mask].mean() / 255, y[mask].mean() / 28, x[mask].mean() / 28]
        np.testing.assert_allclose(graph.node_values[node], expected, rtol=1e-5)


def test_neighbors_do_not_depend_on_vector_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy's exp differs in its last digit between processors, which decides between neighbors at equal distances."""
    monkeypatch.setattr(np, "exp", None)
    edge_index, _ = _most_similar(np.indices((6, 6)).reshape(2, -1).T / 6)
    assert edge_index.shape == (2, 36 * 8)


def test_each_node_goes_to_eight_of_its_nine_most_similar() -> None:
    place = np.random.default_rng(0).random((20, 2))
    edge_index, value = _most_similar(place)
    distance = np.array([[np.hypot(*(a - b)) for b in place] for a in place])
    sigma = np.array([np.sort(row)[1:9].mean() for row in distance])
    for node in range(20):
        similar = {
            k: (np.exp(-((distance[node, k] / sigma[node]) ** 2)) + np.exp(-((distance[node, k] / sigma[k]) ** 2))) / 2
            for k in range(20)
            if k != node
        }
        best = sorted(similar, key=lambda k: -similar[k])[:9]
        mine = edge_index[0] == node
        joined = edge_index[1, mine].tolist()
        assert len(set(joined)) == 8
        assert set(joined) < set(best)
        np.testing.assert_allclose(value[mine], [similar[k] for k in joined], rtol=1e-5)


def test_a_small_graph_is_complete() -> None:
    edge_index, _ = _most_similar(np.random.default_rng(0).random((9, 2)))
    assert set(zip(*edge_index.tolist(), strict=True)) == {(i, j) for i in range(9) for j in range(9) if i != j}


def test_an_image_of_one_color_is_still_a_graph() -> None:
    graph = superpixel_graph(np.zeros((28, 28), np.uint8), FOR_MNIST, 0)
    assert 1 <= graph.num_nodes <= 75


def test_mnist_splits_and_labels(mnist_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egt.paper.benchmarks.superpixels._NUM_VALIDATION", 2)
    source = mnist_superpixels(*mnist_files)
    assert {split: source.records(split) for split in ("train", "val", "test")} == {
        "train": [2, 3, 4, 5],
        "val": [0, 1],
        "test": [6, 7],
    }
    reading = source.read(7)
    assert reading.graph is not None
    assert reading.graph.graph_targets is not None
    assert reading.graph.graph_targets.tolist() == [9]
    assert "not the published files" in source.card.notes
    assert source.card.split_sizes["test"] == 2


def test_missing_or_wrong_image_files_are_reported(mnist_files: tuple[Path, Path]) -> None:
    train, test = mnist_files
    np.savez(test, images=np.zeros(3))
    with pytest.raises(DataError, match="arrays"):
        mnist_superpixels(train, test).records("train")
    for content in (b"", b"PK\x03\x04 broken", train.read_bytes()[:-30]):
        test.write_bytes(content)
        with pytest.raises(DataError, match=r"mnist_test\.npz"):
            mnist_superpixels(train, test).records("train")
    test.unlink()
    with pytest.raises(DataError, match=r"mnist_test\.npz"):
        mnist_superpixels(train, test).records("train")


def _jpeg(seed: int) -> bytes:
    small = np.random.default_rng(seed).integers(0, 255, (8, 8, 3)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize((32, 32)).save(buffer, "JPEG")
    return buffer.getvalue()


def test_cifar10_from_jpeg(tmp_path: Path) -> None:
    path = tmp_path / "cifar10_jpg.parquet"
    table = {
        "split": ["test", "train", "train", "train"],
        "label": ["truck", "airplane", "airplane", "dog"],
        "num": [0, 499, 500, 4999],
        "jpg": [_jpeg(k) for k in range(4)],
    }
    parquet.write_table(pa.table(table), path)
    source = cifar10_superpixels(path)
    assert source.card.title.startswith("CIFAR10 from JPEG")
    assert "lossy JPEG" in source.card.notes
    assert {split: source.records(split) for split in ("train", "val", "test")} == {
        "train": [2, 3],
        "val": [1],
        "test": [0],
    }
    graph = source.read(3).graph
    assert graph is not None
    CIFAR10.schema.check(graph)
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [5]
    assert graph.num_nodes <= 150
    parquet.write_table(pa.table({"split": ["test"]}), tmp_path / "bad.parquet")
    with pytest.raises(DataError, match="split"):
        cifar10_superpixels(tmp_path / "bad.parquet").records("train")


def _sizes(source: SuperpixelSource, count: int) -> np.ndarray:
    records = source.records("train")
    graphs = [source.read(record).graph for record in records[:: len(records) // count][:count]]
    return np.array([graph.num_nodes for graph in graphs if graph is not None])


@pytest.mark.slow
def test_mnist_has_the_published_sizes(data_dir: Path) -> None:
    folder = data_dir / "mnist"
    sizes = _sizes(mnist_superpixels(folder / "mnist_train.npz", folder / "mnist_test.npz"), 2_000)
    assert len(sizes) == 2_000
    assert sizes.min() >= 40
    assert sizes.max() <= 75
    assert sizes.mean() == pytest.approx(70.57, abs=0.5)


def test_a_few_images_of_mnist_have_about_the_published_mean(data_dir: Path) -> None:
    folder = data_dir / "mnist"
    sizes = _sizes(mnist_superpixels(folder / "mnist_train.npz", folder / "mnist_test.npz"), 200)
    assert sizes.mean() == pytest.approx(70.57, abs=1.5)
    assert sizes.max() <= 75


def test_the_last_of_the_nine_largest_is_the_neighbor_that_is_lost() -> None:
    values = np.random.default_rng(3).random((5, 30))
    for row, order in zip(values, partition_rows(values, 20), strict=True):
        assert set(order[-9:].tolist()) == set(np.argsort(row)[-9:].tolist())


def test_compiled_partitions_and_exponentials_are_those_of_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    cases = [
        (rng.integers(0, 5, (20, size)) * 0.1, kth)
        for size in (4, 5, 11, 30, 75)
        for kth in (0, 2, 3, size - 2, size - 1)
        if kth < size
    ]
    compiled = [(partition_rows(values, kth), exponentials(-values)) for values, kth in cases]
    monkeypatch.setattr("egt.paper.benchmarks.superpixels.library", lambda: None)
    for (values, kth), (order, found) in zip(cases, compiled, strict=True):
        np.testing.assert_array_equal(order, partition_rows(values, kth))
        np.testing.assert_array_equal(found, exponentials(-values))
