"""Starting from another model's weights, and which parts of a model train on.

Fine-tuning: the run of new data with the model of an artifact, and the weights it starts from.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from egt.assemble import build_model
from egt.config.defaults import for_finetuning
from egt.config.load import Settings, override, read_config
from egt.config.run import RunConfig, StartConfig
from egt.config.run_data import benchmarks, reading_schema
from egt.data.schema import Feature
from egt.errors import ArtifactError, ConfigError
from egt.graph import Level
from egt.inference.artifact import CONFIG, Artifact, find_artifact, load_artifact, weights_sha256
from egt.nn.layer import EGTLayer
from egt.nn.model import EGT
from egt.parts.readouts import Hidden

log = logging.getLogger(__name__)
Tuned = Literal["all", "edges"]
Key = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class Remap:
    """How the rows (dim 0) or columns (1) of a weight move to other features: by keys, e.g. (feature, category)."""

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
        fresh: names of weights that are re-initialized if `weights` has none.
    """

    weights: Mapping[str, Tensor]
    keep_head: bool = False
    vocabularies: Mapping[str, Remap] = field(default_factory=dict)
    freeze_below: int = 0
    tuned: Tuned = "all"
    fresh: frozenset[str] = frozenset()


def start_from(model: EGT, start: Start) -> None:
    """Give a fresh model the weights it starts from, and freeze what is not to be trained.

    The last linear map is re-initialized unless it is kept, and so are heads of auxiliary objectives and features
    (`fresh`) that the other model did not have. Any other weight that is missing, or has another shape, is an
    `ArtifactError`.
    """
    last = _names_in(model, model.head.last)
    fresh = start.fresh | _names_in(model, model.auxiliary)
    own = model.state_dict()
    loaded = dict(own)
    for name, initial in own.items():
        if name in last and not (start.keep_head or start.tuned == "edges"):
            continue
        if name not in start.weights:
            if name in fresh:
                continue
            raise ArtifactError(f"the weights to start from have no {name}; use a model of the same configuration")
        given = start.weights[name]
        if name in start.vocabularies:
            given = start.vocabularies[name](given, initial)
        if given.shape != initial.shape:
            raise ArtifactError(
                f"{name} has shape {tuple(given.shape)} in the weights to start from, the model has "
                f"{tuple(initial.shape)}; use a model of the same configuration"
                + ("; keep_head off re-initializes it" if name in last else "")
            )
        loaded[name] = given
    model.load_state_dict(loaded)
    unused = sorted(start.weights.keys() - own.keys())
    if unused:
        log.warning("%d weights to start from have no place in this model: %s", len(unused), ", ".join(unused[:5]))
    freeze(model, start.freeze_below, start.tuned)


def freeze(model: EGT, below: int = 0, tuned: Tuned = "all") -> None:
    """Let only a part of a model train: not layers `below` one, nor the embeddings if it is above 0.

    tuned: "edges" freezes the node channel and the head as well.
    """
    if not 0 <= below <= len(model.layers):
        raise ConfigError(f"freeze_below is {below}; the model has layers 0..{len(model.layers) - 1}")
    embeddings_and_layers = list(model.stages().values())[: below + 1]
    frozen = {id(parameter) for stage in embeddings_and_layers for parameter in stage} if below else set()
    wanted = {id(each) for each in (model.parameters() if tuned == "all" else model.edge_parameters())} - frozen
    if not wanted:
        raise ConfigError("nothing is left to train; lower freeze_below")
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in wanted)


def _names_in(model: EGT, *modules: nn.Module) -> frozenset[str]:
    """Return the names that the weights of some modules have in the model."""
    wanted = {id(module) for module in modules}
    prefixes = tuple(f"{name}." for name, module in model.named_modules() if id(module) in wanted)
    return frozenset(name for name in model.state_dict() if name.startswith(prefixes))


_FEATURES = ("node_categories", "node_values", "constant", "edge_categories", "edge_values")
_OF_PAIRS = ("pair_values", "pair_categories", "positions")
_OF_DATA = ("graph_values", *_OF_PAIRS)  # features that every table has of its own, molecules or not


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

    An artifact that is gone, or has other weights than when the run was described, is an `ArtifactError`.
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

    Molecules of the same vocabulary keep its inputs, except those of whole graphs, matrices and positions, and of atoms
    where rows have another number of molecules; other data brings all its own features, in the places of the trained
    model's. The readout is the trained model's where both predict at the same level; that of hidden features is of no
    use here. What was pre-trained for the same level has a recipe of its own.
    """
    same = _vocabulary(config) is not None and _vocabulary(config) == _vocabulary(trained)
    own: tuple[str, ...] = _OF_DATA if same else (*_FEATURES, *_OF_DATA)
    if same and _num_components(config) != _num_components(trained):
        own += ("node_categories",)
    changes: dict[str, Any] = {
        name: _merge(getattr(config.model, name), getattr(trained.model, name), own)
        for name in ("node_inputs", "pair_inputs")
    }
    if not _is_read_alike(trained, config):
        changes |= {"readout": config.model.readout, "head_min_width": config.model.head_min_width}
    run = config.replace(model=trained.model.model_copy(update=changes))
    if _is_read_alike(trained, config) and not trained.task.answers:
        run = for_finetuning(run)
    return override(run, settings, where="the run with the model to start from")


def start_of(
    artifact: Artifact, config: RunConfig, *, keep_head: bool = False, freeze_below: int = 0, tuned: Tuned = "all"
) -> Start:
    """Return what a run starts from when it starts from an artifact: features and categories move by their names.

    What the artifact does not know is re-initialized. Arguments as in `Start`. Two sets of features without names that
    differ in their number are an `ArtifactError`, a head to be kept for another kind of task a `ConfigError`.
    """
    trained, old_model = artifact.config, artifact.model
    if tuned == "edges":
        _check_head(trained, config)
    with torch.random.fork_rng(devices=[]):
        model = build_model(config)  # only to know what is where in it
    of_terms = _names_in(old_model, old_model.embed.node_terms, old_model.embed.pair_terms)
    weights = {name: weight for name, weight in old_model.state_dict().items() if name not in of_terms}
    moves: dict[str, Remap] = {}
    fresh: frozenset[str] = frozenset()
    levels: tuple[Level, Level] = ("node", "edge")
    for level in levels:
        old_terms, new_terms = _terms(trained, old_model, level), _terms(config, model, level)
        old, new = _features(trained, level), _features(config, level)
        by_name = old is not None or new is not None
        other = {kind for kind in _OF_PAIRS if _input(trained, kind) != _input(config, kind)}
        for kind, term in old_terms.items():
            place = None if kind in other else new_terms.get(kind)
            prefix = f"{kind}." if place is None else _prefix(model, place)
            weights |= {f"{prefix}{name}": weight for name, weight in term.state_dict().items()}
        for kind, term in new_terms.items():
            if kind not in old_terms or kind in other:
                is_new = kind in _OF_DATA or (by_name and kind in _FEATURES)
                fresh |= _names_in(model, term) if is_new else frozenset()
            elif kind == "graph_values":
                moves[_name_of(model, term.W.weight)] = Remap(
                    _columns(trained, "graph"), _columns(config, "graph"), dim=1
                )
            elif kind == f"{level}_categories":
                table = term.categories.table.weight
                moves[_name_of(model, table)] = _move_categories(trained, config, level)
            elif kind == f"{level}_values" and by_name:
                moves[_name_of(model, term.W.weight)] = Remap(_columns(trained, level), _columns(config, level), dim=1)
        known = {(feature.name, feature.kind, feature.width) for feature in old or ()}
        unknown = [each.name for each in new or () if (each.name, each.kind, each.width) not in known]
        if unknown:
            log.warning("%s features that the start does not know are re-initialized: %s", level, ", ".join(unknown))
    dropped = _not_taken(old_model, trained, config)
    weights = {name: weight for name, weight in weights.items() if name not in dropped}
    fresh |= _not_taken(model, trained, config)
    return Start(weights, keep_head, moves, freeze_below, tuned, fresh)


def _not_taken(model: EGT, trained: RunConfig, config: RunConfig) -> frozenset[str]:
    """Return the names of weights, in either model, that do not go from the trained one to that of `config`.

    A pre-trained head predicts other things.
    """
    if not _is_read_alike(trained, config):
        return _not_pretrained(model, config)
    return frozenset() if trained.task.answers else _names_in(model, model.head)


def _is_read_alike(trained: RunConfig, config: RunConfig) -> bool:
    """Return whether a readout can go on as it is; that of hidden features reads nodes and pairs at once."""
    return config.model.level == trained.model.level and not isinstance(trained.model.readout, Hidden)


def _terms(config: RunConfig, model: EGT, level: Level) -> dict[str, Any]:
    """Return the terms of the inputs of nodes or pairs by their kind; the types of chosen pairs have none."""
    inputs = config.model.node_inputs if level == "node" else config.model.pair_inputs
    terms = model.embed.node_terms if level == "node" else model.embed.pair_terms
    kinds = [*(each.kind for each in inputs), "types of pairs"]
    return dict(zip(kinds, terms, strict=False))


def _input(config: RunConfig, kind: str) -> Any:
    """Return the pair input of a kind; None where there is none."""
    return next((each for each in config.model.pair_inputs if each.kind == kind), None)


def _prefix(model: EGT, module: nn.Module) -> str:
    return next(f"{name}." for name, each in model.named_modules() if each is module)


def _name_of(model: EGT, weight: Tensor) -> str:
    return next(name for name, each in model.named_parameters() if each is weight)


def _not_pretrained(model: EGT, config: RunConfig) -> frozenset[str]:
    """Return the names of weights that pre-training learns for itself: heads, and norms in front of them.

    The last layer is among them where its edges alone are read, which makes it another one.
    """
    last = model.layers[-1]
    modules: list[nn.Module] = [model.readout, model.head, model.auxiliary]
    if config.model.readout.reads(config.model) == "pairs":
        modules.append(last)
    elif not config.task.auxiliary and isinstance(last, EGTLayer):
        modules += [part for part in (last.pairs.edges, last.outer) if part is not None]
    embeddings = model.readout.embeddings() if config.model.readout.added_nodes() else []
    return _names_in(model, *modules) - {_name_of(model, each) for each in embeddings}


def _check_head(trained: RunConfig, config: RunConfig) -> None:
    old, new = trained.task, config.task
    if (old.kind, old.num_outputs) != (new.kind, new.num_outputs):
        raise ConfigError(
            f"--tune edges keeps the head, which was trained for {old.kind} with {old.num_outputs} outputs; this run "
            f"is {new.kind} with {new.num_outputs}: use --tune all, which re-initializes the last linear map"
        )


def _vocabulary(config: RunConfig) -> str | None:
    """Return the atom and bond features of a run on molecules."""
    if config.data.custom is None and config.data.source not in benchmarks():
        return None
    schema = reading_schema(config)
    return schema.vocabulary if schema.format == "molecules" else None


def _num_components(config: RunConfig) -> int:
    """Return how many molecules the rows of a run have."""
    return 1 if config.data.custom is None else len(config.data.custom.smiles_columns)


def _merge(own: Sequence[Any], trained: Sequence[Any], kinds: Sequence[str]) -> tuple[Any, ...]:
    """Return the inputs of the trained model, those of some kinds replaced by the own ones."""
    mine = {term.kind: term for term in own if term.kind in kinds}
    kept = [mine.pop(term.kind, None) if term.kind in kinds else term for term in trained]
    return (*(term for term in kept if term is not None), *mine.values())


def _features(config: RunConfig, level: Level) -> list[Feature] | None:
    """Return the features of custom data in the order in which a model reads them; None if features have no names."""
    schema = config.data.custom
    if schema is not None and level == "graph":
        return list(schema.graph_features)
    if schema is None or _vocabulary(config) is not None:
        return None
    features = schema.node_features if level == "node" else schema.edge_features
    return [feature for feature in features if feature.kind != "ignored"]


def _move_categories(trained: RunConfig, config: RunConfig, level: Level) -> Remap:
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
