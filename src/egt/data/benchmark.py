"""Benchmarks by name: where their files may be, and what reads or makes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from egt.data.authors_hdf5 import AuthorsHdf5, hdf5_candidates
from egt.data.download import data_folder, download, extract, file_checksum, find_file, missing_files
from egt.data.generated import GeneratedSource, Recipe
from egt.data.source import DataCard, Progress, Source
from egt.errors import DataError
from egt.registry import Registry

Options = Mapping[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Benchmark:
    """How one benchmark is opened.

    Fields:
        card: its description.
        layouts: relative paths of files it is known in, and what opens each; the first that exists wins.
        generate: makes the graphs when there is no file, for sets that have a recipe; its parameters are the options,
            `seed` and `split_sizes` among them.
    """

    card: DataCard
    layouts: Mapping[str, Callable[[Path], Source]]
    generate: Callable[..., Source] | None = None


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
    """Return the source of a benchmark.

    Files win over a generator. Published files are fetched only when asked for.

    Args:
        name: one of `BENCHMARKS`.
        data_dir: the folder of the data sets; default `EGT_DATA_DIR`, else `~/.cache/egt/data`.
        options: for generated sets `seed` (the data set) and `split_sizes` (numbers of graphs), for TSP also `cities`
            (the fewest and the most of a graph). With options the graphs are generated even if there are files.
        fetch: download the published files if there are none.
        progress: receives the bytes of a download.

    Raises:
        DataError: if the name or an option is unknown, or the files are missing; it says which to place where.
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
        raise missing_files(name, folder, list(benchmark.layouts), url)
    return source


def fetch_benchmark(name: str, data_dir: str | Path | None = None, *, progress: Progress | None = None) -> Path:
    """Download and unpack the published files of a benchmark into the data folder, which is returned.

    Raises:
        DataError: if there is no public address or no network; it names the file to place and where.
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
    path = find_file(folder, list(benchmark.layouts))
    if path is None:
        return None
    layout = path.relative_to(folder).as_posix()
    checksum = benchmark.card.checksums.get(layout)
    if checksum is not None and checksum != file_checksum(path, "sha256"):
        _log.warning("%s is not the known file (its checksum differs): results may not be comparable", path)
    return benchmark.layouts[layout](path)


def _generate(benchmark: Benchmark, options: Options) -> Source:
    if benchmark.generate is None:
        raise DataError(f"{benchmark.card.name} is read from files and takes no options, but got {', '.join(options)}")
    allowed = list(signature(benchmark.generate).parameters)
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise DataError(f"{benchmark.card.name}: unknown option {unknown[0]!r}; allowed are {', '.join(allowed)}")
    return benchmark.generate(**options)


def hdf5_files(card: DataCard) -> dict[str, Callable[[Path], Source]]:
    """Return the files of a benchmark that the authors of EGT published."""
    return {path: lambda found: AuthorsHdf5(card, found) for path in hdf5_candidates(card.name)}


def recipe(card: DataCard, make: Recipe, default_seed: int, made_by: str) -> Callable[..., Source]:
    """Return what generates a benchmark from a seed, graph by graph."""

    def generate(seed: int = default_seed, split_sizes: Mapping[str, int] | None = None) -> Source:
        return GeneratedSource(card, make, seed, made_by, split_sizes)

    return generate
