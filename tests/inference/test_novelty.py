"""What is farther from training than validation is gets a warning, the rest none: graphs, nodes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import egt
from egt.assemble import build_model
from egt.config.load import override
from egt.config.run_data import open_source, prepare_split
from egt.errors import DataError
from egt.inference.embedding import answered_rows
from egt.inference.embedding_file import embed_to_file
from egt.inference.neighbors import novelty_of, training_rows
from egt.inference.predictor import Predictor
from tests.cli.runs import TINY, blocks, read_csv, write_csv, write_jsonl
from tests.inference.test_ensemble import TASKS, ensemble


def chain(length: int, kind: str = "a") -> dict[str, object]:
    """A row of a file of graphs: nodes of one kind in a chain, with their number as the target."""
    edges = [[k, k + 1] for k in range(length - 1)]
    return {"nodes": {"kind": [kind] * (length - 1) + ["b"]}, "edges": edges, "targets": {"y": length}}


STRANGE = {**chain(30), "edges": [[0, k] for k in range(1, 30)]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    place = tmp_path_factory.mktemp("novelty")
    data = write_jsonl(place / "t.jsonl", [chain(length, kind) for length in range(2, 12) for kind in "abc"])
    settings = (*TINY, "split.fractions=[0.6, 0.2, 0.2]")
    model = egt.train(data, "y", set=settings, out=place / "run", progress=False).model
    model.warn_if_unlike()
    return model


def test_a_strange_graph_is_warned_of_and_a_training_graph_is_not(model: Predictor, tmp_path: Path) -> None:
    known = open_source(model.config).records("train")[0].row
    rows = [chain(2 + known // 3, "abc"[known % 3]), STRANGE, {"num_nodes": 0}]
    like, strange, bad = model.predict(write_jsonl(tmp_path / "new.jsonl", rows))
    assert "unlike training" not in like.warning
    assert "unlike training: the nearest training graph (" in strange.warning
    assert strange.values is not None
    assert "unlike" not in bad.warning


def test_almost_all_validation_graphs_are_like_training(model: Predictor) -> None:
    warned = [answer for answer in model.predict_split("val") if "unlike" in answer.warning]
    assert not warned  # of six, none is beyond the farthest
    novelty = novelty_of(model.model, model.config)
    store = prepare_split(model.config, open_source(model.config), "val")
    rows = [rows[0] for rows, _ in answered_rows(model.model, model.config, [*store])]
    distances = training_rows(model.model, model.config).nearest(np.stack(rows), 1)[1]
    assert novelty.limit == pytest.approx(float(distances.max()), rel=1e-3)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    place = tmp_path_factory.mktemp("nodes")
    data = blocks(place / "blocks", num_nodes=60)
    return egt.train(data, "label", set=TINY, out=place / "run", progress=False).model


def far_nodes(folder: Path, *strange: int) -> Path:
    """The graph of `nodes` with strange features of some nodes."""
    path = blocks(folder / "strange", num_nodes=60)
    rows = read_csv(path / "nodes.csv")
    for number in strange:
        rows[number]["x"] = "1000"
    write_csv(path / "nodes.csv", rows)
    return path


def test_a_strange_node_is_named_and_those_of_validation_are_not(nodes: Predictor, tmp_path: Path) -> None:
    nodes.warn_if_unlike()
    assert nodes.novelty is not None
    assert len(nodes.novelty.known.rows) == 32  # the labeled nodes of the training split, none of the others
    named = {row["node"] for row in nodes.predict_split("val").table() if "unlike" in row["warning"]}
    split = [row["split"] for row in read_csv(Path(nodes.config.data.source) / "nodes.csv")]
    assert not {split[k] for k in named} & {"train", "val"}
    found = nodes.predict(far_nodes(tmp_path, 5))
    rows = found.table()
    assert re.search(r"unlike training: the nearest training node \(\d+ of .*\) is", rows[5]["warning"])
    assert len([row for row in rows if row["warning"]]) < 60  # it has neighbors
    assert found.num_warnings == 1


def test_nodes_in_pieces_are_embedded_as_whole_ones(nodes: Predictor) -> None:
    whole = override(nodes.config, ["data.layout=edge_list", "model.scope=neighbors"])
    pieces = override(whole, ["data.pieces={roots: 7, evaluation_roots: 7, neighbors: [all, all, all, all]}"])
    model, source = build_model(whole).eval(), open_source(whole)
    samples = [*prepare_split(whole, source, "train")]
    [(one, places)], [(other, _)] = (answered_rows(model, config, samples) for config in (whole, pieces))
    assert places.tolist() == [[*range(60)]]
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_the_neighbors_of_a_training_node_begin_with_itself(nodes: Predictor, tmp_path: Path) -> None:
    embed_to_file(nodes, [nodes.config.data.source], tmp_path / "x.parquet", level="node", neighbors=2)
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    first = rows[0]  # a training node
    assert (first["neighbor_nodes"][0], first["neighbor_distances"][0]) == (0, 0)
    assert first["neighbors"][0] == first["graph"]
    split = [row["split"] for row in read_csv(Path(nodes.config.data.source) / "nodes.csv")]
    assert {split[k] for row in rows for k in row["neighbor_nodes"]} == {"train"}


def test_only_one_training_split_can_be_compared() -> None:
    folds = ensemble(TASKS[0], kind="folds")
    with pytest.raises(DataError, match="train"):
        folds.warn_if_unlike()
