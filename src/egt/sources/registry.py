"""The benchmarks of the paper by name: where their files may be, and what reads or makes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from egt.errors import DataError
from egt.sources import cards
from egt.sources.authors_hdf5 import AuthorsHdf5, hdf5_candidates
from egt.sources.block_models import CLUSTER_SEED, PATTERN_SEED, cluster_graph, pattern_graph
from egt.sources.data_folder import data_folder, find_file, missing_files
from egt.sources.download import download, extract, file_checksum
from egt.sources.generated import GeneratedSource, Recipe
from egt.sources.ogb_molecules import molhiv_table, ogb_folder
from egt.sources.pcqm import pcqm_folder, pcqm_sample
from egt.sources.source import DataCard, Progress, Source
from egt.sources.superpixels import cifar10_superpixels, mnist_superpixels
from egt.sources.tsp import SOLVER, TSP_SEED, require_elkai, tsp_graph
from egt.sources.zinc import ZincGraphs, zinc_full

Options = Mapping[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Benchmark:
    """How one benchmark is opened.

    Fields:
        card: its description.
        layouts: relative paths of files it is known in, and what opens each; the first that exists wins.
        generate: makes the graphs when there is no file, for sets that have a recipe; takes the options `seed` and
            `split_sizes`.
    """

    card: DataCard
    layouts: Mapping[str, Callable[[Path], Source]]
    generate: Callable[..., Source] | None = None


def open_benchmark(
    name: str,
    data_dir: str | Path | None = None,
    *,
    options: Options | None = None,
    fetch: bool = False,
    progress: Progress | None = None,
) -> Source:
    """The source of a benchmark.

    Files win over a generator. Published files are fetched only when asked for.

    Args:
        name: one of `BENCHMARKS`.
        data_dir: the folder of the data sets; default `EGT_DATA_DIR`, else `~/.cache/egt/data`.
        options: for generated sets `seed` (the data set) and `split_sizes` (numbers of graphs). With options the graphs
            are generated even if there are files.
        fetch: download the published files if there are none.
        progress: is told about the bytes of a download.

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
    """The cards of all benchmarks; needs no data."""
    return [benchmark.card for benchmark in BENCHMARKS.values()]


def _benchmark(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        near = get_close_matches(name, BENCHMARKS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}.{hint}")
    return BENCHMARKS[name]


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
    unknown = sorted(set(options) - {"seed", "split_sizes"})
    if unknown:
        raise DataError(f"{benchmark.card.name}: unknown option {unknown[0]!r}; allowed are seed and split_sizes")
    return benchmark.generate(**options)


def _hdf5(card: DataCard) -> dict[str, Callable[[Path], Source]]:
    return {path: lambda found: AuthorsHdf5(card, found) for path in hdf5_candidates(card.name)}


def _ogb(card: DataCard, *folders: str) -> dict[str, Callable[[Path], Source]]:
    return {f"{folder}/mapping/mol.csv.gz": lambda found: ogb_folder(card, found) for folder in folders}


def _pcqm(card: DataCard, folder: str) -> dict[str, Callable[[Path], Source]]:
    return {f"{folder}/raw/data.csv.gz": lambda found: pcqm_folder(card, found)}


def _recipe(card: DataCard, recipe: Recipe, default_seed: int, made_by: str) -> Callable[..., Source]:
    def generate(seed: int = default_seed, split_sizes: Mapping[str, int] | None = None) -> Source:
        return GeneratedSource(card, recipe, seed, made_by, split_sizes)

    return generate


def _generate_tsp(seed: int = TSP_SEED, split_sizes: Mapping[str, int] | None = None) -> Source:
    require_elkai()
    return GeneratedSource(cards.TSP, tsp_graph, seed, SOLVER, split_sizes)


def _open_mnist(train: Path) -> Source:
    return mnist_superpixels(train, train.with_name("mnist_test.npz"))


_BLOCK_MODEL = "stochastic block model of the benchmark"

BENCHMARKS: dict[str, Benchmark] = {
    "zinc": Benchmark(cards.ZINC, {**_hdf5(cards.ZINC), "zinc/zinc12k.parquet": ZincGraphs}),
    "zinc-full": Benchmark(
        cards.ZINC_FULL, {**_hdf5(cards.ZINC_FULL), "zinc/zinc_full_250k_smiles_y.parquet": zinc_full}
    ),
    "pattern": Benchmark(
        cards.PATTERN, _hdf5(cards.PATTERN), _recipe(cards.PATTERN, pattern_graph, PATTERN_SEED, _BLOCK_MODEL)
    ),
    "cluster": Benchmark(
        cards.CLUSTER, _hdf5(cards.CLUSTER), _recipe(cards.CLUSTER, cluster_graph, CLUSTER_SEED, _BLOCK_MODEL)
    ),
    "tsp": Benchmark(cards.TSP, _hdf5(cards.TSP), _generate_tsp),
    "mnist": Benchmark(cards.MNIST, {**_hdf5(cards.MNIST), "mnist/mnist_train.npz": _open_mnist}),
    "cifar10": Benchmark(
        cards.CIFAR10, {**_hdf5(cards.CIFAR10), "cifar10_jpg/cifar10_jpg.parquet": cifar10_superpixels}
    ),
    "pcqm4mv2": Benchmark(cards.PCQM4MV2, _pcqm(cards.PCQM4MV2, "pcqm4m-v2")),
    "pcqm4m": Benchmark(cards.PCQM4M, _pcqm(cards.PCQM4M, "pcqm4m_kddcup2021")),
    "pcqm4mv2-2k": Benchmark(cards.PCQM4MV2_2K, {"pcqm4mv2/pcqm4mv2_first2k_3d.csv.gz": pcqm_sample}),
    "molhiv": Benchmark(
        cards.MOLHIV, {**_ogb(cards.MOLHIV, "ogbg_molhiv", "hiv"), "molhiv/molhiv.csv.gz": molhiv_table}
    ),
    "molpcba": Benchmark(cards.MOLPCBA, _ogb(cards.MOLPCBA, "ogbg_molpcba", "pcba")),
}
"""Every benchmark by name; the authors' files, if there are any, come first."""
