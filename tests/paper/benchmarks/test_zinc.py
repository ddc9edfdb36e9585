from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from egt.errors import DataError
from egt.paper.benchmarks.molecule_sets import ZincGraphs, zinc_full


@pytest.fixture
def graphs_file(tmp_path: Path) -> Path:
    path = tmp_path / "zinc12k.parquet"
    table = {
        "split": ["train", "train", "val", "test"],
        "atom_type": [[0, 1, 2], [0], [5, 5], [0, 27]],
        "src": [[0, 1], [], [0], [0]],
        "dst": [[1, 2], [], [1], [7]],
        "bond_type": [[1, 2], [], [3], [1]],
        "y": [0.5, -1.0, 2.0, 3.0],
    }
    parquet.write_table(pa.table(table), path)
    return path


def test_stored_graphs_have_each_bond_in_both_directions(graphs_file: Path) -> None:
    source = ZincGraphs(graphs_file)
    assert dict(source.card.split_sizes) == {"train": 2, "val": 1, "test": 1}
    assert source.records("train") == [0, 1]
    graph = source.read(0).graph
    assert graph is not None
    source.card.schema.check(graph)
    assert graph.node_categories[:, 0].tolist() == [0, 1, 2]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert graph.edge_categories[:, 0].tolist() == [1, 2, 1, 2]
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [0.5]
    single = source.read(1).graph
    assert single is not None
    assert (single.num_nodes, single.num_edges) == (1, 0)


def test_a_broken_row_is_a_reading_with_an_error(graphs_file: Path) -> None:
    reading = ZincGraphs(graphs_file).read(3)
    assert reading.graph is None
    assert "node 7" in reading.error
    assert reading.row == 3


def test_sources_travel_to_other_processes(graphs_file: Path) -> None:
    source = pickle.loads(pickle.dumps(ZincGraphs(graphs_file)))
    assert source.read(2).graph.num_nodes == 2


def test_unknown_split_and_bad_files_are_reported(graphs_file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train"):
        ZincGraphs(graphs_file).records("valid")
    other = tmp_path / "other.parquet"
    other.write_text("not a table")
    with pytest.raises(DataError, match="Parquet"):
        ZincGraphs(other).records("train")
    parquet.write_table(pa.table({"split": ["train"]}), other)
    with pytest.raises(DataError, match="'smiles'"):
        zinc_full(other).records("train")
    parquet.write_table(pa.table({"split": ["training"], "smiles": ["C"], "y": [1.0]}), tmp_path / "third.parquet")
    with pytest.raises(DataError, match="'training'"):
        zinc_full(tmp_path / "third.parquet").records("train")


def test_zinc_full_makes_graphs_from_smiles(tmp_path: Path) -> None:
    path = tmp_path / "full.parquet"
    parquet.write_table(
        pa.table({"split": ["train", "val", "test"], "smiles": ["CCO", "C#N", "C("], "y": [1.0, 2.0, 3.0]}), path
    )
    source = zinc_full(path)
    graph = source.read(source.records("train")[0]).graph
    assert graph is not None
    assert graph.node_categories[:, 0].tolist() == [0, 0, 1]
    bad = source.read(source.records("test")[0])
    assert bad.graph is None
    assert "syntax error" in bad.error


def test_zinc_has_the_published_numbers(data_dir: Path) -> None:
    source = ZincGraphs(data_dir / "zinc" / "zinc12k.parquet")
    assert dict(source.card.split_sizes) == {"train": 10_000, "val": 1_000, "test": 1_000}
    graphs = [source.read(row).graph for split in source.card.split_sizes for row in source.records(split)]
    nodes = np.array([graph.num_nodes for graph in graphs if graph is not None])
    assert len(nodes) == 12_000
    assert nodes.mean() == pytest.approx(23.1553, abs=5e-5)
    assert (nodes.min(), nodes.max()) == (9, 37)
    assert {int(k) for graph in graphs if graph for k in graph.edge_categories[:, 0]} == {1, 2, 3}
    assert max(int(graph.node_categories.max()) for graph in graphs if graph) <= 27
    assert np.mean([graph.num_edges for graph in graphs if graph]) == pytest.approx(source.card.mean_edges, abs=1e-3)


def test_zinc_full_has_the_published_sizes(data_dir: Path) -> None:
    source = zinc_full(data_dir / "zinc" / "zinc_full_250k_smiles_y.parquet")
    assert dict(source.card.split_sizes) == {"train": 220_011, "val": 24_445, "test": 5_000}
    for row in source.records("test")[::100]:
        reading = source.read(row)
        assert reading.graph is not None
        assert reading.warning == ""
        source.card.schema.check(reading.graph)
