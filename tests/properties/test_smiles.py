"""Two ways to write one molecule give one answer, wherever its singular values are distinct."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from egt.config.load import override
from egt.data.batching.batch import collate
from egt.data.molecules import graph_from_smiles
from egt.paper.presets import preset
from tests.graphs import samples_of, tiny_model

Chem = pytest.importorskip("rdkit.Chem")

MOLECULES = [
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "CC(=O)Nc1ccc(O)cc1",
    "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
    "O=C(O)c1ccccc1O",
    "CCOc1ccc2nc(S(N)(=O)=O)sc2c1",
    "CN(C)CCc1c[nH]c2ccc(CS(=O)(=O)N3CCCC3)cc12",
    "Clc1ccccc1C1=NCc2nncn2-c2sccc12",
    "C1CCCCC1",
]


def distinct(smiles: str, rank: int) -> bool:
    graph, _ = graph_from_smiles(smiles)
    values = np.linalg.svd(graph.adjacency(), compute_uv=False)[: rank + 1]
    return bool((np.diff(values) < -1e-6).all())


def test_every_spelling_of_a_molecule_gives_the_same_answer() -> None:
    rank = 4
    config = override(
        preset("pcqm4mv2-small"),
        [
            "model.num_layers=2",
            "model.node_width=32",
            "model.edge_width=8",
            "model.num_heads=4",
            f"model.node_inputs.1.rank={rank}",
        ],
    )
    model = tiny_model(config)
    checked = 0
    for smiles in MOLECULES:
        if not distinct(smiles, rank):
            continue
        molecule = Chem.MolFromSmiles(smiles)
        spellings = {Chem.MolToSmiles(molecule, doRandom=True) for _ in range(8)}
        graphs = [graph_from_smiles(spelling)[0] for spelling in spellings]
        with torch.no_grad():
            answers = model(collate(samples_of(config, graphs)))
        assert float(answers.max() - answers.min()) < 1e-5, smiles
        checked += 1
    assert checked >= 4
