"""The data of a run and new data for its model, as sources and prepared samples. Imports no torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egt.config.run import ModelConfig, RunConfig
from egt.data import custom
from egt.data.encodings.encoding import ChosenPairs, LabelsAround, OutDegree, Preparation, Sample, listed, merged
from egt.data.schema import CustomSchema, card_schema
from egt.data.source import Progress, Source, TrainShare
from egt.errors import DataError
from egt.files import exists
from egt.graph import FeatureSchema

if TYPE_CHECKING:
    from egt.data.benchmark import Benchmark
    from egt.data.store import Store
    from egt.parts.inputs import Input
    from egt.parts.tasks.task import Objective
    from egt.registry import Registry

log = logging.getLogger(__name__)


def open_source(
    config: RunConfig, data: Any = None, *, fetch: bool = False, progress: Progress | None = None
) -> Source:
    """Return the data that a run is trained and evaluated on, divided as its configuration says.

    `data` is the data itself, where the run was trained on objects in memory. `fetch` downloads the published files of
    a benchmark if there are none, and `progress` receives the bytes.
    """
    schema = config.data.custom
    if schema is None:
        from egt.data.benchmark import open_benchmark  # here: the run of a file needs no benchmark

        source = open_benchmark(config.data.source, options=config.data.options, fetch=fetch, progress=progress)
        if config.data.train_share == 1:
            return source
        return TrainShare(source, config.data.train_share)
    if data is None and not exists(config.data.source):
        raise DataError(
            f"{config.data.source}: the data of this run is not there; put it back, give new data (--data FILE), "
            "or, if it was in memory, hand it over again (data=...)"
        )
    source = custom.open_custom(config.data.source if data is None else data, schema=schema, split=schema.split)
    return config.task.with_targets(source)


def open_labeled(config: RunConfig) -> Source:
    """Return the data of a run that is to be trained, after a warning of labels that are not understood."""
    source = open_source(config)
    warn_of_labels(source)
    return source


def warn_of_labels(source: Source) -> None:
    """Warn of labels that the schema of custom data does not know: they count as missing."""
    for warning in source.unknown_labels():
        log.warning("%s", warning)


def open_new(config: RunConfig, data: Any, overrides: Mapping[str, Any] | None = None) -> Source:
    """Return new data for the model of a run; its rows are the split "all". Arguments as in `custom.open_new`."""
    return custom.open_new(data, reading_schema(config), feature_schema(config.model), overrides)


def reading_schema(config: RunConfig) -> CustomSchema:
    """Return how new files are read: as the custom data of the run was, or as the card of its benchmark says."""
    return config.data.custom or card_schema(benchmarks().get(config.data.source).card)


def benchmarks() -> Registry[Benchmark]:
    """Return the benchmarks by name."""
    from egt.data.benchmark import BENCHMARKS  # here, as in `open_source`

    return BENCHMARKS


def keep_schema(config: RunConfig, source: Source) -> RunConfig:
    """Add to the run what its features and targets mean, whatever it trains on, so that its model can predict."""
    if config.data.custom is not None or config.data.source in benchmarks():
        return config
    return config.replace(data={"custom": card_schema(source.card)})


def prepare_split(
    config: RunConfig,
    source: Source,
    split: str,
    *,
    cache_dir: Path | str | None = None,
    progress: Progress | None = None,
) -> Store:
    """Open the prepared graphs of a split, stored or built now. Arguments as in `egt.data.store.prepare`."""
    from egt.data.store import prepare  # here: small predictions keep nothing

    return prepare(source, split, preparation(config), cache_dir=cache_dir, progress=progress)


def in_pieces(
    config: RunConfig, samples: Sequence[Sample], *, training: bool = False, every: bool = False
) -> Sequence[Sample]:
    """Return prepared graphs as a run computes them: whole, or the pieces that `data.pieces` asks for.

    Pieces come back unchanged. training: those of training steps. every: they ask about every node or edge, and not
    only about those that have labels.
    """
    how = config.data.pieces
    if how is None:
        return samples
    from egt.data.batching.pieces import Pieces  # here: most runs have none

    if isinstance(samples, Pieces):
        return samples
    return Pieces(
        samples,
        "node" if config.model.level == "node" else "edge",
        how.roots if training else how.evaluation_roots,
        None if how.neighbors == "graph" else [limit if isinstance(limit, int) else None for limit in how.neighbors],
        seed=config.seed,
        every=every,
        labels=next((each for each in preparation(config).encodings if isinstance(each, LabelsAround)), None),
    )


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
    of_layers = () if config.model.node_scaling == "none" else (OutDegree(),)
    encodings = merged((*read, *of_layers))
    if config.data.layout == "edge_list":  # nothing of size N^2
        encodings = (*pair_choice(config.model), *listed(encodings))
    return Preparation(feature_schema(config.model), encodings)


def pair_choice(model: ModelConfig) -> tuple[ChosenPairs, ...]:
    """Return the encoding that chooses the pairs, where the model does not take the edges."""
    return (ChosenPairs(model.pairs),) if model.pairs else ()
