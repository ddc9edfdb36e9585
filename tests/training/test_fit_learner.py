"""Trees answer as scikit-learn's do, and the kernel machine is ridge regression with the best penalty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from egt.data.molecule_descriptors import Described, describe
from egt.inference.learner import Learner, Trees
from egt.training.fit_learner import fit_learner

pytest.importorskip("rdkit")
NAMES = ("MolWt", "TPSA", "MolLogP")
SMILES = [f"{'C' * n}{'C(O)' * k}{end}" for n in range(1, 8) for k in range(4) for end in ("C", "N", "Cl", "c1ccccc1")]


def labels() -> Any:
    """(molecules, 2): hydroxyl groups and half the rings, or their sum with the chain; a third is missing of one."""
    found = np.array([[text.count("O") + text.count("c1") / 4, len(text) / 3 + text.count("N")] for text in SMILES])
    found[::3, 1] = np.nan
    return found


def fitted(**options: Any) -> tuple[Learner, Described]:
    molecules = describe(SMILES, NAMES)
    return fit_learner(molecules, labels(), NAMES, **{"chances": False, **options}), molecules


def test_trees_answer_as_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    made: list[Any] = []

    class Kept(ensemble.ExtraTreesRegressor):  # type: ignore[misc, name-defined, unused-ignore]
        def fit(self, *given: Any) -> Any:
            made.append(self)
            return super().fit(*given)

    monkeypatch.setattr(ensemble, "ExtraTreesRegressor", Kept)
    learner, molecules = fitted()
    assert learner.trees is not None
    X = learner.features(molecules)
    X = np.concatenate([X, X + np.float32(0.37), np.random.default_rng(0).normal(size=X.shape).astype(np.float32)])
    theirs = np.stack([forest.predict(X) for forest in made], 1)
    assert theirs.std(0).min() > 0.1
    np.testing.assert_allclose(learner.trees.predict(X), theirs, rtol=1e-6, atol=1e-6)


def test_the_kernel_machine_is_ridge_regression_on_molecules_with_a_label() -> None:
    learner, molecules = fitted()
    kernel, y = learner.kernel, labels()
    for K in kernel.parts(molecules):
        assert np.allclose(K, K.T, atol=1e-6)
        assert np.allclose(np.diag(K), 1)
        assert K.min() >= 0
    for k in range(2):
        known = ~np.isnan(y[:, k])
        assert not kernel.weights[~known, k].any()
        residual = y[known, k] - kernel.predict(molecules)[known, k]
        penalties = residual / kernel.weights[known, k]  # (K + lambda I) w = y - m
        assert np.allclose(penalties, penalties[0], rtol=1e-3)


def test_similarity_is_the_share_of_common_fragments() -> None:
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.rdFingerprintGenerator import GetAtomPairGenerator, GetMorganFeatureAtomInvGen, GetMorganGenerator
    from rdkit.DataStructs import TanimotoSimilarity

    learner, _ = fitted()
    new = ["CCCCNC(C)=O", "c1ccncc1"]
    kinds = [
        GetMorganGenerator(radius=2, includeChirality=True),
        GetMorganGenerator(radius=2, includeChirality=True, atomInvariantsGenerator=GetMorganFeatureAtomInvGen()),
        GetAtomPairGenerator(includeChirality=True),
    ]
    found = []
    for kind in kinds:
        prints = [[kind.GetSparseCountFingerprint(MolFromSmiles(text)) for text in each] for each in (new, SMILES)]
        found.append([[TanimotoSimilarity(one, other) for other in prints[1]] for one in prints[0]])
    expected = np.mean(found, 0)
    assert np.allclose(learner.kernel.similarities(describe(new, NAMES).keys), expected, atol=1e-6)


def test_probabilities_stay_between_0_and_1() -> None:
    molecules = describe(SMILES, NAMES)
    yes = np.array([[float("N" in text)] for text in SMILES])
    learner = fit_learner(molecules, yes, NAMES, chances=True)
    found = learner.predict(describe([*SMILES, "C" * 60, "NCCN"], NAMES))
    assert found.min() > 0
    assert found.max() < 1
    assert found[: len(SMILES)][yes == 1].min() > found[: len(SMILES)][yes == 0].max()


def test_the_answer_of_a_molecule_does_not_depend_on_the_others() -> None:
    learner, molecules = fitted()
    alone = learner.predict(describe(SMILES[5:6], NAMES))
    assert np.allclose(alone, learner.predict(molecules)[5:6], rtol=0, atol=1e-9)


def test_a_target_without_any_label_does_no_harm() -> None:
    y = labels()
    y[:, 1] = np.nan
    learner = fit_learner(describe(SMILES, NAMES), y, NAMES, chances=False)
    assert np.isfinite(learner.predict(describe(["CCO"], NAMES))).all()


BROKEN: dict[str, Any] = {
    "feature": lambda t: replace(t, features=np.where(t.features < 0, t.features, 999).astype(np.int16)),
    "below": lambda t: replace(t, features=(t.features - 1).astype(np.int16)),
    "no leaf": lambda t: replace(t, features=np.zeros_like(t.features)),
    "only leaves": lambda t: replace(t, features=np.full_like(t.features, -1)),
    "sizes": lambda t: replace(t, sizes=t.sizes + 1),
    "empty tree": lambda t: replace(t, sizes=np.zeros_like(t.sizes)),
    "infinite": lambda t: replace(t, values=np.full_like(t.values, np.inf)),
    "shorter": lambda t: replace(t, values=t.values[:-1]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_trees_are_noticed(name: str) -> None:
    trees = Trees(
        np.array([[3, 1], [5, 3]], np.int32),
        np.array([0, -1, -1, -1, 1, 0, -1, -1, -1, 2, -1, -1], np.int16),
        np.arange(12, dtype=np.float32),
    )
    assert trees.check(3) == ""
    assert BROKEN[name](trees).check(3)


def test_a_tree_is_followed_to_its_leaf() -> None:
    trees = Trees(np.array([[5]], np.int32), np.array([1, 0, -1, -1, -1], np.int16), np.array([0.5, 2, 10, 20, 30.0]))
    X = np.array([[1, 0], [2, 0.5], [3, 0], [0, 1]], np.float32)
    assert trees.predict(X)[:, 0].tolist() == [10, 10, 20, 30]
