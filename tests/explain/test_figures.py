"""What is drawn of a graph: the right layers and heads, normalized and cropped."""

from __future__ import annotations

import numpy as np
import pytest

from egt.errors import ConfigError
from egt.explain.figures import choose, most_selective, panels
from tests.explain.by_hand import attention, chain


def test_panels_of_the_paper() -> None:
    even, single = np.full((3, 3), 1 / 3), np.eye(3)
    found = attention(chain(3), [[even, single], [even, even]], gates=0.5)
    shown = panels(found, choose(found.layers, 2))
    assert shown["(i) adjacency"].tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert shown["(ii) distance"].tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    assert most_selective(found, 0) == 1
    np.testing.assert_allclose(shown["(iii) layer 1, head 2"], np.eye(3))
    middle = shown["(iv) layer 1, mean of heads"]
    np.testing.assert_allclose(middle, np.eye(3), atol=1e-6)  # the mean is 2/3 and 1/6 before it is normalized
    cropped = panels(found, choose(found.layers, 2, (1, 2), head=1, crop=2))
    assert cropped["(iii) layer 1, head 1"].shape == (2, 2)


def test_a_large_graph_is_drawn_without_its_whole_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    found = attention(chain(5), random.random((2, 2, 6, 6)), num_virtual=1)
    whole = panels(found, choose(found.layers, 2, head=1))
    monkeypatch.setattr("egt.data.encodings.encoding.ShortestPaths.__call__", lambda *_: pytest.fail("all of N^2"))
    cropped = panels(found, choose(found.layers, 2, head=1, crop=3))
    for name in ("(i) adjacency", "(ii) distance"):
        assert cropped[name].tolist() == whole[name][:3, :3].tolist()
    np.testing.assert_allclose(found.matrix(found.product, 4), found.matrix(found.product)[..., :4, :4])
    monkeypatch.setattr("egt.explain.figures.MOST_NODES", 2)
    assert panels(found, choose(found.layers, 2))["(v) layer 2, mean of heads"].shape == (2, 2)


def test_virtual_nodes_are_left_out() -> None:
    S = np.full((1, 1, 3, 3), 0.25)
    S[0, 0, 1, 2] = 0.5
    shown = panels(attention(chain(2), S, num_virtual=1), choose((0,), 1))
    np.testing.assert_allclose(shown["(v) layer 1, mean of heads"], [[0, 1], [0, 0]])


def test_layers_and_heads_that_are_not_there() -> None:
    with pytest.raises(ConfigError, match=r"--layers.*1\.\.4"):
        choose((0, 1, 2, 3), 2, (9,))
    with pytest.raises(ConfigError, match="--layers"):
        choose((), 2, (1,))
    with pytest.raises(ConfigError, match="--layers"):
        choose((0, 1, 2, 3), 2, (1, 2, 3))
    for head in (0, 3):
        with pytest.raises(ConfigError, match=rf"--head.*{head}.*1\.\.2"):
            choose((0,), 2, head=head)
    with pytest.raises(ConfigError, match="--crop"):
        choose((0,), 2, crop=0)
