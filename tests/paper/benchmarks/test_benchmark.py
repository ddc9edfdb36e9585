from __future__ import annotations

import gzip
import logging
import pickle
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from egt.data import benchmark
from egt.data.benchmark import BENCHMARKS, AuthorsHdf5, GeneratedSource, fetch_benchmark, list_cards, open_benchmark
from egt.errors import DataError
from egt.paper.benchmarks.molecule_sets import ZincGraphs

NAMES = [
    "zinc",
    "zinc-full",
    "pattern",
    "cluster",
    "tsp",
    "mnist",
    "cifar10",
    "pcqm4mv2",
    "pcqm4m",
    "molhiv",
    "molpcba",
]


def _write_zinc(folder: Path) -> None:
    (folder / "zinc").mkdir(parents=True)
    columns = {"split": ["train"], "atom_type": [[0]], "src": [[]], "dst": [[]], "bond_type": [[]], "y": [1.0]}
    parquet.write_table(pa.table(columns), folder / "zinc" / "zinc12k.parquet")


def _write_hdf5_zinc(folder: Path) -> None:
    import h5py

    path = folder / "datasets" / "ZINC" / "ZINC.h5"
    path.parent.mkdir(parents=True)
    with h5py.File(path, "w") as file:
        for split in ("training", "validation", "test"):
            file.create_group(f"ZINC/{split}")


def test_every_benchmark_of_the_paper_has_a_name_and_a_card_of_that_name() -> None:
    assert set(NAMES) <= set(BENCHMARKS)
    assert [card.name for card in list_cards()] == list(BENCHMARKS)


def test_cards_say_what_one_must_know() -> None:
    for card in list_cards():
        for field in ("title", "license", "citation", "target_meaning", "metric"):
            assert getattr(card, field), (card.name, field)
        assert {"train", "val", "test"} <= set(card.split_sizes)
        low, mean, high = card.num_nodes
        assert low <= mean <= high
        assert card.urls or card.checksums
        assert all(value.startswith(("sha256:", "md5:")) for value in card.checksums.values())


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"did you mean zinc\?"):
        open_benchmark("zink")


@pytest.mark.parametrize("name", ["zinc", "zinc-full", "mnist", "cifar10", "pcqm4mv2", "pcqm4m", "molhiv", "molpcba"])
def test_without_files_the_error_names_what_to_place_where(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=name) as raised:
        open_benchmark(name, tmp_path)
    for layout in BENCHMARKS.get(name).layouts:
        assert str(tmp_path / layout) in str(raised.value)
    assert BENCHMARKS.get(name).card.urls[0] in str(raised.value)


@pytest.mark.parametrize("name", ["pattern", "cluster", "tsp"])
def test_sets_with_a_recipe_are_generated_when_there_is_no_file(name: str, tmp_path: Path) -> None:
    source = open_benchmark(name, tmp_path)
    assert "Generated" in source.card.notes
    assert dict(source.card.split_sizes) == dict(BENCHMARKS.get(name).card.split_sizes)
    assert pickle.loads(pickle.dumps(source)).fingerprint() == source.fingerprint()


def test_the_solver_of_tsp_is_on_the_card(tmp_path: Path) -> None:
    notes = open_benchmark("tsp", tmp_path).card.notes
    assert "LKH" in notes
    assert "non-commercial" in notes


def test_options_choose_seed_and_sizes(tmp_path: Path) -> None:
    source = open_benchmark("pattern", tmp_path, options={"seed": 3, "split_sizes": {"train": 2, "val": 1}})
    assert isinstance(source, GeneratedSource)
    assert source.seed == 3
    assert len(source.records("train")) == 2
    with pytest.raises(DataError, match="'size'"):
        open_benchmark("pattern", tmp_path, options={"size": 3})
    with pytest.raises(DataError, match="options"):
        open_benchmark("zinc", tmp_path, options={"seed": 3})


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_zinc(tmp_path)
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path))
    assert isinstance(open_benchmark("zinc"), ZincGraphs)


def test_the_files_of_the_authors_win(tmp_path: Path) -> None:
    _write_zinc(tmp_path)
    _write_hdf5_zinc(tmp_path)
    assert isinstance(open_benchmark("zinc", tmp_path), AuthorsHdf5)


def test_a_file_with_another_checksum_is_used_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _write_zinc(tmp_path)
    with caplog.at_level(logging.WARNING):
        open_benchmark("zinc", tmp_path)
    assert "checksum differs" in caplog.text


def test_published_files_are_fetched_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def fake_download(url: str, path: Path, *, checksum: str, progress: object) -> Path:
        asked.append((url, checksum))
        with zipfile.ZipFile(path, "w") as bundle:
            bundle.writestr("hiv/mapping/mol.csv.gz", gzip.compress(b"HIV_active,smiles,mol_id\n0,CCO,A\n"))
            for split, rows in (("train", b"0\n"), ("valid", b"0\n"), ("test", b"0\n")):
                bundle.writestr(f"hiv/split/scaffold/{split}.csv.gz", gzip.compress(rows))
        return path

    monkeypatch.setattr(benchmark, "download", fake_download)
    source = open_benchmark("molhiv", tmp_path, fetch=True)
    assert asked == [("http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip", "")]
    assert source.read(0).graph is not None
    assert dict(source.card.split_sizes) == {"train": 1, "val": 1, "test": 1}


def test_a_set_without_address_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="address"):
        fetch_benchmark("pcqm4mv2-2k", tmp_path)


def test_every_set_at_hand_opens_and_gives_graphs_of_its_schema(data_dir: Path) -> None:
    for name in ("zinc", "zinc-full", "mnist", "cifar10", "pcqm4mv2-2k", "molhiv"):
        source = open_benchmark(name, data_dir)
        assert dict(source.card.split_sizes) == dict(BENCHMARKS.get(name).card.split_sizes)
        graph = source.read(source.records("val")[0]).graph
        assert graph is not None
        source.card.schema.check(graph)


@pytest.mark.parametrize("name", ["pcqm4mv2", "pcqm4m", "molpcba"])
def test_a_download_is_verified_where_a_checksum_is_published(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(benchmark, "download", lambda url, path, *, checksum, progress: asked.append(checksum))
    monkeypatch.setattr(benchmark, "extract", lambda archive, folder: None)
    benchmark.fetch_benchmark(name, tmp_path)
    algorithm, _, digest = asked[0].partition(":")
    assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
