"""The run of custom data: a small EGT whose inputs and task follow from the schema.

Defaults, each of which `--set` changes:

- model: 4 layers, widths 64/16, 8 heads (about 0.2 million parameters), centrality gates, dropout 0.1, for classes of
  graphs 0.2; for graphs of more than 500 nodes 3 layers, widths 64/8, 4 heads, because memory grows with the square of
  the nodes; with graphs of more than 1,500 nodes attention is between neighbors only (EGT-Constrained).
- inputs: the features of the schema, SVD encodings of rank 8, hop distances up to 16; for links between so many nodes
  also short walks, since a neighbor of a neighbor is not attended.
- readout: for numbers of graphs 4 virtual nodes, for their classes the mean of the nodes (4 virtual nodes where only
  neighbors are attended); the nodes or the edge channel otherwise. Both are measured: benchmarks/results/defaults.md.
- task: regression on standardized targets with MAE, binary with ROC-AUC, or classes with accuracy.
- one graph whose nodes have classes and many features, such as papers that cite each other: `config/one_graph.py`.
- training: Adam 1e-3, halved after 10 epochs without improvement, batches of 1 to 128 graphs, about 6,000 steps
  (10 to 200 epochs; for links of huge graphs as many as pass 50 million pairs); it ends early after 30 epochs without
  a better validation loss, in which the rate was halved three times. The weights that are best on validation are kept.

Parts are imported where they are chosen, so that a run loads only its own.
"""

from __future__ import annotations

from egt.config.model import ModelConfig
from egt.config.run import DataConfig, OptimizerConfig, RunConfig, TrainerConfig
from egt.graph import FeatureSchema, Level
from egt.inputs.distance import Distance
from egt.inputs.features import edge_features, node_features
from egt.inputs.input import NodeInput, PairInput
from egt.inputs.svd import Svd
from egt.readouts.readout import ReadoutPart
from egt.schedules.schedule import SchedulePart
from egt.sources.custom.schema import CustomSchema
from egt.sources.source import DataCard, TargetSchema
from egt.tasks.task import TaskPart

_LARGE_GRAPH, _HUGE_GRAPH = 500, 1_500
_STEPS = 6_000
_EPOCHS = (10, 200)
_LISTED_PAIRS = 50_000_000
"""How many pairs a training for links of a huge graph goes through: some minutes on one core."""
_PATIENCE = 30


def infer_config(schema: CustomSchema, card: DataCard, path: str, name: str, seed: int = 0) -> RunConfig:
    """Return the run that fits the user's data.

    Args:
        schema: what the columns of the data mean.
        card: sizes of its splits and graphs.
        path: of the data.
        name: of the run.
        seed: of the run.
    """
    num_train = card.split_sizes.get("train", 1)
    # At least twenty steps an epoch, or eight of up to four graphs: a single graph divided for links is ten graphs.
    smallest = min(max(num_train // 8, 1), 4)
    batch_size = min(max(num_train // 20, smallest), 32 if num_train < 5_000 else 64 if num_train < 20_000 else 128)
    steps = -(-num_train // batch_size)
    validated = card.split_sizes.get("val", 0) > 0
    huge = card.num_nodes[2] > _HUGE_GRAPH
    classes = bool(schema.targets) and schema.kind != "regression"  # without a target the run pre-trains
    pooled = schema.level == "graph" and classes and not huge
    wanted = _STEPS // max(steps, 1)
    if huge and schema.level == "link":
        wanted = min(wanted, round(_LISTED_PAIRS / (num_train * (card.num_nodes[1] + card.mean_edges))))
    epochs = min(max(wanted, _EPOCHS[0]), _EPOCHS[1])
    return RunConfig(
        name=name,
        seed=seed,
        data=DataConfig(
            source=path,
            batch_size=batch_size,
            layout="edge_list" if huge else "auto",
            custom=schema,
        ),
        model=custom_model(
            schema.features(), schema.target(), largest=card.num_nodes[2], neighbors=huge, pooled=pooled
        ),
        task=custom_task(schema.target()),
        optimizer=OptimizerConfig(lr=1e-3),
        schedule=_schedule(validated),
        trainer=TrainerConfig(
            max_epochs=epochs, select="best" if validated else "last", patience=_PATIENCE if validated else None
        ),
    )


def custom_model(
    features: FeatureSchema, target: TargetSchema, largest: int, *, neighbors: bool = False, pooled: bool = False
) -> ModelConfig:
    """Return a small model for these features and this target.

    Args:
        features: what its nodes and edges have.
        target: what it predicts.
        largest: the number of nodes of the largest graph.
        neighbors: attention between neighbors only.
        pooled: graphs are read from the mean of their nodes.
    """
    large = largest > _LARGE_GRAPH
    dropout = 0.2 if pooled else 0.1
    return ModelConfig(
        num_layers=3 if large else 4,
        node_width=64,
        edge_width=8 if large else 16,
        num_heads=4 if large else 8,
        node_inputs=(*(node_features(features) or _constant()), Svd(rank=8), *_graph_values(features)),
        pair_inputs=(
            Distance(max_hops=16),
            *(_walks() if neighbors and target.level == "link" else ()),
            *edge_features(features),
        ),
        gate="centrality",
        scope="neighbors" if neighbors else "everyone",
        readout=_readout(target.level, pooled=pooled),
        node_ffn_multiplier=2.0,
        edge_ffn_multiplier=1.0,
        attention_dropout=dropout,
        node_dropout=dropout,
        node_ffn_dropout=dropout,
    )


def custom_task(target: TargetSchema) -> TaskPart:
    """Loss and metric that fit the target."""
    match target.kind:
        case "regression":
            from egt.tasks.regression import Regression

            return Regression(names=target.names, loss="mae", standardize=True)
        case "binary":
            from egt.tasks.binary import Binary

            return Binary(names=target.names).named(target.names, target.class_names)
        case "multiclass":
            from egt.tasks.multiclass import Multiclass

            return Multiclass(names=target.names, num_classes=target.num_classes, class_names=target.class_names)


def _readout(level: Level, *, pooled: bool) -> ReadoutPart:
    match level:
        case "graph" if pooled:
            from egt.readouts.mean import MeanPool

            return MeanPool()
        case "graph":
            from egt.readouts.virtual_nodes import VirtualNodes

            return VirtualNodes(num_virtual=4)
        case "node":
            from egt.readouts.node import PerNode

            return PerNode()
        case "edge" | "link":
            from egt.readouts.edge import PerEdge

            return PerEdge()


def _schedule(validated: bool) -> SchedulePart:
    if validated:
        from egt.schedules.plateau import Plateau

        return Plateau(patience=10, min_lr=1e-5)
    from egt.schedules.constant import ConstantRate

    return ConstantRate()


def _walks() -> tuple[PairInput, ...]:
    """Return what describes the pairs of which links are asked, where only neighbors attend each other."""
    from egt.inputs.walks import Walks

    return (Walks(),)


def _graph_values(features: FeatureSchema) -> tuple[NodeInput, ...]:
    """Return what tells the nodes about their whole graph."""
    if not features.num_graph_values:
        return ()
    from egt.inputs.graph_values import GraphValues

    return (GraphValues(num_values=features.num_graph_values),)


def _constant() -> tuple[NodeInput, ...]:
    """Return what enters the node channel where nodes have no features."""
    from egt.inputs.constant import Constant

    return (Constant(),)
