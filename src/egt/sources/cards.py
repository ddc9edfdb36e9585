"""The data cards of the paper's benchmarks: facts that need no data (numbers of edges count both directions)."""

from __future__ import annotations

from dataclasses import replace

from egt.graph import FeatureSchema
from egt.sources.molecule_features import (
    OGB_ATOM_FEATURES,
    OGB_BOND_FEATURES,
    OGB_SCHEMA,
    ZINC_ATOMS,
    ZINC_BONDS,
    ZINC_SCHEMA,
)
from egt.sources.source import DataCard, TargetSchema

AUTHORS_URL = "https://zenodo.org/record/5500978/files/datasets.tar.gz"
"""The HDF5 files of all medium-scale sets, published by the authors of EGT."""

_BENCHMARK = (
    "Dwivedi, Joshi, Luu, Laurent, Bengio, Bresson: Benchmarking Graph Neural Networks. JMLR 24(43), 2023, "
    "arXiv:2003.00982"
)
_OGB = "Hu et al.: Open Graph Benchmark: Datasets for Machine Learning on Graphs. NeurIPS 2020, arXiv:2005.00687"
_LSC = (
    "Hu et al.: OGB-LSC: A Large-Scale Challenge for Machine Learning on Graphs. NeurIPS 2021 Datasets and Benchmarks, "
    "arXiv:2103.09430; Nakata, Shimazaki: PubChemQC Project. J. Chem. Inf. Model. 57(6), 2017"
)
_ZINC = (
    f"Irwin et al.: ZINC: A Free Tool to Discover Chemistry for Biology. J. Chem. Inf. Model. 52(7), 2012; {_BENCHMARK}"
)
_ZINC_LICENSE = "ZINC: free to use, redistribution of major portions needs permission; benchmark code: MIT"
_ZINC_VOCABULARY = {"atom": ZINC_ATOMS, "bond": ZINC_BONDS}
_ZINC_TARGET = TargetSchema("graph", "regression", ("y",))
_ZINC_MEANING = (
    "penalized logP: logP - synthetic accessibility - number of cycles longer than six, each part standardized with "
    "the 220,011 training molecules of ZINC-full"
)
_OGB_VOCABULARY = {**OGB_ATOM_FEATURES, **OGB_BOND_FEATURES}
_DIGITS = tuple(str(digit) for digit in range(10))
_CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_GAP = TargetSchema("graph", "regression", ("homolumogap",))
_GAP_MEANING = "gap between the highest occupied and the lowest unoccupied molecular orbital (DFT), in eV"

ZINC = DataCard(
    name="zinc",
    title="ZINC-12K: constrained solubility of drug-like molecules",
    schema=ZINC_SCHEMA,
    target=_ZINC_TARGET,
    split_sizes={"train": 10_000, "val": 1_000, "test": 1_000},
    num_nodes=(9, 23.1553, 37),
    mean_edges=49.8308,
    license=_ZINC_LICENSE,
    citation=_ZINC,
    target_meaning=_ZINC_MEANING,
    metric="MAE",
    vocabulary=_ZINC_VOCABULARY,
    urls=(AUTHORS_URL,),
    checksums={"zinc/zinc12k.parquet": "sha256:c0af8ca3c16661f2e530155b5363a78d807e78d34de8772158135d7e5c3253a1"},
    notes="The Parquet file has the benchmark's graphs; its targets agree with published ones to 1.2e-4.",
)

ZINC_FULL = DataCard(
    name="zinc-full",
    title="ZINC-full: constrained solubility of 249,456 drug-like molecules",
    schema=ZINC_SCHEMA,
    target=_ZINC_TARGET,
    split_sizes={"train": 220_011, "val": 24_445, "test": 5_000},
    num_nodes=(6, 23.15, 38),
    mean_edges=49.8,
    license=_ZINC_LICENSE,
    citation=_ZINC,
    target_meaning=_ZINC_MEANING,
    metric="MAE",
    vocabulary=_ZINC_VOCABULARY,
    urls=(AUTHORS_URL,),
    checksums={
        "zinc/zinc_full_250k_smiles_y.parquet": "sha256:"
        "a123b9b9aee3609e4d13df29d6f4fee534f019c6413eca0b4fa90645d8519e41"
    },
    notes="Graphs are made from SMILES; atoms are in the order of the SMILES.",
)

PATTERN = DataCard(
    name="pattern",
    title="PATTERN: find the nodes of a planted pattern in a stochastic block model",
    schema=FeatureSchema(node_categories=(3,)),
    target=TargetSchema("node", "multiclass", ("in_pattern",), 2, ("background", "pattern")),
    split_sizes={"train": 10_000, "val": 2_000, "test": 2_000},
    num_nodes=(44, 118.9, 188),
    mean_edges=6_098.9,
    license="MIT",
    citation=_BENCHMARK,
    target_meaning="whether the node belongs to the planted pattern",
    metric="weighted accuracy",
    vocabulary={"signal": ("0", "1", "2")},
    urls=(AUTHORS_URL,),
)

CLUSTER = DataCard(
    name="cluster",
    title="CLUSTER: semi-supervised communities of a stochastic block model",
    schema=FeatureSchema(node_categories=(7,)),
    target=TargetSchema("node", "multiclass", ("cluster",), 6),
    split_sizes={"train": 10_000, "val": 1_000, "test": 1_000},
    num_nodes=(41, 117.2, 190),
    mean_edges=4_303.9,
    license="MIT",
    citation=_BENCHMARK,
    target_meaning="the community of the node; one node of each community carries its number as input",
    metric="weighted accuracy",
    vocabulary={"signal": ("none", *(f"community {number}" for number in range(6)))},
    urls=(AUTHORS_URL,),
)

TSP = DataCard(
    name="tsp",
    title="TSP: edges of the shortest round trip through 50 to 500 cities",
    schema=FeatureSchema(num_node_values=2, num_edge_values=1),
    target=TargetSchema("edge", "multiclass", ("in_tour",), 2, ("not in the tour", "in the tour")),
    split_sizes={"train": 10_000, "val": 1_000, "test": 1_000},
    num_nodes=(50, 275.4, 500),
    mean_edges=6_885.0,
    license="MIT",
    citation=_BENCHMARK,
    target_meaning="whether the edge lies in the optimal tour (either direction)",
    metric="F1 of the class in_tour",
    urls=(AUTHORS_URL,),
)

MNIST = DataCard(
    name="mnist",
    title="MNIST superpixels: digits as graphs",
    schema=FeatureSchema(num_node_values=3, num_edge_values=1),
    target=TargetSchema("graph", "multiclass", ("digit",), 10, _DIGITS),
    split_sizes={"train": 55_000, "val": 5_000, "test": 10_000},
    num_nodes=(40, 70.57, 75),
    mean_edges=564.5,
    license="images: CC BY-SA 3.0; benchmark: MIT",
    citation=f"LeCun, Cortes, Burges: The MNIST database of handwritten digits, 1998; {_BENCHMARK}",
    target_meaning="the digit",
    metric="accuracy",
    urls=(AUTHORS_URL,),
    checksums={
        "mnist/mnist_train.npz": "sha256:b046dd1946bc05a938f5101a6f8fb376df108beb50883a2bdf2ddcdabfa69ad4",
        "mnist/mnist_test.npz": "sha256:75c2c0045d1c9a3a5e66e16894b37dbf897674bbe3e9c4f4a85edbe82cf918e6",
    },
)

CIFAR10 = DataCard(
    name="cifar10",
    title="CIFAR10 superpixels: photographs as graphs",
    schema=FeatureSchema(num_node_values=5, num_edge_values=1),
    target=TargetSchema("graph", "multiclass", ("object",), 10, _CIFAR_CLASSES),
    split_sizes={"train": 45_000, "val": 5_000, "test": 10_000},
    num_nodes=(85, 117.63, 150),
    mean_edges=941.2,
    license="images: no formal license, free for research; benchmark: MIT",
    citation=f"Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009; {_BENCHMARK}",
    target_meaning="the object",
    metric="accuracy",
    urls=(AUTHORS_URL,),
    checksums={
        "cifar10_jpg/cifar10_jpg.parquet": "sha256:bd446999134b30c7de680a5c33431fefb87582ff749dcd8b406c4c7cd74fcc2b"
    },
)

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
    vocabulary=_OGB_VOCABULARY,
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
    vocabulary=_OGB_VOCABULARY,
    urls=("http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip",),
    checksums={"molhiv/molhiv.csv.gz": "sha256:4c6ba6e7e34837d94f8c4c8f062010b6760094e39a62a97a3282acee2f71edc9"},
    notes="Scaffold split. Seven molecules need relaxed sanitization in RDKit 2026.09; they carry a warning.",
)

MOLPCBA = DataCard(
    name="molpcba",
    title="MolPCBA: 128 biological assays",
    schema=OGB_SCHEMA,
    target=TargetSchema("graph", "binary", tuple(f"assay {number}" for number in range(128))),
    split_sizes={"train": 350_343, "val": 43_793, "test": 43_793},
    num_nodes=(1, 26.0, 332),
    mean_edges=56.2,
    license="MIT",
    citation=f"{_OGB}; Wu et al.: MoleculeNet. Chemical Science 9(2), 2018",
    target_meaning="1 if the molecule is active in the assay; missing where it was not tested",
    metric="average precision, mean over the assays",
    vocabulary=_OGB_VOCABULARY,
    urls=("http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/pcba.zip",),
    # As TensorFlow Datasets verifies it (tensorflow_datasets/datasets/ogbg_molpcba/checksums.tsv, 39,533,472 bytes).
    checksums={"pcba.zip": "sha256:0bb12da2f3ec8b0bb80564114a6174fad2df6a3a0d3c19470b3a27813a7d4e53"},
    notes="Scaffold split. The target names are those of the columns of mapping/mol.csv.gz.",
)
