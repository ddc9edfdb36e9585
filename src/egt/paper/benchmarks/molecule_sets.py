"""The benchmarks of molecules: ZINC, OGB's MolHIV and MolPCBA, PCQM4M and PCQM4Mv2, and a sample of the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.benchmark import (
    AUTHORS_URL,
    BENCHMARKING_GNNS,
    BENCHMARKS,
    Benchmark,
    MoleculeSource,
    MoleculeTable,
    column,
    hdf5_files,
    numbers,
    read_csv,
    read_parquet,
    rows_by_split,
)
from egt.data.download import fingerprint
from egt.data.molecules import OGB_SCHEMA, OGB_VOCABULARY, ZINC_ATOMS, ZINC_BONDS, ZINC_SCHEMA
from egt.data.source import DataCard, Reading, Source, TargetSchema, rows_of
from egt.errors import DataError, EgtError
from egt.graph import Graph, IntArray

ZINC = DataCard(
    name="zinc",
    title="ZINC-12K: constrained solubility of drug-like molecules",
    schema=ZINC_SCHEMA,
    target=TargetSchema("graph", "regression", ("y",)),
    split_sizes={"train": 10_000, "val": 1_000, "test": 1_000},
    num_nodes=(9, 23.1553, 37),
    mean_edges=49.8308,
    license="ZINC: free to use, redistribution of major portions needs permission; benchmark code: MIT",
    citation="Irwin et al.: ZINC: A Free Tool to Discover Chemistry for Biology. J. Chem. Inf. Model. 52(7), 2012; "
    f"{BENCHMARKING_GNNS}",
    target_meaning="penalized logP: logP - synthetic accessibility - number of cycles longer than six, each part "
    "standardized with the 220,011 training molecules of ZINC-full",
    metric="MAE",
    vocabulary={"atom": ZINC_ATOMS, "bond": ZINC_BONDS},
    urls=(AUTHORS_URL,),
    checksums={"zinc/zinc12k.parquet": "sha256:c0af8ca3c16661f2e530155b5363a78d807e78d34de8772158135d7e5c3253a1"},
    notes="The Parquet file has the benchmark's graphs; its targets agree with published ones to 1.2e-4.",
)

ZINC_FULL = replace(
    ZINC,
    name="zinc-full",
    title="ZINC-full: constrained solubility of 249,456 drug-like molecules",
    split_sizes={"train": 220_011, "val": 24_445, "test": 5_000},
    num_nodes=(6, 23.15, 38),
    mean_edges=49.8,
    urls=(AUTHORS_URL,),
    checksums={
        "zinc/zinc_full_250k_smiles_y.parquet": "sha256:"
        "a123b9b9aee3609e4d13df29d6f4fee534f019c6413eca0b4fa90645d8519e41"
    },
    notes="Graphs are made from SMILES; atoms are in the order of the SMILES.",
)

_OGB = "Hu et al.: Open Graph Benchmark: Datasets for Machine Learning on Graphs. NeurIPS 2020, arXiv:2005.00687"
MOLHIV = DataCard(
    name="molhiv",
    title="MolHIV: molecules that inhibit the replication of HIV",
    schema=OGB_SCHEMA,
    target=TargetSchema("graph", "binary", ("HIV_active",)),
    split_sizes={"train": 32_901, "val": 4_113, "test": 4_113},
    num_nodes=(2, 25.51, 222),
    mean_edges=54.94,
    license="MIT",
    citation=f"{_OGB}; Wu et al.: MoleculeNet. Chemical Science 9(2), 2018",
    target_meaning="1 if the molecule inhibits the replication of HIV",
    metric="ROC-AUC",
    vocabulary=OGB_VOCABULARY,
    urls=("http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip",),
    checksums={"molhiv/molhiv.csv.gz": "sha256:4c6ba6e7e34837d94f8c4c8f062010b6760094e39a62a97a3282acee2f71edc9"},
    notes="Scaffold split. Seven molecules need relaxed sanitization in RDKit 2026.09; they carry a warning.",
)

MOLPCBA = replace(
    MOLHIV,
    name="molpcba",
    title="MolPCBA: 128 biological assays",
    target=TargetSchema("graph", "binary", tuple(f"assay {number}" for number in range(128))),
    split_sizes={"train": 350_343, "val": 43_793, "test": 43_793},
    num_nodes=(1, 26.0, 332),
    mean_edges=56.2,
    target_meaning="1 if the molecule is active in the assay; missing where it was not tested",
    metric="average precision, mean over the assays",
    urls=("http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/pcba.zip",),
    # As TensorFlow Datasets verifies it (tensorflow_datasets/datasets/ogbg_molpcba/checksums.tsv, 39,533,472 bytes).
    checksums={"pcba.zip": "sha256:0bb12da2f3ec8b0bb80564114a6174fad2df6a3a0d3c19470b3a27813a7d4e53"},
    notes="Scaffold split. The target names are those of the columns of mapping/mol.csv.gz.",
)

PCQM4MV2 = DataCard(
    name="pcqm4mv2",
    title="PCQM4Mv2: HOMO-LUMO gap of 3.7 million molecules",
    schema=OGB_SCHEMA,
    target=TargetSchema("graph", "regression", ("homolumogap",)),
    split_sizes={"train": 3_378_606, "val": 73_545, "test": 147_037, "test-challenge": 147_432},
    num_nodes=(1, 14.14, 51),
    mean_edges=29.12,
    license="CC BY 4.0",
    citation="Hu et al.: OGB-LSC: A Large-Scale Challenge for Machine Learning on Graphs. NeurIPS 2021 Datasets and "
    "Benchmarks, arXiv:2103.09430; Nakata, Shimazaki: PubChemQC Project. J. Chem. Inf. Model. 57(6), 2017",
    target_meaning="gap between the highest occupied and the lowest unoccupied molecular orbital (DFT), in eV",
    metric="MAE",
    vocabulary=OGB_VOCABULARY,
    urls=("https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC/pcqm4m-v2.zip",),
    checksums={"pcqm4m-v2.zip": "md5:65b742bafca5670be4497499db7d361b"},
    notes="test is OGB's test-dev; the labels of both test splits are hidden.",
)

PCQM4MV2_2K = replace(
    PCQM4MV2,
    name="pcqm4mv2-2k",
    title="The first 1,999 molecules of PCQM4Mv2: for tests, not for results",
    split_sizes={"train": 1_600, "val": 200, "test": 199},
    urls=(),
    checksums={
        "pcqm4mv2/pcqm4mv2_first2k_3d.csv.gz": "sha256:533023d9ff4f6dc471b1a87cb4c41e4b2283b8b1fb31e1f5f603329cb3a8af41"
    },
    notes="The split is ours: every tenth row is val (rows 8, 18, ...) or test (rows 9, 19, ...).",
)

PCQM4M = replace(
    PCQM4MV2,
    name="pcqm4m",
    title="PCQM4M: HOMO-LUMO gap of 3.8 million molecules (superseded by PCQM4Mv2)",
    split_sizes={"train": 3_045_360, "val": 380_670, "test": 377_423},
    urls=("https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC/pcqm4m_kddcup2021.zip",),
    checksums={"pcqm4m_kddcup2021.zip": "md5:5144ebaa7c67d24da1a2acbe41f57f6a"},
    notes="The labels of the test split are hidden.",
)

_LISTS = ("atom_type", "src", "dst", "bond_type")
_SPLIT_FILES = {"train": "train", "val": "valid", "test": "test"}
_NOT_TARGETS = ("smiles", "mol_id")
_SPLIT_NAMES = {
    "train": "train",
    "valid": "val",
    "test": "test",
    "test-dev": "test",
    "test-challenge": "test-challenge",
}


@dataclass(frozen=True)
class ZincGraphs(Source):
    """ZINC-12K from a table of stored graphs, exactly those of the benchmark. A record is a row number.

    The Parquet file has the columns split, atom_type, src, dst, bond_type (lists; each bond once) and y.
    """

    path: Path

    @cached_property
    def card(self) -> DataCard:
        """The description of the data."""
        return replace(ZINC, split_sizes={name: len(rows) for name, rows in _load_graphs(self.path)[1].items()})

    def fingerprint(self) -> str:
        """Return a hash of the file."""
        return fingerprint([self.path], "zinc graphs")

    def records(self, split: str) -> Sequence[int]:
        """Return the row numbers of a split."""
        return rows_of(_load_graphs(self.path)[1], split, ZINC.name)

    def read(self, record: int) -> Reading:
        """Return the stored graph of a row."""
        columns = _load_graphs(self.path)[0]
        atoms, source, target, bonds = (np.array(columns[k][record].as_py(), dtype=np.int64) for k in _LISTS)
        try:
            graph = Graph.undirected(
                num_nodes=len(atoms),
                edge_index=np.stack([source, target]),
                node_categories=atoms,
                edge_categories=bonds,
                graph_targets=[columns["y"][record].as_py()],
                id=str(record),
            )
        except (EgtError, ValueError) as error:
            return Reading(record, str(record), error=str(error))
        return Reading(record, str(record), graph=graph)


def zinc_full(path: Path) -> MoleculeSource:
    """ZINC-full from a Parquet table with the columns split, smiles and y."""
    return MoleculeSource(ZINC_FULL, (path,), _load_table, vocabulary="zinc")


def molhiv_table(path: Path) -> MoleculeSource:
    """MolHIV from one CSV table with the columns split, smiles and y."""
    return MoleculeSource(MOLHIV, (path,), _load_table)


def ogb_folder(card: DataCard, mapping: Path) -> MoleculeSource:
    """Return a data set in OGB's layout: `mapping/mol.csv.gz` and `split/scaffold/{train,valid,test}.csv.gz`.

    `mapping` has one column per target, whose names the card gets, then smiles and mol_id.
    """
    folder = mapping.parents[1] / "split" / "scaffold"
    splits = tuple(folder / f"{name}.csv.gz" for name in _SPLIT_FILES.values())
    for path in splits:
        if not path.is_file():
            raise DataError(f"{card.name}: {path} is missing; it belongs to OGB's download, beside {mapping}")
    names = tuple(name for name in read_csv(mapping).column_names if name not in _NOT_TARGETS)
    if len(names) != len(card.target.names):
        raise DataError(f"{mapping}: {len(names)} target columns, but {card.name} has {len(card.target.names)}")
    return MoleculeSource(replace(card, target=replace(card.target, names=names)), (mapping, *splits), _load_ogb)


def pcqm_folder(card: DataCard, raw: Path) -> MoleculeSource:
    """Return a data set of OGB-LSC: `raw/data.csv.gz` (idx, smiles, homolumogap) and `split_dict.pt` beside `raw`."""
    split_file = raw.parents[1] / "split_dict.pt"
    if not split_file.is_file():
        raise DataError(f"{card.name}: {split_file} is missing; it belongs to the download, beside the folder raw")
    return MoleculeSource(card, (raw, split_file), _load_pcqm)


def pcqm_sample(path: Path) -> MoleculeSource:
    """Return the first molecules of PCQM4Mv2 from a CSV table with the columns smiles and homolumogap_ev."""
    return MoleculeSource(PCQM4MV2_2K, (path,), _load_sample)


def read_split_dict(path: Path) -> dict[str, IntArray]:
    """Return the row numbers of each split in OGB's `split_dict.pt`.

    The file is a pickle inside. It is read by torch's weights-only loader, which builds nothing but numbers, strings,
    containers and arrays, and refuses everything else; so it cannot run code.
    """
    import torch

    reconstruct = np.zeros(0).__reduce__()[0]
    arrays: list[Any] = [
        (reconstruct, "numpy.core.multiarray._reconstruct"),
        (reconstruct, "numpy._core.multiarray._reconstruct"),
        np.ndarray,
        np.dtype,
        type(np.dtype(np.int64)),
    ]
    try:
        with torch.serialization.safe_globals(arrays):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever damaged bytes lead it to
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path}: not a file of row numbers that can be read safely ({reason})") from error
    if not isinstance(content, dict) or not content or not set(content) <= set(_SPLIT_NAMES):
        raise DataError(f"{path}: expected the splits {', '.join(_SPLIT_NAMES)}")
    try:
        found = {_SPLIT_NAMES[name]: np.asarray(rows, dtype=np.int64) for name, rows in content.items()}
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{path}: a split holds something else than row numbers ({error})") from error
    if any(rows.ndim != 1 for rows in found.values()):
        raise DataError(f"{path}: a split must be a plain list of row numbers")
    return found


@lru_cache(maxsize=2)
def _load_graphs(path: Path) -> tuple[dict[str, Any], dict[str, IntArray]]:
    table = read_parquet(path)
    return {name: column(table, name, path) for name in (*_LISTS, "y")}, rows_by_split(table, path)


@lru_cache(maxsize=2)
def _load_table(path: Path) -> MoleculeTable:
    table = read_parquet(path) if path.suffix == ".parquet" else read_csv(path, ["split", "smiles"])
    return MoleculeTable(column(table, "smiles", path), numbers(table, ["y"], path), rows_by_split(table, path))


@lru_cache(maxsize=2)
def _load_ogb(mapping: Path, *split_files: Path) -> MoleculeTable:
    table = read_csv(mapping)
    smiles = column(table, "smiles", mapping)
    targets = numbers(table, [name for name in table.column_names if name not in _NOT_TARGETS], mapping)
    splits = {name: _read_rows(path, len(smiles)) for name, path in zip(_SPLIT_FILES, split_files, strict=True)}
    return MoleculeTable(smiles, targets, splits)


def _read_rows(path: Path, num_rows: int) -> IntArray:
    """Return the row numbers in a split file: one a line, without a header."""
    rows = numbers(read_csv(path, names=["row"]), ["row"], path)[:, 0]
    if not np.array_equal(rows, rows.astype(np.int64)) or (len(rows) and not 0 <= rows.min() <= rows.max() < num_rows):
        raise DataError(f"{path}: holds a number that is not a row of the table (0..{num_rows - 1})")
    return rows.astype(np.int64)


@lru_cache(maxsize=2)
def _load_pcqm(raw: Path, split_file: Path) -> MoleculeTable:
    table = read_csv(raw)
    smiles = column(table, "smiles", raw)
    splits = read_split_dict(split_file)
    for name, rows in splits.items():
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(smiles):
            raise DataError(f"{split_file}: split {name} names a row that {raw} does not have (0..{len(smiles) - 1})")
    return MoleculeTable(smiles, numbers(table, ["homolumogap"], raw), splits)


@lru_cache(maxsize=1)
def _load_sample(path: Path) -> MoleculeTable:
    table = read_csv(path, ["smiles", "cxsmiles_3d"])
    smiles = column(table, "smiles", path)
    rows = np.arange(len(smiles))
    splits = {"train": rows[rows % 10 < 8], "val": rows[rows % 10 == 8], "test": rows[rows % 10 == 9]}
    return MoleculeTable(smiles, numbers(table, ["homolumogap_ev"], path), splits)


def _ogb_files(card: DataCard, *folders: str) -> dict[str, Callable[[Path], Source]]:
    return {f"{folder}/mapping/mol.csv.gz": partial(ogb_folder, card) for folder in folders}


for _benchmark in (
    Benchmark(ZINC, {**hdf5_files(ZINC), "zinc/zinc12k.parquet": ZincGraphs}),
    Benchmark(ZINC_FULL, {**hdf5_files(ZINC_FULL), "zinc/zinc_full_250k_smiles_y.parquet": zinc_full}),
    Benchmark(MOLHIV, {**_ogb_files(MOLHIV, "ogbg_molhiv", "hiv"), "molhiv/molhiv.csv.gz": molhiv_table}),
    Benchmark(MOLPCBA, _ogb_files(MOLPCBA, "ogbg_molpcba", "pcba")),
    Benchmark(PCQM4MV2, {"pcqm4m-v2/raw/data.csv.gz": partial(pcqm_folder, PCQM4MV2)}),
    Benchmark(PCQM4M, {"pcqm4m_kddcup2021/raw/data.csv.gz": partial(pcqm_folder, PCQM4M)}),
    Benchmark(PCQM4MV2_2K, {"pcqm4mv2/pcqm4mv2_first2k_3d.csv.gz": pcqm_sample}),
):
    BENCHMARKS.register(_benchmark.card.name)(_benchmark)
