from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.encodings.encoding import Preparation, ShortestPaths
from egt.data.store import Store, prepare, verify
from egt.errors import DataError
from egt.parts.inputs import LaplacianEigenvectors, RandomWalks, SvdEncoding

GOOD_ROWS = [row for row in range(300) if row not in (5, 11)]


@pytest.fixture
def store(source: Any, preparation: Preparation, tmp_path: Path) -> Store:
    return prepare(source, "train", preparation, cache_dir=tmp_path, num_workers=1)


def test_samples_are_those_of_the_preparation(store: Store, source: Any, preparation: Preparation, toys: Any) -> None:
    assert len(store) == len(GOOD_ROWS)
    np.testing.assert_array_equal(store.rows, GOOD_ROWS)
    for k, row in enumerate(GOOD_ROWS):
        expected = preparation(source.read(row).graph)
        assert toys.same_sample(store[k], expected), f"row {row}"
        assert store.sizes[k] == expected.graph.num_nodes


def test_problems_name_row_id_and_reason(store: Store) -> None:
    failed, doubtful, misfit = store.problems
    assert (failed.row, failed.id, failed.error) == (5, "row-5", "cannot be parsed")
    assert (doubtful.row, doubtful.error, doubtful.warning) == (7, "", "read with reservations")
    assert (misfit.row, misfit.warning) == (11, "")
    assert "node_categories[0, 1] is 4; the vocabulary has ids 0..2" in misfit.error


def test_arrays_are_read_only_views_of_the_files(store: Store) -> None:
    sample = store[17]
    for array in (sample.graph.edge_index, sample.graph.node_values, sample.node["svd"], sample.pair["distance"]):
        assert type(array) is np.ndarray
        assert not array.flags.writeable
        assert array.flags.c_contiguous
        root: Any = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        assert isinstance(root, np.memmap)


def test_is_a_sequence(store: Store, toys: Any) -> None:
    assert toys.same_sample(store[-1], store[len(store) - 1])
    assert [int(sample.graph.num_nodes) for sample in store[3:9:2]] == store.sizes[3:9:2].tolist()
    assert sum(1 for _ in store) == len(store)
    for outside in (len(store), -len(store) - 1):
        with pytest.raises(IndexError):
            store[outside]


def test_pickles_as_a_path(store: Store, toys: Any) -> None:
    pickled = pickle.dumps(store)
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    assert toys.same_sample(again[40], store[40])
    assert again.path == store.path


def test_encodings_that_are_not_stored_need_no_new_store(
    store: Store, source: Any, preparation: Preparation, tmp_path: Path
) -> None:
    more = Preparation(preparation.schema, [*preparation.encodings, RandomWalks(3)])
    same = prepare(source, "train", more, cache_dir=tmp_path)
    assert same.path == store.path
    np.testing.assert_array_equal(same[20].pair["random_walk"], RandomWalks(3)(same[20].graph))
    assert not (store.path / "node.degree.npy").exists()


def test_refuses_a_store_of_other_encodings(store: Store, preparation: Preparation) -> None:
    other = Preparation(preparation.schema, [LaplacianEigenvectors(2)])
    with pytest.raises(DataError, match=r"SvdEncoding.*LaplacianEigenvectors"):
        Store(store.path, other)
    other_rank = Preparation(preparation.schema, [SvdEncoding(2), ShortestPaths(4)])
    with pytest.raises(DataError, match="'rank'"):
        Store(store.path, other_rank)


def test_verify_finds_every_flipped_bit(store: Store) -> None:
    verify(store.path)
    for file in sorted(store.path.glob("*.npy")):
        content = file.read_bytes()
        damaged = bytearray(content)
        damaged[-1] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=file.name):
            verify(store.path)
        file.write_bytes(content)
    verify(store.path)


def test_opening_notices_a_changed_index_and_a_cut_file(store: Store, preparation: Preparation) -> None:
    index = store.path / "index.json"
    content = index.read_text()
    index.write_text(content.replace("cannot be parsed", "cannot be passed"))
    with pytest.raises(DataError, match=r"index\.json"):
        Store(store.path, preparation)
    index.write_text(content[:-20])
    with pytest.raises(DataError, match="prepared"):
        Store(store.path, preparation)
    index.write_text(content)
    offsets = store.path / "offsets.npy"
    full = offsets.read_bytes()
    offsets.write_bytes(full[:-8])
    with pytest.raises(DataError, match=rf"offsets\.npy.*{len(full) - 8}.*{len(full)}"):
        Store(store.path, preparation)
    offsets.unlink()
    with pytest.raises(DataError, match=r"offsets\.npy"):
        Store(store.path, preparation)
