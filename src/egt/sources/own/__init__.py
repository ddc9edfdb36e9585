"""The user's own data: from a path (or Python objects) to a `Source`, with an inferred schema.

The way of the data: `formats` parses a file into `raw` columns; `infer` decides what each column means (`schema`);
`division` splits the rows; `learn` takes vocabularies and scales from the training rows; `build` makes graphs.
"""

from egt.sources.own.card import card_schema
from egt.sources.own.link import hide_links, split_links
from egt.sources.own.memory import GraphsSource
from egt.sources.own.networks import from_networkx
from egt.sources.own.opening import open_own, open_smiles
from egt.sources.own.pyg import from_pyg
from egt.sources.own.schema import Feature, OwnSchema, SplitPlan
from egt.sources.own.source import OwnSource

__all__ = [
    "Feature",
    "GraphsSource",
    "OwnSchema",
    "OwnSource",
    "SplitPlan",
    "card_schema",
    "from_networkx",
    "from_pyg",
    "hide_links",
    "open_own",
    "open_smiles",
    "split_links",
]
