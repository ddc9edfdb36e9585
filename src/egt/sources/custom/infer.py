"""Raw data -> `CustomSchema`: the roles and kinds of all columns, guessed unless the user says otherwise.

What is learned from the training rows (vocabularies, means, deviations) is added by `learn`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from egt.errors import DataError
from egt.sources.custom.edges import looks_directed
from egt.sources.custom.kinds import choose_features, guess_target
from egt.sources.custom.raw import Column, Columns, RawData
from egt.sources.custom.roles import columns_at, find_id, find_smiles, find_split, find_targets, find_weight
from egt.sources.custom.schema import CustomSchema, SplitPlan
from egt.sources.custom.splits import is_split_column
from egt.sources.molecules import MoleculeVocabulary
from egt.sources.source import Level, TargetKind

OVERRIDES = ("id", "smiles", "weight", "directed", "kind", "vocabulary", "node_features", "edge_features")


def infer(
    raw: RawData,
    *,
    target: Sequence[str] | None = None,
    level: Level | None = None,
    overrides: Mapping[str, Any] | None = None,
    split: SplitPlan | None = None,
) -> CustomSchema:
    """The schema of some data, with nothing learned yet.

    Args:
        raw: the parsed data.
        target: names or patterns of the target columns; None to guess.
        level: "graph", "node", "edge" or "link"; None to guess.
        overrides: decisions of the user, by the names in `OVERRIDES`: the columns `id`, `smiles` and `weight` ("" for
            none), `directed`, the `kind` of the target, the molecule `vocabulary`, and in `node_features` and
            `edge_features` a mapping column -> "categorical", "continuous" or "ignored".
        split: how to divide the data.

    Raises:
        DataError: where a decision is needed that cannot be guessed; it lists the choices.
    """
    if len(raw.problems) == raw.num_rows:
        raise DataError(f"{raw.where}: none of its {raw.num_rows} rows can be read; the first: {raw.problems[0]}")
    given = _checked(overrides or {}, level)
    plan = split or SplitPlan()
    columns: dict[str, dict[str, Column]] = {one: columns_at(raw, one) for one in ("graph", "node", "edge")}
    id_column = find_id(columns["graph"], given.get("id"), raw.where)
    smiles = find_smiles(columns["graph"], given.get("smiles"), raw.where) if raw.is_molecules else ""
    weight = find_weight(columns["edge"], given.get("weight"), raw.where)
    split_columns = {one: find_split(columns[one], "", raw.where) for one in columns}
    reserved = {"graph": {id_column, smiles}, "node": set(), "edge": {weight}}
    for one in columns:
        taken = reserved[one] | {split_columns[one], plan.column}
        reserved[one] = taken
    free = {one: {name: c for name, c in columns[one].items() if name not in reserved[one]} for one in columns}

    targets: tuple[str, ...] = ()
    kind: TargetKind = "binary"
    classes: tuple[str, ...] = ()
    if level != "link":
        level, targets = find_targets(raw, free, target, level)
        kind, classes = guess_target({name: free[level][name] for name in targets}, given.get("kind"), raw.where)
    elif target is not None:
        raise DataError(f"{raw.where}: link prediction has no target column; leave target out")
    return CustomSchema(
        format=raw.format,
        level=level,
        kind=kind,
        targets=targets,
        classes=classes,
        id=id_column,
        smiles=smiles,
        weight=weight,
        vocabulary=given.get("vocabulary", "ogb"),
        directed=_directed(raw, given.get("directed")),
        split=_resolved(plan, columns, split_columns, level, raw),
        node_features=choose_features(
            _features(free["node"], raw, "node", targets if level == "node" else ()),
            "",
            given.get("node_features", {}),
            f"{raw.where}: nodes",
        ),
        edge_features=choose_features(
            _features(
                {**_only(columns["edge"], weight), **free["edge"]}, raw, "edge", targets if level == "edge" else ()
            ),
            weight,
            given.get("edge_features", {}),
            f"{raw.where}: edges",
        ),
    )


def _checked(overrides: Mapping[str, Any], level: str | None) -> Mapping[str, Any]:
    unknown = sorted(set(overrides) - set(OVERRIDES))
    if unknown:
        raise DataError(
            f"overrides {unknown} are unknown; allowed are {', '.join(OVERRIDES)} (and target, level, split)"
        )
    choices: dict[str, tuple[Any, ...]] = {
        "kind": get_args(TargetKind),
        "vocabulary": get_args(MoleculeVocabulary),
        "directed": (True, False),
    }
    for key, allowed in choices.items():
        if key in overrides and overrides[key] not in allowed:
            raise DataError(f"overrides {key} is {overrides[key]!r}; allowed are {', '.join(map(str, allowed))}")
    for key in ("id", "smiles", "weight"):
        if key in overrides and not isinstance(overrides[key], str):
            raise DataError(f"overrides {key} is {overrides[key]!r}; give the name of a column")
    for key in ("node_features", "edge_features"):
        if not isinstance(overrides.get(key, {}), Mapping):
            raise DataError(f"overrides {key} is {overrides[key]!r}; give a mapping from columns to kinds")
    if level is not None and level not in get_args(Level):
        raise DataError(f"level is {level!r}; allowed are {', '.join(get_args(Level))}")
    return overrides


def _only(columns: Columns, name: str) -> Columns:
    return {name: columns[name]} if name else {}


def _features(columns: Columns, raw: RawData, level: str, targets: Sequence[str]) -> Columns:
    """Columns that may be features: no target of this level, chosen or declared, and no split."""
    barred = {*targets, *raw.declared.get(level, ())}
    return {name: column for name, column in columns.items() if name not in barred and not _is_split(name, column)}


def _is_split(name: str, column: Column) -> bool:
    return name == "split" and is_split_column(column)


def _directed(raw: RawData, given: bool | None) -> bool | None:
    if given is not None:
        return given
    shapes = [shape for shape in raw.shapes if shape is not None]
    said = {shape.directed for shape in shapes}
    if said == {None}:
        return looks_directed((shape.num_nodes, shape.edges) for shape in shapes)
    return None if len(said) > 1 else said.pop() if said else False


def _resolved(
    plan: SplitPlan, columns: Mapping[str, Columns], split_columns: Mapping[str, str], level: Level, raw: RawData
) -> SplitPlan:
    """The plan with its column found and checked, and `auto` decided."""
    places = [level, "graph"] if level in ("node", "edge") else ["graph"]
    if plan.kind == "auto":
        column = next((split_columns[place] for place in places if split_columns[place]), "")
        return replace(plan, kind="column" if column else "random", column=column)
    if plan.kind == "column" and not any(plan.column in columns[place] for place in places):
        names = [name for place in places for name in columns[place]]
        raise DataError(f"{raw.where}: there is no split column {plan.column!r}; the columns are {', '.join(names)}")
    if plan.kind == "scaffold" and not raw.is_molecules:
        raise DataError(f"{raw.where}: a scaffold split needs molecules; choose random, stratified or a column")
    return plan
