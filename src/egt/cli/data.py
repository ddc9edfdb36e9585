"""`egt data`: which data sets there are, what they hold, and their preparation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from egt.cli.output import Bars, print_json, print_table, say, with_smiles
from egt.errors import DataError
from egt.files import exists

if TYPE_CHECKING:
    from egt.graph import Level
    from egt.sources.custom import CustomSchema, Feature
    from egt.sources.source import DataCard, Reading

_CHUNK = 1_000
"""How many rows are read between two steps of a bar."""
_SAMPLED = 10_000
"""Of a larger file about so many rows are read as graphs."""


def data(
    action: Literal["list", "prepare", "info"] = "list",
    name: str | None = None,
    *,
    target: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = (),
    task: Literal["graph", "node", "edge", "link"] | None = None,
    smiles: str | None = None,
    settings: Annotated[tuple[str, ...], Parameter(name="--set", consume_multiple=True, negative="")] = (),
    fetch: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """List the benchmarks, describe one, or prepare it: its graphs are read or generated, encoded and stored.

    Args:
        action: `list`, `info NAME`, `info FILE` or `prepare NAME`.
        name: A benchmark; to describe also a file or folder of your own, to prepare also a preset or a run.yaml, whose
            encodings are then computed.
        target: With `info FILE`: the column(s) to predict, as for `egt train`.
        task: With `info FILE`: the level to predict, as for `egt train`.
        smiles: With `info FILE`: the column that holds the SMILES, where its name does not tell.
        settings: With `info FILE`: how it is read, as for `egt train`: overrides.KEY=VALUE, split=KIND.
        fetch: Download the published files if there are none.
        json: Print one JSON object instead.
    """
    if action == "list":
        _list(json)
    elif name is None:
        raise DataError(f"egt data {action} needs a name; `egt data list` shows them")
    elif action == "info" and _is_path(name):
        _custom_info(name, target, task, with_smiles(settings, smiles), json)
    elif action == "info":
        _info(name, json)
    else:
        _prepare(name, fetch, json)


def _list(json: bool) -> None:
    from egt.sources.benchmarks.benchmark import list_cards

    cards = list_cards()
    if json:
        print_json({"data": [card.name for card in cards]})
        return
    rows = [
        (card.name, card.title, f"{sum(card.split_sizes.values()):,}", f"{card.num_nodes[1]:.0f}", card.metric)
        for card in cards
    ]
    print_table("Benchmarks", ("name", "what", "graphs", "nodes", "metric"), rows)


def _info(name: str, json: bool) -> None:
    from egt.sources.benchmarks.benchmark import list_cards, open_benchmark

    cards = {card.name: card for card in list_cards()}
    if name not in cards:
        open_benchmark(name)  # says which names there are
    card = cards[name]
    try:
        open_benchmark(name)
        there = "ready to use"
    except DataError as missing:
        there = str(missing)
    if json:
        print_json({**asdict(card), "availability": there})
        return
    low, mean, high = card.num_nodes
    rows = [
        ("name", card.name),
        ("graphs", ", ".join(f"{split} {size:,}" for split, size in card.split_sizes.items())),
        ("nodes", f"{low} to {high}, mean {mean:g}"),
        ("edges", f"mean {card.mean_edges:,g} (both directions)"),
        (
            "target",
            f"{', '.join(card.target.names[:4])} ({card.target.level}, {card.target.kind}): {card.target_meaning}",
        ),
        ("columns", _columns(card)),
        ("metric", card.metric),
        ("license", card.license),
        ("citation", card.citation),
        ("address", ", ".join(card.urls)),
        ("notes", card.notes),
        ("here", there),
    ]
    print_table(card.title, ("what", "value"), [row for row in rows if row[1]])


def _is_path(name: str) -> bool:
    from egt.sources.benchmarks.benchmark import BENCHMARKS

    path = Path(name)
    return name not in BENCHMARKS and (exists(path) or bool(path.suffix) or path.parent != Path("."))


def _custom_info(name: str, target: Sequence[str], task: Level | None, settings: Sequence[str], json: bool) -> None:
    from egt.config.reading import open_data, reads
    from egt.sources.source import read_all

    if other := [each for each in settings if not reads(each)]:
        raise DataError(
            f"--set {other[0]}: data is read with overrides.KEY=VALUE and split=KIND; others are for egt train"
        )
    with Bars(shown=not json) as bars:
        bars(f"reading {name}", 0, None)
        source = open_data(name, list(target), task, settings)
        bars(f"reading {name}", 1, 1)
        readings: list[Reading] = []
        every = source.records("all")
        records = every if len(every) <= _SAMPLED else every[:: -(-len(every) // _SAMPLED)]
        for start in range(0, len(records), _CHUNK):
            readings += read_all(source, records[start : start + _CHUNK])
            bars("building graphs", len(readings), len(records))
    graphs = [reading.graph for reading in readings if reading.graph is not None]
    problems = [reading.error for reading in readings if reading.error]
    warned = [f"{reading.id}: {reading.warning}" for reading in readings if reading.warning]
    card = source.card
    if json:
        content = {
            "schema": source.schema.model_dump(mode="json"),
            "split_sizes": dict(card.split_sizes),
            "rows": len(every),
            "rows_read": len(readings),
        }
        print_json({**content, "unreadable_rows": problems, "warnings": [*source.warnings(), *warned]})
        return
    nodes = [graph.num_nodes for graph in graphs] or [0]
    edges = [graph.num_edges for graph in graphs] or [0]
    rows = [
        *((what, decision) for what, decision, _ in source.schema.rows()),
        ("graphs", ", ".join(f"{split} {size:,}" for split, size in card.split_sizes.items())),
        ("nodes", f"{min(nodes):,} to {max(nodes):,}, mean {sum(nodes) / len(nodes):.4g}"),
        ("edges", f"mean {sum(edges) / len(edges):.4g}{_counted(source.schema)}"),
        ("unreadable rows", _listed(problems)),
        ("warnings", _listed(warned)),
        *(("look at", warning) for warning in source.warnings()),
    ]
    if len(readings) < len(every):
        rows.append(("read", f"{len(readings):,} of {len(every):,} rows, evenly chosen: the lines nodes to warnings"))
    print_table(f"{name}: what was understood", ("what", "decision"), rows)
    say(f"`egt train {name}` learns from it; docs/data.md tells how each decision is changed")


def _counted(schema: CustomSchema) -> str:
    """How edges are counted: an undirected one stands for both directions."""
    return "" if schema.directed else " (both directions)"


def _listed(messages: Sequence[str], limit: int = 3) -> str:
    """How many there are, and the first of them."""
    more = [f"... {len(messages) - limit} more"] if len(messages) > limit else []
    return "\n".join([str(len(messages)), *messages[:limit], *more])


def _columns(card: DataCard) -> str:
    """Return what new files for a model of this data need to hold."""
    from egt.sources.custom import card_schema

    schema = card_schema(card)
    if schema.format == "molecules":
        return "SMILES"
    levels = {"nodes": schema.node_features, "edges": schema.edge_features}
    named = {
        level: ", ".join(f"{feature.name} ({_values(feature)})" for feature in features)
        for level, features in levels.items()
    }
    return "; ".join(f"{level}: {columns}" for level, columns in named.items() if columns)


def _values(feature: Feature) -> str:
    if feature.kind == "continuous":
        return "a number" if feature.width == 1 else f"{feature.width} numbers"
    return "one of " + ", ".join(feature.vocabulary[:6]) + (", ..." if len(feature.vocabulary) > 6 else "")


def _megabytes(size: int) -> int:
    return -(-size >> 20)  # rounded up, so that a small file is one and not none


def _prepare(name: str, fetch: bool, json: bool) -> None:
    from egt.assemble import preparation
    from egt.config.load import find_config
    from egt.config.presets import names, preset
    from egt.encodings.store import prepare_splits
    from egt.inference.run_data import open_source
    from egt.sources.benchmarks.benchmark import BENCHMARKS, open_benchmark

    with Bars(shown=not json) as bars:

        def told(stage: str, done: int, total: int | None) -> None:
            bars(f"{stage} (MB)", _megabytes(done), None if total is None else _megabytes(total))

        if name in BENCHMARKS:
            fitting = [preset(each) for each in names() if preset(each).data.source == name]
            config = fitting[0] if fitting else preset("pcqm4mv2-small")
            source = open_benchmark(name, fetch=fetch, progress=told)
        else:
            config = find_config(name)
            source = open_source(config, fetch=fetch, progress=told)
    started = time.monotonic()
    splits = [split for split, size in source.card.split_sizes.items() if size]
    with Bars(shown=not json) as bars:
        stores = prepare_splits(source, splits, preparation(config), progress=bars).values()
    graphs = sum(map(len, stores))
    bad = [problem for store in stores for problem in store.problems if problem.error]
    if bad and not graphs:
        raise DataError(f"{name}: none of its {len(bad)} rows can be read; the first: {bad[0].error}")
    problems = len(bad)
    seconds = time.monotonic() - started
    rate = graphs / max(seconds, 1e-9)
    if json:
        print_json({"graphs": graphs, "unreadable": problems, "seconds": seconds, "graphs_per_second": rate})
        return
    say(f"{name}: {graphs:,} graphs in {seconds:.1f} s ({rate:,.0f} graphs/s), {problems} rows could not be read")
