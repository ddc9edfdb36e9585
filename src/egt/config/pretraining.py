"""The run that pre-trains on custom data: the model that their features ask for, without a target."""

from __future__ import annotations

from egt.config.run import RunConfig
from egt.inputs.distance import Distance
from egt.readouts.hidden import Hidden
from egt.sources.custom.schema import CustomSchema
from egt.tasks.pretrain import Pretrain


def for_pretraining(run: RunConfig, schema: CustomSchema) -> RunConfig:
    """Return a run of custom data with the task `pretrain`, which hides all its features and hop distances.

    Args:
        run: as `infer_config` gives it.
        schema: of the data.
    """
    features = schema.features()
    task = Pretrain(
        node_categories=tuple(max(size, 1) for size in features.node_categories),
        num_node_values=features.num_node_values,
        edge_categories=tuple(max(size, 1) for size in features.edge_categories),
        num_edge_values=features.num_edge_values,
        max_hops=next((term.max_hops for term in run.model.pair_inputs if isinstance(term, Distance)), 0),
    )
    model = run.model.model_copy(update={"readout": Hidden(num_virtual=run.model.readout.added_nodes())})
    return run.model_copy(update={"model": model, "task": task})
