"""The run of custom data: a small EGT whose inputs and task follow from the schema.

Defaults, each of which `--set` changes, as measured in benchmarks/results/defaults.md:

- model: 4 layers, widths 64/16, 8 heads (about 0.2 million parameters), centrality gates, dropout 0.1, for classes of
  graphs 0.2; for graphs of more than 500 nodes 3 layers, widths 64/8, 4 heads, because memory grows with the square of
  the nodes; with graphs of more than 1,500 nodes attention is between neighbors only (EGT-Constrained).
- inputs: the features of the schema, SVD encodings of rank 8, hop distances up to 16; for links between so many nodes
  also short walks, since a neighbor of a neighbor is not attended. Matrices and distances of positions, where there are
  any, enter the pair channel as Gaussians; where no graph has an edge, the SVD is that of the first matrix.
- readout: for numbers of graphs 4 virtual nodes, for their classes the mean of the nodes (4 virtual nodes where only
  neighbors are attended); the nodes or the edge channel otherwise.
- task: regression on standardized targets with MAE, binary with ROC-AUC, or classes with accuracy.
- training: Adam 1e-3, halved after 10 epochs without improvement, batches of 1 to 128 graphs, about 6,000 steps
  (10 to 200 epochs; for links of huge graphs as many as pass 50 million pairs); it ends early after 30 epochs without
  a better validation loss, in which the rate was halved three times. The weights that are best on validation are kept.

Nodes of one graph take one step an epoch: up to 600, with patience for 100. Those with many features, nodes of huge
graphs and pre-training have recipes of their own; for classes of nodes of one graph validation chooses among several
(`node_recipes`).
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from egt.config.run import DataConfig, ModelConfig, OptimizerConfig, PiecesConfig, RunConfig, TrainerConfig
from egt.data.custom_source import CustomSource
from egt.data.molecule_descriptors import choose_targets
from egt.data.schema import CustomSchema
from egt.data.source import NUMBERS, DataCard, TargetSchema
from egt.errors import ConfigError
from egt.graph import FeatureSchema, Level
from egt.parts.inputs import (
    Constant,
    Distance,
    GraphValues,
    KnownLabels,
    NodeInput,
    NodeValues,
    PairInput,
    Svd,
    Walks,
    edge_features,
    node_features,
    pair_features,
)
from egt.parts.readouts import Hidden, LayerPart, MeanPool, PerEdge, PerNode, Propagated, ReadoutPart, VirtualNodes
from egt.parts.schedules import ConstantRate, Cosine, Plateau
from egt.parts.tasks.task import TaskPart

log = logging.getLogger(__name__)
_LARGE_GRAPH, _HUGE_GRAPH = 500, 1_500
_STEPS = 6_000
_EPOCHS = (10, 200)
_LISTED_PAIRS = 50_000_000  # how many pairs a training for links of a huge graph goes through: some minutes on one core
_PATIENCE = 30


def infer_run(
    source: CustomSource, path: str, name: str, *, pretrain: bool = False, learned: str | None = None
) -> RunConfig:
    """Return the run that fits custom data, by the recipe for its kind.

    learned: what pre-training learns: "descriptors" (by default of molecules), or what is "hidden".
    """
    schema, card = source.schema, source.card
    run = infer_config(schema, card, path, name)
    if pretrain:
        learned = learned or ("hidden" if source.smiles() is None else "descriptors")
        if learned not in ("hidden", "descriptors"):
            raise ConfigError(f"pretrain is {learned!r}; it can be hidden, or for molecules descriptors")
        return for_descriptors(run, source) if learned == "descriptors" else for_pretraining(run, schema)
    if schema.level != "node":
        return run
    run = for_single_steps(run) if card.split_sizes.get("train") == 1 else run
    run = for_one_graph(run) if is_one_graph(schema, card) else run
    return for_pieces(run, source) if is_large(card) else run


def infer_config(schema: CustomSchema, card: DataCard, path: str, name: str, seed: int = 0) -> RunConfig:
    """Return the run that fits the user's data, without recipes for a special kind."""
    num_train = card.split_sizes.get("train", 1)
    # At least twenty steps an epoch, or eight of up to four graphs: a single graph divided for links is ten graphs.
    smallest = min(max(num_train // 8, 1), 4)
    batch_size = min(max(num_train // 20, smallest), 32 if num_train < 5_000 else 64 if num_train < 20_000 else 128)
    validated = card.split_sizes.get("val", 0) > 0
    largest = card.num_nodes[2]
    huge = largest > _HUGE_GRAPH
    # Without a target the run pre-trains; some of a mixed table are numbers.
    classes = bool(schema.targets) and schema.kind not in (*NUMBERS, "mixed")
    epochs = _STEPS // max(-(-num_train // batch_size), 1)
    if huge and schema.level == "link":
        epochs = min(epochs, round(_LISTED_PAIRS / (num_train * (card.num_nodes[1] + card.mean_edges))))
    return RunConfig(
        name=name,
        seed=seed,
        data=DataConfig(source=path, batch_size=batch_size, layout="edge_list" if huge else "auto", custom=schema),
        model=custom_model(
            schema.features(),
            schema.target(),
            largest,
            neighbors=huge,
            pooled=schema.level == "graph" and classes and not huge,
            edgeless=card.mean_edges == 0,
            symmetric=schema.symmetric and not huge,
        ),
        task=custom_task(schema.target()),
        optimizer=OptimizerConfig(lr=1e-3),
        schedule=Plateau(patience=10, min_lr=1e-5) if validated else ConstantRate(),
        trainer=TrainerConfig(
            max_epochs=min(max(epochs, _EPOCHS[0]), _EPOCHS[1]),
            select="best" if validated else "last",
            select_by="metric" if schema.kind == "mixed" else "loss",  # of losses, that which overfits first decides
            patience=_PATIENCE if validated else None,
            baseline=True,
        ),
    )


def custom_model(
    features: FeatureSchema,
    target: TargetSchema,
    largest: int,
    *,
    neighbors: bool = False,
    pooled: bool = False,
    edgeless: bool = False,
    symmetric: bool = False,
) -> ModelConfig:
    """Return a small model for these features and this target, for graphs of so many nodes at most.

    neighbors: attention between neighbors only. pooled: graphs are read from the mean of their nodes. edgeless: no
    graph has an edge, so that all structure is in matrices, the first of which is decomposed, and positions. symmetric:
    answers for pairs are the same in both directions.
    """
    large = largest > _LARGE_GRAPH
    dropout = 0.2 if pooled else 0.1
    dense = pair_features(features)
    edgeless = edgeless and bool(dense)
    svd = Svd(rank=8, matrix=0 if edgeless and features.num_pair_values else None)
    nodes: tuple[NodeInput, ...] = (*(node_features(features) or (Constant(),)), svd)
    if features.num_graph_values:
        nodes += (GraphValues(num_values=features.num_graph_values),)
    walks: tuple[PairInput, ...] = (Walks(),) if neighbors and target.level == "link" else ()
    model = ModelConfig(
        num_layers=3 if large else 4,
        node_width=64,
        edge_width=8 if large else 16,
        num_heads=4 if large else 8,
        node_inputs=nodes,
        pair_inputs=(*(() if edgeless else (Distance(max_hops=16),)), *walks, *edge_features(features), *dense),
        gate="centrality",
        scope="neighbors" if neighbors else "everyone",
        readout=MeanPool() if pooled else PerEdge(symmetric=True) if symmetric else _readout(target.level),
        node_ffn_multiplier=2.0,
        edge_ffn_multiplier=1.0,
        attention_dropout=dropout,
        node_dropout=dropout,
        node_ffn_dropout=dropout,
    )
    outputs, narrowest = custom_task(target).num_outputs, min(model.head_ratios) * model.node_width
    # Many answers do not fit through a narrow layer; more than a row of the readout holds cannot be asked of it.
    wide = min(outputs, model.readout.width(model)) if outputs > narrowest else 0
    return model.model_copy(update={"head_min_width": wide})


def _readout(level: Level) -> ReadoutPart:
    match level:
        case "graph":
            return VirtualNodes(num_virtual=4)
        case "node":
            return PerNode()
        case "edge" | "link" | "pair":
            return PerEdge()


def custom_task(target: TargetSchema) -> TaskPart:
    """Loss and metric that fit the target."""
    names = target.names
    if target.row_weights or target.kind == "mixed":
        parts = tuple(custom_task(each) for each in target.groups or (replace(target, row_weights=False),))
        return TaskPart.of_kind("mixed", names=names, parts=parts, row_weights=target.row_weights)
    match target.kind:
        case "regression" | "censored":
            return TaskPart.of_kind(target.kind, names=names, loss="mae", standardize=True)
        case "binary":
            return TaskPart.of_kind("binary", names=names).named(names, target.class_names)
        case "multiclass":
            classes = {"num_classes": target.num_classes, "class_names": target.class_names}
            return TaskPart.of_kind("multiclass", names=names, **classes)


_MANY_VALUES = 100  # with so many features of a node most can be dropped: what is left still tells its class


def is_one_graph(schema: CustomSchema, card: DataCard) -> bool:
    """Whether the data is classes of nodes with many features, in one training graph, such as a citation network."""
    return (
        schema.level == "node"
        and schema.kind not in (*NUMBERS, "mixed")
        and card.split_sizes.get("train") == 1
        and schema.features().num_node_values >= _MANY_VALUES
    )


_SINGLE_STEPS = {"max_epochs": 600, "patience": 100}


def for_single_steps(run: RunConfig) -> RunConfig:
    """Return the run with more epochs and patience, for nodes of one graph: an epoch is a single step."""
    if run.trainer.patience is None:  # nothing tells when to stop
        return run
    return run.replace(trainer=_SINGLE_STEPS, schedule=Plateau(patience=30, min_lr=1e-5))


def for_one_graph(run: RunConfig) -> RunConfig:
    """Return the run with the recipe for one graph, on which the defaults overfit: embeddings spread along edges."""
    model = {
        "num_layers": 2,
        "node_inputs": tuple(
            term.model_copy(update={"dropout": 0.8}) if isinstance(term, NodeValues) else term
            for term in run.model.node_inputs
            if term.kind != "svd"
        ),
        "readout": Propagated(dropout=0.5),
        "head_ratios": (),
        "attention_dropout": 0.5,
        "node_dropout": 0.5,
        "node_ffn_dropout": 0.5,
    }
    return run.replace(model=model, optimizer={"lr": 1e-3, "weight_decay": 0.5, "decays": "matrices"})


_FAR_LAYERS = 5  # layers that pass means of neighbors on: a node then knows what is five steps away


def node_recipes(run: RunConfig, source: CustomSource) -> dict[str, RunConfig]:
    """Return the runs by name that validation chooses from, where classes of nodes of one whole graph are predicted.

    The first is `run`, the one that was inferred. None of other data, and without nodes to validate on.
    """
    card, num_classes = source.card, source.schema.target().num_label_classes
    is_one = card.split_sizes.get("train") == 1 and card.split_sizes.get("val")
    if not num_classes or not is_one or run.data.pieces is not None:
        return {}
    listed = run.replace(data={"layout": "edge_list"}, model={"scope": "neighbors"})
    perceptron = {"layer": LayerPart.of_kind("mlp")}
    spread = run.model.readout if isinstance(run.model.readout, Propagated) else Propagated()
    alone = tuple(term for term in run.model.node_inputs if term.kind != "svd")
    milder = tuple(  # what is not spread along many edges says less when most of it is dropped
        term.model_copy(update={"dropout": min(term.dropout, 0.5)}) if isinstance(term, NodeValues) else term
        for term in run.model.node_inputs
    )
    labels = KnownLabels(num_classes=num_classes)
    nodes = card.num_nodes[2]
    found = {
        "attention": run.replace(model={"readout": PerNode()}),
        "spread attention": listed.replace(model={"readout": spread}),
        "spread perceptron": listed.replace(model={"readout": spread, **perceptron}),
        "features alone": listed.replace(model={"readout": PerNode(), "node_inputs": alone, **perceptron}),
        "means of neighbors": listed.replace(
            model={
                "node_inputs": milder,
                "readout": PerNode(),
                "layer": LayerPart.of_kind("sage"),
                "num_layers": _FAR_LAYERS,
            },
            optimizer={"lr": 3e-3},
        ),
        "attention to labels": listed.replace(
            model={"readout": PerNode(), "node_inputs": (*run.model.node_inputs, labels)},
            data={"pieces": PiecesConfig(roots=nodes, evaluation_roots=nodes, neighbors="graph")},
            trainer={name: steps // labels.folds for name, steps in _SINGLE_STEPS.items()},
            schedule=Plateau(patience=30 // labels.folds, min_lr=1e-5),
        ),
    }
    inferred = "attention" if isinstance(run.model.readout, PerNode) else "spread attention"
    return {inferred: run} | found | {inferred: run}  # first, and as it is


MOST_PAIRS = 1_000_000  # nodes and directed edges of a graph that is still computed whole
_ROOTS = (64, 256)
_PIECE_STEPS = 8  # steps of an epoch that are worth smaller pieces
_NODES = 20_000_000
"""How many nodes a training on pieces goes through, repeated ones included: about ten minutes of one core."""

_PIECE_EPOCHS = (3, 100)
_PIECE_PATIENCE = 10


def is_large(card: DataCard) -> bool:
    """Return whether graphs are too large to be computed whole at every step."""
    return card.num_nodes[1] + card.mean_edges > MOST_PAIRS


def for_pieces(run: RunConfig, source: CustomSource) -> RunConfig:
    """Return the run with the recipe for nodes of a graph that is too large to be computed whole at every step.

    A step takes a piece (`data.pieces`): up to 256 labeled nodes with 10 neighbors each, and 5 neighbors of each of
    these. SVD encodings are left out, which take long on such a graph; inputs that are named with `--set` are computed
    once for the whole graph. Gates are plain: how many neighbors a node has in a piece says nothing about it.
    """
    nodes, edges = source.card.num_nodes[1], source.card.mean_edges
    num_classes = source.schema.target().num_label_classes
    scored = [source.rows_in("train", record.row) for record in source.records("train")]  # None: all of a graph
    labeled = max(1, round(sum(nodes if each is None else np.count_nonzero(each) for each in scored)))
    pieces = PiecesConfig(roots=min(max(labeled // _PIECE_STEPS, _ROOTS[0]), _ROOTS[1]))
    log.warning(
        "%s: %s nodes and %s edges are computed in pieces: %d nodes at a time and their neighbors, %s "
        "(data.pieces; --set data.pieces=null%s computes them whole)",
        run.data.source,
        f"{nodes:,.0f}",
        f"{edges:,.0f}",
        pieces.roots,
        " then ".join(str(limit) for limit in pieces.neighbors),
        " model.node_inputs-=known_labels" if num_classes else "",
    )
    growth = new = 1  # how many nodes a root brings along at most, itself included
    for limit in pieces.neighbors:
        new *= limit if isinstance(limit, int) else 1
        growth += new
    steps = -(-labeled // pieces.roots)
    epochs = round(_NODES / (steps * min(nodes, pieces.roots * growth)))
    length = {"max_epochs": min(max(epochs, _PIECE_EPOCHS[0]), _PIECE_EPOCHS[1])}
    if run.trainer.patience is not None:
        length["patience"] = _PIECE_PATIENCE
    inputs = tuple(term for term in run.model.node_inputs if term.kind != "svd")
    if num_classes:
        inputs = (*inputs, KnownLabels(num_classes=num_classes))
    return run.replace(
        data={"pieces": pieces, "batch_size": 1},
        model={"node_inputs": inputs, "gate": "sigmoid"},
        schedule=Cosine(),
        trainer=length,
    )


_TUNED_EPOCHS = 20


def for_finetuning(run: RunConfig) -> RunConfig:
    """Return a run that starts from a pre-trained model with the recipe for it.

    It finds its weights in few epochs, whose rate falls to nothing; nothing is dropped out, which makes it worse. What
    is linear in descriptors is not in activities: the new head has a hidden layer (benchmarks/results/foundation.md).
    """
    epochs = min(_TUNED_EPOCHS, run.trainer.max_epochs or _TUNED_EPOCHS)
    return run.replace(
        model={"head_ratios": (4.0,)},
        optimizer={"lr": 5e-4},
        schedule=Cosine(),
        trainer={"max_epochs": epochs, "patience": None},
    )


def for_descriptors(run: RunConfig, source: CustomSource) -> RunConfig:
    """Return a run on molecules that learns their descriptors, of which each step asks for a part.

    There are too many of them to overfit, so nothing is dropped out.
    """
    chosen = choose_targets(source.smiles() or ())
    task = TaskPart.of_kind("descriptors", names=chosen.names, mean=chosen.mean, std=chosen.std)
    dropouts = dict.fromkeys(("attention_dropout", "node_dropout", "node_ffn_dropout"), 0.0)
    model = {**dropouts, "readout": VirtualNodes(num_virtual=4), "head_ratios": (), "head_min_width": 0}
    trainer = {"gradient_clip": 1.0, "patience": None, "baseline": False}
    return run.replace(model=model, task=task, schedule=Cosine(), trainer=trainer)


def for_pretraining(run: RunConfig, schema: CustomSchema) -> RunConfig:
    """Return a run of custom data with the task `pretrain`, which hides all its features and hop distances."""
    features = schema.features()
    task = TaskPart.of_kind(
        "pretrain",
        node_categories=tuple(max(size, 1) for size in features.node_categories),
        num_node_values=features.num_node_values,
        edge_categories=tuple(max(size, 1) for size in features.edge_categories),
        num_edge_values=features.num_edge_values,
        max_hops=next((term.max_hops for term in run.model.pair_inputs if isinstance(term, Distance)), 0),
    )
    return run.replace(model={"readout": Hidden(num_virtual=run.model.readout.added_nodes())}, task=task)
