"""Files for the models of the benchmarks: which columns they need, by the data card of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from egt.sources.custom.schema import MOLECULE_SCHEMAS, CustomSchema, Feature
from egt.sources.source import DataCard


def card_schema(card: DataCard) -> CustomSchema:
    """How files with the features of a benchmark are read: SMILES, or graphs with the columns of its vocabulary.

    Continuous features are one column of vectors: `x` of the nodes, `edge_attr` of the edges.
    """
    target = card.target
    classes = target.class_names or tuple(str(k) for k in range(target.num_classes))
    for vocabulary, features in MOLECULE_SCHEMAS.items():
        if card.schema == features:
            return CustomSchema(
                format="molecules",
                level=target.level,
                kind=target.kind,
                targets=target.names,
                classes=classes,
                vocabulary=vocabulary,  # type: ignore[arg-type]
            )
    schema, names = card.schema, list(card.vocabulary)
    cut = len(schema.node_categories)
    return CustomSchema(
        format="jsonl",
        level=target.level,
        kind=target.kind,
        targets=target.names,
        classes=classes,
        directed=None,
        node_features=_features(card, names[:cut], "x", schema.num_node_values),
        edge_features=_features(card, names[cut:], "edge_attr", schema.num_edge_values),
    )


def _features(card: DataCard, categorical: Sequence[str], continuous: str, width: int) -> tuple[Feature, ...]:
    features = [Feature(name, "categorical", vocabulary=tuple(card.vocabulary[name])) for name in categorical]
    if width:
        features.append(Feature(continuous, "continuous", width=width))
    return tuple(features)
