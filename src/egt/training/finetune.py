"""Starting from another model's weights, and which parts of a model train on.

Fine-tuning: the run of new data with the model of an artifact, and the weights it starts from.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from egt.config.load import override, read_config
from egt.config.run import RunConfig, StartConfig
from egt.config.settings import Settings
from egt.data.schema import MOLECULE_SCHEMAS, Feature
from egt.errors import ArtifactError, ConfigError
from egt.graph import Level
from egt.inference.artifact import CONFIG, Artifact, find_artifact, load_artifact, weights_sha256
from egt.nn.model import EGT

log = logging.getLogger(__name__)

Tuned = Literal["all", "edges"]

Key = tuple[str | int, ...]

_EDGE_PARTS = re.compile(r"embed\.pair_terms\.|layers\.\d+\.pairs\.|auxiliary\.|readout\.edges$")
"""The parameters of the edge channel: pair terms, norm_e, E, G, O_e, the edge feed-forward blocks."""


@dataclass(frozen=True, eq=False)
class Remap:
    """How the rows or columns of a weight move to other features: by their keys, e.g. (feature, category).

    Args:
        old: the key of each row (or column) in the model that is started from.
        new: the same for the model that is trained.
        dim: 0 moves rows, 1 columns.
    """

    old: Sequence[Key]
    new: Sequence[Key]
    dim: int = 0

    def __call__(self, weight: Tensor, fresh: Tensor) -> Tensor:
        """Return the new weight: what both know from `weight`, the rest from `fresh`."""
        expected = list(fresh.shape)
        expected[self.dim] = len(self.old)
        if list(weight.shape) != expected or fresh.shape[self.dim] != len(self.new):
            raise ArtifactError(
                f"a table of features has shape {tuple(weight.shape)} in the weights to start from and "
                f"{tuple(fresh.shape)} in the model, for {len(self.old)} and {len(self.new)} names; "
                "use a model of the same widths"
            )
        places = {key: k for k, key in enumerate(self.old)}
        out = fresh.clone()
        for k, key in enumerate(self.new):
            if key in places:
                out.select(self.dim, k).copy_(weight.select(self.dim, places[key]))
        return out


@dataclass(frozen=True, eq=False)
class Start:
    """What fine-tuning starts from and what it trains.

    Args:
        weights: of another model, by parameter name.
        keep_head: keep the last linear map instead of re-initializing it (the paper always re-initializes it).
        vocabularies: for a weight with a row or column per category or feature, by parameter name, how these move.
        freeze_below: layers below this one, and the embeddings, stay as they are; 0 trains all.
        tuned: "all", or "edges" for the authors' "-T" tuning: only the edge channel trains on, so the head is kept.
        fresh: parameters whose names begin like this are re-initialized if `weights` has none.
    """

    weights: Mapping[str, Tensor]
    keep_head: bool = False
    vocabularies: Mapping[str, Remap] = field(default_factory=dict)
    freeze_below: int = 0
    tuned: Tuned = "all"
    fresh: tuple[str, ...] = ()


def start_from(model: EGT, start: Start) -> None:
    """Give a fresh model the weights it starts from, and freeze what is not to be trained.

    Raises:
        ArtifactError: a weight is missing or has another shape. The last linear map is re-initialized unless it is
            kept, and so are heads of auxiliary objectives and features (`fresh`) that the other model did not have.
    """
    last = _last_linear(model)
    own = model.state_dict()
    loaded = dict(own)
    for name, fresh in own.items():
        if name in last and not (start.keep_head or start.tuned == "edges"):
            continue
        if name not in start.weights:
            if name.startswith(("auxiliary.", *start.fresh)):
                continue
            raise ArtifactError(f"the weights to start from have no {name}; use a model of the same configuration")
        given = start.weights[name]
        if name in start.vocabularies:
            given = start.vocabularies[name](given, fresh)
        if given.shape != fresh.shape:
            raise ArtifactError(
                f"{name} has shape {tuple(given.shape)} in the weights to start from, the model has "
                f"{tuple(fresh.shape)}; use a model of the same configuration"
                + ("; keep_head off re-initializes it" if name in last else "")
            )
        loaded[name] = given
    model.load_state_dict(loaded)
    unused = sorted(start.weights.keys() - own.keys())
    if unused:
        log.warning("%d weights to start from have no place in this model: %s", len(unused), ", ".join(unused[:5]))
    freeze(model, start.freeze_below, start.tuned)


def freeze(model: EGT, below: int = 0, tuned: Tuned = "all") -> None:
    """Let only a part of a model train.

    Args:
        model: gets `requires_grad` set on each parameter.
        below: layers below this one, and the embeddings if it is above 0, are frozen.
        tuned: "edges" freezes the node channel and the head as well.
    """
    if not 0 <= below <= len(model.layers):
        raise ConfigError(f"freeze_below is {below}; the model has layers 0..{len(model.layers) - 1}")
    frozen = tuple(f"layers.{k}." for k in range(below)) + (
        ("embed.", "readout.nodes", "readout.edges") if below else ()
    )
    for name, parameter in model.named_parameters():
        wanted = tuned == "all" or _EDGE_PARTS.match(name) is not None
        parameter.requires_grad_(wanted and not name.startswith(frozen) if frozen else wanted)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("nothing is left to train; lower freeze_below")


def _last_linear(model: EGT) -> set[str]:
    last = {id(parameter) for parameter in model.head.last.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in last}


_FEATURES = ("node_categories", "node_values", "constant", "edge_categories", "edge_values")

_OF_GRAPHS = ("graph_values",)
"""Features that every table has of its own, molecules or not."""

_PLACES: tuple[tuple[Level, str, str], ...] = (
    ("node", "node_inputs", "node_terms"),
    ("edge", "pair_inputs", "pair_terms"),
)
"""Of the features of nodes and of edges: the settings of their inputs, and the place of the terms in the model."""


def describe_start(
    artifact: str, *, keep_head: bool = False, freeze_below: int = 0, tune: Tuned = "all"
) -> StartConfig:
    """Return what the configuration of a run says about the artifact it starts from. Arguments as in `StartConfig`."""
    path = find_artifact(artifact)
    name = read_config(path / CONFIG).name
    if freeze_below < 0:
        raise ConfigError(f"--freeze-below {freeze_below}: give the number of the first layer to train, 0 or more")
    return StartConfig(
        artifact=str((Path(artifact) if Path(artifact).exists() else path).resolve()),
        name=name,
        sha256=weights_sha256(path),
        keep_head=keep_head,
        freeze_below=freeze_below,
        tune=tune,
    )


def load_start(config: RunConfig) -> Start | None:
    """Return what the configuration says that the run starts from; None for random weights.

    Raises:
        ArtifactError: the artifact is gone, or has other weights than when the run was described.
    """
    start = config.start
    if start is None:
        return None
    try:
        path = find_artifact(start.artifact)
        if weights_sha256(path) != start.sha256:
            raise ArtifactError(f"{path}: its weights are not those that the run was set up with")
        artifact = load_artifact(path)
    except ArtifactError as error:
        raise ArtifactError(
            f"the run starts from the weights of {start.name}, but {error} (put them back, or name them with --from)"
        ) from error
    return start_of(artifact, config, keep_head=start.keep_head, freeze_below=start.freeze_below, tuned=start.tune)


def with_model_of(config: RunConfig, trained: RunConfig, settings: Settings = ()) -> RunConfig:
    """Return a run of custom data with the sizes and parts of a trained model, and then with some settings replaced.

    Molecules of the same vocabulary keep its inputs, except those of whole graphs, and of atoms where rows have another
    number of molecules; other data brings all its own features, in the places of the trained model's. The readout is
    the trained model's where both predict at the same level; pre-training has none of use here.

    Raises:
        ConfigError: the trained model does not fit the run.
    """
    same = _vocabulary(config) is not None and _vocabulary(config) == _vocabulary(trained)
    own: tuple[str, ...] = _OF_GRAPHS if same else (*_FEATURES, *_OF_GRAPHS)
    if same and _num_components(config) != _num_components(trained):
        own += ("node_categories",)
    changes: dict[str, Any] = {
        name: _merged(getattr(config.model, name), getattr(trained.model, name), own)
        for name in ("node_inputs", "pair_inputs")
    }
    if config.model.level != trained.model.level or not trained.task.answers:
        changes["readout"] = config.model.readout
    model = trained.model.model_copy(update=changes)
    run = config.model_copy(update={"model": model})
    return override(run, settings, where="the run with the model to start from")


def start_of(
    artifact: Artifact, config: RunConfig, *, keep_head: bool = False, freeze_below: int = 0, tuned: Tuned = "all"
) -> Start:
    """Return what a run starts from when it starts from an artifact: features and categories move by their names.

    What the artifact does not know is re-initialized. Arguments as in `Start`.

    Raises:
        ArtifactError: two sets of features without names differ in their number.
        ConfigError: the head is to be kept for another kind of task.
    """
    trained = artifact.config
    if tuned == "edges":
        _check_head(trained, config)
    moves: dict[str, Remap] = {}
    fresh: list[str] = []
    for level, inputs, place in _PLACES:
        kinds = {term.kind for term in getattr(trained.model, inputs)}
        old, new = _features(trained, level), _features(config, level)
        by_name = old is not None or new is not None
        for k, term in enumerate(getattr(config.model, inputs)):
            name = f"embed.{place}.{k}."
            if term.kind not in kinds:
                fresh += [name] if term.kind in _OF_GRAPHS or (by_name and term.kind in _FEATURES) else []
            elif term.kind in _OF_GRAPHS:
                moves[f"{name}W.weight"] = Remap(_columns(trained, "graph"), _columns(config, "graph"), dim=1)
            elif term.kind == f"{level}_categories":
                moves[f"{name}categories.table.weight"] = _moved_categories(trained, config, level)
            elif term.kind == f"{level}_values" and by_name:
                moves[f"{name}W.weight"] = Remap(_columns(trained, level), _columns(config, level), dim=1)
        known = {(feature.name, feature.kind, feature.width) for feature in old or ()}
        unknown = [each.name for each in new or () if (each.name, each.kind, each.width) not in known]
        if unknown:
            log.warning("%s features that the start does not know are re-initialized: %s", level, ", ".join(unknown))
    weights = _in_place(artifact.model.state_dict(), trained, config)
    if not trained.task.answers:
        untrained = _not_pretrained(config)
        weights = {name: weight for name, weight in weights.items() if not name.startswith(untrained)}
        fresh += untrained
    return Start(weights, keep_head, moves, freeze_below, tuned, tuple(fresh))


def _not_pretrained(config: RunConfig) -> tuple[str, ...]:
    """Return how the names of weights begin that pre-training learns for itself: heads, and norms in front of them.

    The last layer is among them where its edges alone are read, which makes it another one.
    """
    model, last = config.model, f"layers.{config.model.num_layers - 1}."
    untrained = ["head.", "auxiliary.", "readout.norm", "readout.W."]
    if not model.readout.added_nodes():
        untrained += ["readout."]
    if model.readout.reads(model) == "pairs":
        untrained += [last]
    elif not config.task.auxiliary:
        untrained += [f"{last}pairs.edges.", f"{last}outer."]
    return tuple(untrained)


def _check_head(trained: RunConfig, config: RunConfig) -> None:
    old, new = trained.task, config.task
    if (old.kind, old.num_outputs) != (new.kind, new.num_outputs):
        raise ConfigError(
            f"--tune edges keeps the head, which was trained for {old.kind} with {old.num_outputs} outputs; this run "
            f"is {new.kind} with {new.num_outputs}: use --tune all, which re-initializes the last linear map"
        )


def _vocabulary(config: RunConfig) -> str | None:
    """Return the atom and bond features of a run on molecules."""
    schema = config.data.custom
    if schema is not None:
        return schema.vocabulary if schema.format == "molecules" else None
    from egt.data.benchmark import BENCHMARKS  # here: the run of a file needs none of them

    if config.data.source not in BENCHMARKS:
        return None
    features = BENCHMARKS.get(config.data.source).card.schema
    return next((name for name, known in MOLECULE_SCHEMAS.items() if known == features), None)


def _num_components(config: RunConfig) -> int:
    """Return how many molecules the rows of a run have."""
    return 1 if config.data.custom is None else len(config.data.custom.smiles_columns)


def _merged(own: Sequence[Any], trained: Sequence[Any], kinds: Sequence[str]) -> tuple[Any, ...]:
    """Return the inputs of the trained model, those of some kinds replaced by the own ones."""
    mine = {term.kind: term for term in own if term.kind in kinds}
    kept = [mine.pop(term.kind, None) if term.kind in kinds else term for term in trained]
    return (*(term for term in kept if term is not None), *mine.values())


def _in_place(weights: Mapping[str, Tensor], trained: RunConfig, config: RunConfig) -> dict[str, Tensor]:
    """Return the trained weights, those of input terms where the new model has a term of the same kind."""
    moved: dict[str, str] = {}
    for _, inputs, place in _PLACES:
        places = {term.kind: str(k) for k, term in enumerate(getattr(config.model, inputs))}
        for k, term in enumerate(getattr(trained.model, inputs)):
            moved[f"embed.{place}.{k}"] = f"embed.{place}.{places.get(term.kind, term.kind)}"
    out = {}
    for name, weight in weights.items():
        module = ".".join(name.split(".")[:3])
        out[moved.get(module, module) + name[len(module) :]] = weight
    return out


def _features(config: RunConfig, level: Level) -> list[Feature] | None:
    """Return the features of custom data in the order in which a model reads them; None if features have no names."""
    schema = config.data.custom
    if schema is not None and level == "graph":
        return list(schema.graph_features)
    if schema is None or _vocabulary(config) is not None:
        return None
    features = schema.node_features if level == "node" else schema.edge_features
    return [feature for feature in features if feature.kind != "ignored"]


def _moved_categories(trained: RunConfig, config: RunConfig, level: Level) -> Remap:
    old, new = _categories(trained, level), _categories(config, level)
    same = _vocabulary(config) is not None and _vocabulary(config) == _vocabulary(trained)  # and then the component
    if not same and _features(trained, level) is None and _features(config, level) is None and len(old) != len(new):
        raise ArtifactError(
            f"the model reads {len(new)} categorical {level} features, its start {len(old)}; "
            "start from a model of the same features"
        )
    absent: Key = ("",)
    return Remap([absent, *chain(*old)], [absent, *chain(*new)])


def _categories(config: RunConfig, level: Level) -> list[list[Key]]:
    """For each categorical feature its categories as (feature, category); by their numbers where they have no names."""
    features = _features(config, level)
    if features is not None:
        return [
            [(feature.name, value) for value in feature.vocabulary or ("",)]
            for feature in features
            if feature.kind == "categorical"
        ]
    sizes: Sequence[int] = _setting(config, f"{level}_categories", "sizes", ())
    return [[(feature, value) for value in range(size)] for feature, size in enumerate(sizes)]


def _columns(config: RunConfig, level: Level) -> list[Key]:
    """Locate the continuous features as (feature, width, place); another width is another feature."""
    features = _features(config, level)
    if features is None:
        return [(k,) for k in range(_setting(config, f"{level}_values", "num_values", 0))]
    continuous = [feature for feature in features if feature.kind == "continuous"]
    return [(feature.name, feature.width, k) for feature in continuous for k in range(feature.width)]


def _setting(config: RunConfig, kind: str, name: str, default: Any) -> Any:
    """Return a setting of the input term of a kind."""
    terms = (*config.model.node_inputs, *config.model.pair_inputs)
    return next((getattr(term, name) for term in terms if term.kind == kind), default)
