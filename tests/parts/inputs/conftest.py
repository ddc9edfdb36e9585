"""The random graphs of the tests of encodings serve the inputs, too."""

from __future__ import annotations

from tests.data.encodings.conftest import random_graph as random_graph
