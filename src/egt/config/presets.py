"""Every model and training recipe of the paper, as functions; ablated forms change one thing each.

Medium-scale presets carry the choices of the authors' TensorFlow code, large-scale presets those of their PyTorch code,
wherever the two disagree.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from egt.config import plus
from egt.config.baselines import gatedgcn, gcn, gin, mlp
from egt.config.model import FrozenEdgesConfig, ModelConfig, RandomMaskingConfig
from egt.config.run import DataConfig, OptimizerConfig, RunConfig, TrainerConfig
from egt.errors import ConfigError
from egt.inputs.distance import Distance, Reachability
from egt.inputs.features import edge_features, node_features
from egt.inputs.svd import Svd
from egt.readouts.edge import PerEdge
from egt.readouts.mean import MeanPool
from egt.readouts.node import PerNode
from egt.readouts.readout import ReadoutPart
from egt.readouts.virtual_nodes import VirtualNodes
from egt.schedules.plateau import Plateau
from egt.schedules.warmup_cosine import WarmupCosine
from egt.sources.benchmarks.block_models import CLUSTER, PATTERN
from egt.sources.benchmarks.ogb_molecules import MOLHIV, MOLPCBA
from egt.sources.benchmarks.pcqm import PCQM4M, PCQM4MV2
from egt.sources.benchmarks.superpixels import CIFAR10, MNIST
from egt.sources.benchmarks.tsp import TSP
from egt.sources.benchmarks.zinc import ZINC, ZINC_FULL
from egt.sources.source import DataCard
from egt.tasks.binary import Binary
from egt.tasks.distance import DistanceObjective
from egt.tasks.multiclass import Multiclass
from egt.tasks.regression import Regression
from egt.tasks.task import TaskPart


def _medium(
    name: str,
    card: DataCard,
    task: TaskPart,
    readout: ReadoutPart,
    *,
    layers: int,
    widths: tuple[int, int],
    hops: int,
    batch: int = 128,
    epochs: int = 200,
    patience: int = 10,
) -> RunConfig:
    # DISCREPANCY: the first version of the TensorFlow code with random masking does not divide the dot product by
    # sqrt(d_k), the paper and the last version do.
    return RunConfig(
        name=name,
        data=DataConfig(source=card.name, batch_size=batch),
        model=ModelConfig(
            num_layers=layers,
            node_width=widths[0],
            edge_width=widths[1],
            num_heads=8,
            node_inputs=(*node_features(card.schema), Svd(rank=8)),
            pair_inputs=(Reachability(num_hops=hops), *edge_features(card.schema, absent="learned")),
            readout=readout,
            head_ratios=(0.5, 0.25),
            node_ffn_multiplier=2.0,
            edge_ffn_multiplier=2.0,
            norm_eps=1e-3,
            masking=RandomMaskingConfig(probability=0.1, gates=True),
            initialization="keras",
        ),
        task=task,
        optimizer=OptimizerConfig(lr=5e-4),
        schedule=Plateau(factor=0.5, patience=patience, min_lr=5e-6),
        trainer=TrainerConfig(max_epochs=epochs, select="best"),
    )


def _classes(card: DataCard, **settings: Any) -> Multiclass:
    """Classification into the classes of a data set."""
    target = card.target
    return Multiclass(names=target.names, num_classes=target.num_classes, class_names=target.class_names, **settings)


def _pattern(name: str, layers: int) -> RunConfig:
    task = _classes(PATTERN, class_counts=(979220, 209900), metric="weighted_accuracy")
    return _medium(name, PATTERN, task, PerNode(), layers=layers, widths=(64, 8), hops=16)


def _cluster(name: str, layers: int) -> RunConfig:
    counts = (19695, 19222, 19559, 19417, 19801, 20139)
    task = _classes(CLUSTER, class_counts=counts, metric="weighted_accuracy")
    return _medium(name, CLUSTER, task, PerNode(), layers=layers, widths=(64, 8), hops=16)


def _superpixels(name: str, card: DataCard, widths: tuple[int, int]) -> RunConfig:
    task = _classes(card, auxiliary=(DistanceObjective(max_hops=3, weight=5e-4),))
    return _medium(name, card, task, MeanPool(), layers=4, widths=widths, hops=1)


def _tsp(name: str, layers: int) -> RunConfig:
    # DISCREPANCY: the released configs stop after 100 epochs, the paper says 200.
    # DISCREPANCY: the authors' last layer keeps the values and gates that no edge prediction reads, 4,232 parameters
    # (117,434 instead of our 113,202 for tsp-100k, 525,434 instead of 521,202 for tsp-500k). Its initialization takes
    # the width of Q|K|V, ours that of Q|K.
    task = _classes(TSP, metric="f1")
    return _medium(name, TSP, task, PerEdge(), layers=layers, widths=(64, 8), hops=16, batch=8, patience=5)


def _zinc(
    name: str, card: DataCard, layers: int, widths: tuple[int, int], epochs: int = 600, patience: int = 20
) -> RunConfig:
    objective = DistanceObjective(max_hops=3, weight=5e-2)
    task = Regression(names=card.target.names, loss="mae", auxiliary=(objective,))
    return _medium(name, card, task, MeanPool(), layers=layers, widths=widths, hops=1, epochs=epochs, patience=patience)


def _large(
    name: str, card: DataCard, task: TaskPart, layers: int, width: int, lr: float, batch: int, warmup: int, total: int
) -> RunConfig:
    # DISCREPANCY: the released config of EGT-Larger warms up for 240,000 steps, the paper says 200,000.
    return RunConfig(
        name=name,
        data=DataConfig(source=card.name, batch_size=batch),
        model=ModelConfig(
            num_layers=layers,
            node_width=width,
            edge_width=64,
            num_heads=32,
            node_inputs=(*node_features(card.schema), Svd(rank=8)),
            pair_inputs=(Distance(max_hops=16), *edge_features(card.schema, absent="zero")),
            gate="centrality",
            readout=VirtualNodes(num_virtual=4),
            head_ratios=(1.0, 1.0),
            node_ffn_multiplier=1.0,
            edge_ffn_multiplier=1.0,
            norm_eps=1e-5,
            attention_dropout=0.3,
            initialization="torch",
        ),
        task=task,
        optimizer=OptimizerConfig(lr=lr),
        schedule=WarmupCosine(warmup_steps=warmup, total_steps=total, min_lr=1e-6),
        # The authors stop when the step count exceeds the total: total + 1 updates.
        trainer=TrainerConfig(max_steps=total + 1, select="last"),
    )


def _pcqm(card: DataCard, size: str) -> RunConfig:
    layers, width, lr = {
        "small": (6, 512, 2e-4),
        "medium": (18, 640, 1e-4),
        "large": (24, 768, 1e-4),
        "larger": (30, 768, 8e-5),
    }[size]
    task = Regression(names=card.target.names, loss="mae")
    return _large(f"{card.name}-{size}", card, task, layers, width, lr, 512, 200_000, 1_000_000)


def _molhiv() -> RunConfig:
    task = Binary(names=MOLHIV.target.names, metric="roc_auc")
    return _large("molhiv-larger", MOLHIV, task, 30, 768, 1e-4, 12, 1_000, 3_000)


def _molpcba() -> RunConfig:
    task = Binary(names=MOLPCBA.target.names, metric="average_precision")
    return _large("molpcba-larger", MOLPCBA, task, 30, 768, 1e-4, 16, 20_000, 200_000)


_BASES: Mapping[str, Callable[[], RunConfig]] = {
    "pattern-100k": lambda: _pattern("pattern-100k", 4),
    "pattern-500k": lambda: _pattern("pattern-500k", 16),
    "cluster-100k": lambda: _cluster("cluster-100k", 4),
    "cluster-500k": lambda: _cluster("cluster-500k", 16),
    "mnist-100k": lambda: _superpixels("mnist-100k", MNIST, (64, 8)),
    # DISCREPANCY: the paper's table says 48/48 for CIFAR10, the released config 64/8.
    "cifar10-100k": lambda: _superpixels("cifar10-100k", CIFAR10, (48, 48)),
    "cifar10-100k-released": lambda: _superpixels("cifar10-100k-released", CIFAR10, (64, 8)),
    "tsp-100k": lambda: _tsp("tsp-100k", 4),
    "tsp-500k": lambda: _tsp("tsp-500k", 16),
    "zinc-100k": lambda: _zinc("zinc-100k", ZINC, 4, (48, 48)),
    "zinc-500k": lambda: _zinc("zinc-500k", ZINC, 10, (64, 64)),
    # The paper has no ZINC-full; the length is that of all seven released configs.
    "zinc-full-500k": lambda: _zinc("zinc-full-500k", ZINC_FULL, 10, (64, 64), epochs=200, patience=5),
    **{
        f"{card.name}-{size}": lambda card=card, size=size: _pcqm(card, size)  # type: ignore[misc]
        for card in (PCQM4MV2, PCQM4M)
        for size in ("small", "medium", "large", "larger")
    },
    "molhiv-larger": _molhiv,
    "molpcba-larger": _molpcba,
}


def _medium_molhiv() -> RunConfig:
    """Return a model of MolHIV as small as the medium ones; the paper has none."""
    task = Binary(names=MOLHIV.target.names, metric="roc_auc")
    return _medium("molhiv-500k", MOLHIV, task, MeanPool(), layers=8, widths=(64, 64), hops=1)


def _plus(name: str) -> RunConfig:
    base = _BASES[name]() if name in _BASES else _medium_molhiv()
    return plus.apply(base, plus.PLUS[name])


_PLUS: Mapping[str, Callable[[], RunConfig]] = {
    **{f"{name}-plus": lambda name=name: _plus(name) for name in plus.PLUS},  # type: ignore[misc]
    **{
        f"zinc-100k-upto-{step}": lambda step=step: plus.zinc_step(_BASES["zinc-100k"](), step)  # type: ignore[misc]
        for step in list(plus.ZINC_STEPS)[:-1]
    },
}


def _with_model(run: RunConfig, **changes: Any) -> RunConfig:
    return run.model_copy(update={"model": run.model.model_copy(update=changes)})


def _without_distance_objective(run: RunConfig, *, hops: int) -> RunConfig:
    """Without the objective nothing speaks against distances as input: the authors then stack `hops` hops."""
    terms = tuple(
        Reachability(num_hops=hops) if term.kind == "reachability" else term for term in run.model.pair_inputs
    )
    run = run.model_copy(update={"task": run.task.model_copy(update={"auxiliary": ()})})
    return _with_model(run, pair_inputs=terms)


def _simple(run: RunConfig) -> RunConfig:
    """No residual edge channel; the objective on that channel goes with it, and the paper's widths make up for it."""
    large = run.schedule.kind == "warmup_cosine"
    # DISCREPANCY: the PyTorch code normalizes e0 in each layer of EGT-Simple; the paper and the TensorFlow code do not.
    changes: dict[str, Any] = {"edges": FrozenEdgesConfig(normalize=large)}
    widths = {"cifar10": (64, 8), "zinc": (80, 8), "zinc-full": (80, 8)}.get(run.data.source)
    if widths is not None:
        changes |= {"node_width": widths[0], "edge_width": widths[1]}
    return _without_distance_objective(_with_model(run, **changes), hops=16)


def _constrained(run: RunConfig) -> RunConfig:
    """Neighbors only; as in the authors' configs the structural matrix is adjacency, without random masking."""
    run = _with_model(run, scope="neighbors", masking=RandomMaskingConfig())
    return _without_distance_objective(run, hops=1)


def _ungated(run: RunConfig) -> RunConfig:
    """No gates, and so no centrality scalers either."""
    # DISCREPANCY: the released ungated configs of MNIST, CIFAR10 and ZINC (`egt_u.json`) have no positional encodings
    # and no distance objective either; the paper's text changes the gates alone, as here. Theirs is `-ungated-nope`.
    return _with_model(run, gate="none")


def _nope(run: RunConfig) -> RunConfig:
    """No positional encodings, and as in the authors' configs no distance objective without them."""
    run = _with_model(run, node_inputs=tuple(term for term in run.model.node_inputs if term.kind != "svd"))
    return _nodistance(run)


def _nodistance(run: RunConfig) -> RunConfig:
    """No distance objective; distances of up to 16 hops enter as input instead (the authors' `egt_spe.json`)."""
    return _without_distance_objective(run, hops=16) if run.task.auxiliary else run


_FORMS: Mapping[str, Callable[[RunConfig], RunConfig]] = {
    "simple": _simple,
    "constrained": _constrained,
    "ungated": _ungated,
    "nope": _nope,
    "nodistance": _nodistance,
    "gcn": gcn,
    "gin": gin,
    "gatedgcn": gatedgcn,
    "mlp": mlp,
}

_STEPS: tuple[Mapping[str, Any], ...] = (
    {},
    {"gate": "sigmoid"},
    {"attention_dropout": 0.3},
    {"readout": VirtualNodes(num_virtual=4)},
    {"gate": "centrality"},
    {"node_inputs": (*node_features(PCQM4MV2.schema), Svd(rank=8))},
)
"""What each step of the paper's ablation on PCQM4Mv2 adds to the one before."""


def _step(last: int) -> RunConfig:
    bare = {
        "gate": "none",
        "attention_dropout": 0.0,
        "readout": MeanPool(),
        "node_inputs": node_features(PCQM4MV2.schema),
    }
    changes = bare | {key: value for step in _STEPS[: last + 1] for key, value in step.items()}
    return _with_model(_pcqm(PCQM4MV2, "small"), **changes)


_STARTS = {"molhiv-larger": "pcqm4mv2-larger", "molpcba-larger": "pcqm4mv2-larger"}


def starts_from(name: str) -> str:
    """Return the preset whose trained weights the paper starts this one from; "" for random weights."""
    return _STARTS.get(name, "")


def recipe_for(source: str) -> RunConfig:
    """Return a run on this benchmark: that of its first preset, or without any of its own that of PCQM4Mv2."""
    runs = (preset(name) for name in names())
    if (found := next((run for run in runs if run.data.source == source), None)) is not None:
        return found
    run = preset("pcqm4mv2-small")
    return run.model_copy(update={"data": run.data.model_copy(update={"source": source})})


def names() -> list[str]:
    """Return the presets of the paper, without the ablated forms that any of them can take."""
    return [*_BASES, *(f"pcqm4mv2-small-step{k}" for k in range(len(_STEPS)))]


def plus_names() -> list[str]:
    """Return the presets beyond the paper, without the steps that lead to them."""
    return [f"{name}-plus" for name in plus.PLUS]


def forms() -> dict[str, str]:
    """Return the ablated forms, `<preset>-<form>`, and what each changes."""
    return {name: (form.__doc__ or "").strip() for name, form in _FORMS.items()}


def preset(name: str) -> RunConfig:
    """Return the run of this name, e.g. `zinc-500k` or `pattern-500k-simple-nope`."""
    bases: dict[str, Callable[[], RunConfig]] = {**_BASES, **_PLUS}
    bases |= {f"pcqm4mv2-small-step{k}": (lambda k=k: _step(k)) for k in range(len(_STEPS))}  # type: ignore[misc]
    base, asked = name, list[str]()
    while base not in bases:
        base, _, form = base.rpartition("-")
        if form not in _FORMS or form in asked:
            close = difflib.get_close_matches(name, [*bases, *(f"{b}-{f}" for b in bases for f in _FORMS)], n=3)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise ConfigError(f"there is no preset {name!r}{hint} (`egt presets` lists them)")
        asked.append(form)
    run = bases[base]()
    for form in reversed(asked):
        run = _FORMS[form](run)
    return RunConfig.model_validate(run.model_copy(update={"name": name}).model_dump())
