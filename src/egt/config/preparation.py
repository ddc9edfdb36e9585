"""What a run needs of each graph before its model can read it. No torch: worker processes start before it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from egt.config.model import ModelConfig
from egt.config.run import RunConfig
from egt.data.encodings.encoding import Encoding, Preparation, listed, merged
from egt.graph import FeatureSchema

if TYPE_CHECKING:
    from egt.data.encodings.distances import ChosenPairs
    from egt.parts.inputs import Input
    from egt.parts.tasks.task import Objective


def feature_schema(config: ModelConfig) -> FeatureSchema:
    """Return the features that the model reads."""
    features: dict[str, Any] = {}
    for term in (*config.node_inputs, *config.pair_inputs):
        features |= term.features()
    return FeatureSchema(**features)


def preparation(config: RunConfig) -> Preparation:
    """Return what has to be computed for each graph before the model can read it."""
    readers: list[Input | Objective] = [
        *config.model.node_inputs,
        *config.model.pair_inputs,
        *config.task.auxiliary,
    ]
    read = (encoding for reader in readers for encoding in reader.encodings())
    encodings = merged((*read, *_layer_encodings(config.model)))
    if config.data.layout == "edge_list":  # nothing of size N^2
        encodings = (*pair_choice(config.model), *listed(encodings))
    return Preparation(feature_schema(config.model), encodings)


def pair_choice(model: ModelConfig) -> tuple[ChosenPairs, ...]:
    """Return the encoding that chooses the pairs, where the model does not take the edges."""
    if not model.pairs:
        return ()
    from egt.data.encodings.distances import ChosenPairs

    return (ChosenPairs(model.pairs),)


def _layer_encodings(model: ModelConfig) -> tuple[Encoding, ...]:
    """Return what the layers themselves read of a graph."""
    if model.node_scaling == "none":
        return ()
    from egt.data.encodings.distances import OutDegree

    return (OutDegree(),)
