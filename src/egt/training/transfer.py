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
Key = tuple[str | int, ...]

_EDGE_PARTS = re.compile(r"embed\.pair_terms\.|layers\.\d+\.pairs\.|auxiliary\.|readout\.edges$")
"""The parameters of the edge channel: pair terms, norm_e, E, G, O_e, the edge feed-forward blocks."""


@dataclass(frozen=True, eq=False)
class Remap:
    """How the rows or columns of a weight move to other features: by their keys, e.g. (feature, category).

    Args:
        old: the key of each row (or column) in the model that is started from.
        new: the same for the model that is trained.
        dim: 0 moves rows, 1 columns.
    """

    old: Sequence[Key]
    new: Sequence[Key]
    dim: int = 0

    def __call__(self, weight: Tensor, fresh: Tensor) -> Tensor:
        """Return the new weight: what both know from `weight`, the rest from `fresh`."""
        expected = list(fresh.shape)
        expected[self.dim] = len(self.old)
        if list(weight.shape) != expected or fresh.shape[self.dim] != len(self.new):
            raise ArtifactError(
                f"a table of features has shape {tuple(weight.shape)} in the weights to start from and "
                f"{tuple(fresh.shape)} in the model, for {len(self.old)} and {len(self.new)} names; "
                "use a model of the same widths"
            )
        places = {key: k for k, key in enumerate(self.old)}
        out = fresh.clone()
        for k, key in enumerate(self.new):
            if key in places:
                out.select(self.dim, k).copy_(weight.select(self.dim, places[key]))
        return out


@dataclass(frozen=True, eq=False)
class Start:
    """What fine-tuning starts from and what it trains.

    Args:
        weights: of another model, by parameter name.
        keep_head: keep the last linear map instead of re-initializing it (the paper always re-initializes it).
        vocabularies: for a weight with a row or column per category or feature, by parameter name, how these move.
        freeze_below: layers below this one, and the embeddings, stay as they are; 0 trains all.
        tuned: "all", or "edges" for the authors' "-T" tuning: only the edge channel trains on, so the head is kept.
        fresh: parameters whose names begin like this are re-initialized if `weights` has none.
    """

    weights: Mapping[str, Tensor]
    keep_head: bool = False
    vocabularies: Mapping[str, Remap] = field(default_factory=dict)
    freeze_below: int = 0
    tuned: Tuned = "all"
    fresh: tuple[str, ...] = ()


def start_from(model: EGT, start: Start) -> None:
    """Give a fresh model the weights it starts from, and freeze what is not to be trained.

    Raises:
        ArtifactError: a weight is missing or has another shape. The last linear map is re-initialized unless it is
            kept, and so are heads of auxiliary objectives and features (`fresh`) that the other model did not have.
    """
    last = _last_linear(model)
    own = model.state_dict()
    loaded = dict(own)
    for name, fresh in own.items():
        if name in last and not (start.keep_head or start.tuned == "edges"):
            continue
        if name not in start.weights:
            if name.startswith(("auxiliary.", *start.fresh)):
                continue
            raise ArtifactError(f"the weights to start from have no {name}; use a model of the same configuration")
        given = start.weights[name]
        if name in start.vocabularies:
            given = start.vocabularies[name](given, fresh)
        if given.shape != fresh.shape:
            raise ArtifactError(
                f"{name} has shape {tuple(given.shape)} in the weights to start from, the model has "
                f"{tuple(fresh.shape)}; use a model of the same configuration"
                + ("; keep_head off re-initializes it" if name in last else "")
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
