"""`CustomSchema`: everything that was decided about the user's data, as the section `data.custom` of `config.yaml`.

Its split plan says which rows, or which nodes or edges of one graph, belong to train, val and test.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from egt.data.columns import (
    DISTANCE,
    Column,
    Columns,
    RawData,
    RawGraph,
    encode_bounds,
    encode_target,
    number_names,
    position_columns,
    text_of,
)
from egt.data.molecules import (
    OGB_SCHEMA,
    RDKIT_ERRORS,
    ZINC_SCHEMA,
    MoleculeVocabulary,
    PlacedBy,
    Placement,
    parse_or_none,
    require_rdkit,
)
from egt.data.source import NUMBERS, DataCard, TargetKind, TargetSchema
from egt.errors import DataError
from egt.graph import FeatureSchema, IntArray, Level
from egt.registry import Section

FeatureKind = Literal["categorical", "continuous", "ignored"]
Standard = Literal["", "parent", "tautomer"]
"""As it is written; the largest part of each molecule, uncharged where that is possible; its canonical tautomer too."""

Replicates = Literal["", "mean", "median", "drop"]
"""All rows; their mean or median (the most common class); one row where all labels agree, and none where not."""

SplitKind = Literal["auto", "column", "random", "even", "scaffold", "stratified"]
MOLECULE_SCHEMAS: dict[MoleculeVocabulary, FeatureSchema] = {"ogb": OGB_SCHEMA, "zinc": ZINC_SCHEMA}
_Share = Annotated[float, Field(ge=0, le=1)]


class Feature(Section):
    """One feature column: categorical (an id per known value), continuous (standardized numbers) or ignored.

    Fields:
        name: the column.
        width: numbers per row of a continuous column; more than 1 for vectors.
        vocabulary: the value behind id 0, 1, ... of a categorical column, seen in training.
        mean, std: of a continuous column in training, `width` numbers each; empty: not standardized.
    """

    name: str
    kind: FeatureKind
    width: PositiveInt = 1
    vocabulary: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


class Fold(Section):
    """One of several ways to divide data: part `number` of `of` equal ones is the test, the part before it val."""

    number: NonNegativeInt
    of: Annotated[int, Field(ge=3)]

    @model_validator(mode="after")
    def _check_number(self) -> Fold:
        if self.number >= self.of:
            raise ValueError(f"there is no fold {self.number} of {self.of}; they are counted from 0")
        return self


class SplitPlan(Section):
    """How rows (or the nodes or edges of one graph) are divided into train, val and test.

    Fields:
        kind: `auto` takes a split column if there is one, else `even` for classes of graphs (each class is in all
            splits as evenly as whole rows allow), else `random`; a schema holds what it came to.
        column: the one that names the split of each row; given alone it decides the kind.
        fractions: shares of train, val and test.
        seed: of the division.
        fold: divide into equal parts instead of `fractions`; `egt train --folds` sets it.
    """

    kind: SplitKind = "auto"
    column: str = ""
    fractions: tuple[_Share, _Share, _Share] = (0.8, 0.1, 0.1)
    seed: NonNegativeInt = 0
    fold: Fold | None = None

    @property
    def shares(self) -> tuple[float, float, float] | Fold:
        """How large the splits are: fractions, or equal parts."""
        return self.fold or self.fractions

    @field_validator("fractions")
    @classmethod
    def _check_sum(cls, fractions: tuple[float, float, float]) -> tuple[float, float, float]:
        if abs(sum(fractions) - 1) > 1e-6:
            raise ValueError(f"{fractions} must be three shares (train, val, test) that sum to 1")
        return fractions

    @model_validator(mode="after")
    def _check_column(self) -> SplitPlan:
        if self.kind == "column" and not self.column:
            raise ValueError("a split by column needs the name of the column")
        return self


class TargetGroup(Section):
    """The targets of one kind of a mixed table.

    Fields:
        targets: their names.
        classes: the raw values behind class 0 and 1, of yes and no.
    """

    kind: TargetKind
    targets: tuple[str, ...]
    classes: tuple[str, ...] = ()


class CustomSchema(Section):
    """The meaning of the columns of the user's data. Every field is a guess that the user may override.

    Fields:
        format: the kind of file, as in `RawData.format`.
        level, kind, targets: what is predicted; no targets at level "link", and none of graphs to pre-train on.
        classes: the raw values behind class 0, 1, ... of a binary or multiclass target.
        groups: the targets of a mixed table by kind, in the order of `targets`; empty where all are of one kind.
        row_weight: the column that says what the labels of a row count in training; "" for none.
        id, smiles, weight: the columns with these roles; "" for none.
        more_smiles: further columns of SMILES; a row is then one graph of several components, which know their column.
        vocabulary: the atom and bond features of molecules, "ogb" or "zinc".
        canonical: every spelling of a molecule gets the same answer, which no model of 0.1 promises.
        standardize: read the "parent" of each molecule, without salts, solvents and charges, or also its canonical
            "tautomer"; "" as it is written.
        replicates: learn from the "mean" or the "median" of the rows of a molecule, or "drop" those that contradict
            each other; "" from all rows.
        directed: None where each graph says it for itself.
        split: how the data was divided.
        node_features, edge_features: the feature columns in the order of the file.
        graph_features: the columns of whole graphs that are given to the model; all of them continuous.
        pair_features: the matrices with an entry for each pair of nodes; missing entries stay missing.
        positions: the columns of nodes with their coordinates: one for each axis, or vectors, one for each conformer.
            Of molecules: "file" or "rdkit", where they come from.
        place: the shape of the place of a node: (axes,) or (conformers, axes).
        symmetric: whether targets of pairs are the same in both directions, and each pair is asked about once.
        self_pairs: whether nodes are paired with themselves.
        hydrogens: whether hydrogen atoms of molecules are nodes.
        elements: of the molecules in training; others are warned of.
        notes: why something was decided so, by the name of the decision; for the reader.
    """

    format: str
    level: Level
    kind: TargetKind
    targets: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    groups: tuple[TargetGroup, ...] = ()
    row_weight: str = ""
    id: str = ""
    smiles: str = ""
    more_smiles: tuple[str, ...] = ()
    weight: str = ""
    vocabulary: MoleculeVocabulary = "ogb"
    canonical: bool = False
    standardize: Standard = ""
    replicates: Replicates = ""
    directed: bool | None = False
    split: SplitPlan = SplitPlan()
    node_features: tuple[Feature, ...] = ()
    edge_features: tuple[Feature, ...] = ()
    graph_features: tuple[Feature, ...] = ()
    pair_features: tuple[Feature, ...] = ()
    positions: tuple[str, ...] = ()
    place: tuple[PositiveInt, ...] = ()
    symmetric: bool = False
    self_pairs: bool = False
    hydrogens: bool = False
    elements: tuple[str, ...] = ()
    notes: dict[str, str] = Field(default_factory=dict)

    @property
    def smiles_columns(self) -> tuple[str, ...]:
        """The columns with the molecules of a row: component 0, 1, ... of its graph."""
        return (self.smiles, *self.more_smiles)

    @property
    def features_by_level(self) -> dict[str, tuple[Feature, ...]]:
        """The features of nodes, edges and pairs."""
        return {"node": self.node_features, "edge": self.edge_features, "pair": self.pair_features}

    @property
    def predicts_distances(self) -> bool:
        """Whether the distances between positions are the target, and these are no input."""
        return self.level == "pair" and self.targets == (DISTANCE,) and bool(self.place)

    @property
    def placement(self) -> Placement | None:
        """Where the positions of the atoms of molecules come from; None where they have none."""
        if self.format != "molecules" or not self.place:
            return None
        return Placement(cast(PlacedBy, self.positions[0]), self.place)

    def features(self) -> FeatureSchema:
        """Return the features of the graphs: what a model reads."""
        if self.format == "molecules":
            atoms = MOLECULE_SCHEMAS[self.vocabulary].node_categories
            components = (len(self.smiles_columns),) if self.more_smiles else ()
            return replace(
                MOLECULE_SCHEMAS[self.vocabulary],
                node_categories=(*atoms, *components),
                num_graph_values=_width(self.graph_features),
                positions=() if self.predicts_distances else self.place,
            )
        return FeatureSchema(
            node_categories=_sizes(self.node_features),
            num_node_values=_width(self.node_features),
            edge_categories=_sizes(self.edge_features),
            num_edge_values=_width(self.edge_features),
            num_graph_values=_width(self.graph_features),
            pair_categories=_sizes(self.pair_features),
            num_pair_values=_width(self.pair_features),
            positions=() if self.predicts_distances else self.place,
        )

    def target(self) -> TargetSchema:
        """Return the targets of the graphs: what a model predicts."""
        return TargetSchema(
            level=self.level,
            kind=self.kind,
            names=self.targets or ("link" if self.level == "link" else "hidden",),
            num_classes=len(self.classes) if self.kind == "multiclass" else 0,
            class_names=self.classes,
            groups=tuple(
                TargetSchema(self.level, group.kind, group.targets, class_names=group.classes) for group in self.groups
            ),
            row_weights=bool(self.row_weight),
        )

    def group_of(self, name: str) -> TargetGroup:
        """Return the group of a target, which is all of them where they are of one kind."""
        whole = TargetGroup(kind=self.kind, targets=self.targets, classes=self.classes)
        return next((group for group in self.groups if name in group.targets), whole)

    def encode(self, name: str, column: Column) -> tuple[NDArray[np.float64], list[str]]:
        """(n, 1) the labels of a target as numbers or class ids, or (n, 2) as bounds (`columns.encode_bounds`).

        NaN where there is none. Also the values that are neither number nor class.
        """
        group = self.group_of(name)
        if group.kind == "censored":
            return encode_bounds(column)
        labels, strange = encode_target(column, group.classes)
        return labels[:, None], strange

    def is_directed(self, said: bool | None) -> bool:
        """Return whether a graph is read as directed, given what it says about itself."""
        return bool(said) if self.directed is None else self.directed

    def rows(self) -> list[tuple[str, str, str]]:
        """Return a short table to show: what was decided, the decision, and the setting that changes it."""
        kind = "multi-label" if self.kind == "binary" and len(self.targets) > 1 else self.kind
        classes = f" ({few(self.classes)})" if self.classes else ""
        nothing = "held-out edges" if self.level == "link" else "none, to pre-train"
        plan, key = self.split, "graph_features."
        division = "/".join(f"{share:g}" for share in plan.fractions)
        division = f"fold {plan.fold.number} of {plan.fold.of}" if plan.fold is not None else division
        split = f"column {plan.column}" if plan.kind == "column" else f"{plan.kind} {division}, seed {plan.seed}"
        left_out = [f"{name.removeprefix(key)}: {why}" for name, why in self.notes.items() if name.startswith(key)]
        table = [
            ("format", self.format, ""),
            ("level", self.level + self._note("level"), "level"),
            ("target", few(self.targets) or nothing, "target"),
        ]
        if self.targets or self.level == "link":
            table.append(("kind", kind + classes, "overrides.kind"))
        table += [(f"{few(group.targets)}", _kind_text(group), "overrides.kind") for group in self.groups]
        if self.row_weight:
            table.append(("weight of a row", self.row_weight, "overrides.row_weight"))
        table += [("bounds", text, "overrides.kind") for name, text in self.notes.items() if name.startswith("bounds.")]
        if self.kind == "binary" and len(self.classes) == 2 and self.targets:
            meaning = f"{self.classes[1]}: f1 and average_precision are about it"
            table.append(("positive class", meaning, "overrides.positive"))
        table += [("id", self.id or "row number", "overrides.id"), ("split", split, "split")]
        inputs = [*map(_feature_text, self.graph_features), *left_out]
        places = (
            f"{', '.join(self.positions)}: {' x '.join(map(str, self.place))} coordinates" if self.place else "none"
        )
        table += [("graph feature", text, "overrides.graph_features") for text in inputs]
        if self.level == "pair":
            table.append(("pairs", "the same in both directions" if self.symmetric else "in both directions", ""))
        if self.place or "positions" in self.notes:
            table.append(("positions", places + self._note("positions"), "overrides.positions"))
        if self.format == "molecules":
            count = len(self.smiles_columns)
            smiles = ", ".join(self.smiles_columns) + (f": {count} components of one graph" if count > 1 else "")
            table.append(("smiles", smiles, "overrides.smiles"))
            if self.hydrogens:
                table.append(("hydrogens", "are nodes", "overrides.hydrogens"))
            table.append(("standardized", self.standardize or "no", "overrides.standardize"))
            table.append(("replicates", self.replicates or "all rows are kept", "overrides.replicates"))
            return [*table, ("atoms and bonds", self.vocabulary, "overrides.vocabulary")]
        directed = {True: "yes", False: "no", None: "as each graph says"}[self.directed] + self._note("directed")
        table += [("directed", directed, "overrides.directed"), ("weight", self.weight or "none", "overrides.weight")]
        for level, features in self.features_by_level.items():
            key = f"{level}_features"
            texts = [_feature_text(each) + self._note(f"{key}.{each.name}") for each in features]
            table += [(f"{level} feature", text, f"overrides.{key}") for text in texts]
        return table

    def _note(self, name: str) -> str:
        return f" ({self.notes[name]})" if name in self.notes else ""


def card_schema(card: DataCard) -> CustomSchema:
    """Return how files with the features of a benchmark are read: SMILES, or graphs with the columns of its vocabulary.

    Continuous features are one column of vectors: `x` of the nodes, `edge_attr` of the edges. Data whose categories
    have no names (`GraphsSource`) is read from `Graph` objects.
    """
    target, schema = card.target, card.schema
    reading: dict[str, Any] = {"format": "jsonl", "directed": None}
    vectors = {"node": "x", "edge": "edge_attr"}
    names = iter(card.vocabulary.items())
    molecules = [vocabulary for vocabulary, features in MOLECULE_SCHEMAS.items() if features == schema]
    if molecules:
        reading = {"format": "molecules", "vocabulary": molecules[0]}
    elif len(card.vocabulary) != len(schema.node_categories) + len(schema.edge_categories):
        vectors = {"node": "node_values", "edge": "edge_values"}
        inputs = _features({}, "graph_values", schema.num_graph_values)
        reading = {"format": "graphs", "directed": None, "weight": "edge_weight", "graph_features": inputs}
    for level, vector in () if molecules else vectors.items():
        sizes: tuple[int, ...] = getattr(schema, f"{level}_categories")
        named = dict(islice(names, len(sizes)))
        if reading["format"] == "graphs":  # without names, the categories are ids, as in `formats.graphs`
            named = _ids(f"{level}_category", sizes)
        reading[f"{level}_features"] = _features(named, vector, getattr(schema, f"num_{level}_values"))
    ids = _ids("pair_category", schema.pair_categories)
    reading["pair_features"] = _features(ids, "pair_values", schema.num_pair_values)
    reading |= {"positions": position_columns(schema.positions), "place": schema.positions}
    classes = target.class_names or tuple(str(k) for k in range(target.num_classes))
    return CustomSchema.model_validate(
        {"level": target.level, "kind": target.kind, "targets": target.names, "classes": classes, **reading}
    )


def _ids(name: str, sizes: Sequence[int]) -> dict[str, Sequence[str]]:
    names = number_names(name, len(sizes))
    return {each: [str(id) for id in range(size)] for each, size in zip(names, sizes, strict=True)}


def _features(categories: Mapping[str, Sequence[str]], continuous: str, width: int) -> tuple[Feature, ...]:
    features = [Feature(name=name, kind="categorical", vocabulary=tuple(each)) for name, each in categories.items()]
    return (*features, *([Feature(name=continuous, kind="continuous", width=width)] if width else []))


def _sizes(features: tuple[Feature, ...]) -> tuple[int, ...]:
    return tuple(len(feature.vocabulary) for feature in features if feature.kind == "categorical")


def _width(features: tuple[Feature, ...]) -> int:
    return sum(feature.width for feature in features if feature.kind == "continuous")


def few(names: Sequence[str], limit: int = 6) -> str:
    """Return some names for a message or a table, and how many there are."""
    more = f", ... {len(names)} in all" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _kind_text(group: TargetGroup) -> str:
    return group.kind + (f" ({', '.join(group.classes)}; positive: {group.classes[1]})" if group.classes else "")


def _feature_text(feature: Feature) -> str:
    if feature.kind == "categorical":
        return f"{feature.name}: categorical, {len(feature.vocabulary)} values ({few(feature.vocabulary)})"
    if feature.kind == "continuous":
        scaled = "standardized" if feature.mean else "unchanged"
        return f"{feature.name}: continuous, {scaled}" + (f", {feature.width} numbers" if feature.width > 1 else "")
    return f"{feature.name}: ignored"


logger = logging.getLogger(__name__)

Codes = NDArray[np.int8]  # train (0), val (1), test (2) or none of them (-1)
Fractions = tuple[float, float, float]
Shares = Fractions | Fold

SPLIT_WORDS = {
    "train": 0, "training": 0,
    "val": 1, "valid": 1, "validation": 1, "dev": 1,
    "test": 2, "testing": 2,
}  # fmt: skip
"""How a split column may call the splits; upper and lower case are the same."""


@dataclass(frozen=True, eq=False)
class Division:
    """The split of the data: either whole rows, or parts of each graph, which then is in every split."""

    rows: Codes  # (R,) the split of each row; empty when graphs are divided within
    parts: Mapping[int, Codes]  # row -> (N,) or (E,) the split of its nodes or listed edges

    @property
    def within(self) -> bool:
        """Whether the nodes or edges of each graph are divided, and not the graphs."""
        return not len(self.rows)


def divide(raw: RawData, schema: CustomSchema) -> Division:
    """Divide the data as the schema's split plan says.

    At node and edge level one graph, or graphs with a split column of their own, are divided within: each split holds
    the same graph and scores its own nodes or edges (transductive learning). Otherwise whole graphs are divided.
    """
    graphs = {row: graph for row, graph in enumerate(raw.graphs) if graph is not None}
    plan, level = schema.split, schema.level
    is_within = len(raw.graphs) == 1 and level != "graph"
    if plan.kind == "column":
        is_within = level in ("node", "edge") and any(plan.column in graph.columns(level) for graph in graphs.values())
    if graphs and is_within:
        parts = {row: _parts(graph, schema, raw.where) for row, graph in graphs.items()}
        if not any((codes == 0).any() for codes in parts.values()):
            raise DataError(f"{raw.where}: no {level} is in the training split")
        return Division(np.zeros(0, np.int8), parts)
    codes = _rows(raw, schema)
    bad = np.array(sorted(raw.problems), dtype=np.int64)
    codes[bad] = np.maximum(codes[bad], 0)  # a bad row that names no split is reported with the training rows
    if (codes < 0).any():
        logger.warning("%s: %d rows with an empty split cell are in no split", raw.where, int((codes < 0).sum()))
    if not (codes == 0).any():
        raise DataError(f"{raw.where}: no row is in the training split; it needs rows that say train")
    return Division(codes, {})


def target_matrix(columns: Columns, schema: CustomSchema, num_rows: int) -> NDArray[np.float64]:
    """(n, columns) what `encode` makes of each target, one after another; NaN where its column is not there."""
    nowhere = np.full(num_rows, np.nan)
    labels = [np.zeros((num_rows, 0)), *(schema.encode(name, columns.get(name, nowhere))[0] for name in schema.targets)]
    return np.concatenate(labels, axis=1)


def _rows(raw: RawData, schema: CustomSchema) -> Codes:
    plan = schema.split
    name = {"column": plan.column, "scaffold": schema.smiles}.get(plan.kind)
    if name is not None and name not in raw.table:
        raise DataError(f"{raw.where}: there is no column {name!r} to split by; there are {', '.join(raw.table)}")
    match plan.kind:
        case "column":
            return column_split(raw.table[plan.column], f"{raw.where}: column {plan.column!r}")
        case "scaffold":
            return scaffold_split(raw.table[schema.smiles].tolist(), plan.shares)
        case "stratified":
            if schema.level != "graph":
                raise DataError(f"{raw.where}: whole graphs cannot be stratified by {schema.level}s; choose random")
            return _stratified(target_matrix(raw.table, schema, raw.num_rows), schema, raw.where)
        case "even":
            if schema.level != "graph" or not schema.classes:
                raise DataError(f"{raw.where}: only classes of whole graphs are divided evenly; choose random")
            return even_split(_groups(target_matrix(raw.table, schema, raw.num_rows)), plan.shares, plan.seed)
        case _:
            return random_split(raw.num_rows, plan.shares, plan.seed)


def _parts(graph: RawGraph, schema: CustomSchema, where: str) -> Codes:
    plan, directed = schema.split, schema.is_directed(graph.directed)
    if schema.level == "link":
        return link_codes(graph.edges, graph.num_nodes, plan.shares, plan.seed, directed=directed)
    if schema.level == "pair":
        every = np.indices((graph.num_nodes, graph.num_nodes)).reshape(2, -1)
        return link_codes(every, graph.num_nodes, plan.shares, plan.seed, directed=not schema.symmetric)
    columns = graph.columns(schema.level)
    count = graph.num_nodes if schema.level == "node" else graph.edges.shape[1]
    codes = np.full(count, -1, np.int8)
    if plan.kind == "column":
        if plan.column not in columns:
            return codes
        return column_split(columns[plan.column], f"{where}: {schema.level} column {plan.column!r}")
    targets = target_matrix(columns, schema, count)
    labeled = ~np.isnan(targets).all(axis=1)
    if plan.kind == "stratified":
        codes[labeled] = _stratified(targets[labeled], schema, where)
    elif schema.level == "edge":
        codes[labeled] = link_codes(graph.edges[:, labeled], graph.num_nodes, plan.shares, plan.seed, directed=directed)
    else:
        codes[labeled] = random_split(int(labeled.sum()), plan.shares, plan.seed)
    return codes


def _stratified(targets: NDArray[np.float64], schema: CustomSchema, where: str) -> Codes:
    if len(schema.targets) != 1:
        raise DataError(f"{where}: a stratified split needs one target, there are {len(schema.targets)}; choose random")
    labels = np.where(np.isnan(targets[:, 0]), targets[:, -1], targets[:, 0])  # a bound counts as its number
    return stratified_split(labels, schema.split.shares, schema.split.seed, continuous=schema.kind in NUMBERS)


def random_split(count: int, shares: Shares, seed: int) -> Codes:
    """(count,) codes: a shuffled list cut at the fractions, or into folds."""
    return _cut(np.random.default_rng(seed).permutation(count), shares)


def stratified_split(labels: NDArray[np.float64], shares: Shares, seed: int, *, continuous: bool) -> Codes:
    """(n,) codes with each class (or tenth of a continuous range) in every split at the same share.

    Missing labels (NaN) are a group of their own.
    """
    groups = labels
    if continuous:
        present = labels[~np.isnan(labels)]
        edges = np.quantile(present, np.linspace(0.1, 0.9, 9)) if len(present) else np.zeros(0)
        groups = np.where(np.isnan(labels), np.nan, np.searchsorted(edges, labels))
    codes = np.full(len(labels), -1, dtype=np.int8)
    generator = np.random.default_rng(seed)
    for group in np.unique(groups):
        members = np.flatnonzero(np.isnan(groups) if np.isnan(group) else groups == group)
        codes[members] = _cut(generator.permutation(len(members)), shares)
    return codes


def _groups(targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) what rows are divided evenly by: the class or, of several labels, which is the rarest that is 1.

    NaN where there is none. targets: (n, T).
    """
    if targets.shape[1] == 1:
        return targets[:, 0]
    positive = targets == 1
    rarity = np.where(positive, positive.sum(0), np.inf)
    return np.where(positive.any(1), rarity.argmin(1), np.nan)


def even_split(groups: NDArray[np.float64], shares: Shares, seed: int) -> Codes:
    """(n,) codes with the members of each group, NaN being one, in all splits at the same share, as are all rows.

    The rows are put in the order of their groups, at random within each, and every so many are held out.
    """
    count = len(groups)
    shuffled = np.random.default_rng(seed).permutation(count)
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    if isinstance(shares, Fold):
        return _fold_codes([order[number :: shares.of] for number in range(shares.of)], shares)
    codes = np.zeros(count, dtype=np.int8)
    held_out = order[_every(shares[1] + shares[2], count)]
    codes[held_out] = 1
    codes[held_out[_every(shares[2] / max(shares[1] + shares[2], 1e-9), len(held_out))]] = 2
    return codes


def _every(share: float, count: int) -> NDArray[np.int64]:
    """Return the numbers below `count` that are a share of them, at equal distances."""
    steps = np.floor(np.arange(count + 1) * share + 1e-9)
    return np.flatnonzero(np.diff(steps))


def scaffold_split(smiles: Sequence[str | None], shares: Shares) -> Codes:
    """(n,) codes such that molecules with one Bemis-Murcko scaffold stay together.

    The largest scaffolds come first (of equal ones the later first), and each goes to train while it fits, else to
    val, else to test; of folds to the smallest one. Nothing here is random. Rows that RDKit cannot read stand alone.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for row, scaffold in enumerate(_scaffolds(smiles)):
        groups[f"row {row}" if scaffold is None else scaffold].append(row)
    ordered = sorted(groups.values(), key=lambda rows: (len(rows), rows[0]), reverse=True)
    if isinstance(shares, Fold):
        pieces: list[list[int]] = [[] for _ in range(shares.of)]
        for members in ordered:
            min(pieces, key=len).extend(members)
        return _fold_codes([np.array(piece, dtype=np.int64) for piece in pieces], shares)
    train_limit, val_limit = shares[0] * len(smiles), (shares[0] + shares[1]) * len(smiles)
    codes = np.full(len(smiles), 2, dtype=np.int8)
    num_train = num_val = 0
    for members in ordered:
        if num_train + len(members) <= train_limit:
            codes[members] = 0
            num_train += len(members)
        elif num_train + num_val + len(members) <= val_limit:
            codes[members] = 1
            num_val += len(members)
    return codes


def _scaffolds(smiles: Sequence[str | None]) -> list[str | None]:
    chem = require_rdkit()
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles  # RDKit is optional

    scaffolds: list[str | None] = []
    with chem.rdBase.BlockLogs():
        for text in smiles:
            molecule = None if text is None else parse_or_none(text)
            try:
                scaffolds.append(None if molecule is None else MurckoScaffoldSmiles(mol=molecule))  # type: ignore[no-untyped-call]
            except RDKIT_ERRORS:
                scaffolds.append(None)
    return scaffolds


def column_split(column: Column, where: str) -> Codes:
    """(n,) codes of a split column; an empty cell is in no split, and a word that is no split is a `DataError`."""
    codes = np.full(len(column), -1, dtype=np.int8)
    for row, value in enumerate(column):
        if value is None or value != value:
            continue
        word = text_of(value).strip().lower()
        if word not in SPLIT_WORDS:
            raise DataError(f"{where}: {word!r} in row {row + 1} is no split; allowed are {', '.join(SPLIT_WORDS)}")
        codes[row] = SPLIT_WORDS[word]
    return codes


def is_split_column(column: Column) -> bool:
    """Return whether a column holds names of splits and nothing else."""
    if column.dtype != object:
        return False
    words = {str(value).strip().lower() for value in column if value is not None}
    return bool(words) and words <= SPLIT_WORDS.keys()


def _cut(order: NDArray[np.int64], shares: Shares) -> Codes:
    if isinstance(shares, Fold):
        return _fold_codes(np.array_split(order, shares.of), shares)
    ends = np.rint(np.cumsum(shares) * len(order)).astype(np.int64)
    codes = np.full(len(order), 2, dtype=np.int8)
    codes[order[: ends[0]]] = 0
    codes[order[ends[0] : ends[1]]] = 1
    return codes


def _fold_codes(pieces: Sequence[NDArray[np.int64]], fold: Fold) -> Codes:
    """(n,) codes: the piece of the fold is the test, the one before it val."""
    codes = np.zeros(sum(map(len, pieces)), dtype=np.int8)
    codes[pieces[fold.number - 1]] = 1
    codes[pieces[fold.number]] = 2
    return codes


def link_codes(edges: IntArray, num_nodes: int, shares: Shares, seed: int, *, directed: bool) -> Codes:
    """(E,) the split of each edge, whatever the order of the list; both directions of an undirected one go together.

    Self-loops are never held out: they belong to training.
    """
    codes = np.zeros(edges.shape[1], dtype=np.int8)
    between = edges[0] != edges[1]
    group, num_groups = group_links(edges[:, between], num_nodes, directed)
    codes[between] = random_split(num_groups, shares, seed)[group]
    return codes


def group_links(edges: IntArray, num_nodes: int, directed: bool) -> tuple[IntArray, int]:
    """(E,) the number of the link of each edge, and how many links there are."""
    i, j = edges if directed else (np.minimum(*edges), np.maximum(*edges))
    distinct, group = np.unique(i * num_nodes + j, return_inverse=True)
    return group, len(distinct)
