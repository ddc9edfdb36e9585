"""Two ways to write one molecule give one answer: always if it is read canonically, else with distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from egt.api import configured
from egt.config.load import override
from egt.config.run import RunConfig
from egt.data.batching.batch import collate
from egt.data.molecules import graph_from_smiles
from egt.paper.presets import preset
from egt.testing import CheckFailed, check_spellings
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


HARD = [
    "c1ccccc1",  # equal singular values
    "C1C2CC3CC1CC(C2)C3",
    "Cc1cc(C)cc(C)c1",
    "[O-][N+](=O)c1ccc(cc1)[N+](=O)[O-]",  # charges
    "C[N+](C)(C)CC([O-])=O",
    "[Na+].CC(=O)[O-]",
    "C[C@H](N)C(=O)O",  # centers with R or S
    "OC[C@H]1O[C@H](O[C@]2(CO)O[C@H](CO)[C@@H](O)[C@@H]2O)[C@H](O)[C@@H](O)[C@@H]1O",
    "C[C@H](O)[C@@H](O)[C@H](C)O",
    "C[S@](=O)c1ccccc1",
    "C[C@H]1CC[C@@H](C)CC1",  # centers that only refer to each other
    "N[C@H]1CC[C@H](CCN2CCN(CC2)c2nsc3ccccc23)CC1",
    "C/C=C/C=C\\C",  # double bonds
    "F/C(Cl)=C(/Br)I",
]


def answers(
    model: torch.nn.Module, config: RunConfig, spellings: Sequence[str], *, canonical: bool = True
) -> torch.Tensor:
    graphs = [graph_from_smiles(spelling, canonical=canonical)[0] for spelling in spellings]
    with torch.no_grad():
        return model(collate(samples_of(config, graphs)))


def custom_run() -> RunConfig:
    """The encodings and features that a table of molecules gets, with large weights so that differences show."""
    return override(
        preset("pcqm4mv2-small"),
        ["model.num_layers=2", "model.node_width=32", "model.edge_width=8", "model.num_heads=4"],
    )


def test_molecules_read_canonically_give_one_answer_also_if_symmetric_charged_or_chiral() -> None:
    config = custom_run()
    model = tiny_model(config)
    check_spellings(lambda smiles: answers(model, config, smiles), [*MOLECULES, *HARD], tries=10)
    with pytest.raises(CheckFailed):
        check_spellings(lambda smiles: answers(model, config, smiles, canonical=False), HARD)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
        ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1"),
        ("C/C=C/C", "C/C=C\\C"),
    ],
)
def test_isomers_are_told_apart(one: str, other: str) -> None:
    config = custom_run()
    found = answers(tiny_model(config), config, [one, other])
    assert float((found[0] - found[1]).abs().max()) > 1e-4


def test_atoms_stay_where_the_smiles_has_them() -> None:
    graph, _ = graph_from_smiles("OCCN", canonical=True)
    assert graph.node_categories[:, 0].tolist() == [7, 5, 5, 6]
    assert sorted(graph.ranks.tolist()) == [0, 1, 2, 3]


def test_a_new_table_is_read_canonically_and_one_of_0_1_as_it_was(tmp_path: Path) -> None:
    table = tmp_path / "molecules.csv"
    table.write_text("smiles,y\n" + "".join(f"{'C' * k}O,{k}\n" for k in range(1, 30)))
    schema = configured(table, "y").data.custom
    assert schema is not None
    assert schema.canonical
    older = schema.model_dump(exclude={"canonical"})
    assert not type(schema).model_validate(older).canonical
