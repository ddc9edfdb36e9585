from __future__ import annotations

import pickle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from egt.data.benchmark import GROUP_NAMES, AuthorsHdf5, hdf5_files
from egt.data.source import DataCard
from egt.errors import DataError
from egt.paper.benchmarks.block_models import CLUSTER, PATTERN
from egt.paper.benchmarks.molecule_sets import ZINC
from egt.paper.benchmarks.superpixels import CIFAR10, MNIST
from egt.paper.benchmarks.tsp import TSP

EDGES = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])


def write_file(path: Path, card: DataCard, targets: dict[str, Any], nodes: Any, edges: Any = None) -> Path:
    """A file of the authors' layout with two training graphs and one each for validation and test."""
    group = GROUP_NAMES[card.name]
    with h5py.File(path, "w") as file:
        for split, count in (("training", 2), ("validation", 1), ("test", 1)):
            for number in range(count):
                graph = file.create_group(f"{group}/{split}/{number:0>10d}")
                data = graph.create_group("data")
                data.attrs["num_nodes"] = 3
                data.attrs["num_edges"] = 4
                data["edges"] = EDGES
                data["features/nodes/feat"] = nodes
                if edges is not None:
                    data["features/edges/feat"] = edges
                for key, value in targets.items():
                    graph[f"targets/{key}"] = value
    return path


def test_zinc(tmp_path: Path) -> None:
    path = write_file(tmp_path / "ZINC.h5", ZINC, {"value": np.array([0.25], np.float32)}, [0, 5, 27], [1, 1, 3, 3])
    source = AuthorsHdf5(ZINC, path)
    assert dict(source.card.split_sizes) == {"train": 2, "val": 1, "test": 1}
    assert source.records("train") == ["ZINC/training/0000000000", "ZINC/training/0000000001"]
    reading = source.read(source.records("train")[1])
    assert (reading.row, reading.id, reading.error) == (1, "training/0000000001", "")
    graph = reading.graph
    assert graph is not None
    assert graph.edge_index.tolist() == EDGES.T.tolist()
    assert graph.node_categories.tolist() == [[0], [5], [27]]
    assert graph.edge_categories.tolist() == [[1], [1], [3], [3]]
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [0.25]


@pytest.mark.parametrize("card", [PATTERN, CLUSTER], ids=lambda card: str(card.name))
def test_block_models(tmp_path: Path, card: DataCard) -> None:
    source = AuthorsHdf5(card, write_file(tmp_path / "x.h5", card, {"node_labels": [1, 0, 1]}, [2, 1, 0]))
    graph = source.read(source.records("val")[0]).graph
    assert graph is not None
    assert graph.node_targets is not None
    assert graph.node_targets[:, 0].tolist() == [1, 0, 1]
    assert graph.edge_categories.shape == (4, 0)


def test_tsp(tmp_path: Path) -> None:
    values = np.arange(4.0)[:, None]
    path = write_file(tmp_path / "TSP.h5", TSP, {"edge_labels": [1, 1, 0, 0]}, np.ones((3, 2)), values)
    graph = AuthorsHdf5(TSP, path).read("TSP/test/0000000000").graph
    assert graph is not None
    assert graph.edge_targets is not None
    assert graph.edge_targets[:, 0].tolist() == [1, 1, 0, 0]
    assert graph.edge_values[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("card", "width"), [(MNIST, 3), (CIFAR10, 5)], ids=["mnist", "cifar10"])
def test_superpixels(tmp_path: Path, card: DataCard, width: int) -> None:
    path = write_file(tmp_path / "x.h5", card, {"label": 7}, np.zeros((3, width)), np.zeros((4, 1)))
    source = AuthorsHdf5(card, path)
    graph = source.read(source.records("test")[0]).graph
    assert graph is not None
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [7]
    assert graph.node_values.shape == (3, width)


def test_a_broken_group_is_a_reading_with_an_error(tmp_path: Path) -> None:
    path = write_file(tmp_path / "ZINC.h5", ZINC, {"value": [0.25]}, [0, 5, 28], [1, 1, 3, 3])
    reading = AuthorsHdf5(ZINC, path).read("ZINC/test/0000000000")
    assert reading.graph is None
    assert "28" in reading.error
    assert "ZINC/test/0000000000" in reading.error
    path = write_file(tmp_path / "other.h5", ZINC, {"label": 1}, [0, 5, 2], [1, 1, 3, 3])
    assert "value" in AuthorsHdf5(ZINC, path).read("ZINC/test/0000000000").error


def test_arrays_that_lie_in_other_files_or_claim_any_size_are_refused(tmp_path: Path) -> None:
    secret = write_file(tmp_path / "secret.h5", ZINC, {"value": [0.25]}, [0, 5, 2], [1, 1, 3, 3])
    (tmp_path / "secret.bin").write_bytes(np.arange(3).tobytes())
    path = write_file(tmp_path / "ZINC.h5", ZINC, {"value": [0.25]}, [0, 5, 2], [1, 1, 3, 3])
    place = "ZINC/training/0000000000/data"
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource(secret, f"{place}/features/nodes/feat", (3,))
    with h5py.File(path, "a") as file:
        nodes = [file[f"ZINC/{name}/data/features/nodes"] for name in ("training/0000000000", "training/0000000001")]
        nodes += [file[f"ZINC/{name}/0000000000/data/features/nodes"] for name in ("validation", "test")]
        for group in nodes:
            del group["feat"]
        nodes[0]["feat"] = h5py.ExternalLink(secret, f"{place}/features/nodes/feat")
        nodes[1].create_dataset("feat", (3,), "i8", external=[(tmp_path / "secret.bin", 0, 24)])
        nodes[2].create_virtual_dataset("feat", layout)
        nodes[3].create_dataset("feat", (10**9, 10**3), "i8", chunks=(1, 1))
    source = AuthorsHdf5(ZINC, path)
    records = [record for split in ("train", "val", "test") for record in source.records(split)]
    errors = [source.read(record).error for record in records]
    assert ["lies in another file" in error for error in errors] == [True, True, True, False]
    assert "holds more than" in errors[3]


def test_the_file_of_another_set_and_other_files_are_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path / "ZINC.h5", ZINC, {"value": [0.25]}, [0, 5, 2], [1, 1, 3, 3])
    with pytest.raises(DataError, match="training"):
        AuthorsHdf5(TSP, path)
    (tmp_path / "text.h5").write_text("text")
    with pytest.raises(DataError, match="HDF5"):
        AuthorsHdf5(TSP, tmp_path / "text.h5")


def _num_nodes(source: AuthorsHdf5) -> int:
    graph = source.read(source.records("train")[0]).graph
    assert graph is not None
    return graph.num_nodes


def test_sources_work_in_another_process(tmp_path: Path) -> None:
    path = write_file(tmp_path / "ZINC.h5", ZINC, {"value": [0.25]}, [0, 5, 2], [1, 1, 3, 3])
    source = AuthorsHdf5(ZINC, path)
    assert _num_nodes(pickle.loads(pickle.dumps(source))) == 3
    with get_context("fork").Pool(1) as pool:
        assert pool.apply(_num_nodes, (source,)) == 3


def test_files_are_looked_for_beside_and_inside_the_folder_of_the_archive() -> None:
    assert [*hdf5_files(PATTERN)] == ["SBM_PATTERN/SBM_PATTERN.h5", "datasets/SBM_PATTERN/SBM_PATTERN.h5"]
