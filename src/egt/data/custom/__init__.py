"""Custom data: from a path (or Python objects) to a `Source`, with an inferred schema.

The way of the data, in `opening`: a format (`formats`) parses a file into columns (`raw`); `infer` decides what each
column means (`schema`); `division` splits the rows; vocabularies and scales are learned from the training rows;
`custom_source` and `raw_to_graph` make graphs. The names here are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egt.data.custom.custom_source import CustomSource
    from egt.data.custom.graphs_source import GraphsSource
    from egt.data.custom.links import hide_links, split_links
    from egt.data.custom.opening import open_custom
    from egt.data.custom.schema import CustomSchema, Feature, SplitPlan, card_schema
    from egt.data.formats.networks import from_networkx
    from egt.data.formats.pyg import from_pyg

_HOMES = {
    "CustomSchema": "custom.schema",
    "CustomSource": "custom.custom_source",
    "Feature": "custom.schema",
    "GraphsSource": "custom.graphs_source",
    "SplitPlan": "custom.schema",
    "card_schema": "custom.schema",
    "from_networkx": "formats.networks",
    "from_pyg": "formats.pyg",
    "hide_links": "custom.links",
    "open_custom": "custom.opening",
    "split_links": "custom.links",
}
__all__ = [
    "CustomSchema",
    "CustomSource",
    "Feature",
    "GraphsSource",
    "SplitPlan",
    "card_schema",
    "from_networkx",
    "from_pyg",
    "hide_links",
    "open_custom",
    "split_links",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egt.data.custom' has no attribute {name!r}")
    return getattr(import_module(f"egt.data.{_HOMES[name]}"), name)
