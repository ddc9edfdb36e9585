"""PCQM4M and PCQM4Mv2 from `raw/data.csv.gz` and `split_dict.pt`, and a sample of 1,999 molecules for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from egt.data.benchmark import BENCHMARKS, Benchmark, MoleculeSource, MoleculeTable, column, numbers, read_csv
from egt.data.molecule_features import OGB_SCHEMA, OGB_VOCABULARY
from egt.data.source import DataCard, Source, TargetSchema
from egt.errors import DataError
from egt.graph import IntArray

_LSC = (
    "Hu et al.: OGB-LSC: A Large-Scale Challenge for Machine Learning on Graphs. NeurIPS 2021 Datasets and Benchmarks, "
    "arXiv:2103.09430; Nakata, Shimazaki: PubChemQC Project. J. Chem. Inf. Model. 57(6), 2017"
)

_GAP = TargetSchema("graph", "regression", ("homolumogap",))

_GAP_MEANING = "gap between the highest occupied and the lowest unoccupied molecular orbital (DFT), in eV"

PCQM4MV2 = DataCard(
    name="pcqm4mv2",
    title="PCQM4Mv2: HOMO-LUMO gap of 3.7 million molecules",
    schema=OGB_SCHEMA,
    target=_GAP,
    split_sizes={"train": 3_378_606, "val": 73_545, "test": 147_037, "test-challenge": 147_432},
    num_nodes=(1, 14.14, 51),
    mean_edges=29.12,
    license="CC BY 4.0",
    citation=_LSC,
    target_meaning=_GAP_MEANING,
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

_SPLIT_NAMES = {
    "train": "train",
    "valid": "val",
    "test": "test",
    "test-dev": "test",
    "test-challenge": "test-challenge",
}


def pcqm_folder(card: DataCard, raw: Path) -> MoleculeSource:
    """Return a data set in the layout of OGB-LSC.

    Args:
        card: the card of the data set.
        raw: the path of `raw/data.csv.gz` with the columns idx, smiles and homolumogap; `split_dict.pt` lies beside
            the folder `raw`.
    """
    split_file = raw.parents[1] / "split_dict.pt"
    if not split_file.is_file():
        raise DataError(f"{card.name}: {split_file} is missing; it belongs to the download, beside the folder raw")
    return MoleculeSource(card, (raw, split_file), _load_folder)


def pcqm_sample(path: Path) -> MoleculeSource:
    """Return the first molecules of PCQM4Mv2 from a CSV table with the columns smiles and homolumogap_ev."""
    return MoleculeSource(PCQM4MV2_2K, (path,), _load_sample)


def read_split_dict(path: Path) -> dict[str, IntArray]:
    """Return the row numbers of each split in OGB's `split_dict.pt`.

    The file is a pickle inside. It is read by torch's weights-only loader, which builds nothing but numbers, strings,
    containers and arrays, and refuses everything else; so it cannot run code.

    Raises:
        DataError: if the file holds anything else, or other names than OGB's splits.
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
def _load_folder(raw: Path, split_file: Path) -> MoleculeTable:
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


def _files(card: DataCard, folder: str) -> dict[str, Callable[[Path], Source]]:
    return {f"{folder}/raw/data.csv.gz": lambda found: pcqm_folder(card, found)}


BENCHMARKS.register("pcqm4mv2")(Benchmark(PCQM4MV2, _files(PCQM4MV2, "pcqm4m-v2")))

BENCHMARKS.register("pcqm4m")(Benchmark(PCQM4M, _files(PCQM4M, "pcqm4m_kddcup2021")))

BENCHMARKS.register("pcqm4mv2-2k")(Benchmark(PCQM4MV2_2K, {"pcqm4mv2/pcqm4mv2_first2k_3d.csv.gz": pcqm_sample}))
