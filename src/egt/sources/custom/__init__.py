"""The user's own data: from a path (or Python objects) to a `Source`, with an inferred schema.

The way of the data: `formats` parses a file into `raw` columns; `infer` decides what each column means (`schema`);
`division` splits the rows; `learn` takes vocabularies and scales from the training rows; `build` makes graphs.
"""

from egt.sources.custom.card import card_schema
from egt.sources.custom.link import hide_links, split_links
from egt.sources.custom.memory import GraphsSource
from egt.sources.custom.networks import from_networkx
from egt.sources.custom.opening import open_custom, open_smiles
from egt.sources.custom.pyg import from_pyg
from egt.sources.custom.schema import CustomSchema, Feature, SplitPlan
from egt.sources.custom.source import CustomSource

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
    "open_smiles",
    "split_links",
]
