"""Raw data -> `CustomSchema`: the roles and kinds of all columns, guessed unless the user says otherwise.

What is learned from the training rows (vocabularies, means, deviations) is added by `egt.data.custom.learn`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import count, takewhile
from shlex import quote
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError

from egt.data.columns import (
    DISTANCE,
    POSITION_NAMES,
    Column,
    Columns,
    RawData,
    as_numbers,
    bound_of,
    columns_at,
    holds_lists,
    missing_in,
    sorted_texts,
    text_of,
)
from egt.data.labels import find_parts, label_copies
from egt.data.molecules import MOST_CONFORMERS, MoleculeVocabulary, PlacedBy, parse_smiles
from egt.data.schema import (
    CustomSchema,
    Feature,
    FeatureKind,
    Replicates,
    SplitPlan,
    Standard,
    TargetGroup,
    few,
    is_split_column,
)
from egt.data.source import NUMBERS, TargetKind
from egt.errors import DataError, EgtError, counted
from egt.graph import IntArray, Level
from egt.registry import Section

ID_NAMES = (
    *("id", "idx", "index", "name", "graphid", "molid", "moleculeid", "compoundid", "sampleid", "chemblid"),
    *("molname", "moleculename", "compoundname", "drugname", "samplename", "compoundnumber", "compoundcode"),
)
"""Names of columns that name rows, as `_plain_name` gives them: `Compound ID` and `compound_id` are `compoundid`."""

_ENDS_WITH_ID = re.compile(r"[\W_](?i:id)$|[a-z0-9]I[dD]$")

TARGET_NAMES = ("y", "label", "labels", "target", "targets", "class")
SPLIT_NAMES = ("split", "set", "subset", "fold", "partition")
_ONE_OF_SPLITS = re.compile(r"split\.\d+")  # of masks with several columns (`with_mask_split`)
WEIGHT_NAMES = ("weight", "edge_weight")
POSITIVE_NAMES = ("active", "yes", "true", "positive", "pos", "+")
NEGATIVE_NAMES = ("inactive", "no", "false", "negative", "neg", "-", "0", "-1")
MAX_SMILES_TRIED = 50
MAX_NUMBERS_AS_CATEGORIES = 20
MAX_VOCABULARY = 1000

_CLASS_NAMES = ("0", "1")

_GAPS = frozenset(
    ("n/a", "na", "n.a.", "nd", "n.d.", "nt", "n.t.", "-", "--", "?", "none", "missing", "tbd", "#n/a", "#value!")
) | {f"{no} {done}" for no in ("not", "no") for done in ("available", "determined", "tested", "measured", "data")}
"""Words among numbers for one that is not there, in small letters."""

MIN_YES_OR_NO = 10  # so many labels, all 0 or 1, are no accident
_LABEL = re.compile(
    r"(y|labels?|targets?|class)([_ .-]?\d+)?|(label|target|class)[_ .-]\w+|\w+[_ .-](label|target|class)"
)


def _check_names(given: Any) -> Any:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("give the names of columns, as [x, y, z]")
    return tuple(names)


Names = Annotated[tuple[str, ...], BeforeValidator(_check_names)]


class Overrides(Section):
    """Decisions of the user; what is None is guessed."""

    id: str | None = None  # the column that names the rows; "" for none
    smiles: Names | None = None  # the columns of SMILES
    weight: str | None = None  # the column of edges with their weights; "" for none
    row_weight: str = ""  # the column that says what a row counts; "" for none
    directed: bool | None = None  # whether edges have a direction
    kind: Literal["regression", "censored", "binary", "multiclass"] | None = None  # of the target
    positive: str | bool | int | float | None = None  # the one of two classes that scores such as F1 are about
    vocabulary: MoleculeVocabulary = "ogb"  # the features of atoms and bonds
    standardize: Standard = ""
    replicates: Replicates = ""
    node_features: Mapping[str, FeatureKind] = Field(default_factory=dict)  # column -> kind
    edge_features: Mapping[str, FeatureKind] = Field(default_factory=dict)
    pair_features: Mapping[str, FeatureKind] = Field(default_factory=dict)
    graph_features: Names | None = None  # the columns of whole graphs that the model is given, names or patterns
    positions: Names | None = None  # columns of nodes with coordinates ("" for none); of molecules "file" or "rdkit"
    conformers: Annotated[int, Field(ge=1, le=MOST_CONFORMERS)] = 1  # how many RDKit makes
    hydrogens: bool = False  # whether hydrogen atoms are nodes


def read_overrides(given: Mapping[str, Any] | None) -> Overrides:
    """Return checked overrides; a `DataError` names the first that is wrong."""
    try:
        return Overrides.model_validate(given or {})
    except ValidationError as error:
        [problem, *_] = error.errors()
        key = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        raise DataError(f"overrides.{key} is unknown; allowed are {', '.join(Overrides.model_fields)}")
    raise DataError(f"overrides.{key} is {(given or {})[key]!r}; {problem['msg'].removeprefix('Value error, ')}")


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
        level: "graph", "node", "edge", "link" or "pair"; None to guess.
        overrides: decisions of the user: `Overrides` by name.
        split: how to divide the data.
        labeled: False for whole graphs without a target; columns of nodes and edges that look like labels are left out.

    Raises:
        DataError: where a decision is needed that cannot be guessed; it lists the choices.
    """
    if len(raw.problems) == raw.num_rows:
        raise DataError(f"{raw.where}: none of its {raw.num_rows} rows can be read; the first: {raw.problems[0]}")
    given = read_overrides(overrides)
    if level is not None and level not in get_args(Level):
        raise DataError(f"level is {level!r}; allowed are {', '.join(get_args(Level))}")
    plan = split or SplitPlan()
    roles = _find_roles(raw, given, plan)
    notes: dict[str, str] = {}
    targets: tuple[str, ...] = ()
    kind: TargetKind = "binary"
    classes: tuple[str, ...] = ()
    groups: tuple[TargetGroup, ...] = ()
    positions, places = _find_positions(raw, roles, given, level)
    if labeled:
        if raw.is_molecules:
            roles, level, notes = _find_lists(raw, roles, target, level)
        if level == "pair" and _asks_distances(raw, roles, target, positions):
            targets = (DISTANCE,)
        else:
            level, targets = _find_targets(raw, roles, target, level)
    level = level if labeled and level is not None else "graph"
    predicts_distances = targets == (DISTANCE,) and DISTANCE not in roles.free["pair"]
    if predicts_distances:
        kind = "regression"
    elif targets:
        whole = columns_at(raw, "pair") if level == "pair" else roles.free[level]  # of more graphs than were tried
        labels = {name: whole[name] for name in targets}
        kind, classes, groups = guess_targets(labels, given.kind, raw.where)
        targets = tuple(name for group in groups for name in group.targets) or targets
        if kind in ("censored", "mixed"):
            notes |= {f"bounds.{name}": text for name, column in labels.items() if (text := describe_bounds(column))}
    if given.positive is not None:
        classes, groups = _put_positive_last(classes, groups, kind, text_of(given.positive), raw.where)
    if roles.row_weight and level != "graph":
        raise DataError(f"{raw.where}: rows have weights only where whole graphs are predicted, not {level}s")
    directed, direction = _find_direction(raw, given.directed)
    notes |= direction
    inputs = {name: roles.columns["graph"][name] for name in roles.inputs}
    if level == "graph" and classes and given.graph_features is None:
        copies = label_copies({**inputs, **roles.free["graph"]}, targets, ())
        notes |= {f"graph_features.{name}": _why_copy(copies[name]) for name in inputs if name in copies}
        inputs = {name: column for name, column in inputs.items() if name not in copies}
    features: dict[str, Any] = {"graph_features": tuple(_continuous(*each) for each in inputs.items())}
    if raw.placed is not None and not positions:
        notes["positions"] = "the file has coordinates, which positions=file reads"
    is_symmetric, has_self_pairs = (True, False) if predicts_distances else _directions(raw, targets, level)
    for place in ("node", "edge", "pair"):
        key, free = f"{place}_features", roles.free[place]
        chosen: Mapping[str, FeatureKind] = getattr(given, key)
        if place == level or not labeled:
            left_out = _find_leaks(free, targets, chosen, classes)
            notes |= {f"{key}.{name}": why for name, why in left_out.items()}
            ignored: dict[str, FeatureKind] = dict.fromkeys(left_out, "ignored")
            chosen = {**ignored, **chosen}
        weight = roles.weight if place == "edge" else ""
        barred = {*(targets if place == level else ()), *raw.declared.get(place, ())}
        columns = {
            name: column
            for name, column in ({weight: roles.columns["edge"][weight], **free} if weight else free).items()
            if name not in barred and not (name == "split" and is_split_column(column))
        }
        if place == "node" and (places[-1:] == (3,) or predicts_distances):
            # In space, what a node is does not depend on where it is.
            columns = {name: column for name, column in columns.items() if name not in positions}
        features[key] = choose_features(columns, weight, chosen, f"{raw.where}: {place}s")
    return CustomSchema(
        format=raw.format,
        level=level,
        kind=kind,
        targets=targets,
        classes=classes,
        groups=groups,
        row_weight=roles.row_weight,
        id=roles.id,
        smiles=roles.smiles[0] if roles.smiles else "",
        more_smiles=roles.smiles[1:],
        weight=roles.weight,
        vocabulary=given.vocabulary,
        canonical=raw.is_molecules,
        standardize=given.standardize,
        replicates=given.replicates,
        directed=directed,
        split=_find_plan(plan, roles, level, raw, divides_classes=bool(classes) and level == "graph"),
        notes=notes,
        positions=positions,
        place=places,
        symmetric=is_symmetric,
        self_pairs=has_self_pairs,
        hydrogens=given.hydrogens,
        **features,
    )


def _find_positions(
    raw: RawData, roles: _Roles, given: Overrides, level: Level | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return where positions come from, and the shape of the place of a node."""
    if raw.is_molecules:
        return _find_placement(raw, given, roles.smiles, is_target=level == "pair")
    if only := sorted({"conformers", "hydrogens"} & given.model_fields_set):
        raise DataError(f"{raw.where}: overrides.{only[0]} is for molecules, and this is {raw.format} data")
    names = _position_columns(roles.columns["node"], given.positions, raw.where)
    return names, _place({name: roles.columns["node"][name] for name in names})


def _asks_distances(raw: RawData, roles: _Roles, target: Sequence[str] | None, positions: Sequence[str]) -> bool:
    """Return whether distances of positions are the target of pairs: where no matrix is, or is meant."""
    matrices = roles.free["pair"]
    if not positions or (DISTANCE in matrices) or (target is None and matrices):
        return False
    if target is not None and list(target) != [DISTANCE] and raw.is_molecules:
        raise DataError(f"{raw.where}: of pairs of atoms the target is {DISTANCE}, not {', '.join(target)}")
    return target is None or list(target) == [DISTANCE]


def _directions(raw: RawData, targets: Sequence[str], level: Level) -> tuple[bool, bool]:
    """Return whether matrices of targets are symmetric, and whether their diagonals say more than one thing."""
    if level != "pair":
        return False, False
    is_symmetric, diagonal = True, set[Any]()
    for graph in filter(None, raw.graphs):
        for name in targets:
            if (matrix := graph.pairs.get(name)) is None:
                continue
            known = ~missing_in(matrix.reshape(-1)).reshape(matrix.shape)
            both = known & known.T
            is_symmetric = is_symmetric and bool((matrix[both] == matrix.T[both]).all())
            diagonal |= {(name, value) for value in matrix.diagonal()[known.diagonal()].tolist()}
    return is_symmetric, len(diagonal) > len(targets)


def _find_placement(
    raw: RawData, given: Overrides, smiles: Sequence[str], *, is_target: bool
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return where the positions of the atoms of molecules come from, and the shape of the place of an atom.

    Where they are the target, they are those of the file if it has any, and else RDKit's.
    """
    by, count = ", ".join(given.positions or ()), given.conformers
    reads_file = by == "file" or (is_target and not by)
    is_placed = reads_file and (raw.placed is not None or any(text and " |(" in text for text in raw.table[smiles[0]]))
    if is_target and not by:
        by = "file" if is_placed and count == 1 else "rdkit"
    if count > 1 and by != "rdkit":
        raise DataError(f"overrides.conformers is {count}, and conformers are made with overrides.positions=rdkit")
    if not by:
        return (), ()
    if by not in get_args(PlacedBy):
        raise DataError(f"overrides.positions is {by!r}; of molecules it is file (their coordinates there) or rdkit")
    if len(smiles) > 1:
        raise DataError(f"{raw.where}: the molecules of a row have no places in common; leave overrides.positions out")
    if by == "file" and not is_placed:
        raise DataError(
            f"{raw.where}: column {smiles[0]!r} has no coordinates; name one with CXSMILES (--smiles), give a 3D file "
            "(.sdf, .mol2), or let RDKit place the atoms (--set overrides.positions=rdkit)"
        )
    if by == "file" and given.standardize:
        raise DataError(f"{raw.where}: a standardized molecule has lost its coordinates; choose positions=rdkit")
    return (by,), (3,) if count == 1 else (count, 3)


def _position_columns(columns: Columns, given: Sequence[str] | None, where: str) -> tuple[str, ...]:
    """Return the node columns with coordinates: those that are given, else vectors of 2 or 3 numbers with such a name.

    Several vectors are conformers, which are called `positions.0`, `positions.1`, ... where they are guessed.
    """
    if given is None:
        found = [name for name, column in columns.items() if column.ndim == 2 and column.shape[1] in (2, 3)]
        numbered = tuple(takewhile(found.__contains__, (f"positions.{k}" for k in count())))
        return numbered or tuple(name for name in found if name.lower() in POSITION_NAMES)[:1]
    names = tuple(filter(None, given))
    shape = _place({name: _column(columns, name, where) for name in names})
    if names and (not 1 <= len(shape) <= 2 or shape[-1] not in (2, 3)):
        raise DataError(
            f"{where}: overrides.positions names {', '.join(names)}; give two or three columns of numbers, one for "
            "each axis, or columns of vectors with 2 or 3 numbers, one for each conformer"
        )
    return names


def _place(columns: Columns) -> tuple[int, ...]:
    """Return the shape of the place of a node: (axes,) or (conformers, axes); (0,) for columns that do not fit."""
    shapes = {column.shape[1:] for column in columns.values()}
    if len(shapes) > 1:
        return (0,)
    return () if not columns else shapes.pop() if len(columns) == 1 else (len(columns), *shapes.pop())


@dataclass(frozen=True)
class _Roles:
    """The columns that are neither features nor targets, and all others."""

    id: str  # names the graphs; "" for none
    smiles: tuple[str, ...]  # hold molecules
    weight: str  # holds the weights of edges; "" for none
    row_weight: str  # holds what the labels of each row count; "" for none
    inputs: tuple[str, ...]  # of whole graphs that are given to the model
    splits: dict[str, str]  # the columns that divide the data, by level
    columns: dict[str, dict[str, Column]]  # all of them, by level
    free: dict[str, dict[str, Column]]  # those without a role, by level


_MATRICES_TRIED = 50  # the kind of a matrix is guessed from so many graphs


def _find_roles(raw: RawData, given: Overrides, plan: SplitPlan) -> _Roles:
    columns = {level: columns_at(raw, level) for level in ("graph", "node", "edge")}
    columns["pair"] = columns_at(replace(raw, graphs=raw.graphs[:_MATRICES_TRIED]), "pair")
    table, where = columns["graph"], raw.where
    id_column = find_id(table, given.id, where)
    smiles = find_smiles(table, given.smiles, where) if raw.is_molecules else ()
    weight = _find_weight(columns["edge"], given.weight, where)
    inputs = _find_inputs(table, raw.inputs if given.graph_features is None else given.graph_features, where)
    divided = {
        level: [
            name
            for name in named
            if (name.lower() in SPLIT_NAMES or _ONE_OF_SPLITS.fullmatch(name)) and is_split_column(named[name])
        ]
        for level, named in columns.items()
    }
    splits = {level: names[0] if names else "" for level, names in divided.items()}
    if given.row_weight:
        _column(table, given.row_weight, where)
    taken = {"graph": {id_column, *smiles, *inputs, given.row_weight}, "node": set(), "edge": {weight}, "pair": set()}
    free: dict[str, dict[str, Column]] = {}
    for level, named in columns.items():
        others = {name for name in divided[level] if _ONE_OF_SPLITS.fullmatch(name)}
        roles = taken[level] | {splits[level], plan.column} | others
        free[level] = {name: named[name] for name in named if name not in roles}
    return _Roles(id_column, smiles, weight, given.row_weight, inputs, splits, columns, free)


def find_id(columns: Columns, given: str | None, where: str) -> str:
    """Return the column that names the rows, none twice and most of them (`id` may repeat); "" for none."""
    if given:
        if not _names_rows(_column(columns, given, where)):
            raise DataError(f"{where}: id column {given!r} has repeated or too few values; choose another one")
        return given
    if given == "":
        return ""
    named = (name for name in columns if _plain_name(name) in ID_NAMES or _ENDS_WITH_ID.search(name))
    found = next((name for name in named if _names_rows(columns[name])), "")
    return found or next((name for name in columns if name.lower() == "id" and columns[name].ndim == 1), "")


def _plain_name(name: str) -> str:
    """Return the name of a column in small letters, without what stands between words."""
    return re.sub(r"[\W_]+", "", name).lower()


def _names_rows(column: Column) -> bool:
    present = column[~missing_in(column)].tolist()
    return column.ndim == 1 and 2 * len(present) > len(column) and len(set(present)) == len(present)


def _column(columns: Columns, name: str, where: str) -> Column:
    if name not in columns:
        raise DataError(f"{where}: there is no column {name!r}; the columns are {', '.join(columns)}")
    return columns[name]


def find_smiles(columns: Columns, given: Sequence[str] | None, where: str) -> tuple[str, ...]:
    """Return the columns with SMILES: those that are given, else one.

    That is the one with such a name, else the only one whose texts RDKit can read. Rows of several SMILES have numbered
    columns, and all of them are taken.
    """
    if given:
        for name in given:
            if _column(columns, name, where).dtype != object:
                raise DataError(f"{where}: column {name!r} holds numbers, not SMILES")
            if given.count(name) > 1:
                raise DataError(f"{where}: column {name!r} is given twice for the SMILES; name each component once")
        return tuple(given)
    if numbered := _numbered(columns):
        return numbered
    texts = [name for name, column in columns.items() if column.dtype == object]
    named = [name for name in texts if "smiles" in name.lower() or name.lower() == "smi"]
    exact = [name for name in named if name.lower() == "smiles"]
    found = exact or named or [name for name in texts if _are_molecules(columns[name])]
    if found and not named and _are_molecules(found[:1]):
        raise DataError(
            f"{where}: the first line looks like a row, not like names of columns ({found[0]!r} is a molecule); add a "
            "line of names on top, or say which column holds the SMILES (--smiles NAME)"
        )
    if len(found) != 1:
        what = f"several columns could hold SMILES: {', '.join(found)}" if found else "no column holds SMILES"
        raise DataError(
            f"{where}: {what}. The columns are {', '.join(columns)}; choose one with --smiles NAME, or several "
            "that are components of one graph. (Graphs without SMILES go into JSONL or a folder of nodes.csv and "
            "edges.csv: see docs/data.md)"
        )
    return (found[0],)


def find_smiles_of(model: Sequence[str], columns: Columns, where: str) -> tuple[str, ...]:
    """Return the columns of new data with the SMILES that a model reads, in the order of its own columns.

    Other names are guessed for a single one only: nothing says which of several is which.
    """
    if all(name and name in columns for name in model):  # a model of a benchmark knows no name, an index has none
        return tuple(model)
    found = _numbered(columns) if len(model) > 1 else find_smiles(columns, None, where)
    if len(found) != len(model):
        raise DataError(
            f"{where}: the model reads {len(model)} SMILES in each row ({', '.join(filter(None, model))}); the columns "
            f"are {', '.join(columns)}. Name them in this order (--smiles NAME NAME)"
        )
    return found


def _numbered(columns: Columns) -> tuple[str, ...]:
    """Return the columns of rows of several SMILES: `smiles.0`, `smiles.1`, ..."""
    return () if "smiles" in columns else tuple(takewhile(columns.__contains__, (f"smiles.{k}" for k in count())))


def _are_molecules(texts: Iterable[str | None]) -> bool:
    tried = [text for text in texts if text is not None][:MAX_SMILES_TRIED]
    good = sum(not isinstance(molecule, EgtError) for molecule, _ in parse_smiles(tried))
    return bool(tried) and good >= 0.8 * len(tried)


def _find_weight(columns: Columns, given: str | None, where: str) -> str:
    """Return the edge column with weights; "" for none."""

    def is_number(column: Column) -> bool:
        return column.dtype != object and (column.ndim == 1 or column.shape[1] == 1)

    if given is None:
        return next((name for name in columns if name.lower() in WEIGHT_NAMES and is_number(columns[name])), "")
    if given and not is_number(_column(columns, given, where)):
        raise DataError(f"{where}: weight column {given!r} must hold one number per edge")
    return given


def _find_inputs(columns: Columns, given: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the columns of whole graphs that are given to the model, by names or patterns (`desc_*`)."""
    found: dict[str, None] = {}
    for pattern in given:
        names = _match(columns, pattern)
        if not names:
            raise DataError(f"{where}: there is no feature column {pattern!r}; the columns are {', '.join(columns)}")
        found |= dict.fromkeys(names)
    for name in found:
        if texts := as_numbers(columns[name])[1]:
            raise DataError(
                f"{where}: feature column {name!r} holds {texts[0]!r}, which is not a number; features of whole graphs "
                "are numbers (write categories as columns of 0 and 1)"
            )
    return tuple(found)


def _match(columns: Iterable[str], pattern: str) -> list[str]:
    return [name for name in columns if name == pattern or fnmatchcase(name, pattern)]


def _find_lists(
    raw: RawData, roles: _Roles, target: Sequence[str] | None, level: Level | None
) -> tuple[_Roles, Level | None, dict[str, str]]:
    """Return the roles with targets of atoms or bonds, which are lists, at their level, and a note if it is guessed."""
    if level in ("graph", "link", "pair") or (level is None and target is None):
        return roles, level, {}
    columns = roles.free["graph"]
    wanted = {name for pattern in target or ("*",) for name in _match(columns, pattern)}
    certain = level is not None and target is not None
    listed = [name for name in columns if name in wanted and (certain or holds_lists(columns[name]))]
    if not listed:
        return roles, level, {}
    if target is not None and len(listed) < len(wanted):
        whole = next(name for name in columns if name in wanted and name not in listed)
        raise DataError(
            f"{raw.where}: {listed[0]!r} holds lists, for atoms or bonds, and {whole!r} single values, for molecules; "
            f"train a model for each (--target {quote(whole)})"
        )
    found, values, note = find_parts(raw, roles.smiles, {name: columns[name] for name in listed}, level)
    rest = {name: column for name, column in columns.items() if name not in listed}
    free = {**roles.free, "graph": rest, found: values}
    return replace(roles, free=free), found, {"level": note} if note else {}


def _find_targets(
    raw: RawData, roles: _Roles, target: Sequence[str] | None, level: Level | None
) -> tuple[Level, tuple[str, ...]]:
    """Return the level that is predicted, and the target columns there: none for links, which are there or not."""
    if level == "link":
        if target is not None:
            raise DataError(f"{raw.where}: link prediction has no target column; leave target out")
        return level, ()
    levels: list[Level] = ["graph", "node", "edge", "pair"] if level is None else [level]
    if target is None:
        found, targets = _guess_targets(raw, roles.free, levels, is_free=level is None)
    else:
        if both := sorted({*target} & {*roles.inputs}):
            raise DataError(f"{raw.where}: column {both[0]!r} cannot be both target and feature (--target, --features)")
        _check_roles(raw, roles, target)
        found, targets = _choose_targets(roles.free, target, levels, raw.where)
    _check_roles(raw, roles, targets)
    return found, targets


def _check_roles(raw: RawData, roles: _Roles, target: Sequence[str]) -> None:
    """Refuse a target that is a column with another role, and say with which."""
    known = {
        **dict.fromkeys(roles.splits.values(), "the split of each row; name another target (--target)"),
        roles.weight: 'the weight of the edges; name another target (--target), or none (--set overrides.weight="")',
        roles.row_weight: "the weight of each row; name another target (--target)",
        roles.id: 'the name of each row; name another target (--target), or no id (--set overrides.id="")',
        **dict.fromkeys(roles.smiles, "the molecule; name another target (--target), or other SMILES (--smiles)"),
    }
    free = {name for columns in roles.free.values() for name in columns}
    for name in target:
        if name in known and name not in free:
            raise DataError(f"{raw.where}: column {name!r} cannot be the target, it is {known[name]}")


def _choose_targets(
    columns: Mapping[str, Columns], target: Sequence[str], levels: Sequence[Level], where: str
) -> tuple[Level, tuple[str, ...]]:
    """Return the columns of names and patterns (`NR-*`, `*`), which have to be at one level."""
    found: dict[Level, dict[str, None]] = {}
    for pattern in target:
        matches = {level: _match(columns[level], pattern) for level in levels}
        if pattern == "*":  # all columns of the first level that has any: the widest choice is the whole graph
            matches = dict([next(((level, names) for level, names in matches.items() if names), (levels[0], []))])
        if not any(matches.values()):
            close = get_close_matches(pattern, [name for level in levels for name in columns[level]], n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise DataError(f"{where}: there is no column {pattern!r}.{hint} The columns are: {_names(columns)}")
        for level, matched in matches.items():
            if matched:
                found.setdefault(level, {}).update(dict.fromkeys(matched))
    if len(found) > 1:
        raise DataError(f"{where}: target {list(target)} is at several levels: {_names(found)}. Choose with level=...")
    level, chosen = next(iter(found.items()))
    return level, tuple(chosen)


def _guess_targets(
    raw: RawData, columns: Mapping[str, Columns], levels: Sequence[Level], *, is_free: bool
) -> tuple[Level, tuple[str, ...]]:
    """Return the only columns that can be targets; an error lists them where there are more choices, or none."""
    options: dict[Level, tuple[str, ...]] = {}
    for level in levels:
        names = raw.declared.get(level) or (
            () if raw.declared and is_free else _candidates(columns[level], level, is_asked=not is_free)
        )
        if names:
            options[level] = tuple(names)
    if len(options) > 1:
        raise DataError(
            f"{raw.where}: there are targets at several levels: {_names(options)}. Choose one with level=... (--task)"
        )
    if not options:
        reason = next(filter(None, (_why_no_target(*each) for each in columns["graph"].items())), "")
        raise DataError(
            f"{raw.where}: no target found. The columns are: {_names(columns)}. {reason} "
            "Choose one with target=NAME (--target NAME), or predict links with level='link' (--task link)"
        )
    found, names = next(iter(options.items()))
    if len(names) > 1 and not raw.declared.get(found):
        texts = {name for name in names if columns[found][name].dtype == object}
        texts -= {name for name in texts if _has_bounds({name: columns[found][name]})}
        kinds = [f"{name} ({'text' if name in texts else 'numbers'})" for name in names]
        raise DataError(
            f"{raw.where}: several columns could be the target: {few(kinds, 40)}. "
            f"Choose with target=NAME (--target {quote(names[0])}), several times for several, or target='*' for "
            "all of them"
        )
    return found, names


def _candidates(columns: Columns, level: Level, *, is_asked: bool) -> tuple[str, ...]:
    if level != "graph":
        named = tuple(name for name in columns if name.lower() in TARGET_NAMES)
        return tuple(columns) if is_asked and level == "pair" and not named else named
    return tuple(
        name
        for name, column in columns.items()
        if _plain_name(name) not in ID_NAMES and name.lower() not in SPLIT_NAMES and not _why_no_target(name, column)
    )


def _why_no_target(name: str, column: Column) -> str:
    """Return why a column of whole graphs cannot be a target, where its content is the reason; "" where it can."""
    present = column[~missing_in(column)]
    if not len(present):
        return f"{name!r} is empty."
    if column.dtype == object and holds_lists(column):
        return f"{name!r} holds lists; if they are of atoms or bonds, name it (--target {quote(name)})."
    differs = column.dtype == object and len(present) > 2 and len(set(present)) == len(present)
    if differs and not _has_bounds({name: present}):
        return f"{name!r} is a text that differs in every row (e.g. {present[0]!r}), not a number or a class."
    return ""


def _names(columns: Mapping[Any, Iterable[str]]) -> str:
    return "; ".join(f"{level}: {few([*names], 40)}" for level, names in columns.items() if names) or "none"


def _find_direction(raw: RawData, given: bool | None) -> tuple[bool | None, dict[str, str]]:
    """Return whether edges have a direction, and why that was guessed."""
    if given is not None:
        return given, {}
    graphs = [graph for graph in raw.graphs if graph is not None]
    stated = {graph.directed for graph in graphs}
    if stated == {None}:
        directed, reason = guess_direction((graph.num_nodes, graph.edges) for graph in graphs)
        return directed, {"directed": reason}
    if raw.format == "graphs" or len(stated) > 1:  # a `Graph` has all its edges
        return None, {}
    return (stated.pop() if stated else False), {}


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


def _find_plan(plan: SplitPlan, roles: _Roles, level: Level, raw: RawData, *, divides_classes: bool) -> SplitPlan:
    """Return the plan with its column found and checked, and `auto` decided: graphs of classes are divided evenly."""
    places = [level, "graph"] if level in ("node", "edge") else ["graph"]
    if plan.column and plan.kind not in ("auto", "column"):
        raise DataError(
            f"{raw.where}: the data is to be divided by column {plan.column!r} and {plan.kind}; leave one of "
            "split.column and split.kind out"
        )
    if plan.kind == "auto" and not plan.column:
        column = next((roles.splits[place] for place in places if roles.splits[place]), "")
        kind = "column" if column else "even" if divides_classes else "random"
        return plan.model_copy(update={"kind": kind, "column": column})
    names = [name for place in places for name in roles.columns[place]]
    if plan.column and plan.column not in names:
        raise DataError(f"{raw.where}: there is no split column {plan.column!r}; the columns are {', '.join(names)}")
    if plan.kind == "scaffold" and not raw.is_molecules:
        raise DataError(f"{raw.where}: a scaffold split needs molecules; choose random, stratified or a column")
    return plan.model_copy(update={"kind": "column"}) if plan.column else plan


def _find_leaks(
    columns: Columns, targets: Sequence[str], given: Mapping[str, str], classes: Sequence[str]
) -> dict[str, str]:
    """Return columns that could give the answer away as features, each with the reason why it is left out."""
    copies = label_copies(columns, targets, given) if classes else {}  # numbers are copied by accident
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
    return Feature(name=name, kind="categorical" if _is_few_whole(present, distinct) else "continuous")


def _is_few_whole(present: Column, distinct: int) -> bool:
    whole = np.isfinite(present).all() and (present == np.rint(present)).all()
    return bool(whole) and distinct <= MAX_NUMBERS_AS_CATEGORIES


def choose_features(columns: Columns, weight: str, given: Mapping[str, FeatureKind], where: str) -> tuple[Feature, ...]:
    """Return the features of a level: guesses, replaced by what the user says about a column."""
    if unknown := sorted(set(given) - set(columns)):
        raise DataError(f"{where}: there is no column {unknown[0]!r}; the columns are {', '.join(columns) or 'none'}")
    features = []
    for name, column in columns.items():
        if name not in given:
            features.append(Feature(name=name, kind="continuous") if name == weight else guess_feature(name, column))
            continue
        if column.ndim == 2 and given[name] == "categorical":
            raise DataError(f"{where}: {name!r} holds vectors; give one column per category")
        width = column.shape[1] if column.ndim == 2 and given[name] == "continuous" else 1
        if not width:
            raise DataError(f"{where}: {name!r} holds vectors without numbers; leave it out")
        features.append(Feature(name=name, kind=given[name], width=width))
    return tuple(features)


def guess_targets(
    columns: Columns, given: TargetKind | None, where: str
) -> tuple[TargetKind, tuple[str, ...], tuple[TargetGroup, ...]]:
    """Return the kind of the targets, their classes, and the groups of a mixed table: numbers, then yes and no."""
    values = _values_by_target(columns) if given is None and len(columns) > 1 else {}
    if len({*values.values()}) < 2:
        return *guess_target(columns, given, where), ()
    found = []
    for each in sorted({*values.values()}):  # numbers, which have no values, are first
        own = {name: columns[name] for name in columns if values[name] == each}
        numbers: TargetKind = "censored" if _has_bounds({name: _labels_in(own[name]) for name in own}) else "regression"
        kind, classes = guess_target(own, "binary" if each else numbers, where)
        found.append(TargetGroup(kind=kind, targets=tuple(own), classes=classes))
    return "mixed", (), tuple(found)


def _values_by_target(columns: Columns) -> dict[str, tuple[str, ...]]:
    """Return the two values of each target of yes and no, none for numbers; nothing at all where one is neither.

    0 and 1 are yes and no where they are both there, and not by accident, or where another target has them.
    """
    found: dict[str, tuple[str, ...]] = {}
    undecided = []
    for name, column in columns.items():
        if column.ndim != 1:
            return {}
        present = _labels_in(column)
        strange = as_numbers(present)[1]
        distinct = tuple(sorted({text_of(value) for value in present}))
        if strange and len(strange) == len(present) and len(distinct) == 2:
            found[name] = distinct
        elif any(bound_of(text) is None for text in strange):
            return {}
        elif distinct == _CLASS_NAMES and len(present) >= MIN_YES_OR_NO:
            found[name] = distinct
        else:
            undecided += [name] if {*distinct} <= {*_CLASS_NAMES} else []
            found[name] = ()
    return found | dict.fromkeys(undecided, _CLASS_NAMES if _CLASS_NAMES in found.values() else ())


def guess_target(columns: Columns, given: TargetKind | None, where: str) -> tuple[TargetKind, tuple[str, ...]]:
    """Return the kind of the targets and their classes.

    Two values: binary. Texts, or whole numbers with 3 to 20 values that appear twice on average: multiclass. Other
    numbers: regression, or censored where some of them are bounds (`>5`). Several columns: multi-label if all of them
    hold the same two values, else regression.
    """
    for name, column in columns.items():
        if column.ndim != 1:
            raise DataError(f"{where}: target {name!r} holds vectors; give one column per target")
    values = {name: _labels_in(column) for name, column in columns.items()}
    distinct = sorted_texts({text_of(value) for part in values.values() for value in part})
    if not distinct:
        raise DataError(f"{where}: target {', '.join(columns)} has no value at all")
    kind = given or ("censored" if _has_bounds(values) else _target_kind(list(values.values()), distinct))
    if kind in NUMBERS:
        if given is None:
            _check_numbers(values, where)
        return kind, ()
    if kind == "multiclass" and len(columns) > 1:
        raise DataError(f"{where}: {len(columns)} targets {list(columns)} with classes; choose one of them as target")
    if kind == "multiclass" and len(distinct) < 2:
        raise DataError(
            f"{where}: target {', '.join(columns)} is {distinct[0]!r} in every row; classes are two or more"
        )
    if kind == "binary":
        distinct = _positive_last(_two_classes(distinct, where), values)
    elif given is None and any(part.dtype == object for part in values.values()):
        _check_classes(*next(iter(values.items())), len(distinct), where)
    return kind, tuple(distinct)


def _labels_in(column: Column) -> Column:
    """Return the labels that are there; words for none, among numbers, are not (training warns of them)."""
    present = column[~missing_in(column)]
    strange = as_numbers(present)[1]
    if 2 * len(strange) > len(present) or not any(text.strip().casefold() in _GAPS for text in strange):
        return present
    return present[[not isinstance(value, str) or value.strip().casefold() not in _GAPS for value in present.tolist()]]


def _has_bounds(values: Columns) -> bool:
    """Return whether all texts are bounds, beside numbers in the same column. values: what is there of each target."""
    texts = {name: as_numbers(present)[1] for name, present in values.items()}
    beside = all(len(texts[name]) < len(present) for name, present in values.items() if len(present))
    return any(texts.values()) and beside and all(bound_of(text) for each in texts.values() for text in each)


def describe_bounds(column: Column) -> str:
    """Return how many labels of a target are bounds, and in which direction; "" where all are numbers."""
    present = column[~missing_in(column)]
    found = [bound for bound in map(bound_of, present) if bound is not None]
    above, below = (sum(bool(np.isnan(bound[end])) for bound in found) for end in (1, 0))
    sides = {"above a number (>)": above, "below one (<)": below, "about one (~)": len(found) - above - below}
    counts = ", ".join(f"{count} {side}" for side, count in sides.items() if count)
    return f"{len(found)} of {counted(len(present), 'label')}: {counts}" if found else ""


def _target_kind(values: list[Column], distinct: list[str]) -> TargetKind:
    numbers = [as_numbers(part) for part in values]
    numeric = not any(strange for _, strange in numbers)
    rows = sum(len(part) for part in values)
    whole = numeric and all(_is_few_whole(part, len(distinct)) for part, _ in numbers)
    if len(distinct) <= 2 and (whole or not numeric):
        return "binary"
    if len(values) == 1 and (not numeric or (whole and 2 * len(distinct) <= rows)):
        return "multiclass"
    return "regression"


def _two_classes(distinct: list[str], where: str) -> list[str]:
    if len(distinct) == 1 and distinct[0] in ("0", "1"):
        return ["0", "1"]
    if len(distinct) == 1:
        raise DataError(f"{where}: all labels are {distinct[0]!r}; there is nothing to learn from one class")
    if len(distinct) != 2:
        raise DataError(f"{where}: a binary target needs two values; found {len(distinct)}: {distinct[:10]}")
    return distinct


def _positive_last(classes: list[str], values: Columns) -> list[str]:
    """Return two classes with the positive one last: the one that is called so or is not called negative, or the rarer.

    values: what is there of each target.
    """
    called = [name for name in classes if name.lower() in POSITIVE_NAMES]
    called = called or [name for name in classes if name.lower() not in NEGATIVE_NAMES]
    count = Counter(text_of(value) for part in values.values() for value in part)
    positive = called[0] if len(called) == 1 else min(reversed(classes), key=lambda name: count[name])
    return sorted(classes, key=lambda name: name == positive)


def _put_positive_last(
    classes: tuple[str, ...], groups: tuple[TargetGroup, ...], kind: TargetKind, positive: str, where: str
) -> tuple[tuple[str, ...], tuple[TargetGroup, ...]]:
    """Return two classes, and those of groups, with the one last that scores such as F1 are about."""
    known = [group.classes for group in groups] or [classes if kind == "binary" else ()]
    if not any(positive in each for each in known):
        names = "; ".join(", ".join(each) for each in known if each)
        there = f"the classes are {names}" if names else f"this target is {kind}"
        raise DataError(f"{where}: overrides.positive is {positive!r}, one of two classes; {there}")

    def ordered(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(names, key=lambda name: name == positive)) if positive in names else names

    changed = [group.model_copy(update={"classes": ordered(group.classes)}) for group in groups]
    return ordered(classes), tuple(changed)


def _check_numbers(values: Columns, where: str) -> None:
    """Refuse texts among numbers. values: what is there of each target."""
    numbers = {name: as_numbers(present) for name, present in values.items()}
    for name, (present, strange) in numbers.items():
        if strange and len(strange) == len(present):
            raise DataError(
                f"{where}: target {name!r} holds classes, such as {strange[0]!r}, but not two of them; beside other "
                f"targets there can be numbers, and two classes each: train a model for it (--target {quote(name)})"
            )
        if others := _no_bounds(strange):
            raise DataError(
                f"{where}: target {name!r} holds {others[0]!r}, which is not a number; choose targets of one kind, "
                f"or say --set overrides.kind={_kind_of_rest(strange)} to treat such labels as missing"
            )


def _no_bounds(texts: Sequence[str]) -> list[str]:
    return [text for text in texts if bound_of(text) is None]


def _kind_of_rest(texts: Sequence[str]) -> TargetKind:
    """Return the kind of a target of numbers, and of bounds if some of these texts are bounds."""
    return "censored" if any(map(bound_of, texts)) else "regression"


def _check_classes(name: str, present: Column, num_classes: int, where: str) -> None:
    """Refuse numbers with some texts among them, and texts that look like names."""
    strange = as_numbers(present)[1]
    if strange and len(strange) < len(present) / 2:
        others = _no_bounds(strange) or strange
        raise DataError(
            f"{where}: target {name!r} holds numbers, but also {others[0]!r}; say --set overrides.kind="
            f"{_kind_of_rest(strange)} to treat such labels as missing, or overrides.kind=multiclass if its values are "
            "names"
        )
    if num_classes > MAX_VOCABULARY or 2 * num_classes > len(present) > 3:
        raise DataError(
            f"{where}: target {name!r} holds {num_classes} different texts in {len(present)} rows; that looks like "
            "names. Choose another target, or say --set overrides.kind=multiclass"
        )
