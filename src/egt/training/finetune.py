"""Fine-tuning: the run of new data with the model of an artifact, and the weights it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from egt.artifact.artifact import Artifact
from egt.config.run import RunConfig
from egt.sources.own import OwnSchema
from egt.sources.own.schema import MOLECULE_SCHEMAS
from egt.sources.registry import BENCHMARKS
from egt.training.transfer import Remap, Start, Tuned

_FEATURES = ("node_categories", "node_values", "constant", "edge_categories", "edge_values")


def with_model_of(config: RunConfig, trained: RunConfig) -> RunConfig:
    """A run of own data with the sizes and parts of a trained model.

    Molecules of the same vocabulary keep its inputs; other data brings its own features, in the places of the trained
    model's. The readout is the trained model's where both predict at the same level.
    """
    changes: dict[str, Any] = {}
    if _vocabulary(config) is None or _vocabulary(config) != _vocabulary(trained):
        changes = {
            name: _merged(getattr(config.model, name), getattr(trained.model, name))
            for name in ("node_inputs", "pair_inputs")
        }
    if config.model.level != trained.model.level:
        changes["readout"] = config.model.readout
    model = trained.model.model_copy(update=changes)
    return RunConfig.model_validate(config.model_copy(update={"model": model}).model_dump())


def start_of(
    artifact: Artifact, config: RunConfig, *, keep_head: bool = False, freeze_below: int = 0, tuned: Tuned = "all"
) -> Start:
    """What a run starts from when it starts from an artifact: categories move by their names.

    Arguments as in `Start`.
    """
    vocabularies = {}
    for level, terms, kind in (
        ("node", config.model.node_inputs, "node_categories"),
        ("edge", config.model.pair_inputs, "edge_categories"),
    ):
        place = "node_terms" if level == "node" else "pair_terms"
        for k, term in enumerate(terms):
            if term.kind == kind:
                old, new = _names(artifact.config, level), _names(config, level)
                if old != new:
                    vocabularies[f"embed.{place}.{k}.categories.table.weight"] = Remap(old, new)
    return Start(artifact.model.state_dict(), keep_head, vocabularies, freeze_below, tuned)


def _vocabulary(config: RunConfig) -> str | None:
    """The atom and bond features of a run on molecules."""
    if config.data.own_schema is not None:
        schema = OwnSchema.from_dict(config.data.own_schema)
        return schema.vocabulary if schema.format == "molecules" else None
    if config.data.source not in BENCHMARKS:
        return None
    features = BENCHMARKS[config.data.source].card.schema
    return next((name for name, known in MOLECULE_SCHEMAS.items() if known == features), None)


def _merged(own: Sequence[Any], trained: Sequence[Any]) -> tuple[Any, ...]:
    """The inputs of the trained model, its features replaced by the own ones."""
    mine = {term.kind: term for term in own if term.kind in _FEATURES}
    kept = [mine.pop(term.kind, None) if term.kind in _FEATURES else term for term in trained]
    return (*(term for term in kept if term is not None), *mine.values())


def _names(config: RunConfig, level: Literal["node", "edge"] | str) -> list[list[str]]:
    """For each categorical feature of a run the names of its categories; their numbers where they have none."""
    if config.data.own_schema is not None and _vocabulary(config) is None:
        schema = OwnSchema.from_dict(config.data.own_schema)
        features = schema.node_features if level == "node" else schema.edge_features
        return [list(feature.vocabulary) or [""] for feature in features if feature.kind == "categorical"]
    terms = config.model.node_inputs if level == "node" else config.model.pair_inputs
    sizes = next((term.sizes for term in terms if term.kind == f"{level}_categories"), ())  # type: ignore[union-attr]
    return [[str(k) for k in range(size)] for size in sizes]
