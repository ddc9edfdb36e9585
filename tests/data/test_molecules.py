from __future__ import annotations

import logging
from collections import Counter
from dataclasses import fields
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egt.data.molecules import OGB_SCHEMA, ZINC_SCHEMA, MoleculeVocabulary, graph_from_smiles, graphs_from_smiles
from egt.errors import DataError, EgtError, GraphError
from egt.graph import Graph
from egt.paper.benchmarks.molecule_sets import ZincGraphs


def test_ethanol_has_three_atoms_and_each_bond_in_both_directions() -> None:
    graph, warning = graph_from_smiles("CCO", id="ethanol", graph_targets=np.array([1.5]))
    assert warning == ""
    assert graph.id == "ethanol"
    assert graph.num_nodes == 3
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.node_categories[:, 0].tolist() == [5, 5, 7]  # atomic number - 1
    assert graph.node_categories[:, 4].tolist() == [3, 2, 1]  # hydrogens
    assert graph.graph_targets is not None
    assert graph.graph_targets.tolist() == [1.5]
    OGB_SCHEMA.check(graph)


def test_the_graph_is_what_validation_would_give() -> None:
    vocabularies: list[MoleculeVocabulary] = ["ogb", "zinc"]
    for smiles, vocabulary in product(("C", "OC(=O)c1ccccc1[N+](=O)[O-]", "F/C=C/[C@H](F)[NH3+]"), vocabularies):
        graph, _ = graph_from_smiles(smiles, vocabulary=vocabulary, id="one", graph_targets=[1.0, np.nan])
        names = [field.name for field in fields(Graph)]
        validated = Graph(**{name: getattr(graph, name) for name in names})
        for name in names:
            made, expected = getattr(graph, name), getattr(validated, name)
            if isinstance(expected, np.ndarray):
                np.testing.assert_array_equal(made, expected)
                assert (made.dtype, made.shape, made.flags.c_contiguous) == (expected.dtype, expected.shape, True)
                assert made.size == 0 or not made.flags.writeable
            else:
                assert made == expected, name


@pytest.mark.parametrize("vocabulary", ["ogb", "zinc"])
def test_many_molecules_give_what_each_alone_gives_with_errors_in_their_place(vocabulary: MoleculeVocabulary) -> None:
    smiles = ["CCO", "C(", "F/C=C/F", "", "CC(C)(C)(C)C", "C", "[Na+].[Cl-]", "CN", *["c1ccccc1"] * 9, "C\ud800"]
    ids = [str(k) for k in range(len(smiles))]
    targets = [[float(k)] if k != 7 else [np.inf] for k in range(len(smiles))]
    results = graphs_from_smiles(smiles, vocabulary=vocabulary, ids=ids, graph_targets=targets)
    assert [k for k, result in enumerate(results) if isinstance(result, EgtError)] == [1, 3, 7, 17]
    for k, result in enumerate(results):
        if isinstance(result, EgtError):
            with pytest.raises(type(result)) as raised:
                graph_from_smiles(smiles[k], vocabulary=vocabulary, id=ids[k], graph_targets=targets[k])
            assert str(raised.value) == str(result)
            continue
        alone, warning = graph_from_smiles(smiles[k], vocabulary=vocabulary, id=ids[k], graph_targets=targets[k])
        assert result[1] == warning
        for field in fields(Graph):
            np.testing.assert_array_equal(getattr(result[0], field.name), getattr(alone, field.name))


def test_targets_are_checked_and_not_frozen_for_the_caller() -> None:
    targets = np.array([0.5])
    graph_from_smiles("C", graph_targets=targets)
    targets[0] = 1.0
    with pytest.raises(GraphError, match=r"'one'.*graph_targets"):
        graph_from_smiles("C", id="one", graph_targets=[np.inf])


def test_a_single_atom_is_a_graph_without_edges() -> None:
    vocabularies: list[MoleculeVocabulary] = ["ogb", "zinc"]
    for vocabulary in vocabularies:
        graph, _ = graph_from_smiles("C", vocabulary=vocabulary)
        assert graph.num_nodes == 1
        assert graph.num_edges == 0


def test_impossible_valence_is_read_with_a_warning_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    graph, warning = graph_from_smiles("CC(C)(C)(C)C")
    assert graph.num_nodes == 6
    assert "relaxed sanitization" in warning
    assert "valence for atom # 1 C, 5" in warning
    assert capfd.readouterr() == ("", "")


def test_relaxed_reading_removes_explicit_hydrogens_as_the_strict_one_does() -> None:
    graph, warning = graph_from_smiles("[H]CC(C)(C)(C)C")
    assert warning
    assert graph.num_nodes == 6
    assert graph.node_categories[0, 4] == 3


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("C(", "syntax"),
        ("c1cccc1", "kekulize"),
        ("not a molecule", "molecule"),
        ("", "empty"),
        ("  ", "empty"),
        ("[#119]", "119"),
        ("C[13#200]C", "200"),
        ("[#300]", "300"),  # RDKit reads it as [#44]
    ],
)
def test_unreadable_smiles_gives_the_reason_in_one_line(
    smiles: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=reason) as raised:
        graph_from_smiles(smiles)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("vocabulary", ["ogb", "zinc"])
@pytest.mark.parametrize("kind", [RuntimeError, ValueError, OverflowError, IndexError, KeyError, SystemError])
@pytest.mark.parametrize("step", ["MolFromSmiles", "DetectChemistryProblems", "RemoveHs", "AssignStereochemistry"])
def test_whatever_rdkit_raises_is_the_error_of_that_molecule(
    step: str, kind: type[Exception], vocabulary: MoleculeVocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rdkit import Chem

    usual = getattr(Chem, step)

    def fail(given: object, *rest: object, **more: object) -> object:
        if given == bad or (isinstance(given, Chem.Mol) and given.GetNumAtoms() == 6):
            raise kind("refused")
        return usual(given, *rest, **more)

    bad = "CC(C)(C)(C)C"  # five bonds: all steps of the relaxed reading are taken
    monkeypatch.setattr(Chem, step, fail)
    found = graphs_from_smiles(["CC", bad, "CN"], vocabulary=vocabulary, ids=["", "", ""], graph_targets=[None] * 3)
    assert [isinstance(each, DataError) for each in found] == [False, True, False]


@pytest.mark.parametrize("vocabulary", ["ogb", "zinc"])
def test_a_molecule_without_features_is_an_error_in_its_place(
    vocabulary: MoleculeVocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    from egt.data import molecules

    def fail(*given: object) -> None:
        raise RuntimeError("refused")

    monkeypatch.setattr(molecules, "features_atom_by_atom", fail)
    monkeypatch.setattr(molecules, "zinc_features", fail)
    large = "C" * 300  # more atoms than the fast reader takes
    found = graphs_from_smiles([large, large], vocabulary=vocabulary, ids=["", ""], graph_targets=[None] * 2)
    assert all(isinstance(each, DataError) for each in found)


def test_an_atom_may_be_written_by_the_number_of_its_element() -> None:
    for smiles, number in (("[#6]", 6), ("[#118]", 118), ("C#C [#200]", 6)):
        graph, _ = graph_from_smiles(smiles)
        assert graph.node_categories[0, 0] == number - 1


def test_the_log_of_rdkit_is_as_before_after_a_failure() -> None:
    logger = logging.getLogger("rdkit")
    before = (logger.handlers[:], logger.propagate)
    with pytest.raises(DataError):
        graph_from_smiles("C(")
    assert (logger.handlers, logger.propagate) == before


def test_zinc_types_are_kekulized_and_name_charge_and_bracket_hydrogens() -> None:
    graph, warning = graph_from_smiles("c1ccccc1[C@H](F)[NH3+]", vocabulary="zinc")
    assert warning == ""
    assert graph.node_categories[:, 0].tolist() == [0, 0, 0, 0, 0, 0, 4, 3, 10]  # C..., C H1, F, N H3 +
    ring = (graph.edge_index < 6).all(axis=0)
    assert sorted(graph.edge_categories[ring, 0].tolist()) == [1] * 6 + [2] * 6
    ZINC_SCHEMA.check(graph)


def test_aromatic_nitrogen_with_hydrogen_is_plain_nitrogen_in_zinc() -> None:
    graph, _ = graph_from_smiles("c1cc[nH]c1", vocabulary="zinc")
    assert sorted(graph.node_categories[:, 0].tolist()) == [0, 0, 0, 0, 2]


def test_atom_outside_the_zinc_vocabulary_is_unknown_and_named() -> None:
    graph, warning = graph_from_smiles("C[Si](C)(C)C", vocabulary="zinc")
    assert graph.node_categories[:, 0].tolist() == [0, -1, 0, 0, 0]
    assert warning == "not in the ZINC vocabulary: atom type Si"
    graph, warning = graph_from_smiles("C~C", vocabulary="zinc")
    assert graph.edge_categories.tolist() == [[-1], [-1]]
    assert warning == "not in the ZINC vocabulary: a type of bond"


PIECES = ["C", "c", "N", "n", "O", "(", ")", "=", "#", "1", "2", "%", "[", "]", "@", "H", "+", "-", "/", "\\", ".", "*",
          "Cl", "[nH]", "[Fe]", ":", "$", "~", ">", "|", " ", "\x00", "é", "%99", "[13C@@H2+5]"]  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.sampled_from(["ogb", "zinc"]))
def test_any_text_gives_a_graph_of_the_schema_or_a_data_error(smiles: str, vocabulary: MoleculeVocabulary) -> None:
    try:
        graph, _ = graph_from_smiles(smiles, vocabulary=vocabulary)
    except DataError:
        return
    (OGB_SCHEMA if vocabulary == "ogb" else ZINC_SCHEMA).check(graph)


def _environments(types: np.ndarray, edges: np.ndarray, bonds: np.ndarray, rounds: int = 8) -> Counter[int]:
    """A multiset of node environments that renumbering does not change (Weisfeiler-Leman)."""
    colors = [hash((int(t),)) for t in types]
    for _ in range(rounds):
        around: list[list[tuple[int, int]]] = [[] for _ in colors]
        for i, j, bond in zip(edges[0].tolist(), edges[1].tolist(), bonds.tolist(), strict=True):
            around[i].append((bond, colors[j]))
        colors = [hash((color, tuple(sorted(near)))) for color, near in zip(colors, around, strict=True)]
    return Counter(colors)


def test_zinc_smiles_give_the_stored_graphs_up_to_the_order_of_atoms(data_dir: Path) -> None:
    from pyarrow import parquet

    path = data_dir / "zinc" / "zinc12k.parquet"
    source = ZincGraphs(path)
    smiles = parquet.read_table(path, columns=["smiles"])["smiles"]
    for row in source.records("train")[::50]:
        stored = source.read(row).graph
        assert stored is not None
        made, warning = graph_from_smiles(smiles[row].as_py(), vocabulary="zinc")
        assert warning == ""
        assert _environments(made.node_categories[:, 0], made.edge_index, made.edge_categories[:, 0]) == _environments(
            stored.node_categories[:, 0], stored.edge_index, stored.edge_categories[:, 0]
        ), row
