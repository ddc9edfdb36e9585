"""`CustomSchema`: everything that was decided about the user's data, as plain values that go into `config.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from egt.errors import DataError
from egt.graph import FeatureSchema
from egt.sources.molecules import OGB_SCHEMA, ZINC_SCHEMA, MoleculeVocabulary
from egt.sources.source import Level, TargetKind, TargetSchema

FeatureKind = Literal["categorical", "continuous", "ignored"]
SplitKind = Literal["auto", "column", "random", "scaffold", "stratified"]
MOLECULE_SCHEMAS: dict[str, FeatureSchema] = {"ogb": OGB_SCHEMA, "zinc": ZINC_SCHEMA}


@dataclass(frozen=True)
class Feature:
    """One feature column.

    Fields:
        name: the column.
        kind: categorical (an id per known value), continuous (standardized numbers) or ignored.
        width: numbers per row of a continuous column; more than 1 for vectors.
        vocabulary: the value behind id 0, 1, ... of a categorical column, seen in training.
        mean, std: of a continuous column in training, `width` numbers each; empty: taken as it is.
    """

    name: str
    kind: FeatureKind
    width: int = 1
    vocabulary: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


@dataclass(frozen=True)
class SplitPlan:
    """How rows (or the nodes or edges of one graph) are divided into train, val and test.

    `auto` takes a split column if there is one, else a random split; a schema holds what it came to.
    """

    kind: SplitKind = "auto"
    column: str = ""
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(SplitKind):
            raise DataError(f"split {self.kind!r} is unknown; choose one of {', '.join(get_args(SplitKind))}")
        if len(self.fractions) != 3 or min(self.fractions) < 0 or abs(sum(self.fractions) - 1) > 1e-6:
            raise DataError(f"split fractions {self.fractions} must be three shares (train, val, test) that sum to 1")
        if self.kind == "column" and not self.column:
            raise DataError("a split by column needs the name of the column")


@dataclass(frozen=True)
class CustomSchema:
    """The meaning of the columns of the user's data. Every field is a guess that the user may override.

    Fields:
        format: the kind of file, as in `RawData.format`.
        level, kind, targets: what is predicted; no targets at level "link".
        classes: the raw values behind class 0, 1, ... of a binary or multiclass target.
        target_mean, target_std: of each regression target in training (the task applies them).
        id, smiles, weight: the columns with these roles; "" for none.
        vocabulary: the atom and bond features of molecules, "ogb" or "zinc".
        directed: None where each graph says it for itself.
        split: how the data was divided.
        node_features, edge_features: the feature columns in the order of the file.
    """

    format: str
    level: Level
    kind: TargetKind
    targets: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    target_mean: tuple[float, ...] = ()
    target_std: tuple[float, ...] = ()
    id: str = ""
    smiles: str = ""
    weight: str = ""
    vocabulary: MoleculeVocabulary = "ogb"
    directed: bool | None = False
    split: SplitPlan = SplitPlan()
    node_features: tuple[Feature, ...] = ()
    edge_features: tuple[Feature, ...] = ()

    def features(self) -> FeatureSchema:
        """The features of the graphs: what a model reads."""
        if self.format == "molecules":
            return MOLECULE_SCHEMAS[self.vocabulary]
        return FeatureSchema(
            node_categories=_sizes(self.node_features),
            num_node_values=_width(self.node_features),
            edge_categories=_sizes(self.edge_features),
            num_edge_values=_width(self.edge_features),
        )

    def target(self) -> TargetSchema:
        """The targets of the graphs: what a model predicts."""
        return TargetSchema(
            level=self.level,
            kind=self.kind,
            names=self.targets or ("link",),
            num_classes=len(self.classes) if self.kind == "multiclass" else 0,
            class_names=self.classes,
        )

    def is_directed(self, said: bool | None) -> bool:
        """Whether a graph is read as directed, given what it says about itself."""
        return bool(said) if self.directed is None else self.directed

    def to_dict(self) -> dict[str, Any]:
        """Nested dicts and lists of plain values; `from_dict` reads them back."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> CustomSchema:
        """The schema that `to_dict` wrote, possibly edited by hand."""
        values = dict(given)
        for name in ("node_features", "edge_features"):
            values[name] = tuple(_made(Feature, feature, f"schema.{name}") for feature in values.get(name, ()))
        values["split"] = _made(SplitPlan, values.get("split", {}), "schema.split")
        schema: CustomSchema = _made(cls, values, "schema")
        _check_choice("level", schema.level, get_args(Level))
        _check_choice("kind", schema.kind, get_args(TargetKind))
        _check_choice("vocabulary", schema.vocabulary, get_args(MoleculeVocabulary))
        for feature in (*schema.node_features, *schema.edge_features):
            _check_choice(f"kind of {feature.name!r}", feature.kind, get_args(FeatureKind))
        return schema

    def rows(self) -> list[tuple[str, str, str]]:
        """A short table to show: what was decided, the decision, and how to change it."""
        kind = "multi-label" if self.kind == "binary" and len(self.targets) > 1 else self.kind
        classes = f" ({_few(self.classes)})" if self.classes else ""
        table = [
            ("format", self.format, ""),
            ("level", self.level, "level"),
            ("target", _few(self.targets) or "held-out edges", "target"),
            ("kind", kind + classes, "overrides.kind"),
            ("id", self.id or "row number", "overrides.id"),
            ("split", self._split_text(), "split"),
        ]
        if self.format == "molecules":
            return [
                *table,
                ("smiles", self.smiles, "overrides.smiles"),
                ("atoms and bonds", self.vocabulary, "overrides.vocabulary"),
            ]
        directed = {True: "yes", False: "no", None: "as each graph says"}[self.directed]
        table += [("directed", directed, "overrides.directed"), ("weight", self.weight or "none", "overrides.weight")]
        for level in ("node", "edge"):
            features: tuple[Feature, ...] = getattr(self, f"{level}_features")
            how = f"overrides.{level}_features"
            table += [(f"{level} feature", _feature_text(feature), how) for feature in features]
        return table

    def _split_text(self) -> str:
        if self.split.kind == "column":
            return f"column {self.split.column}"
        shares = "/".join(f"{share:g}" for share in self.split.fractions)
        return f"{self.split.kind} {shares}, seed {self.split.seed}"


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
        scaled = "standardized" if feature.mean else "as it is"
        return f"{feature.name}: continuous, {scaled}" + (f", {feature.width} numbers" if feature.width > 1 else "")
    return f"{feature.name}: ignored"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


def _check_choice(what: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise DataError(f"{what} is {given!r}; allowed are {', '.join(allowed)}")


def _made(cls: type[Any], given: Any, where: str) -> Any:
    """A dataclass from a mapping, lists as tuples; unknown and missing keys are errors."""
    if not isinstance(given, Mapping):
        raise DataError(f"{where} is {given!r:.60}; it must be a mapping")
    known = {field.name for field in fields(cls)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise DataError(f"{where} has unknown keys {unknown}; allowed are {', '.join(sorted(known))}")
    try:
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
    except TypeError as error:
        raise DataError(f"{where}: {error}") from error
