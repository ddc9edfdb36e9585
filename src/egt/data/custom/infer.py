"""A first look at custom data: the sizes of its graphs and what is wrong with its rows, sampled from a large file.

Raw data -> `CustomSchema`: the roles and kinds of all columns, guessed unless the user says otherwise.

What is learned from the training rows (vocabularies, means, deviations) is added by `learn`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

import numpy as np

from egt.data.custom.columns import Column, Columns, RawData, as_numbers, holds_lists, missing_in, sorted_texts, text_of
from egt.data.custom.custom_source import CustomSource
from egt.data.custom.roles import (
    columns_at,
    find_id,
    find_inputs,
    find_smiles,
    find_split,
    find_targets,
    find_weight,
    is_meant,
)
from egt.data.custom.schema import CustomSchema, Feature, FeatureKind, SplitPlan
from egt.data.custom.splits import is_split_column
from egt.data.molecules import MoleculeVocabulary
from egt.data.source import ALL, Progress, Reading, TargetKind, read_all
from egt.errors import DataError
from egt.graph import IntArray, Level

SAMPLED = 10_000
"""Of a larger file about so many rows are read as graphs."""

_CHUNK = 1_000
"""How many rows are read between two steps of a bar."""


@dataclass(frozen=True)
class Survey:
    """What the rows of custom data hold.

    Attributes:
        num_rows: all of them.
        num_read: those that were read as graphs, evenly chosen among all.
        num_nodes: of each graph that could be read.
        num_edges: of each graph that could be read; an undirected edge counts twice.
        errors: of rows that cannot be read.
        warnings: of rows that can.
    """

    num_rows: int
    num_read: int
    num_nodes: tuple[int, ...]
    num_edges: tuple[int, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def survey(source: CustomSource, progress: Progress | None = None) -> Survey:
    """Read the rows of custom data, or a sample of many."""
    records = source.records(ALL)
    chosen = records if len(records) <= SAMPLED else records[:: -(-len(records) // SAMPLED)]
    readings: list[Reading] = []
    for start in range(0, len(chosen), _CHUNK):
        readings += read_all(source, chosen[start : start + _CHUNK])
        if progress is not None:
            progress("building graphs", len(readings), len(chosen))
    return _summary(len(records), readings)


def _summary(num_rows: int, readings: Sequence[Reading]) -> Survey:
    graphs = [reading.graph for reading in readings if reading.graph is not None]
    return Survey(
        num_rows=num_rows,
        num_read=len(readings),
        num_nodes=tuple(graph.num_nodes for graph in graphs),
        num_edges=tuple(graph.num_edges for graph in graphs),
        errors=tuple(reading.error for reading in readings if reading.error),
        warnings=tuple(f"{reading.id}: {reading.warning}" for reading in readings if reading.warning),
    )


MAX_NUMBERS_AS_CATEGORIES = 20

MAX_VOCABULARY = 1000

MIN_YES_OR_NO = 10
"""So many labels, all 0 or 1, are no accident."""

_LABEL = re.compile(
    r"(y|labels?|targets?|class)([_ .-]?\d+)?|(label|target|class)[_ .-]\w+|\w+[_ .-](label|target|class)"
)

OVERRIDES = (
    *("id", "smiles", "weight", "directed", "kind", "positive", "vocabulary"),
    *("node_features", "edge_features", "graph_features"),
)


def infer(
    raw: RawData,
    *,
    target: Sequence[str] | None = None,
    level: Level | None = None,
    overrides: Mapping[str, Any] | None = None,
    split: SplitPlan | None = None,
    labeled: bool = True,
) -> CustomSchema:
    """Return the schema of some data, with nothing learned yet.

    Args:
        raw: the parsed data.
        target: names or patterns of the target columns; None to guess.
        level: "graph", "node", "edge" or "link"; None to guess.
        overrides: decisions of the user, by the names in `OVERRIDES`: the columns `id`, `smiles` (one or several) and
            `weight` ("" for none), `directed`, the `kind` of the target, the `positive` one of its two classes, the
            molecule `vocabulary`, and in `node_features` and `edge_features` a mapping column -> "categorical",
            "continuous" or "ignored"; in `graph_features` the numeric columns of whole graphs that are given to the
            model, names or patterns.
        split: how to divide the data.
        labeled: False for whole graphs without a target; columns of nodes and edges that look like labels are left out.

    Raises:
        DataError: where a decision is needed that cannot be guessed; it lists the choices.
    """
    if len(raw.problems) == raw.num_rows:
        raise DataError(f"{raw.where}: none of its {raw.num_rows} rows can be read; the first: {raw.problems[0]}")
    given = _checked(overrides or {}, level)
    plan = split or SplitPlan()
    roles = _find_roles(raw, given, plan)
    notes: dict[str, str] = {}
    if labeled and raw.is_molecules:
        roles, level, notes = _with_lists(raw, roles, target, level)
    level, targets = _targets(raw, roles, target, level) if labeled else ("graph", ())
    kind, classes = _answers(raw, roles, level, targets, given)
    directed, direction = _directed(raw, given.get("directed"))
    said, left_out = _said_of_features(roles, targets, classes, given, [level] if labeled else ["node", "edge"])
    inputs, copies = _graph_inputs(roles, level, targets, classes, given)
    notes |= direction | left_out | copies
    nodes = _features(roles.free["node"], raw, "node", targets if level == "node" else ())
    edge_columns = {**_only(roles.columns["edge"], roles.weight), **roles.free["edge"]}
    edges = _features(edge_columns, raw, "edge", targets if level == "edge" else ())
    return CustomSchema(
        format=raw.format,
        level=level,
        kind=kind,
        targets=targets,
        classes=classes,
        id=roles.id,
        smiles=roles.smiles[0] if roles.smiles else "",
        more_smiles=roles.smiles[1:],
        weight=roles.weight,
        vocabulary=given.get("vocabulary", "ogb"),
        directed=directed,
        split=_resolved(plan, roles.columns, roles.splits, level, raw),
        node_features=choose_features(nodes, "", said["node_features"], f"{raw.where}: nodes"),
        edge_features=choose_features(edges, roles.weight, said["edge_features"], f"{raw.where}: edges"),
        graph_features=tuple(_continuous(*each) for each in inputs.items()),
        notes=notes,
    )


@dataclass(frozen=True)
class _Roles:
    """The columns that are neither features nor targets, and all others.

    Attributes:
        id: names the graphs; "" for none.
        smiles: hold molecules.
        weight: holds the weights of edges; "" for none.
        inputs: of whole graphs that are given to the model.
        splits: the columns that divide the data, by level.
        columns: all of them, by level.
        free: those without a role, by level.
    """

    id: str
    smiles: tuple[str, ...]
    weight: str
    inputs: tuple[str, ...]
    splits: dict[str, str]
    columns: dict[str, dict[str, Column]]
    free: dict[str, dict[str, Column]]


def _find_roles(raw: RawData, given: Mapping[str, Any], plan: SplitPlan) -> _Roles:
    columns: dict[str, dict[str, Column]] = {one: columns_at(raw, one) for one in ("graph", "node", "edge")}
    id_column = find_id(columns["graph"], given.get("id"), raw.where)
    smiles = find_smiles(columns["graph"], given.get("smiles"), raw.where) if raw.is_molecules else ()
    weight = find_weight(columns["edge"], given.get("weight"), raw.where)
    inputs = find_inputs(columns["graph"], given.get("graph_features", raw.inputs), raw.where)
    splits = {one: find_split(columns[one], "", raw.where) for one in columns}
    taken = {"graph": {id_column, *smiles, *inputs}, "node": set(), "edge": {weight}}
    free = {
        one: {name: column for name, column in named.items() if name not in taken[one] | {splits[one], plan.column}}
        for one, named in columns.items()
    }
    return _Roles(id_column, smiles, weight, inputs, splits, columns, free)


def _with_lists(
    raw: RawData, roles: _Roles, target: Sequence[str] | None, level: Level | None
) -> tuple[_Roles, Level | None, dict[str, str]]:
    """Return the roles with targets of atoms or bonds, which are lists, at their level, and a note if it is guessed."""
    if level in ("graph", "link") or (level is None and target is None):
        return roles, level, {}
    columns = roles.free["graph"]
    wanted = [name for name in columns if target is None or any(is_meant(name, pattern) for pattern in target)]
    certain = level is not None and target is not None
    listed = [name for name in wanted if certain or holds_lists(columns[name])]
    if not listed:
        return roles, level, {}
    if target is not None and len(listed) < len(wanted):
        whole = next(name for name in wanted if name not in listed)
        raise DataError(
            f"{raw.where}: {listed[0]!r} holds lists, for atoms or bonds, and {whole!r} single values, for molecules; "
            f"train a model for each (--target {whole})"
        )
    from egt.data.custom.atom_targets import find_parts  # here: most targets are of molecules

    found, values, note = find_parts(raw, roles.smiles, {name: columns[name] for name in listed}, level)
    rest = {name: column for name, column in columns.items() if name not in listed}
    free = {**roles.free, "graph": rest, found: values}
    return replace(roles, free=free), found, {"level": note} if note else {}


def _targets(
    raw: RawData, roles: _Roles, target: Sequence[str] | None, level: Level | None
) -> tuple[Level, tuple[str, ...]]:
    """Return the level that is predicted, and the target columns there: none for links, which are there or not."""
    if level == "link":
        if target is not None:
            raise DataError(f"{raw.where}: link prediction has no target column; leave target out")
        return level, ()
    if both := sorted({*(target or ())} & {*roles.inputs}):
        raise DataError(f"{raw.where}: column {both[0]!r} cannot be both target and feature (--target, --features)")
    _check_roles(raw, roles, target or ())
    found, targets = find_targets(raw, roles.free, target, level)
    if absent := [name for name in targets if name not in roles.free[found]]:
        raise DataError(
            f"{raw.where}: column {absent[0]!r} is the target, and cannot be the id, the weight or the split as "
            "well; name another target (--target) or another column (--set overrides.id=...)"
        )
    return found, targets


def _answers(
    raw: RawData, roles: _Roles, level: Level, targets: Sequence[str], given: Mapping[str, Any]
) -> tuple[TargetKind, tuple[str, ...]]:
    """Return the kind of what is predicted and its classes; a link is there or not."""
    kind: TargetKind = "binary"
    classes: tuple[str, ...] = ()
    if targets:
        kind, classes = guess_target({name: roles.free[level][name] for name in targets}, given.get("kind"), raw.where)
    if "positive" in given:
        classes = _with_positive(classes, kind, text_of(given["positive"]), raw.where)
    return kind, classes


def _said_of_features(
    roles: _Roles, targets: Sequence[str], classes: Sequence[str], given: Mapping[str, Any], places: Sequence[str]
) -> tuple[dict[str, Mapping[str, str]], dict[str, str]]:
    """Return what is decided of the features of nodes and edges, and why some are left out at the places of labels."""
    said = {key: given.get(key, {}) for key in ("node_features", "edge_features")}
    notes: dict[str, str] = {}
    for key in said:
        place = key.removesuffix("_features")
        if place in places:
            left_out = _giving_away(roles.free[place], targets, said[key], classes)
            said[key] = {**dict.fromkeys(left_out, "ignored"), **said[key]}
            notes |= {f"{key}.{name}": why for name, why in left_out.items()}
    return said, notes


def _graph_inputs(
    roles: _Roles, level: Level, targets: Sequence[str], classes: Sequence[str], given: Mapping[str, Any]
) -> tuple[Columns, dict[str, str]]:
    """Return the columns of whole graphs that are given to the model, and why some are left out."""
    inputs = {name: roles.columns["graph"][name] for name in roles.inputs}
    if level != "graph" or not classes or "graph_features" in given:
        return inputs, {}
    copies = _copies({**inputs, **roles.free["graph"]}, targets, {})
    notes = {f"graph_features.{name}": _why_copy(copies[name]) for name in inputs if name in copies}
    return {name: column for name, column in inputs.items() if name not in copies}, notes


def _check_roles(raw: RawData, roles: _Roles, target: Sequence[str]) -> None:
    """Refuse a target that is a column with another role, and say with which."""
    known = {
        **dict.fromkeys(roles.splits.values(), "the split of each row; name another target (--target)"),
        roles.weight: 'the weight of the edges; name another target (--target), or none (--set overrides.weight="")',
        roles.id: 'the name of each row; name another target (--target), or no id (--set overrides.id="")',
        **dict.fromkeys(roles.smiles, "the molecule; name another target (--target), or other SMILES (--smiles)"),
    }
    free = {name for columns in roles.free.values() for name in columns}
    for name in target:
        if name in known and name not in free:
            raise DataError(f"{raw.where}: column {name!r} cannot be the target, it is {known[name]}")


def _checked(overrides: Mapping[str, Any], level: str | None) -> Mapping[str, Any]:
    unknown = sorted(set(overrides) - set(OVERRIDES))
    if unknown:
        raise DataError(
            f"overrides {unknown} are unknown; allowed are {', '.join(OVERRIDES)} (--set overrides.KEY=VALUE)"
        )
    choices: dict[str, tuple[Any, ...]] = {
        "kind": get_args(TargetKind),
        "vocabulary": get_args(MoleculeVocabulary),
        "directed": (True, False),
    }
    for key, allowed in choices.items():
        if key in overrides and not any(overrides[key] is each or overrides[key] == each for each in allowed):
            raise DataError(f"overrides.{key} is {overrides[key]!r}; allowed are {', '.join(map(str, allowed))}")
    for key in ("id", "weight"):
        if key in overrides and not isinstance(overrides[key], str):
            raise DataError(f"overrides.{key} is {overrides[key]!r}; give the name of a column")
    if not isinstance(overrides.get("positive", ""), str | int | float):
        raise DataError(f"overrides.positive is {overrides['positive']!r}; give the name of a class")
    for key in ("node_features", "edge_features"):
        if not isinstance(overrides.get(key, {}), Mapping) or not _are_texts(overrides.get(key, {})):
            raise DataError(f"overrides.{key} is {overrides[key]!r}; give a mapping from columns to kinds")
    for key, example in (("smiles", "[solute, solvent]"), ("graph_features", "[temperature, pH]")):
        names = overrides.get(key, ())
        if not isinstance(names, str | Sequence) or not all(isinstance(name, str) for name in names):
            raise DataError(f"overrides.{key} is {names!r}; give the names of columns, as {example}")
    if level is not None and level not in get_args(Level):
        raise DataError(f"level is {level!r}; allowed are {', '.join(get_args(Level))}")
    return overrides


def _are_texts(given: Mapping[Any, Any]) -> bool:
    return all(isinstance(value, str) for pair in given.items() for value in pair)


def _only(columns: Columns, name: str) -> Columns:
    return {name: columns[name]} if name else {}


def _features(columns: Columns, raw: RawData, level: str, targets: Sequence[str]) -> Columns:
    """Return columns that may be features: no target of this level, chosen or declared, and no split."""
    barred = {*targets, *raw.declared.get(level, ())}
    return {name: column for name, column in columns.items() if name not in barred and not _is_split(name, column)}


def _is_split(name: str, column: Column) -> bool:
    return name == "split" and is_split_column(column)


def _directed(raw: RawData, given: bool | None) -> tuple[bool | None, dict[str, str]]:
    """Return whether edges have a direction, and why that was guessed."""
    if given is not None:
        return given, {}
    graphs = [graph for graph in raw.graphs if graph is not None]
    said = {graph.directed for graph in graphs}
    if said == {None}:
        directed, reason = guess_direction((graph.num_nodes, graph.edges) for graph in graphs)
        return directed, {"directed": reason}
    if raw.format == "graphs" or len(said) > 1:  # a `Graph` has all its edges
        return None, {}
    return (said.pop() if said else False), {}


def _copies(columns: Columns, targets: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    from egt.data.custom.label_checks import label_copies  # here: numbers are copied by accident

    return label_copies(columns, targets, given)


def _giving_away(
    columns: Columns, targets: Sequence[str], given: Mapping[str, str], classes: Sequence[str]
) -> dict[str, str]:
    """Return columns that could give the answer away as features, each with the reason why it is left out."""
    copies = _copies(columns, targets, given) if classes else {}
    return {
        **dict.fromkeys(other_labels(columns, targets, given), "left out, it looks like another label"),
        **{name: _why_copy(target) for name, target in copies.items()},
    }


def _why_copy(target: str) -> str:
    return f"left out, each value of it is one class of {target!r}"


def other_labels(columns: Columns, targets: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """Return columns beside the targets that look like labels: as features they could give the answer away.

    A `y` beside an `x` is a coordinate. What the user has decided about (`given`) is left out.
    """
    free = [name for name in columns if name not in targets and name not in given and _LABEL.fullmatch(name.lower())]
    names = {name.lower() for name in columns}
    return [name for name in free if not (name.lower() == "y" and "x" in names)]


def _resolved(
    plan: SplitPlan, columns: Mapping[str, Columns], split_columns: Mapping[str, str], level: Level, raw: RawData
) -> SplitPlan:
    """Return the plan with its column found and checked, and `auto` decided."""
    places = [level, "graph"] if level in ("node", "edge") else ["graph"]
    if plan.column and plan.kind not in ("auto", "column"):
        raise DataError(
            f"{raw.where}: the data is to be divided by column {plan.column!r} and {plan.kind}; leave one of "
            "split.column and split.kind out"
        )
    if plan.kind == "auto" and not plan.column:
        column = next((split_columns[place] for place in places if split_columns[place]), "")
        return plan.model_copy(update={"kind": "column" if column else "random", "column": column})
    if plan.column and not any(plan.column in columns[place] for place in places):
        names = [name for place in places for name in columns[place]]
        raise DataError(f"{raw.where}: there is no split column {plan.column!r}; the columns are {', '.join(names)}")
    if plan.kind == "scaffold" and not raw.is_molecules:
        raise DataError(f"{raw.where}: a scaffold split needs molecules; choose random, stratified or a column")
    return plan.model_copy(update={"kind": "column"}) if plan.column else plan


def _continuous(name: str, column: Column) -> Feature:
    return Feature(name=name, kind="continuous", width=column.shape[1] if column.ndim == 2 else 1)


def guess_feature(name: str, column: Column) -> Feature:
    """Return the kind of a feature column.

    Vectors are continuous. Texts are categories, unless they are all different or too many (names: ignored). Whole
    numbers with at most 20 different values are categories; other numbers are continuous. Nothing there: ignored.
    """
    if column.ndim == 2:
        return _continuous(name, column) if column.shape[1] else Feature(name=name, kind="ignored")
    present = column[~missing_in(column)]
    distinct = len(set(present.tolist()))
    if not distinct:
        return Feature(name=name, kind="ignored")
    if column.dtype == object:
        names = distinct > MAX_VOCABULARY or (distinct > 20 and 2 * distinct > len(present))
        return Feature(name=name, kind="ignored" if names else "categorical")
    return Feature(name=name, kind="categorical" if _few_whole(present, distinct) else "continuous")


def choose_features(columns: Columns, weight: str, given: Mapping[str, str], where: str) -> tuple[Feature, ...]:
    """Return the features of a level: guesses, replaced by what the user says about a column."""
    unknown = sorted(set(given) - set(columns))
    if unknown:
        raise DataError(f"{where}: there is no column {unknown[0]!r}; the columns are {', '.join(columns) or 'none'}")
    features = []
    for name, column in columns.items():
        if name not in given:
            features.append(Feature(name=name, kind="continuous") if name == weight else guess_feature(name, column))
            continue
        if given[name] not in get_args(FeatureKind):
            raise DataError(f"{where}: {name!r} is to be {given[name]!r}; allowed: {', '.join(get_args(FeatureKind))}")
        if column.ndim == 2 and given[name] == "categorical":
            raise DataError(f"{where}: {name!r} holds vectors; give one column per category")
        width = column.shape[1] if column.ndim == 2 and given[name] == "continuous" else 1
        if not width:
            raise DataError(f"{where}: {name!r} holds vectors without numbers; leave it out")
        features.append(Feature(name=name, kind=cast(FeatureKind, given[name]), width=width))
    return tuple(features)


def guess_target(columns: Columns, given: TargetKind | None, where: str) -> tuple[TargetKind, tuple[str, ...]]:
    """Return the kind of the targets and their classes.

    Two values: binary. Texts, or whole numbers with 3 to 20 values that appear twice on average: multiclass. Other
    numbers: regression. Several columns: multi-label if all of them hold the same two values, else regression.
    """
    for name, column in columns.items():
        if column.ndim != 1:
            raise DataError(f"{where}: target {name!r} holds vectors; give one column per target")
    values = [column[~missing_in(column)] for column in columns.values()]
    distinct = sorted_texts({text_of(value) for part in values for value in part})
    if not distinct:
        raise DataError(f"{where}: target {', '.join(columns)} has no value at all")
    kind = given or _target_kind(values, distinct)
    if kind == "regression":
        if given is None:
            _check_numbers(columns, where)
            _check_alike(columns, where)
        return kind, ()
    if kind == "multiclass" and len(columns) > 1:
        raise DataError(f"{where}: {len(columns)} targets {list(columns)} with classes; choose one of them as target")
    if kind == "multiclass" and len(distinct) < 2:
        raise DataError(
            f"{where}: target {', '.join(columns)} is {distinct[0]!r} in every row; classes are two or more"
        )
    if kind == "binary":
        distinct = _two(distinct, where)
    elif given is None and any(part.dtype == object for part in values):
        _check_classes(columns, len(distinct), where)
    return kind, tuple(distinct)


def _few_whole(present: Column, distinct: int) -> bool:
    whole = np.isfinite(present).all() and (present == np.rint(present)).all()
    return bool(whole) and distinct <= MAX_NUMBERS_AS_CATEGORIES


def _target_kind(values: list[Column], distinct: list[str]) -> TargetKind:
    numbers = [as_numbers(part) for part in values]
    numeric = not any(strange for _, strange in numbers)
    rows = sum(len(part) for part in values)
    whole = numeric and all(_few_whole(part, len(distinct)) for part, _ in numbers)
    if len(distinct) <= 2 and (whole or not numeric):
        return "binary"
    if len(values) == 1 and (not numeric or (whole and 2 * len(distinct) <= rows)):
        return "multiclass"
    return "regression"


def _two(distinct: list[str], where: str) -> list[str]:
    if len(distinct) == 1 and distinct[0] in ("0", "1"):
        return ["0", "1"]
    if len(distinct) == 1:
        raise DataError(f"{where}: all labels are {distinct[0]!r}; there is nothing to learn from one class")
    if len(distinct) != 2:
        raise DataError(f"{where}: a binary target needs two values; found {len(distinct)}: {distinct[:10]}")
    return distinct


def _with_positive(classes: tuple[str, ...], kind: TargetKind, positive: str, where: str) -> tuple[str, ...]:
    """Return two classes with the one last that scores such as F1 are about."""
    if kind != "binary" or positive not in classes:
        there = f"the classes are {', '.join(classes)}" if kind == "binary" else f"this target is {kind}"
        raise DataError(f"{where}: overrides.positive is {positive!r}, one of two classes; {there}")
    return (*(name for name in classes if name != positive), positive)


def _check_numbers(columns: Columns, where: str) -> None:
    for name, column in columns.items():
        strange = as_numbers(column)[1]
        if len(strange) == (~missing_in(column)).sum() > 0:
            raise DataError(
                f"{where}: target {name!r} holds classes, such as {strange[0]!r}, and other targets hold something "
                "else; several targets are all numbers, or have the same two classes: train a model for each "
                f"(--target {name}), or write classes as 0 and 1"
            )
        if strange:
            raise DataError(
                f"{where}: target {name!r} holds {strange[0]!r}, which is not a number; choose targets of one kind, "
                "or say --set overrides.kind=regression to treat such labels as missing"
            )


def _check_alike(columns: Columns, where: str) -> None:
    """Refuse yes and no beside numbers: one loss does not fit both."""
    present = {name: as_numbers(column[~missing_in(column)])[0] for name, column in columns.items()}
    binary = [name for name, values in present.items() if _is_yes_or_no(values)]
    if binary and len(binary) < len(columns):
        other = next(name for name in columns if name not in binary)
        raise DataError(
            f"{where}: the targets are of two kinds: {binary[0]!r} holds 0 and 1 only, {other!r} other numbers; train "
            f"a model for each kind (--target {other}), or say --set overrides.kind=regression to take all as numbers"
        )


def _is_yes_or_no(values: Column) -> bool:
    return len(values) >= MIN_YES_OR_NO and set(values.tolist()) == {0.0, 1.0}


def _check_classes(columns: Columns, num_classes: int, where: str) -> None:
    (name, column) = next(iter(columns.items()))
    present = int((~missing_in(column)).sum())
    strange = as_numbers(column)[1]
    if strange and len(strange) < present / 2:
        raise DataError(
            f"{where}: target {name!r} holds numbers, but also {strange[0]!r}; say --set overrides.kind="
            "regression to treat such labels as missing, or overrides.kind=multiclass if its values are names"
        )
    if num_classes > MAX_VOCABULARY or 2 * num_classes > present > 3:
        raise DataError(
            f"{where}: target {name!r} holds {num_classes} different texts in {present} rows; that looks like names. "
            "Choose another target, or say --set overrides.kind=multiclass"
        )


def guess_direction(edge_lists: Iterable[tuple[int, IntArray]]) -> tuple[bool, str]:
    """Guess from (N, edges) of some graphs: directed if some edges are listed in both directions and some are not.

    All in both directions, or none: the graphs are taken as undirected. Returns the guess and its reason.
    """
    paired = total = 0
    for num_nodes, edges in edge_lists:
        between = edges[:, edges[0] != edges[1]]
        both = np.isin(between[1] * num_nodes + between[0], between[0] * num_nodes + between[1])
        paired, total = paired + int(both.sum()), total + len(both)
    if not total:
        return False, "guessed: there are no edges between nodes"
    if not paired:
        return False, "guessed: no edge is listed in both directions; if they have one, set it to true"
    if paired == total:
        return False, "guessed: all edges are listed in both directions"
    return True, f"guessed: {paired:,} of {total:,} edges are listed in both directions, the others in one"
