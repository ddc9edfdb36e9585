"""Hop profiles and explanations on the page are those of the analysis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egt.errors import DataError
from egt.explain.page.session import Session


def test_the_hop_profile_shares_out_the_whole_softmax(looked: dict[str, Any]) -> None:
    attention = looked["attention"]
    own = [k for k, hop in enumerate(attention["hops"]) if hop != "from virtual"]
    np.testing.assert_allclose(np.array(attention["softmax"])[..., own].sum(-1), 1, atol=1e-3)
    np.testing.assert_allclose(np.array(attention["even"])[own].sum(), 1, atol=1e-3)
    assert attention["hops"][:2] == ["0", "1"]
    assert np.shape(attention["product"]) == (len(attention["layers"]), attention["heads"], len(attention["hops"]))


def test_an_explanation_is_of_the_prediction_that_is_shown(session: Session, looked: dict[str, Any]) -> None:
    for name in ("solubility", "size"):
        said = session.explain(looked["look"], target=name)
        value = looked["prediction"]["rows"][0][looked["prediction"]["columns"].index(name)]
        assert said["target"] == name
        assert said["value"] == pytest.approx(value, rel=1e-4)
        assert [method["name"] for method in said["methods"]] == ["gradients", "rollout"]
        for method in said["methods"]:
            assert len(method["nodes"]) == 13
            assert len(method["edges"]) == 13
            assert {score["parts"] for score in method["scores"]} == {"atoms", "bonds"}
    with pytest.raises(DataError, match="solubility"):
        session.explain(looked["look"], target="color")
