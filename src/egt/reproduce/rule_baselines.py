"""A rule of `egt.baselines` on the data of a run, with its splits and metrics."""

from __future__ import annotations

import time

import torch

from egt.artifact.artifact import versions
from egt.assemble import build_task
from egt.baselines.rules import RULES
from egt.config.run import RunConfig
from egt.errors import DataError
from egt.graph import Graph
from egt.inference.run_data import open_source, prepare_split
from egt.reporting.record import RunRecord
from egt.sources.source import Source


def run_rule(rule: str, config: RunConfig, name: str, seed: int) -> RunRecord:
    """Fit a rule to the training split and score it on the others.

    Args:
        rule: one of `RULES`.
        config: the run whose data and task it gets.
        name: of the row.
        seed: of the rule.
    """
    started = time.monotonic()
    source = open_source(config)
    fitted = RULES[rule](_graphs(config, source, "train"), source.card.target, seed)
    metrics = {}
    for split in ("val", "test"):
        graphs = [graph for graph in _graphs(config, source, split) if _is_labeled(graph, config)]
        if not graphs:
            continue
        scores = build_task(config).scores()
        for graph, rows in zip(graphs, fitted.predict(graphs), strict=True):
            target = torch.tensor(getattr(graph, f"{config.model.level}_targets"), dtype=torch.float32)
            scores.update(torch.from_numpy(rows).float(), target.reshape(len(rows), -1))
        metrics[split] = {**scores.compute(), "num_graphs": float(len(graphs))}
    return RunRecord(
        name=name,
        preset=config.name,
        seed=seed,
        config=config.model_dump(mode="json"),
        metrics=metrics,
        seconds=round(time.monotonic() - started, 1),
        split_sizes=dict(source.card.split_sizes),
        data_notes=source.card.notes,
        versions=versions(),
    )


def _graphs(config: RunConfig, source: Source, split: str) -> list[Graph]:
    """Return the graphs of a split, out of the store that the networks of the same row use: tours take minutes."""
    if not source.card.split_sizes.get(split):
        return []
    found = [sample.graph for sample in prepare_split(config, source, split)]
    if not found:
        raise DataError(f"{source.card.title}: no graph of the split {split!r} can be read")
    return found


def _is_labeled(graph: Graph, config: RunConfig) -> bool:
    """Return whether there is anything to score: labels of some benchmarks are hidden."""
    values = getattr(graph, f"{config.model.level}_targets")
    return values is not None and bool((values == values).any())
