"""The recipe for nodes of a graph that is too large to be computed whole at every step.

A step takes a piece (`data.pieces`): up to 256 labeled nodes with 10 neighbors each, and 5 neighbors of each of these.
SVD encodings are left out, which take long on such a graph; inputs that are named with `--set` are computed once for
the whole graph. Gates are plain (`sigmoid`): how many neighbors a node has in a piece says nothing about it. There are
as many epochs as pass some 20 million nodes, repeated ones included: about ten minutes of one core.
"""

from __future__ import annotations

import logging

import numpy as np

from egt.config.run import PiecesConfig, RunConfig
from egt.schedules.cosine import Cosine
from egt.sources.custom.custom_source import CustomSource
from egt.sources.source import DataCard

log = logging.getLogger(__name__)

MOST_PAIRS = 1_000_000
"""Nodes and directed edges of a graph that is still computed whole."""
_ROOTS = (64, 256)
_STEPS = 8
"""Steps of an epoch that are worth smaller pieces."""
_NODES = 20_000_000
_EPOCHS = (3, 100)


def is_large(card: DataCard) -> bool:
    """Return whether graphs are too large to be computed whole at every step."""
    return card.num_nodes[1] + card.mean_edges > MOST_PAIRS


def for_pieces(run: RunConfig, source: CustomSource) -> RunConfig:
    """Return the run with this recipe.

    Args:
        run: that of smaller graphs.
        source: the data; the numbers of its nodes and training nodes are looked at.
    """
    nodes, edges = source.card.num_nodes[1], source.card.mean_edges
    labeled = _training_nodes(source)
    pieces = PiecesConfig(roots=min(max(labeled // _STEPS, _ROOTS[0]), _ROOTS[1]))
    log.warning(
        "%s: %s nodes and %s edges are computed in pieces: %d nodes at a time and their neighbors, %s "
        "(data.pieces; --set data.pieces=null computes them whole)",
        run.data.source,
        f"{nodes:,.0f}",
        f"{edges:,.0f}",
        pieces.roots,
        " then ".join(str(limit) for limit in pieces.neighbors),
    )
    steps = -(-labeled // pieces.roots)
    epochs = round(_NODES / (steps * min(nodes, pieces.roots * _growth(pieces))))
    inputs = tuple(term for term in run.model.node_inputs if term.kind != "svd")
    return run.model_copy(
        update={
            "data": run.data.model_copy(update={"pieces": pieces, "batch_size": 1}),
            "model": run.model.model_copy(update={"node_inputs": inputs, "gate": "sigmoid"}),
            "schedule": Cosine(),
            "trainer": run.trainer.model_copy(
                update={"max_epochs": min(max(epochs, _EPOCHS[0]), _EPOCHS[1]), "patience": None}
            ),
        }
    )


def _training_nodes(source: CustomSource) -> int:
    """Count the nodes of the training split; graphs that are not divided are in it with all of theirs."""
    scored = [record.scored for record in source.records("train")]
    nodes = sum(source.card.num_nodes[1] if each is None else np.count_nonzero(each) for each in scored)
    return max(1, round(nodes))


def _growth(pieces: PiecesConfig) -> int:
    """Return how many nodes a root brings along at most, itself included."""
    total = new = 1
    for limit in pieces.neighbors:
        new *= limit if isinstance(limit, int) else 1
        total += new
    return total
