"""Fragments and descriptors of molecules: what is shared by two of them, and what does not depend on the spelling."""

from __future__ import annotations

import numpy as np
import pytest

from egt.data.fragments import Described, describe, descriptor_names, missing_descriptors
from egt.errors import DataError

pytest.importorskip("rdkit")
NAMES = ("MolWt", "TPSA")


def in_common(found: Described) -> int:
    one, other = found.keys
    return len(np.intersect1d(one, other))


def test_they_do_not_depend_on_the_spelling() -> None:
    one, other = describe(["OCC", "CCO"], NAMES).keys
    assert np.array_equal(one, other)
    values = describe(["OCC", "CCO"], descriptor_names()).values
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(*describe(["CCO", "COC"], NAMES).keys)


def test_mirror_images_differ_in_their_fragments() -> None:
    left, right = describe(["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"], NAMES).keys
    assert len(left) == len(right)
    assert not np.array_equal(left, right)


def test_keys_in_common_count_fragments_as_often_as_both_have_them() -> None:
    pytest.importorskip("rdkit")
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=2, includeChirality=True)
    pair = ["CCCCCCO", "CCCN(CC)C(=O)c1ccccc1"]
    one, other = (generator.GetSparseCountFingerprint(MolFromSmiles(text)).GetNonzeroElements() for text in pair)
    expected = sum(min(count, other.get(number, 0)) for number, count in one.items())
    assert expected > 3
    assert in_common(describe(pair, NAMES)) == expected


def test_bins_count_fragments() -> None:
    found = describe(["CCCCO"], NAMES)
    assert found.counts(64).sum() == len(found.keys[0])
    assert found.counts(1).tolist() == [[len(found.keys[0])]]


def test_descriptors_are_finite_and_named() -> None:
    names = descriptor_names()
    assert len(names) > 150
    assert not missing_descriptors(names)
    assert missing_descriptors([*names, "Charm"]) == ["Charm"]
    values = describe(["C", "[Na+].[Cl-]", "c1ccccc1", "[2H]C", "CC(C)(C)(C)C"], names).values
    assert np.isfinite(values).all()
    assert np.allclose(describe(["c1ccccc1"], ["MolWt"]).values, np.log1p(78.114), atol=1e-4)


def test_a_text_that_is_no_molecule_is_an_error() -> None:
    with pytest.raises(DataError):
        describe(["CCO", "no molecule"], NAMES)
