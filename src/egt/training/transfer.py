"""Starting from another model's weights, and which parts of a model train on."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from egt.errors import ArtifactError, ConfigError
from egt.model import EGT

log = logging.getLogger(__name__)

Tuned = Literal["all", "edges"]

_EDGE_PARTS = re.compile(r"embed\.pair_terms\.|layers\.\d+\.pairs\.|auxiliary\.|readout\.edges$")
"""The parameters of the edge channel: pair terms, norm_e, E, G, O_e, the edge feed-forward blocks."""


@dataclass(frozen=True, eq=False)
class Remap:
    """How the rows of a table of categories move to another vocabulary: by the names of the categories.

    Args:
        old: for each feature, the names of its categories in the model that is started from.
        new: the same for the model that is trained.
    """

    old: Sequence[Sequence[str]]
    new: Sequence[Sequence[str]]

    def __call__(self, table: Tensor, fresh: Tensor) -> Tensor:
        """The new table: row 0 and known categories from `table`, the others as they are in `fresh`.

        table: (1 + old categories, width), fresh: (1 + new categories, width).
        """
        if len(self.old) != len(self.new):
            raise ArtifactError(f"the model reads {len(self.new)} categorical features, its start {len(self.old)}")
        rows = {
            (feature, name): row
            for row, (feature, name) in enumerate(((f, n) for f, names in enumerate(self.old) for n in names), start=1)
        }
        out = fresh.clone()
        out[0] = table[0]
        wanted = ((feature, name) for feature, names in enumerate(self.new) for name in names)
        for row, key in enumerate(wanted, start=1):
            if key in rows:
                out[row] = table[rows[key]]
        return out


@dataclass(frozen=True, eq=False)
class Start:
    """What fine-tuning starts from and what it trains.

    Args:
        weights: of another model, by parameter name.
        keep_head: keep the last linear map instead of starting it anew (the paper always starts it anew).
        vocabularies: for a table of categories, by parameter name, how its rows move.
        freeze_below: layers below this one, and the embeddings, stay as they are; 0 trains all.
        tuned: "all", or "edges" for the authors' "-T" tuning: only the edge channel trains on, so the head is kept.
    """

    weights: Mapping[str, Tensor]
    keep_head: bool = False
    vocabularies: Mapping[str, Remap] = field(default_factory=dict)
    freeze_below: int = 0
    tuned: Tuned = "all"


def start_from(model: EGT, start: Start) -> None:
    """Give a fresh model the weights it starts from, and freeze what is not to be trained.

    Raises:
        ArtifactError: a weight is missing or has another shape. The last linear map is started anew unless it is kept,
            and so are heads of auxiliary objectives that the other model did not have.
    """
    last = _last_linear(model)
    own = model.state_dict()
    loaded = dict(own)
    for name, fresh in own.items():
        if name in last and not (start.keep_head or start.tuned == "edges"):
            continue
        if name not in start.weights:
            if name.startswith("auxiliary."):
                continue
            raise ArtifactError(f"the weights to start from have no {name}; use a model of the same configuration")
        given = start.weights[name]
        if name in start.vocabularies:
            given = start.vocabularies[name](given, fresh)
        if given.shape != fresh.shape:
            raise ArtifactError(
                f"{name} has shape {tuple(given.shape)} in the weights to start from, the model has "
                f"{tuple(fresh.shape)}; use a model of the same configuration"
                + ("; keep_head off starts it anew" if name in last else "")
            )
        loaded[name] = given
    model.load_state_dict(loaded)
    unused = sorted(start.weights.keys() - own.keys())
    if unused:
        log.warning("%d weights to start from have no place in this model: %s", len(unused), ", ".join(unused[:5]))
    freeze(model, start.freeze_below, start.tuned)


def freeze(model: EGT, below: int = 0, tuned: Tuned = "all") -> None:
    """Let only a part of a model train.

    Args:
        model: gets `requires_grad` set on each parameter.
        below: layers below this one, and the embeddings if it is above 0, are frozen.
        tuned: "edges" freezes the node channel and the head as well.
    """
    if not 0 <= below <= len(model.layers):
        raise ConfigError(f"freeze_below is {below}; the model has layers 0..{len(model.layers) - 1}")
    frozen = tuple(f"layers.{k}." for k in range(below)) + (
        ("embed.", "readout.nodes", "readout.edges") if below else ()
    )
    for name, parameter in model.named_parameters():
        wanted = tuned == "all" or _EDGE_PARTS.match(name) is not None
        parameter.requires_grad_(wanted and not name.startswith(frozen) if frozen else wanted)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("nothing is left to train; lower freeze_below")


def _last_linear(model: EGT) -> set[str]:
    last = {id(parameter) for parameter in model.head.last.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in last}
