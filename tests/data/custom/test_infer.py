"""What is decided about the columns of tables, JSONL lines and folders; and what the user may say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.config.load import open_data
from egt.data.columns import Column, column_of_values
from egt.data.custom import CustomSchema, CustomSource, open_custom
from egt.data.infer import choose_features, guess_direction, guess_feature, guess_target, guess_targets, other_labels
from egt.data.schema import SplitPlan
from egt.errors import DataError

pytest.importorskip("rdkit")
MOLECULES = """mol_id,smiles,split,solubility,toxic,family
m1,CCO,train,0.5,0,alcohol
m2,c1ccccc1,train,1.5,1,arene
m3,CCN,val,2.5,,amine
m4,CC,test,,1,alkane
m5,CCCO,train,2.25,0,alcohol
"""


def table(tmp_path: Path, text: str = MOLECULES, **options: Any) -> CustomSource:
    path = tmp_path / "data.csv"
    path.write_text(text)
    return open_custom(path, **options)


def lines(tmp_path: Path, *graphs: dict[str, Any], **options: Any) -> CustomSource:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(json.dumps(graph) for graph in graphs))
    return open_custom(path, **options)


def test_roles_of_the_columns_of_a_table(tmp_path: Path) -> None:
    schema = table(tmp_path, target="solubility").schema
    assert (schema.id, schema.smiles, schema.split.column) == ("mol_id", "smiles", "split")
    assert (schema.level, schema.kind, schema.targets) == ("graph", "regression", ("solubility",))


def test_several_candidates_are_listed_with_the_way_to_choose(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        table(tmp_path)
    message = str(raised.value)
    assert "solubility (numbers), toxic (numbers), family (text)" in message
    assert "--target solubility" in message


def test_patterns_choose_several_targets(tmp_path: Path) -> None:
    text = "smiles,a-1,a-2,b\nCC,0,1,x\nCCC,,0,y\nCCCC,1,0,x\nC,0,,y\n"
    schema = table(tmp_path, text, target=["a-*"]).schema
    assert (schema.kind, schema.targets, schema.classes) == ("binary", ("a-1", "a-2"), ("0", "1"))
    assert ("kind", "multi-label (0, 1)", "overrides.kind") in schema.rows()


def test_a_wrong_name_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'solubilty'.*'solubility'"):
        table(tmp_path, target="solubilty")


def test_smiles_are_found_by_content(tmp_path: Path) -> None:
    text = "what,y\nCCO,0.5\nc1ccccc1,1.5\nCCN,2.5\n"
    assert table(tmp_path, text).schema.smiles == "what"
    with pytest.raises(DataError, match="columns"):
        table(tmp_path, "a,y\nhello world,1\nfoo!,2\n")


def test_overrides_of_a_table(tmp_path: Path) -> None:
    overrides = {"id": "", "kind": "regression", "vocabulary": "zinc"}
    source = table(tmp_path, target="toxic", overrides=overrides, split="random")
    schema = source.schema
    assert (schema.id, schema.kind, schema.vocabulary, schema.split.kind) == ("", "regression", "zinc", "random")
    assert source.card.schema.node_categories == (28,)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("smiles", "'smiles'"),
        ("mol_id", r"'mol_id'.*overrides.id"),
        ("split", "'split'"),
    ],
)
def test_a_target_with_another_role_is_said_to_have_it(tmp_path: Path, target: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(tmp_path, target=target)


def test_the_positive_class_is_the_second_unless_another_is_named(tmp_path: Path) -> None:
    assert table(tmp_path, target="toxic").schema.classes == ("0", "1")
    schema = table(tmp_path, target="toxic", overrides={"positive": 0}).schema
    assert schema.classes == ("1", "0")
    assert ("positive class", "0: f1 and average_precision are about it", "overrides.positive") in schema.rows()


def test_a_split_column_by_any_name_needs_no_kind(tmp_path: Path) -> None:
    where = {"train": 3, "val": 1, "test": 1}
    text = MOLECULES.replace("split", "part")
    source = table(tmp_path, text, target="toxic", split=SplitPlan(column="part"))
    assert (source.schema.split.kind, source.schema.split.column) == ("column", "part")
    assert source.card.split_sizes == where
    assert open_data(tmp_path / "data.csv", ["toxic"], None, ["split.column=part"]).card.split_sizes == where


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overrides": {"colour": 1}}, r"overrides\.colour.*smiles"),
        ({"overrides": {"kind": "rank"}}, "'rank'"),
        ({"overrides": {"id": "family"}}, "repeated"),
        ({"overrides": {"smiles": "toxic"}}, "numbers"),
        ({"overrides": {"node_features": "x"}}, "overrides.node_features"),
        ({"overrides": {"node_features": {"x": "number"}}}, "overrides.node_features.*'continuous'"),
        ({"overrides": {"positive": "1"}}, r"overrides.positive.*'1'"),
        ({"overrides": {"positive": []}}, "overrides.positive"),
        ({"split": "fold"}, "'fold'"),
        ({"split": SplitPlan(column="fold")}, r"'fold'.*mol_id"),
        ({"split": SplitPlan(kind="random", column="split")}, "'split'"),
        ({"level": "atom"}, "'atom'"),
        ({"level": "node"}, r"'solubility'.*--task"),
        ({"level": "link"}, "target"),
    ],
)
def test_choices_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(tmp_path, target="solubility", **options)


def graph(k: int, **more: Any) -> dict[str, Any]:
    return {
        "nodes": {"element": ["C", "O", "C"], "charge": [0.5 * k, 1, 2.5], "count": [k % 3, 1, 2]},
        "edges": {"source": [0, 1], "target": [1, 2], "weight": [1.5, 2.5], "bond": ["single", "double"]},
        **more,
    }


def test_features_of_graphs(tmp_path: Path) -> None:
    schema = lines(tmp_path, *(graph(k, targets={"y": k + 0.5}) for k in range(8))).schema
    assert {feature.name: feature.kind for feature in schema.node_features} == {
        "element": "categorical",
        "charge": "continuous",
        "count": "categorical",
    }
    assert {feature.name: feature.kind for feature in schema.edge_features} == {
        "weight": "continuous",
        "bond": "categorical",
    }
    assert schema.weight == "weight"
    assert schema.directed is False


def test_overrides_of_graphs(tmp_path: Path) -> None:
    overrides = {
        "weight": "",
        "directed": True,
        "node_features": {"count": "continuous", "element": "ignored"},
        "edge_features": {"weight": "ignored"},
    }
    source = lines(tmp_path, *(graph(k, targets={"y": k + 0.5}) for k in range(8)), overrides=overrides)
    read = source.read(source.records("all")[0]).graph
    assert read is not None
    assert read.edge_weight is None
    assert read.num_edges == 2
    assert read.node_values.shape == (3, 2)
    assert read.node_categories.shape == (3, 0)
    assert read.edge_values.shape == (2, 0)


def test_levels(tmp_path: Path) -> None:
    node = lines(tmp_path, graph(0, node_targets={"role": ["a", "b", None]})).schema
    assert (node.level, node.kind, node.classes) == ("node", "binary", ("a", "b"))
    edge = lines(tmp_path, graph(0, edge_targets={"cost": [0.5, 2]})).schema
    assert (edge.level, edge.kind) == ("edge", "regression")
    both = graph(0, targets={"y": 1.5}, node_targets={"role": ["a", "b", None]})
    with pytest.raises(DataError, match="targets"):
        lines(tmp_path, both)
    chosen = lines(tmp_path, both, both, level="graph").schema
    assert chosen.targets == ("y",)
    assert "role" not in {feature.name for feature in chosen.node_features}, "a declared target is no feature"
    with pytest.raises(DataError, match="element"):
        lines(tmp_path, graph(0))


def test_names_like_label_are_targets_of_nodes(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "nodes.csv").write_text("x,label\n0.5,a\n1.5,b\n2.5,a\n")
    (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    schema = open_custom(folder).schema
    assert (schema.level, schema.targets) == ("node", ("label",))
    assert [feature.name for feature in schema.node_features] == ["x"]


def test_graphs_may_each_say_whether_they_are_directed(tmp_path: Path) -> None:
    source = lines(tmp_path, graph(0, directed=True, targets={"y": 0.5}), graph(1, directed=False, targets={"y": 1.5}))
    assert source.schema.directed is None
    sizes = [read.num_edges for record in source.records("all") if (read := source.read(record).graph) is not None]
    assert sizes == [2, 4]


def test_the_schema_is_plain(tmp_path: Path) -> None:
    schema = lines(tmp_path, *(graph(k, targets={"y": k + 0.5}) for k in range(8))).schema
    assert CustomSchema.model_validate_json(schema.model_dump_json()) == schema


def test_ids_and_folds_are_never_guessed_as_the_target(tmp_path: Path) -> None:
    text = "index,smiles,fold,y\n1,CCO,0,0.5\n1,CCC,1,1.5\n2,CCN,0,2.5\n"
    assert table(tmp_path, text).schema.targets == ("y",)


@pytest.mark.parametrize("name", ["Compound ID", "CompoundId", "Molecule Name", "MOL-ID", "ChEMBL_ID", "sample name"])
def test_columns_that_chemists_name_molecules_by_are_ids(tmp_path: Path, name: str) -> None:
    rows = "CCO,A-1,0.5\nCCC,A-2,1.5\nCCN,A-3,2.5\n"
    schema = table(tmp_path, f"smiles,{name},y\n{rows}").schema
    assert (schema.id, schema.targets) == (name, ("y",))
    replicates = table(tmp_path, f"smiles,{name},y\n{rows.replace('A-2', 'A-1')}").schema  # named twice
    assert (replicates.id, replicates.targets) == ("", ("y",))


@pytest.mark.parametrize("name", ["acid", "lipid", "valid", "LogD"])
def test_other_columns_are_no_ids(tmp_path: Path, name: str) -> None:
    assert table(tmp_path, f"smiles,{name}\nCCO,0.5\nCCC,1.5\nCCN,2.5\n").schema.targets == (name,)


def test_a_suggested_target_with_a_blank_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape("--target 'log S'")):
        table(tmp_path, "smiles,log S,y\nCCO,0.5,1\nCCC,1.5,2\nCCN,2.5,5\n")


def test_a_column_that_cannot_be_the_target_says_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'y'.*e\.g"):
        table(tmp_path, "smiles,y\nCCO,0.5 mM\nCCC,1.5 mM\nCCN,2.5 mM\n")
    with pytest.raises(DataError, match="'y'"):
        table(tmp_path, "smiles,y\nCCO,\nCCC,\nCCN,\n")


def test_a_file_without_a_header_does_not_lose_its_first_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="columns"):
        table(tmp_path, "CCO,0.5\nCCC,1.5\nCCN,2.5\n")
    kept = table(tmp_path, "C,y\nCCO,0.5\nCCC,1.5\nCCN,2.5\n", overrides={"smiles": "C"})
    assert kept.schema.smiles == "C"


def column(*values: Any) -> Column:
    return column_of_values(list(values), "test")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["C", "O", None], "categorical"),
        ([1, 2, 3, None], "categorical"),
        ([True, False], "categorical"),
        ([0.5, 1.0, None], "continuous"),
        (list(range(21)), "continuous"),
        (list(range(20)), "categorical"),
        ([None, None], "ignored"),
        ([[1, 2], [3, 4]], "continuous"),
        ([f"name {k}" for k in range(21)], "ignored"),
    ],
)
def test_feature_kinds(values: list[Any], kind: str) -> None:
    assert guess_feature("f", column(*values)).kind == kind


def test_the_user_may_say_otherwise() -> None:
    columns = {"a": column(1, 2), "v": column([1, 2], [3, 4]), "w": column(1, 1)}
    features = choose_features(columns, "w", {"a": "continuous", "v": "ignored"}, "nodes")
    assert [(feature.name, feature.kind) for feature in features] == [
        ("a", "continuous"),
        ("v", "ignored"),
        ("w", "continuous"),
    ]
    with pytest.raises(DataError, match="'b'"):
        choose_features(columns, "", {"b": "ignored"}, "nodes")
    with pytest.raises(DataError, match="vectors"):
        choose_features(columns, "", {"v": "categorical"}, "nodes")


@pytest.mark.parametrize(
    ("columns", "kind", "classes"),
    [
        ([[0, 1, None, 1]], "binary", ("0", "1")),
        ([[1, -1]], "binary", ("-1", "1")),
        ([["no", "yes", "yes"]], "binary", ("no", "yes")),
        ([["Active", "Inactive", "Active"]], "binary", ("Inactive", "Active")),
        ([["toxic", "no", "toxic"]], "binary", ("no", "toxic")),
        ([["a", "b", "b", "a", "b"]], "binary", ("b", "a")),
        ([["1", "2", "2"]], "binary", ("2", "1")),
        ([["a", "b", "b"], ["a", "a", None]], "binary", ("a", "b")),
        ([["b", "a", "c", "a", "b", "c"]], "multiclass", ("a", "b", "c")),
        ([[10, 2, 3, 2, 3, 10]], "multiclass", ("2", "3", "10")),
        ([[1, 2, 3]], "regression", ()),
        ([[0.5, 0.5]], "regression", ()),
        ([[0, 1], [None, 1]], "binary", ("0", "1")),
        ([[0, 0, 0]], "binary", ("0", "1")),
        ([[0, 1], [0.5, 1]], "regression", ()),
        ([[2**60 + 1, 2**60 + 3, 2**61 + 1]], "regression", ()),
        ([["00", "01", "00", "01"]], "binary", ("00", "01")),
        ([["1.5", "2", "n/a", "3", "ND", "not determined", "4"]], "regression", ()),
        ([["1.5", "<2", "n/a", "3"]], "censored", ()),
        ([["1.5", "n.d."], ["0.2", "3"]], "regression", ()),
        ([["0", "1", "ND", "1"]], "binary", ("0", "1")),
        ([["nd", "d", "nd", "d"]], "binary", ("d", "nd")),  # no numbers: names of classes
    ],
)
def test_target_kinds(columns: list[list[Any]], kind: str, classes: tuple[str, ...]) -> None:
    named = {f"t{k}": column(*values) for k, values in enumerate(columns)}
    assert guess_target(named, None, "data") == (kind, classes)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([[None, None]], "no value at all"),
        ([["on", "on"]], "'on'"),
        ([["1", "2", "3", "low"]], r"'low'.*--set"),
        ([["1", "2", "3", "<5", "low"]], r"'low'.*--set"),
        ([["a", "b", "c", "d", "e"]], "looks like names"),
        ([["a", "b", "c"], ["a", "b", "c"]], r"'t0'.*'a'"),
        ([["1", "x"], ["2", "3"]], r"'x'.*--set"),
        ([[[1, 2]]], "vectors"),
    ],
)
def test_targets_that_are_not_clear(columns: list[list[Any]], message: str) -> None:
    named = {f"t{k}": column(*values) for k, values in enumerate(columns)}
    with pytest.raises(DataError, match=message):
        guess_target(named, None, "data")


def test_a_given_kind_is_kept_and_checked() -> None:
    assert guess_target({"t": column(0, 1, 2, 0, 1, 2)}, "regression", "data") == ("regression", ())
    assert guess_target({"t": column("1", "2", "<5")}, "regression", "data") == ("regression", ())
    with pytest.raises(DataError, match="found"):
        guess_target({"t": column(0, 1, 2)}, "binary", "data")


@pytest.mark.parametrize(
    ("edges", "directed"),
    [
        ([[0, 1], [1, 0]], False),
        ([[0, 1], [1, 2]], False),
        ([[0, 1, 1], [1, 0, 2]], True),
        ([[0, 1, 2], [1, 0, 2]], False),
        ([[], []], False),
    ],
)
def test_direction_is_guessed_from_opposites(edges: list[list[int]], directed: bool) -> None:
    assert guess_direction([(3, np.array(edges, dtype=np.int64))])[0] is directed


def test_the_reason_of_a_guessed_direction_is_in_the_table(tmp_path: Path) -> None:
    write = {"nodes": {"x": [0.5, 1.5, 2.5]}, "targets": {"y": 0.5}}
    for edges, reason in (
        ([[0, 1], [1, 2]], "no (guessed: no edge is listed in both directions; if they have one, set it to true)"),
        ([[0, 1], [1, 0], [1, 2]], "yes (guessed: 2 of 3 edges are listed in both directions, the others in one)"),
    ):
        (tmp_path / "g.jsonl").write_text(json.dumps({**write, "edges": edges}) * 1 + "\n")
        rows = {what: decision for what, decision, _ in open_custom(tmp_path / "g.jsonl").schema.rows()}
        assert rows["directed"] == reason


def test_other_label_columns_are_left_out_of_the_features() -> None:
    columns = {name: column(0.5, 1.5) for name in ("label", "label_2", "y", "old_class", "charge", "classy")}
    assert other_labels(columns, ("label",), {}) == ["label_2", "y", "old_class"]
    assert other_labels({**columns, "x": column(1.0, 2.0)}, ("label",), {"label_2": "categorical"}) == ["old_class"]


def test_yes_and_no_beside_numbers_are_a_mixed_table_unless_all_are_to_be_numbers() -> None:
    columns = {"logS": column(*(0.1 * k for k in range(12))), "active": column(*(k % 2 for k in range(12)))}
    assert guess_targets(columns, None, "data")[0] == "mixed"
    assert guess_targets(columns, "regression", "data") == ("regression", (), ())


def test_a_weight_column_without_any_edge_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("node,label\n0,a\n1,b\n2,a\n3,b\n4,a\n")
    (tmp_path / "edges.csv").write_text("source,target,weight\n")
    source = open_custom(tmp_path, target=["label"])
    assert source.schema.weight == "weight"


def test_a_declared_target_is_no_id(tmp_path: Path) -> None:
    graphs = [{"num_nodes": 2, "edges": [[0, 1]], "targets": {"y": k}} for k in range(6)]
    with pytest.raises(DataError, match="'y'"):
        lines(tmp_path, *graphs, overrides={"id": "y"})


def test_features_in_a_very_small_unit_are_standardized_as_in_any_other(tmp_path: Path) -> None:
    graphs = [{"edges": [[0, 1]], "nodes": {"charge": [k * 1.6e-19, 0.0]}, "targets": {"y": k % 2}} for k in range(9)]
    (feature,) = lines(tmp_path, *graphs).schema.node_features
    assert 1e-20 < feature.std[0] < 1e-18


def test_vectors_without_numbers_are_ignored() -> None:
    assert guess_feature("x", np.zeros((3, 0))).kind == "ignored"
    assert guess_feature("x", np.zeros((3, 2))).width == 2
    with pytest.raises(DataError, match="'x'"):
        choose_features({"x": np.zeros((3, 0))}, "", {"x": "continuous"}, "data.jsonl")
