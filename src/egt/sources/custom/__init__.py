"""Custom data: from a path (or Python objects) to a `Source`, with an inferred schema.

The way of the data, in `opening`: a format (`formats`) parses a file into columns (`raw`); `infer` decides what each
column means (`schema`); `division` splits the rows; vocabularies and scales are learned from the training rows;
`custom_source` and `raw_to_graph` make graphs. The names here are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egt.sources.custom.custom_source import CustomSource
    from egt.sources.custom.formats.networks import from_networkx
    from egt.sources.custom.formats.pyg import from_pyg
    from egt.sources.custom.graphs_source import GraphsSource
    from egt.sources.custom.link import hide_links, split_links
    from egt.sources.custom.opening import open_custom
    from egt.sources.custom.schema import CustomSchema, Feature, SplitPlan, card_schema

_HOMES = {
    "CustomSchema": "schema",
    "CustomSource": "custom_source",
    "Feature": "schema",
    "GraphsSource": "graphs_source",
    "SplitPlan": "schema",
    "card_schema": "schema",
    "from_networkx": "formats.networks",
    "from_pyg": "formats.pyg",
    "hide_links": "link",
    "open_custom": "opening",
    "split_links": "link",
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
        raise AttributeError(f"module 'egt.sources.custom' has no attribute {name!r}")
    return getattr(import_module(f"egt.sources.custom.{_HOMES[name]}"), name)
