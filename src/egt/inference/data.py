"""The data of a run and new data for its model, as sources and prepared samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egt.assemble import feature_schema, preparation
from egt.config.run import RunConfig
from egt.encodings.store import Store, prepare
from egt.errors import DataError
from egt.graph import Graph
from egt.sources.benchmarks.benchmark import BENCHMARKS, open_benchmark
from egt.sources.custom import CustomSchema, CustomSource, GraphsSource, card_schema, open_custom
from egt.sources.source import ALL, DataCard, Progress, Source, TargetSchema


def open_source(config: RunConfig, *, fetch: bool = False, progress: Progress | None = None) -> Source:
    """The data that a run is trained and evaluated on, divided as its configuration says.

    Args:
        config: the run.
        fetch: download the published files of a benchmark if there are none.
        progress: is told about the bytes of a download.
    """
    schema = config.data.custom
    if schema is None:
        return open_benchmark(config.data.source, options=config.data.options, fetch=fetch, progress=progress)
    if not Path(config.data.source).exists():
        raise DataError(
            f"{config.data.source}: the data of this run is not there; put it back, or give new data (--data FILE)"
        )
    return open_custom(config.data.source, schema=schema, split=schema.split)


def open_new(config: RunConfig, data: Any) -> Source:
    """New data for the model of a run; its rows are the split "all".

    Args:
        config: the run, which says how raw data becomes graphs.
        data: SMILES strings, `Graph`s, the path of a file or folder, NetworkX graphs or PyG data.
    """
    if isinstance(data, Graph):
        data = [data]
    if isinstance(data, Sequence) and not isinstance(data, str | Path):
        if not data:
            raise DataError("there is nothing to predict: the list is empty")
        if all(isinstance(item, Graph) for item in data):
            return GraphsSource({ALL: data}, _target(config), feature_schema(config.model))
        if all(isinstance(item, str) for item in data):
            schema = reading_schema(config)
            if schema.format != "molecules":
                raise DataError(
                    "this model does not read molecules; give Graphs or the path of a file instead of SMILES"
                )
            return open_custom(data, schema=schema)
    return open_custom(data, schema=reading_schema(config))


def reading_schema(config: RunConfig) -> CustomSchema:
    """How new files are read: as the own data of the run was, or as the card of its benchmark says."""
    return config.data.custom or card_schema(_card(config))


def prepare_split(
    config: RunConfig,
    source: Source,
    split: str,
    *,
    cache_dir: Path | str | None = None,
    progress: Progress | None = None,
) -> Store:
    """The prepared graphs of a split, from the store or built now. Arguments as in `egt.encodings.store.prepare`."""
    return prepare(source, split, preparation(config), cache_dir=cache_dir, progress=progress)


def smiles_of(source: Source) -> list[str] | None:
    """The SMILES of the rows of new data, None when they are no molecules."""
    return source.smiles() if isinstance(source, CustomSource) else None


def _card(config: RunConfig) -> DataCard:
    if config.data.source not in BENCHMARKS:
        raise DataError(
            f"data.source is {config.data.source!r}, which is no benchmark, and the run has no schema of own data; "
            f"benchmarks are {', '.join(BENCHMARKS)}"
        )
    return BENCHMARKS.get(config.data.source).card


def _target(config: RunConfig) -> TargetSchema:
    return reading_schema(config).target()
