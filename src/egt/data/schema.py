"""`CustomSchema`: everything that was decided about the user's data, as the section `data.custom` of `config.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from egt.data.molecule_features import OGB_SCHEMA, ZINC_SCHEMA
from egt.data.molecules import MoleculeVocabulary
from egt.data.source import DataCard, TargetKind, TargetSchema
from egt.graph import FeatureSchema, Level
from egt.registry import Section

FeatureKind = Literal["categorical", "continuous", "ignored"]

SplitKind = Literal["auto", "column", "random", "scaffold", "stratified"]

MOLECULE_SCHEMAS: dict[MoleculeVocabulary, FeatureSchema] = {"ogb": OGB_SCHEMA, "zinc": ZINC_SCHEMA}

_Share = Annotated[float, Field(ge=0, le=1)]


class Feature(Section):
    """One feature column.

    Fields:
        name: the column.
        kind: categorical (an id per known value), continuous (standardized numbers) or ignored.
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
    """One of several ways to divide data: a different part of equal size is the test, and the part before it val.

    Fields:
        number: of the part that is the test, counted from 0.
        of: so many parts.
    """

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
        kind: `auto` takes a split column if there is one, else a random split; a schema holds what it came to.
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


class CustomSchema(Section):
    """The meaning of the columns of the user's data. Every field is a guess that the user may override.

    Fields:
        format: the kind of file, as in `RawData.format`.
        level, kind, targets: what is predicted; no targets at level "link", and none of graphs to pre-train on.
        classes: the raw values behind class 0, 1, ... of a binary or multiclass target.
        id, smiles, weight: the columns with these roles; "" for none.
        more_smiles: further columns of SMILES; a row is then one graph of several components, which know their column.
        vocabulary: the atom and bond features of molecules, "ogb" or "zinc".
        canonical: every spelling of a molecule gets the same answer, which no model of 0.1 promises.
        directed: None where each graph says it for itself.
        split: how the data was divided.
        node_features, edge_features: the feature columns in the order of the file.
        graph_features: the columns of whole graphs that are given to the model; all of them continuous.
        elements: of the molecules in training; others are warned of.
        notes: why something was decided so, by the name of the decision; for the reader.
    """

    format: str
    level: Level
    kind: TargetKind
    targets: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    id: str = ""
    smiles: str = ""
    more_smiles: tuple[str, ...] = ()
    weight: str = ""
    vocabulary: MoleculeVocabulary = "ogb"
    canonical: bool = False
    directed: bool | None = False
    split: SplitPlan = SplitPlan()
    node_features: tuple[Feature, ...] = ()
    edge_features: tuple[Feature, ...] = ()
    graph_features: tuple[Feature, ...] = ()
    elements: tuple[str, ...] = ()
    notes: dict[str, str] = Field(default_factory=dict)

    @property
    def smiles_columns(self) -> tuple[str, ...]:
        """The columns with the molecules of a row: component 0, 1, ... of its graph."""
        return (self.smiles, *self.more_smiles)

    def features(self) -> FeatureSchema:
        """Return the features of the graphs: what a model reads."""
        if self.format == "molecules":
            atoms = MOLECULE_SCHEMAS[self.vocabulary].node_categories
            components = (len(self.smiles_columns),) if self.more_smiles else ()
            return replace(
                MOLECULE_SCHEMAS[self.vocabulary],
                node_categories=(*atoms, *components),
                num_graph_values=_width(self.graph_features),
            )
        return FeatureSchema(
            node_categories=_sizes(self.node_features),
            num_node_values=_width(self.node_features),
            edge_categories=_sizes(self.edge_features),
            num_edge_values=_width(self.edge_features),
            num_graph_values=_width(self.graph_features),
        )

    def target(self) -> TargetSchema:
        """Return the targets of the graphs: what a model predicts."""
        return TargetSchema(
            level=self.level,
            kind=self.kind,
            names=self.targets or ("link" if self.level == "link" else "hidden",),
            num_classes=len(self.classes) if self.kind == "multiclass" else 0,
            class_names=self.classes,
        )

    def is_directed(self, said: bool | None) -> bool:
        """Return whether a graph is read as directed, given what it says about itself."""
        return bool(said) if self.directed is None else self.directed

    def rows(self) -> list[tuple[str, str, str]]:
        """Return a short table to show: what was decided, the decision, and the setting that changes it."""
        kind = "multi-label" if self.kind == "binary" and len(self.targets) > 1 else self.kind
        classes = f" ({_few(self.classes)})" if self.classes else ""
        nothing = "held-out edges" if self.level == "link" else "none, to pre-train"
        plan, key = self.split, "graph_features."
        division = "/".join(f"{share:g}" for share in plan.fractions)
        division = f"fold {plan.fold.number} of {plan.fold.of}" if plan.fold is not None else division
        split = f"column {plan.column}" if plan.kind == "column" else f"{plan.kind} {division}, seed {plan.seed}"
        left_out = [f"{name.removeprefix(key)}: {why}" for name, why in self.notes.items() if name.startswith(key)]
        table = [
            ("format", self.format, ""),
            ("level", self.level + self._note("level"), "level"),
            ("target", _few(self.targets) or nothing, "target"),
        ]
        if self.targets or self.level == "link":
            table.append(("kind", kind + classes, "overrides.kind"))
        if self.kind == "binary" and len(self.classes) == 2 and self.targets:
            meaning = f"{self.classes[1]}: f1 and average_precision are about it"
            table.append(("positive class", meaning, "overrides.positive"))
        table += [("id", self.id or "row number", "overrides.id"), ("split", split, "split")]
        inputs = [*map(_feature_text, self.graph_features), *left_out]
        table += [("graph feature", text, "overrides.graph_features") for text in inputs]
        if self.format == "molecules":
            count = len(self.smiles_columns)
            smiles = ", ".join(self.smiles_columns) + (f": {count} components of one graph" if count > 1 else "")
            table.append(("smiles", smiles, "overrides.smiles"))
            return [*table, ("atoms and bonds", self.vocabulary, "overrides.vocabulary")]
        directed = {True: "yes", False: "no", None: "as each graph says"}[self.directed] + self._note("directed")
        table += [("directed", directed, "overrides.directed"), ("weight", self.weight or "none", "overrides.weight")]
        for level, features in (("node", self.node_features), ("edge", self.edge_features)):
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
            numbered = [f"{level}_category.{k}" if len(sizes) > 1 else f"{level}_category" for k in range(len(sizes))]
            named = {name: [str(k) for k in range(size)] for name, size in zip(numbered, sizes, strict=True)}
        reading[f"{level}_features"] = _features(named, vector, getattr(schema, f"num_{level}_values"))
    classes = target.class_names or tuple(str(k) for k in range(target.num_classes))
    return CustomSchema.model_validate(
        {"level": target.level, "kind": target.kind, "targets": target.names, "classes": classes, **reading}
    )


def _features(categories: Mapping[str, Sequence[str]], continuous: str, width: int) -> tuple[Feature, ...]:
    features = [Feature(name=name, kind="categorical", vocabulary=tuple(each)) for name, each in categories.items()]
    return (*features, *([Feature(name=continuous, kind="continuous", width=width)] if width else []))


def _sizes(features: tuple[Feature, ...]) -> tuple[int, ...]:
    return tuple(len(feature.vocabulary) for feature in features if feature.kind == "categorical")


def _width(features: tuple[Feature, ...]) -> int:
    return sum(feature.width for feature in features if feature.kind == "continuous")


def _few(names: tuple[str, ...], limit: int = 6) -> str:
    more = f", ... {len(names)} in all" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _feature_text(feature: Feature) -> str:
    if feature.kind == "categorical":
        return f"{feature.name}: categorical, {len(feature.vocabulary)} values ({_few(feature.vocabulary)})"
    if feature.kind == "continuous":
        scaled = "standardized" if feature.mean else "unchanged"
        return f"{feature.name}: continuous, {scaled}" + (f", {feature.width} numbers" if feature.width > 1 else "")
    return f"{feature.name}: ignored"
