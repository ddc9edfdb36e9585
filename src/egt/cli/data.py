"""`egt data`: which data sets there are, their content, and their preparation."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Literal

from egt.cli.output import Bars, Flag, Settings, Words, print_json, print_table, say
from egt.config.load import Setting, check_reading_only, column_settings, find_config, open_data
from egt.config.run_data import open_source, preparation
from egt.data.benchmark import BENCHMARKS, list_cards, open_benchmark
from egt.data.custom import Feature, card_schema, read_sample
from egt.data.source import ALL, DataCard
from egt.data.store import prepare_splits
from egt.errors import DataError, counted
from egt.files import exists
from egt.graph import Level
from egt.paper.presets import recipe_for


def data(
    action: Literal["list", "prepare", "info"] = "list",
    name: str | None = None,
    *,
    target: Words = (),
    task: Literal["graph", "node", "edge", "link", "pair"] | None = None,
    smiles: Words = (),
    features: Words = (),
    settings: Settings = (),
    fetch: Flag = False,
    json: Flag = False,
) -> None:
    """List the benchmarks, describe one, or prepare it: its graphs are read or generated, encoded and stored.

    Args:
        action: `list`, `info NAME`, `info FILE` or `prepare NAME`.
        name: A benchmark; to describe also a file or folder of your own, to prepare also a preset or a run.yaml, whose
            encodings are then computed.
        target: With `info FILE`: the column(s) to predict, as for `egt train`.
        task: With `info FILE`: the level to predict, as for `egt train`.
        smiles: With `info FILE`: the column(s) with SMILES, as for `egt train`.
        features: With `info FILE`: numeric column(s) that are given to the model, as for `egt train`.
        settings: With `info FILE`: how it is read, as for `egt train`: overrides.KEY=VALUE, split=KIND.
        fetch: Download the published files if there are none.
        json: Print one JSON object instead.
    """
    if action == "list":
        _list(json)
    elif name is None:
        raise DataError(f"egt data {action} needs a name; `egt data list` shows them")
    elif action == "prepare":
        _prepare(name, fetch, json)
    elif name not in BENCHMARKS and (exists(name) or bool(Path(name).suffix) or Path(name).parent != Path(".")):
        _describe_file(name, target, task, smiles, features, settings, json)
    else:
        _describe_benchmark(name, json)


def _list(json: bool) -> None:
    cards = list_cards()
    if json:
        print_json({"data": [card.name for card in cards]})
        return
    rows = [
        (card.name, card.title, f"{sum(card.split_sizes.values()):,}", f"{card.num_nodes[1]:.0f}", card.metric)
        for card in cards
    ]
    print_table("Benchmarks", ("name", "what", "graphs", "nodes", "metric"), rows)


def _describe_benchmark(name: str, json: bool) -> None:
    cards = {card.name: card for card in list_cards()}
    available = "ready to use"
    try:
        open_benchmark(name)
    except DataError as missing:
        if name not in cards:
            raise
        available = str(missing)
    card = cards[name]
    if json:
        print_json({**asdict(card), "availability": available})
        return
    low, mean, high = card.num_nodes
    target = f"{', '.join(card.target.names[:4])} ({card.target.level}, {card.target.kind}): {card.target_meaning}"
    rows = [
        ("name", card.name),
        ("graphs", _split_sizes(card)),
        ("nodes", f"{low} to {high}, mean {mean:g}"),
        ("edges", f"mean {card.mean_edges:,g} (both directions)"),
        ("target", target),
        ("columns", _columns(card)),
        ("metric", card.metric),
        ("license", card.license),
        ("citation", card.citation),
        ("address", ", ".join(card.urls)),
        ("notes", card.notes),
        ("here", available),
    ]
    print_table(card.title, ("what", "value"), [row for row in rows if row[1]])


def _describe_file(
    name: str,
    target: Sequence[str],
    task: Level | None,
    smiles: Sequence[str],
    features: Sequence[str],
    settings: Sequence[str | Setting],
    json: bool,
) -> None:
    check_reading_only(settings)
    with Bars(shown=not json) as bars:
        bars(f"reading {name}", 0, None)
        source = open_data(name, list(target), task, [*settings, *column_settings(smiles, features)])
        bars(f"reading {name}", 1, 1)
        readings = read_sample(source, bars)
    errors = [reading.error for reading in readings if reading.error]
    warnings = [f"{reading.id}: {reading.warning}" for reading in readings if reading.warning]
    num_rows = len(source.records(ALL))
    if json:
        content = {
            "schema": source.schema.model_dump(mode="json"),
            "split_sizes": dict(source.card.split_sizes),
            "rows": num_rows,
            "rows_read": len(readings),
            "unreadable_rows": errors,
            "warnings": [*source.warnings(), *warnings],
        }
        print_json(content)
        return
    graphs = [reading.graph for reading in readings if reading.graph is not None]
    nodes, edges = ([graph.num_nodes for graph in graphs] or [0]), ([graph.num_edges for graph in graphs] or [0])
    rows = [
        *((what, decision) for what, decision, _ in source.schema.rows()),
        ("graphs", _split_sizes(source.card)),
        ("nodes", f"{min(nodes):,} to {max(nodes):,}, mean {fmean(nodes):.4g}"),
        ("edges", f"mean {fmean(edges):.4g}{'' if source.schema.directed else ' (both directions)'}"),
        ("unreadable rows", _first_of(errors)),
        ("warnings", _first_of(warnings)),
        *(("warning", warning) for warning in source.warnings()),
    ]
    if len(readings) < num_rows:
        read = f"{len(readings):,} of {num_rows:,} rows, evenly chosen: the lines nodes to warnings"
        rows.append(("read", read))
    print_table(f"{name}: inferred schema", ("what", "decision"), rows)
    given = {"target": target, "task": [task] if task else [], "smiles": smiles, "features": features, "set": settings}
    words = ["egt", "train", name]
    for option, values in given.items():
        words += [f"--{option}", *map(str, values)] if values else []
    say(f"`{shlex.join(words)}` learns from it; docs/data.md shows how to change each decision")


def _split_sizes(card: DataCard) -> str:
    return ", ".join(f"{split} {size:,}" for split, size in card.split_sizes.items())


def _first_of(messages: Sequence[str], limit: int = 3) -> str:
    """Return how many there are, and the first of them."""
    more = [f"... {len(messages) - limit} more"] if len(messages) > limit else []
    return "\n".join([str(len(messages)), *messages[:limit], *more])


def _columns(card: DataCard) -> str:
    """Return the columns that new files for a model of this data need."""
    schema = card_schema(card)
    if schema.format == "molecules":
        return "SMILES"
    levels = {"nodes": schema.node_features, "edges": schema.edge_features}
    return "; ".join(
        f"{level}: " + ", ".join(f"{feature.name} ({_values(feature)})" for feature in features)
        for level, features in levels.items()
        if features
    )


def _values(feature: Feature) -> str:
    if feature.kind == "continuous":
        return "a number" if feature.width == 1 else f"{feature.width} numbers"
    return "one of " + ", ".join(feature.vocabulary[:6]) + (", ..." if len(feature.vocabulary) > 6 else "")


def _prepare(name: str, fetch: bool, json: bool) -> None:
    config = recipe_for(name) if name in BENCHMARKS else find_config(name)
    with Bars(shown=not json) as bars:

        def show_megabytes(stage: str, done: int, total: int | None) -> None:  # rounded up: a small file is one
            bars(f"{stage} (MB)", -(-done >> 20), None if total is None else -(-total >> 20))

        source = open_source(config, fetch=fetch, progress=show_megabytes)
    started = time.monotonic()
    splits = [split for split, size in source.card.split_sizes.items() if size]
    with Bars(shown=not json) as bars:
        stores = prepare_splits(source, splits, preparation(config), progress=bars).values()
    graphs = sum(map(len, stores))
    bad = [problem.error for store in stores for problem in store.problems if problem.error]
    if bad and not graphs:
        raise DataError(f"{name}: none of its {counted(len(bad), 'row')} can be read; the first: {bad[0]}")
    seconds = time.monotonic() - started
    rate = graphs / max(seconds, 1e-9)
    if json:
        print_json({"graphs": graphs, "unreadable": len(bad), "seconds": seconds, "graphs_per_second": rate})
        return
    say(
        f"{name}: {counted(graphs, 'graph')} in {seconds:.1f} s ({rate:,.0f} graphs/s), "
        f"{counted(len(bad), 'row')} could not be read"
    )
