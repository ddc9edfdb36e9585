from __future__ import annotations

from egt.sources.benchmarks.block_models import PATTERN
from egt.sources.benchmarks.ogb_molecules import MOLHIV
from egt.sources.benchmarks.tsp import TSP
from egt.sources.benchmarks.zinc import ZINC
from egt.sources.custom import Feature, card_schema


def test_models_of_molecules_read_smiles_with_their_vocabulary() -> None:
    assert (card_schema(MOLHIV).format, card_schema(MOLHIV).vocabulary) == ("molecules", "ogb")
    assert (card_schema(ZINC).format, card_schema(ZINC).vocabulary) == ("molecules", "zinc")
    assert card_schema(MOLHIV).features() == MOLHIV.schema


def test_categories_keep_their_names_and_ids() -> None:
    schema = card_schema(PATTERN)
    assert schema.node_features == (Feature("signal", "categorical", vocabulary=("0", "1", "2")),)
    assert schema.features() == PATTERN.schema
    assert schema.classes == ("background", "pattern")
    assert schema.target() == PATTERN.target


def test_numbers_are_one_column_of_vectors_for_nodes_and_for_edges() -> None:
    schema = card_schema(TSP)
    assert schema.node_features == (Feature("x", "continuous", width=2),)
    assert schema.edge_features == (Feature("edge_attr", "continuous"),)
    assert schema.features() == TSP.schema
