"""The source itself: splits, row-aligned readings, new data with a known schema."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.custom import CustomSchema, CustomSource, SplitPlan, open_custom
from egt.data.source import Source
from egt.errors import DataError


def lines(path: Path, *graphs: Any, **options: Any) -> CustomSource:
    path.write_text("\n".join(graph if isinstance(graph, str) else json.dumps(graph) for graph in graphs))
    return open_custom(path, **options)


def molecules(path: Path, text: str, **options: Any) -> CustomSource:
    pytest.importorskip("rdkit")
    path.write_text(text)
    return open_custom(path, **options)


TABLE = "id,smiles,y\na,CCO,0.5\nb,C1CC,1.5\nc\nd,,2.5\ne,CC,\nf,CCC,3.5\n"


def test_bad_rows_stay_in_place(tmp_path: Path) -> None:
    source = molecules(tmp_path / "t.csv", TABLE)
    readings = [source.read(record) for record in source.records("all")]
    assert [reading.row for reading in readings] == list(range(6))
    assert [reading.id for reading in readings] == ["a", "b", "row 3", "d", "e", "f"]
    assert [bool(reading.error) for reading in readings] == [False, True, True, True, False, False]
    assert "row 2" in readings[1].error
    assert "t.csv line 4: 1 fields" in readings[2].error
    assert "the SMILES is missing" in readings[3].error
    assert readings[4].graph is not None
    np.testing.assert_equal(readings[4].graph.graph_targets, [np.nan])
    rows = sorted(row for split in ("train", "val", "test") for row in source.records(split))
    assert rows == list(range(6)), "every row is in one split, bad ones too"


def test_a_bad_row_that_names_no_split_is_reported_in_training(tmp_path: Path) -> None:
    text = "smiles,split,y\nCC,train,0.5\nC\nCCC,test,1.5\nCCCC,,2.5\nCCO,train,3.5\n"
    source = molecules(tmp_path / "t.csv", text)
    rows = {split: [*source.records(split)] for split in ("train", "val", "test")}
    assert rows == {"train": [0, 1, 4], "val": [], "test": [2]}, "row 3 has an empty cell: it is in no split"


def test_the_card_and_the_protocol(tmp_path: Path) -> None:
    source: Source = molecules(tmp_path / "t.csv", TABLE)
    card = source.card
    assert sum(card.split_sizes.values()) == 6
    assert card.num_nodes[::2] == (2, 3)
    assert card.num_nodes[1] == pytest.approx(11 / 4), "counted in the texts, also of a molecule that RDKit refuses"
    assert card.mean_edges == pytest.approx(14 / 4)


def test_records_can_travel_to_other_processes(tmp_path: Path) -> None:
    source = lines(
        tmp_path / "g.jsonl", *({"num_nodes": 2, "edges": [[0, 1]], "targets": {"y": k / 4}} for k in range(9))
    )
    record = source.records("train")[0]
    read, copy = pickle.loads(pickle.dumps((source.read, record)))
    graph, expected = read(copy).graph, source.read(record).graph
    assert expected is not None
    np.testing.assert_array_equal(graph.graph_targets, expected.graph_targets)


def test_the_fingerprint_knows_content_schema_and_split(tmp_path: Path) -> None:
    graphs = [{"num_nodes": 2, "edges": [[0, 1]], "targets": {"y": k / 4}} for k in range(9)]
    first = lines(tmp_path / "a.jsonl", *graphs)
    assert first.fingerprint() == open_custom(tmp_path / "a.jsonl").fingerprint()
    others = {
        "seed": open_custom(tmp_path / "a.jsonl", seed=1),
        "direction": open_custom(tmp_path / "a.jsonl", overrides={"directed": True}),
    }
    graphs[0]["targets"] = {"y": 7.5}
    others["content"] = lines(tmp_path / "a.jsonl", *graphs)
    prints = {first.fingerprint(), *(other.fingerprint() for other in others.values())}
    assert len(prints) == 4


def test_an_unknown_split_is_refused(tmp_path: Path) -> None:
    source = molecules(tmp_path / "t.csv", TABLE)
    with pytest.raises(DataError, match="'dev'"):
        source.records("dev")


def node_graph(**nodes: Any) -> dict[str, Any]:
    return {"nodes": nodes, "edges": [[k, k + 1] for k in range(19)]}


def test_one_graph_is_divided_by_its_nodes(tmp_path: Path) -> None:
    source = lines(
        tmp_path / "g.jsonl", node_graph(x=[0.5 * k for k in range(20)], y=["a", "b"] * 5 + [None] * 10), seed=2
    )
    scored: list[int] = []
    for split, size in (("train", 8), ("val", 1), ("test", 1)):
        (record,) = source.records(split)
        graph = source.read(record).graph
        assert graph is not None
        assert graph.num_nodes == 20
        assert graph.node_targets is not None
        nodes = np.flatnonzero(~np.isnan(graph.node_targets[:, 0]))
        assert len(nodes) == size
        assert (graph.node_targets[nodes, 0] == nodes % 2).all()
        scored += nodes.tolist()
    assert sorted(scored) == list(range(10)), "each labeled node is scored in one split"


def test_edge_targets_follow_both_directions(tmp_path: Path) -> None:
    graph = {
        "num_nodes": 11,
        "edges": [[k, k + 1] for k in range(10)],
        "edge_targets": {"cost": [k + 0.5 for k in range(10)]},
    }
    source = lines(tmp_path / "g.jsonl", graph)
    seen: list[float] = []
    for split in ("train", "val", "test"):
        read = source.read(source.records(split)[0]).graph
        assert read is not None
        assert read.edge_targets is not None
        cost = {(int(i), int(j)): float(y) for (i, j), (y,) in zip(read.edge_index.T, read.edge_targets, strict=True)}
        for (i, j), value in cost.items():
            np.testing.assert_equal(value, cost[j, i])
            assert np.isnan(value) or value == min(i, j) + 0.5
        seen += [value for (i, j), value in cost.items() if i < j and not np.isnan(value)]
    assert sorted(seen) == [k + 0.5 for k in range(10)]


def test_many_graphs_with_node_targets_are_divided_as_wholes(tmp_path: Path) -> None:
    source = lines(tmp_path / "g.jsonl", *(node_graph(x=[k] * 20, y=["a", "b"] * 10) for k in range(10)))
    assert source.card.split_sizes == {"train": 8, "val": 1, "test": 1}


def test_stratified_split_of_graphs(tmp_path: Path) -> None:
    graphs = [{"num_nodes": 2, "edges": [], "targets": {"y": "rare" if k < 10 else "often"}} for k in range(100)]
    source = lines(tmp_path / "g.jsonl", *graphs, split="stratified")
    rare = [sum(record.row < 10 for record in source.records(split)) for split in ("train", "val", "test")]
    assert rare == [8, 1, 1]


def test_a_known_schema_reads_new_data_without_targets(tmp_path: Path) -> None:
    train = [
        {"nodes": {"kind": ["a", "b"], "value": [1.5 * k, 2.5]}, "edges": [[0, 1]], "targets": {"y": k / 8}}
        for k in range(10)
    ]
    source = lines(tmp_path / "train.jsonl", *train)
    schema = CustomSchema.model_validate_json(source.schema.model_dump_json())
    new = lines(
        tmp_path / "new.jsonl",
        {"nodes": {"kind": ["b", "z"], "value": [1.5, None]}, "edges": [[0, 1]]},
        "{broken",
        {"nodes": {"kind": ["a"], "value": ["high"]}, "edges": []},
        {"nodes": {"kind": ["a"], "value": [2.5]}, "edges": []},
        schema=schema,
    )
    assert new.card.split_sizes == {"all": 4}
    readings = [new.read(record) for record in new.records("all")]
    first = readings[0].graph
    assert first is not None
    assert first.graph_targets is None
    assert first.node_categories.tolist() == [[1], [-1]]
    assert "not seen in training: z" in readings[0].warning
    assert "new.jsonl line 2" in readings[1].error
    assert "'value' is 'high', not a number" in readings[2].error
    assert readings[3].graph is not None
    assert readings[3].warning == ""


def test_the_training_data_opens_again_as_it_was(tmp_path: Path) -> None:
    source = molecules(tmp_path / "t.csv", TABLE, split=SplitPlan(kind="random", fractions=(0.5, 0.25, 0.25), seed=4))
    again = open_custom(tmp_path / "t.csv", schema=source.schema, split="auto")
    assert again.fingerprint() == source.fingerprint()
    whole = open_custom(tmp_path / "t.csv", schema=source.schema)
    assert whole.fingerprint() != source.fingerprint()
    other = open_custom(tmp_path / "t.csv", schema=source.schema, split="random", seed=5)
    assert other.schema.split == SplitPlan(kind="random", seed=5)
    with pytest.raises(DataError, match="'fold'"):
        open_custom(tmp_path / "t.csv", schema=source.schema, split="fold")
    for split in ("train", "val", "test"):
        assert again.records(split) == source.records(split)


@pytest.mark.parametrize("cell", ["", "12.5"])
def test_a_smiles_column_without_any_text_gives_each_row_its_reason(tmp_path: Path, cell: str) -> None:
    source = molecules(tmp_path / "t.csv", TABLE)
    new = molecules(tmp_path / "new.csv", f"smiles,y\n{cell},1\n{cell},2\n", schema=source.schema)
    expected = "cannot be read" if cell else "the SMILES is missing"
    assert all(expected in new.read(record).error for record in new.records("all"))


def test_a_blank_line_of_a_single_column_is_a_row_without_a_molecule(tmp_path: Path) -> None:
    source = molecules(tmp_path / "t.csv", TABLE)
    new = molecules(tmp_path / "new.csv", "smiles\nCC\n\n\nCO\n\n", schema=source.schema)
    readings = [new.read(record) for record in new.records("all")]
    assert [reading.row for reading in readings] == [0, 1, 2, 3]
    assert [bool(reading.graph) for reading in readings] == [True, False, False, True]
    assert "row 2: the SMILES is missing" in readings[1].error


def test_new_molecules_may_name_their_columns_differently(tmp_path: Path) -> None:
    source = molecules(tmp_path / "t.csv", TABLE)
    new = molecules(tmp_path / "new.csv", "SMILES,name\nCC,x\nbad(,y\n", schema=source.schema)
    readings = [new.read(record) for record in new.records("all")]
    assert [reading.id for reading in readings] == ["x", "y"]
    assert readings[0].graph is not None
    assert readings[1].error
    given = open_custom(["CCO", "nonsense"], schema=source.schema)
    assert [bool(given.read(record).error) for record in given.records("all")] == [False, True]


def test_new_data_that_does_not_fit(tmp_path: Path) -> None:
    source = lines(tmp_path / "a.jsonl", *(node_graph(x=[0.5] * 20, y=["a", "b"] * 10) for _ in range(5)))
    with pytest.raises(DataError, match="columns x"):
        lines(tmp_path / "b.jsonl", node_graph(z=[1] * 20), schema=source.schema)
    with pytest.raises(DataError, match="molecules"):
        molecules(tmp_path / "t.csv", TABLE, schema=source.schema)
    with pytest.raises(DataError, match="guessed"):
        open_custom(tmp_path / "a.jsonl", schema=source.schema, level="node")


def test_a_strange_label_in_new_data_is_a_missing_one(tmp_path: Path) -> None:
    source = molecules(tmp_path / "t.csv", "smiles,y\nCC,no\nCCC,yes\nCCCC,no\n")
    new = molecules(tmp_path / "new.csv", "smiles,y\nCC,maybe\nC,yes\n", schema=source.schema)
    first, second = (new.read(record) for record in new.records("all"))
    assert "label 'y' is 'maybe', not one of no, yes: treated as missing" in first.warning
    assert first.graph is not None
    np.testing.assert_equal(first.graph.graph_targets, [np.nan])
    assert second.graph is not None
    np.testing.assert_equal(second.graph.graph_targets, [1.0])


def test_links_of_one_and_of_many_graphs(tmp_path: Path) -> None:
    path = {"num_nodes": 30, "edges": [[k, k + 1] for k in range(29)]}
    one = lines(tmp_path / "one.jsonl", path, level="link")
    assert one.card.split_sizes == {"train": 10, "val": 1, "test": 1}
    assert one.card.target.names == ("link",)
    train = [one.read(record).graph for record in one.records("train")]
    asked = sum(
        int(graph.edge_targets.sum()) for graph in train if graph is not None and graph.edge_targets is not None
    )
    assert asked == 23, "round(0.8 * 29) training links, each asked once"
    many = lines(tmp_path / "many.jsonl", *[path] * 10, level="link")
    assert many.card.split_sizes == {"train": 8, "val": 1, "test": 1}
    graph = many.read(many.records("test")[0]).graph
    assert graph is not None
    assert graph.num_edges == 2 * (29 - 6)
    new = lines(tmp_path / "new.jsonl", {**path, "queries": [[0, 5]]}, path, schema=one.schema)
    first, second = (new.read(record) for record in new.records("all"))
    assert first.graph is not None
    assert first.graph.query_index is not None
    assert first.graph.query_index.tolist() == [[0], [5]]
    assert first.graph.num_edges == 58
    assert "give queries" in second.error


def test_parallel_edges_and_strange_ends_are_reported(tmp_path: Path) -> None:
    source = lines(
        tmp_path / "g.jsonl",
        {"num_nodes": 2, "edges": {"source": [0, 0], "target": [1, 1], "weight": [1, 2]}, "targets": {"y": 1.5}},
        {"num_nodes": 2, "edges": {"source": [0], "target": [2], "weight": [1]}, "targets": {"y": 2.5}},
        {"num_nodes": 2, "edges": {"source": [0], "target": [1], "weight": [None]}, "targets": {"y": 2.5}},
    )
    first, second, third = (source.read(record) for record in source.records("all"))
    assert first.warning == "1 parallel edges merged (weights summed, first features kept)"
    assert first.graph is not None
    assert first.graph.edge_weight is not None
    assert first.graph.edge_weight.tolist() == [3, 3]
    assert "names node 2, but nodes are numbered 0..1" in second.error
    assert third.warning == "1 missing weights set to 1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere.csv", "file"),
        ("x.docx", "kind"),
        (3, "data"),
        ([], "type"),
    ],
)
def test_what_cannot_be_opened(tmp_path: Path, given: Any, message: str) -> None:
    (tmp_path / "x.docx").write_text("x")
    with pytest.raises(DataError, match=message):
        open_custom(tmp_path / given if isinstance(given, str) else given)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder"):
        open_custom(tmp_path)


def test_an_infinite_label_is_a_missing_one(tmp_path: Path) -> None:
    source = molecules(tmp_path / "m.csv", "smiles,y\nCC,1.5\nCO,inf\nCN,-1e300\nCF,2.5\n", target="y")
    readings = [source.read(record) for record in source.records("all")]
    targets = [reading.graph.graph_targets for reading in readings if reading.graph is not None]
    assert np.isnan(np.concatenate([part for part in targets if part is not None])).tolist() == [0, 1, 1, 0]
    assert readings[1].warning == "label 'y' is 'inf', not a finite number: treated as missing"


def test_ids_are_given_back_as_they_were(tmp_path: Path) -> None:
    source = molecules(tmp_path / "m.csv", "id,smiles,y\n0042,CC,1.5\n12345678901234567,CO,2.5\n7,CN,3.5\n")
    assert [reading.id for reading in source.read_all(source.records("all"))] == ["0042", "12345678901234567", "7"]
    repeated = molecules(tmp_path / "m.csv", "id,smiles,y\na,CC,1.5\na,CO,2.5\nb,CN,3.5\n")
    assert [reading.id for reading in repeated.read_all(repeated.records("all"))] == ["a", "a", "b"]
    long = lines(
        tmp_path / "g.jsonl",
        *({"id": 10**17 + k, "num_nodes": 2, "edges": [[0, 1]], "targets": {"y": k}} for k in (1, 2)),
    )
    assert [reading.id for reading in long.read_all(long.records("all"))] == [str(10**17 + 1), str(10**17 + 2)]


def test_long_numbers_as_node_ids(tmp_path: Path) -> None:
    ids = [10**17 + 1, 10**17 + 2]
    source = lines(tmp_path / "g.jsonl", {"nodes": {"id": ids}, "edges": [ids], "targets": {"y": 1.5}})
    graph = source.read(source.records("all")[0]).graph
    assert graph is not None
    assert graph.num_edges == 2


def test_data_of_which_no_row_can_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'label'"):
        lines(tmp_path / "g.jsonl", *({"num_nodes": 2, "edges": [[0, 1]], "label": 3} for _ in range(2)))


def test_a_folder_with_edges_alone_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(DataError, match=r"edges.csv.*nodes.csv"):
        open_custom(tmp_path)
