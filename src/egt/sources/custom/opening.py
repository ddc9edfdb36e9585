"""`open_custom`: from a path to a `Source` of graphs, without code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from egt.errors import DataError
from egt.sources.custom.division import divide
from egt.sources.custom.formats import raw_smiles, read_raw
from egt.sources.custom.infer import infer
from egt.sources.custom.learn import learn
from egt.sources.custom.raw import RawData
from egt.sources.custom.schema import CustomSchema, SplitPlan
from egt.sources.custom.source import CustomSource
from egt.sources.source import Level


def open_custom(
    data: Any,
    *,
    target: str | Sequence[str] | None = None,
    level: Level | None = None,
    overrides: Mapping[str, Any] | None = None,
    split: SplitPlan | str | None = None,
    seed: int = 0,
    schema: CustomSchema | None = None,
) -> CustomSource:
    """Open the user's own data.

    Args:
        data: the path of a file or folder (formats in docs/data.md), NetworkX graphs, or PyG data.
        target: the target column, or several names or patterns as `NR-*`; None to guess.
        level: "graph", "node", "edge" or "link"; None to guess.
        overrides: corrections of other guesses: see `egt.sources.custom.infer.infer`.
        split: "random", "scaffold", "stratified", the name of a split column, or a `SplitPlan`. None: a split column
            if there is one, else random; with `schema`: no division, all rows are in the split "all".
        seed: of the division, when `split` is not a `SplitPlan`.
        schema: what a model was trained on, to read new data (targets are not needed) in the same way. With
            `split="auto"` the data is divided as the schema says.

    Raises:
        DataError: if the data cannot be read, or a guess is ambiguous; the message lists the choices.
    """
    raw = read_raw(data)
    if schema is not None:
        if target is not None or level is not None or overrides:
            raise DataError(
                "with a schema nothing is guessed: change the schema in place of target, level or overrides"
            )
        _check_fits(raw, schema)
        if split is None:
            return CustomSource(raw, schema, None)
        plan = _plan(split, seed)
        divided = schema if plan.kind == "auto" else replace(schema, split=plan)
        return CustomSource(raw, divided, divide(raw, divided))
    chosen = [target] if isinstance(target, str) else target
    guessed = infer(raw, target=chosen, level=level, overrides=overrides, split=_plan(split, seed))
    division = divide(raw, guessed)
    return CustomSource(raw, learn(raw, guessed, division), division)


def open_smiles(smiles: Sequence[str], *, schema: CustomSchema) -> CustomSource:
    """SMILES strings, read like the molecules that a schema describes."""
    return open_custom(raw_smiles(smiles, schema.smiles or "smiles"), schema=schema)


def _plan(split: SplitPlan | str | None, seed: int) -> SplitPlan:
    if split is None:
        return SplitPlan(seed=seed)
    if isinstance(split, SplitPlan):
        return split
    if split in ("auto", "random", "scaffold", "stratified"):
        return SplitPlan(kind=split, seed=seed)  # type: ignore[arg-type]
    return SplitPlan(kind="column", column=split, seed=seed)


def _check_fits(raw: RawData, schema: CustomSchema) -> None:
    """Refuse data that lacks what a schema needs."""
    if raw.is_molecules != (schema.format == "molecules"):
        raise DataError(f"{raw.where}: this is {raw.format} data, but the schema was made for {schema.format} data")
    shapes = [shape for shape in raw.shapes if shape is not None]
    for level, features in (("node", schema.node_features), ("edge", schema.edge_features)):
        there = {name for shape in shapes for name in (shape.nodes if level == "node" else shape.edge_columns)}
        rows = sum(shape.num_nodes if level == "node" else shape.edges.shape[1] for shape in shapes)
        absent = [feature.name for feature in features if feature.kind != "ignored" and feature.name not in there]
        if absent and rows:
            raise DataError(
                f"{raw.where}: the {level} columns {', '.join(absent)} are missing; "
                f"there are {', '.join(sorted(there)) or 'none'}. Name the columns as in the training data"
            )
