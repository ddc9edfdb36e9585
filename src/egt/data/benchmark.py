"""Benchmarks by name: where their files may be, and what reads or makes them.

A benchmark is generated (`GeneratedSource`), a table of SMILES (`MoleculeSource`) or one of the HDF5 files that the
authors of EGT published for the medium-scale sets (`AuthorsHdf5`). These have one group per graph,
`/<NAME>/{training,validation,test}/<number>`, with

    data (attribute num_nodes)
    data/edges                   (E, 2) source and target of each edge
    data/features/nodes/feat     (N,) categories or (N, F) values
    data/features/edges/feat     (E,) categories or (E, F) values, if the set has edge features
    targets/<key>                value (1,), label (), node_labels (N,) or edge_labels (E,)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egt.data.download import data_folder, download, extract, file_checksum, fingerprint
from egt.data.molecules import MoleculeVocabulary, graphs_from_smiles, require_rdkit
from egt.data.source import DataCard, Progress, Reading, Source, check_split, rows_of
from egt.errors import DataError, EgtError, require_extra
from egt.files import Bounds
from egt.graph import Graph, IntArray, TargetArray
from egt.registry import Registry

Options = Mapping[str, Any]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Benchmark:
    """How one benchmark is opened."""

    card: DataCard  # its description
    layouts: Mapping[str, Callable[[Path], Source]]  # relative paths of its files, and what opens each; the first wins
    generate: Callable[..., Source] | None = None  # where there is no file; its parameters are the options


BENCHMARKS: Registry[Benchmark] = Registry("benchmark", "egt.paper.benchmarks")

AUTHORS_URL = "https://zenodo.org/record/5500978/files/datasets.tar.gz"
"""The HDF5 files of all medium-scale sets, published by the authors of EGT."""

BENCHMARKING_GNNS = (
    "Dwivedi, Joshi, Luu, Laurent, Bengio, Bresson: Benchmarking Graph Neural Networks. JMLR 24(43), 2023, "
    "arXiv:2003.00982"
)


def open_benchmark(
    name: str,
    data_dir: str | Path | None = None,
    *,
    options: Options | None = None,
    fetch: bool = False,
    progress: Progress | None = None,
) -> Source:
    """Return the source of a benchmark; a `DataError` says which files to place where.

    Files win over a generator, unless there are `options` of generated sets: `seed` (of the data set), `split_sizes`
    (numbers of graphs) and for TSP `cities` (the fewest and the most of a graph). The files are in `data_dir`, by
    default `EGT_DATA_DIR` or `~/.cache/egt/data`; `fetch` downloads published ones, and `progress` receives the bytes.
    """
    benchmark = _benchmark(name)
    folder = data_folder(data_dir)
    if options:
        return _generate(benchmark, options)
    source = _open_file(benchmark, folder)
    if source is None and fetch and benchmark.card.urls:
        fetch_benchmark(name, folder, progress=progress)
        source = _open_file(benchmark, folder)
    if source is None and benchmark.generate is not None:
        source = benchmark.generate()
    if source is None:
        url = benchmark.card.urls[0] if benchmark.card.urls else ""
        fetch_it = f" (public address: {url}), or let `egt data prepare {name} --fetch` download it" if url else ""
        raise DataError(
            f"{name}: no data found in {folder}; place {' or '.join(str(folder / path) for path in benchmark.layouts)}"
            f"{fetch_it}, or set EGT_DATA_DIR to the folder that holds it"
        )
    return source


def fetch_benchmark(name: str, data_dir: str | Path | None = None, *, progress: Progress | None = None) -> Path:
    """Download and unpack the published files of a benchmark into the data folder, which is returned.

    Without a public address or a network, the `DataError` names the file to place and where.
    """
    card = _benchmark(name).card
    folder = data_folder(data_dir)
    if not card.urls:
        raise DataError(f"{name}: there is no public address; place its files in {folder}")
    archive = folder / card.urls[0].rsplit("/", 1)[-1]
    download(card.urls[0], archive, checksum=card.checksums.get(archive.name, ""), progress=progress)
    extract(archive, folder)
    return folder


def list_cards() -> list[DataCard]:
    """Return the cards of all benchmarks; needs no data."""
    return [BENCHMARKS.get(name).card for name in BENCHMARKS]


def _benchmark(name: str) -> Benchmark:
    found = BENCHMARKS.find(name)
    if found is None:
        raise DataError(f"there is no benchmark {name!r}{BENCHMARKS.hint(name)}")
    return found


def _open_file(benchmark: Benchmark, folder: Path) -> Source | None:
    for layout, open_it in benchmark.layouts.items():
        path = folder / layout
        if path.is_file():
            checksum = benchmark.card.checksums.get(layout)
            if checksum is not None and checksum != file_checksum(path, "sha256"):
                _log.warning("%s is not the known file (its checksum differs): results may not be comparable", path)
            return open_it(path)
    return None


def _generate(benchmark: Benchmark, options: Options) -> Source:
    if benchmark.generate is None:
        raise DataError(f"{benchmark.card.name} is read from files and takes no options, but got {', '.join(options)}")
    allowed = list(signature(benchmark.generate).parameters)
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise DataError(f"{benchmark.card.name}: unknown option {unknown[0]!r}; allowed are {', '.join(allowed)}")
    return benchmark.generate(**options)


_SPLIT_NUMBER = {"train": 0, "val": 1, "test": 2}

Recipe = Callable[[int, str, int], Graph]
"""(seed, split, number) -> graph. A function of a module, so that other processes can run it."""


def graph_random(seed: int, split: str, number: int) -> np.random.Generator:
    """Return the random numbers of one graph, independent of those of all others and of the order they are made in."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SPLIT_NUMBER[split], number)))


def recipe(card: DataCard, make: Recipe, default_seed: int, made_by: str) -> Callable[..., Source]:
    """Return what generates a benchmark from a seed, graph by graph."""

    def generate(seed: int = default_seed, split_sizes: Mapping[str, int] | None = None) -> Source:
        return GeneratedSource(card, make, seed, made_by, split_sizes)

    return generate


@dataclass(frozen=True)
class GeneratedSource(Source):
    """Graphs made by a recipe. A record is (split, number)."""

    base_card: DataCard  # the card of the benchmark that the recipe follows
    recipe: Recipe  # makes one graph
    seed: int  # chooses the data set
    made_by: str  # what made the graphs, for the card and the fingerprint
    split_sizes: Mapping[str, int] | None = None  # those of the benchmark if None; graphs do not depend on it
    is_generated = True

    def __post_init__(self) -> None:
        unknown = set(self.split_sizes or {}) - set(_SPLIT_NUMBER)
        if unknown or any(size < 0 for size in (self.split_sizes or {}).values()):
            raise DataError(
                f"{self.base_card.name}: split_sizes is {dict(self.split_sizes or {})}; give numbers of graphs for "
                f"{', '.join(_SPLIT_NUMBER)}"
            )

    @cached_property
    def card(self) -> DataCard:
        sizes = self.base_card.split_sizes if self.split_sizes is None else self.split_sizes
        notes = f"Generated with seed {self.seed} ({self.made_by}), not the published files. {self.base_card.notes}"
        departures = ("generated graphs, not the published files",)
        return replace(self.base_card, split_sizes=sizes, notes=notes.strip(), departures=departures)

    def fingerprint(self) -> str:
        return fingerprint([], self.base_card.name, self.made_by, self.seed, sorted(self.card.split_sizes.items()))

    def records(self, split: str) -> Sequence[tuple[str, int]]:
        check_split(split, self.card.split_sizes, self.card.name)
        return [(split, number) for number in range(self.card.split_sizes[split])]

    def read(self, record: tuple[str, int]) -> Reading:
        split, number = record
        return Reading(number, f"{split}/{number}", graph=self.recipe(self.seed, split, number))


_HDF5_SPLITS = {"train": "training", "val": "validation", "test": "test"}

GROUP_NAMES = {
    "zinc": "ZINC",
    "zinc-full": "ZINC_full",
    "pattern": "SBM_PATTERN",
    "cluster": "SBM_CLUSTER",
    "tsp": "TSP",
    "mnist": "MNIST",
    "cifar10": "CIFAR10",
}
"""The name of each benchmark inside its file, which is also the name of the file and of its folder."""


def hdf5_files(card: DataCard) -> dict[str, Callable[[Path], Source]]:
    """Return where the authors' file may be, unpacked in the data folder or in that of the archive, and its opener."""
    group = GROUP_NAMES[card.name]
    return {f"{folder}{group}/{group}.h5": lambda found: AuthorsHdf5(card, found) for folder in ("", "datasets/")}


@dataclass(frozen=True)
class AuthorsHdf5(Source):
    """The graphs of one of the authors' files. A record is the path of a group in the file."""

    base_card: DataCard
    path: Path

    def __post_init__(self) -> None:
        group, file = GROUP_NAMES[self.base_card.name], self._file()
        missing = [name for name in _HDF5_SPLITS.values() if f"{group}/{name}" not in file]
        if missing:
            raise DataError(f"{self.path}: there is no group /{group}/{missing[0]}; is this the file of another set?")

    @cached_property
    def card(self) -> DataCard:
        group = self._file()[GROUP_NAMES[self.base_card.name]]
        sizes = {split: len(group[name]) for split, name in _HDF5_SPLITS.items()}
        return replace(self.base_card, split_sizes=sizes, notes="The authors' files.")

    def fingerprint(self) -> str:
        return fingerprint([self.path], "authors hdf5", self.base_card.name)

    def records(self, split: str) -> Sequence[str]:
        check_split(split, _HDF5_SPLITS, self.base_card.name)
        parent = f"{GROUP_NAMES[self.base_card.name]}/{_HDF5_SPLITS[split]}"
        return [f"{parent}/{name}" for name in sorted(self._file()[parent])]

    def read(self, record: str) -> Reading:
        *_, split, name = record.split("/")
        row = int(name) if name.isdigit() else 0
        label = f"{split}/{name}"
        try:
            return Reading(row, label, graph=self._graph(self._file()[record], label))
        except (EgtError, KeyError, ValueError, TypeError, OSError) as error:  # OSError: a damaged block of the file
            return Reading(row, label, error=f"{self.path}: group {record}: {error}")

    def _graph(self, group: Any, label: str) -> Graph:
        target, schema = self.base_card.target, self.base_card.schema
        fields: dict[str, Any] = {}
        nodes = self._array(group, "data/features/nodes/feat")
        fields["node_categories" if schema.node_categories else "node_values"] = nodes
        if schema.edge_categories or schema.num_edge_values:
            fields["edge_categories" if schema.edge_categories else "edge_values"] = self._array(
                group, "data/features/edges/feat"
            )
        if target.level == "graph":
            key = "value" if target.kind == "regression" else "label"
            fields["graph_targets"] = np.reshape(self._array(group, f"targets/{key}"), -1)
        else:
            fields[f"{target.level}_targets"] = self._array(group, f"targets/{target.level}_labels")
        edges = self._array(group, "data/edges")
        graph = Graph(num_nodes=int(group["data"].attrs["num_nodes"]), edge_index=edges.T, id=label, **fields)
        schema.check(graph)
        return graph

    def _array(self, group: Any, name: str) -> Any:
        """Return an array of this file: links and arrays of HDF5 may lead to any other one, and claim any size."""
        found = group[name]
        if not hasattr(found, "is_virtual"):
            raise DataError(f"{name} is no array")
        if found.file.filename != self._file().filename or found.is_virtual or found.external:
            raise DataError(f"{name} lies in another file; copy it into this one (h5repack does)")
        Bounds.current().check("cells", found.size, name)
        return found[()]

    def _file(self) -> Any:
        return _open_hdf5(self.path, os.getpid())


@lru_cache(maxsize=8)
def _open_hdf5(path: Path, process: int) -> Any:
    """Return the open file; each process has its own, since HDF5 files do not survive a fork."""
    with require_extra("graph", "reading HDF5 files needs h5py", DataError):
        import h5py
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path}: not an HDF5 file ({error})") from error


@dataclass(frozen=True)
class MoleculeTable:
    """The rows of a data set of molecules."""

    smiles: Any  # R strings, as an Arrow array (a row costs no Python object)
    targets: TargetArray  # (R, T), NaN where a label is missing
    splits: Mapping[str, IntArray]  # the row numbers of each split


@dataclass(frozen=True)
class MoleculeSource(Source):
    """Graphs of a table of SMILES. A record is a row number, counted from 0 in the file."""

    base_card: DataCard  # the card as published; `card` has the split sizes of the table at hand
    files: tuple[Path, ...]  # what the table is read from
    load: Callable[..., MoleculeTable]  # called in every process that reads, so it should keep its result
    vocabulary: MoleculeVocabulary = "ogb"  # the atom and bond features

    def __post_init__(self) -> None:
        require_rdkit()

    @cached_property
    def card(self) -> DataCard:
        sizes = {name: len(rows) for name, rows in self.load(*self.files).splits.items()}
        return replace(self.base_card, split_sizes=sizes)

    def fingerprint(self) -> str:
        version = require_rdkit().rdBase.rdkitVersion
        return fingerprint(self.files, self.base_card.name, self.vocabulary, version)

    def records(self, split: str) -> Sequence[int]:
        return rows_of(self.load(*self.files).splits, split, self.base_card.name)

    def read(self, record: int) -> Reading:
        return self.read_all([record])[0]

    def read_all(self, records: Sequence[int]) -> list[Reading]:
        table = self.load(*self.files)
        names = [str(record) for record in records]
        results = graphs_from_smiles(
            [table.smiles[record].as_py() or "" for record in records],
            vocabulary=self.vocabulary,
            ids=names,
            graph_targets=[table.targets[record] for record in records],
        )
        return [
            Reading(record, name, error=str(result))
            if isinstance(result, EgtError)
            else Reading(record, name, graph=result[0], warning=result[1])
            for record, name, result in zip(records, names, results, strict=True)
        ]

    def smiles(self) -> Sequence[Any]:
        found: Sequence[Any] = self.load(*self.files).smiles
        return found


def read_parquet(path: Path) -> Any:
    """Return a Parquet file as an Arrow table."""
    import pyarrow.parquet  # a quarter of a second, and this is read whenever a preset is

    try:
        return pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a Parquet table ({error})") from error


def read_csv(path: Path, text_columns: Sequence[str] = ("smiles",), names: Sequence[str] = ()) -> Any:
    """Return a CSV file (plain or .gz) as an Arrow table; `names` are those of the columns where it has no header.

    The columns `text_columns` are text, whatever they look like.
    """
    import pyarrow.csv

    options = pyarrow.csv.ConvertOptions(column_types={name: pyarrow.string() for name in text_columns})
    try:
        header = pyarrow.csv.ReadOptions(column_names=[*names])
        return pyarrow.csv.read_csv(path, read_options=header, convert_options=options)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a CSV table ({error})") from error


def column(table: Any, name: str, path: Path) -> Any:
    """Return one column of an Arrow table, in one piece; a `DataError` if the table does not have it."""
    if name not in table.column_names:
        raise DataError(f"{path}: there is no column {name!r}; the columns are {', '.join(table.column_names)}")
    return table.column(name).combine_chunks()


def numbers(table: Any, names: Sequence[str], path: Path) -> NDArray[np.float64]:
    """(R, len(names)) columns as numbers, NaN for an empty cell; a `DataError` if one is missing or not numeric."""
    import pyarrow

    columns: list[NDArray[Any]] = []
    for name in names:
        values = column(table, name, path)
        plain = pyarrow.types.is_integer(values.type) or pyarrow.types.is_floating(values.type)
        try:
            if plain and len(values) and not values.null_count:  # Arrow's own way loads pandas: a quarter of a second
                buffer = np.frombuffer(values.buffers()[1], values.type.to_pandas_dtype())
                columns.append(buffer[values.offset : values.offset + len(values)])
            else:
                columns.append(values.cast(pyarrow.float64()).to_numpy(zero_copy_only=False))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            raise DataError(f"{path}: column {name!r} is not numeric ({error})") from error
    return np.stack(columns, axis=1).astype(np.float64)


def rows_by_split(table: Any, path: Path) -> dict[str, IntArray]:
    """Return the rows of each split from the column `split`; "valid" is called "val" as everywhere in this package."""
    labels = np.array(column(table, "split", path).to_pylist())
    names = {"train": "train", "valid": "val", "val": "val", "test": "test"}
    unknown = sorted(set(labels.tolist()) - set(names))
    if unknown:
        raise DataError(f"{path}: column 'split' holds {unknown[0]!r}; allowed are train, valid, val and test")
    return {
        name: np.flatnonzero(np.isin(labels, [k for k in names if names[k] == name]))
        for name in dict.fromkeys(names.values())
    }
