"""A graph whose pairs cannot fit into memory is refused before they are prepared, which takes minutes and gigabytes."""

from __future__ import annotations

from egt.config.run import RunConfig
from egt.errors import ConfigError
from egt.execution.execution import execution
from egt.execution.memory import available_memory, prediction_bytes
from egt.execution.processes import device_of
from egt.sources.source import DataCard


def check_sizes(config: RunConfig, card: DataCard) -> None:
    """Raise a `ConfigError` if the largest graph that the card knows of does not fit even without gradients.

    The message names what does fit: attention between neighbors on lists of edges, which no link prediction can use.
    """
    device = device_of(accelerator=config.trainer.accelerator)
    how, free, largest = execution(config, device, training=False), available_memory(device), int(card.num_nodes[2])
    needed = prediction_bytes(config, largest, how)
    if needed <= free:
        return
    raise ConfigError(
        f"{config.data.source}: a graph has {largest:,} nodes; its {largest**2:,} pairs need about "
        f"{needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free. {_way_out(config, card)}"
    )


def _way_out(config: RunConfig, card: DataCard) -> str:
    model = config.model
    if card.target.level == "link":
        return (
            "Links are asked of all pairs: give parts of the graph as graphs of their own, or lower model.edge_width "
            f"({model.edge_width})"
        )
    return "Attention between neighbors needs only edges: --set model.scope=neighbors data.layout=edge_list"
