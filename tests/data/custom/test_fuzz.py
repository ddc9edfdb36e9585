"""Malformed files: an `EgtError` for a file, a reading with an error for a row, and never anything else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from egt.data.custom import CustomSchema, open_custom
from egt.errors import EgtError

# The same cases every time: a change is judged by what it changes. EGT_FUZZ=5000 draws that many new ones.
fuzz = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=int(os.environ.get("EGT_FUZZ", "420")),
    derandomize="EGT_FUZZ" not in os.environ,
)


def open_and_read(path: Path, **options: Any) -> None:
    """Everything a command would do; only an `EgtError` may escape, and it names the file (and the row)."""
    refused = ""
    try:
        source = open_custom(path, **options)
    except EgtError as error:
        refused = str(error)
    if refused:
        assert path.name in refused
        return
    rows = source.records("all")
    for record in rows:
        reading = source.read(record)
        assert (reading.graph is None) == bool(reading.error)
        assert not reading.error or re.search(rf"{re.escape(path.name)}.*(line|row|graph) ", reading.error), (
            reading.error
        )
    for split in () if "schema" in options else ("train", "val", "test"):
        for record in source.records(split):
            source.read(record)
    assert source.card.split_sizes
    source.fingerprint()


cells = st.one_of(
    st.sampled_from(
        [
            "C",
            "CCO",
            "c1ccccc1",
            "C1CC",
            "[Na+]",
            "",
            "NA",
            "nan",
            "inf",
            "1e999",
            "0",
            "1",
            "-3.5",
            "train",
            "test",
            '"',
            'a"b',
            "x,y",
            "\0",
            "é",
            "1_0",
            "C" * 40,
        ]
    ),
    st.text(max_size=6),
)
headers = st.sampled_from(["smiles", "y", "split", "id", "target", "", "a", "weight"])


def csv_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(",".join(row) for row in [header, *rows])


@fuzz
@given(
    st.one_of(
        st.builds(csv_text, st.lists(headers, max_size=4), st.lists(st.lists(cells, max_size=4), max_size=6)),
        st.builds(
            csv_text,
            st.just(["smiles", "y"]),
            st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=8),
        ),
    )
)
def test_tables(tmp_path: Path, text: str) -> None:
    pytest.importorskip("rdkit")
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    open_and_read(path)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> CustomSchema:
    """The schema of a model that reads molecules."""
    path = tmp_path_factory.mktemp("known") / "known.csv"
    path.write_text("smiles,y\n" + "".join(f"{'C' * k},{k / 8}\n" for k in range(1, 12)))
    return open_custom(path).schema


@fuzz
@given(st.builds(csv_text, st.lists(headers, max_size=3), st.lists(st.lists(cells, max_size=3), max_size=5)))
def test_new_tables_for_a_model(tmp_path: Path, known: CustomSchema, text: str) -> None:
    path = tmp_path / "new.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    open_and_read(path, schema=known)


@fuzz
@given(st.binary(max_size=120), st.sampled_from([".csv", ".csv.gz", ".parquet", ".jsonl", ".jsonl.gz", ".graphml"]))
def test_bytes(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(content)
    open_and_read(path)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 4),
    st.floats(),
    st.sampled_from(["a", "b", "train", "", "0"]),
    st.just(10**400),
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "source", "target", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
columns = st.dictionaries(
    st.sampled_from(["x", "y", "id", "split", "train_mask"]), st.lists(anything, min_size=3, max_size=3), max_size=3
)
edge_lists = st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), max_size=4)
near_graphs = st.fixed_dictionaries(
    {"nodes": columns | anything, "edges": edge_lists | anything},
    optional={
        "num_nodes": st.just(3) | anything,
        "targets": st.dictionaries(st.sampled_from(["y", "z"]), anything, max_size=2) | anything,
        "node_targets": columns | anything,
        "edge_targets": anything,
        "queries": edge_lists | anything,
        "directed": st.booleans() | anything,
        "id": anything,
        "split": st.sampled_from(["train", "val"]) | anything,
        "what": anything,
    },
)
good = {"nodes": {"x": [1, 2, 3]}, "edges": [[0, 1]], "targets": {"y": 0.5}}
json_lines = st.one_of(
    near_graphs.map(json.dumps), near_graphs.map(json.dumps), st.just(json.dumps(good)), st.text(max_size=20)
)


@fuzz
@given(st.lists(json_lines, max_size=5), st.sampled_from([None, "graph", "node", "edge", "link"]))
def test_json_lines(tmp_path: Path, content: list[str], level: str | None) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes("\n".join(content).encode("utf-8", "surrogatepass"))
    open_and_read(path, level=level)


small = st.sampled_from(["0", "1", "2", "3", "", "a", "-1", "0.5", "nan", "inf", "train", '"'])
node_tables = st.builds(
    csv_text,
    st.permutations(["graph", "node", "y"]) | st.lists(headers, max_size=3),
    st.lists(st.lists(small, min_size=3, max_size=3), max_size=5),
)
edge_tables = st.builds(
    csv_text,
    st.just(["source", "target"]) | st.permutations(["graph", "source", "target"]) | st.lists(headers, max_size=3),
    st.lists(st.lists(small, min_size=2, max_size=3), max_size=5),
)


@fuzz
@given(
    node_tables,
    edge_tables,
    st.none()
    | st.builds(csv_text, st.just(["graph", "y"]), st.lists(st.lists(small, min_size=2, max_size=2), max_size=4)),
)
def test_folders(tmp_path: Path, nodes: str, edges: str, graphs: str | None) -> None:
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    (tmp_path / "graphs.csv").unlink(missing_ok=True)
    if graphs is not None:
        (tmp_path / "graphs.csv").write_text(graphs)
    open_and_read(tmp_path)


numbers = st.lists(
    st.lists(st.sampled_from(["1", "2", "3", "0", "-1", "0.5", "x", "", "nan", "1e30"]), min_size=1, max_size=2),
    max_size=6,
)


@fuzz
@given(numbers, numbers, numbers, numbers)
def test_tu_files(tmp_path: Path, edges: Any, indicator: Any, labels: Any, nodes: Any) -> None:
    files = {"A": edges, "graph_indicator": indicator, "graph_labels": labels, "node_labels": nodes}
    for name, rows in files.items():
        (tmp_path / f"DS_{name}.txt").write_text("\n".join(", ".join(row) for row in rows))
    open_and_read(tmp_path)
