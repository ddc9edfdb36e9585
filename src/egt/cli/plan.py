"""`egt plan`: what a run needs before it starts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from egt.cli.output import Flag, Settings, Words, print_json, print_table, say
from egt.errors import counted


def plan(
    run: str,
    *,
    target: Words = (),
    task: Literal["graph", "node", "edge", "link", "pair", "pretrain"] | None = None,
    smiles: Words = (),
    features: Words = (),
    settings: Settings = (),
    json: Flag = False,
) -> None:
    """Estimate parameters, peak memory and time per epoch; works without the data set, from its card.

    Args:
        run: A preset, a run.yaml, or your own data.
        target: Column(s) of your own data to predict, as for `egt train`.
        task: Level of your own data to predict, as for `egt train`.
        smiles: Column(s) of your own data with SMILES, as for `egt train`.
        features: Numeric column(s) of your own data that are given to the model, as for `egt train`.
        settings: Settings to change, as path=value.
        json: Print one JSON object instead.
    """
    from egt.api import configured
    from egt.inference.backends import recompute_hint
    from egt.training.plan import plan as make_plan

    config = configured(run, target, task=task, smiles=smiles, features=features, set=settings)
    found = make_plan(config)
    if json:
        print_json(asdict(found))
        return
    hours = found.seconds_per_epoch * found.epochs / 3600
    measured = "" if found.device == "cpu" else f", if its CPU did the work of the {found.device}"
    rows = [
        ("parameters", f"{found.parameters:,}"),
        ("peak memory", f"{found.peak_memory_bytes / 1e9:.2f} GB ({found.available_memory_bytes / 1e9:.1f} GB free)"),
        ("time per epoch", f"{found.seconds_per_epoch:,.0f} s ({found.steps_per_epoch:,} steps{measured})"),
        ("time of the run", f"{hours:,.1f} h ({_epochs(found.epochs, config.trainer.patience)})"),
        ("training graphs", f"{found.num_graphs:,} of {found.mean_nodes:.0f} nodes (largest {found.largest_nodes})"),
        ("pairs at once", f"{found.pairs_at_once:,}" if found.pairs_at_once else "only edges"),
        ("computed", f"{found.layout} batches, by the backend {found.backend!r} on {found.device}"),
        ("sizes from", found.sizes_from),
    ]
    print_table(f"{config.name} on this machine", ("what", "value"), rows)
    if found.peak_memory_bytes > found.available_memory_bytes:
        hint = recompute_hint(config, found.backend)
        say(
            f"this does not fit into memory; {hint and f'{hint}; '}`--set data.pair_budget=N` computes a batch in "
            "parts, and `--set model.scope=neighbors data.layout=edge_list` computes only the edges of large graphs"
        )


def _epochs(count: float, patience: int | None) -> str:
    early = "" if patience is None else f" at most, fewer after {patience} without a better validation"
    return f"{counted(count, 'epoch')}{early}"
