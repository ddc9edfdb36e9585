"""A copy of the labels is left out whatever its name; what only goes along with them is a feature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egt.data.columns import objects
from egt.data.custom import CustomSchema, open_custom
from egt.data.labels import label_copies
from tests.cli.runs import ring, write_csv, write_jsonl

CLASSES = "abc"
NOTE = "left out, each value of it is one class of 'kind'"


def labels(count: int) -> list[str]:
    return [CLASSES[k % 3] for k in range(count)]


def folder(path: Path, table: str, **overrides: Any) -> CustomSchema:
    """Thirty nodes in a ring; the nodes or edges have a class, a copy of it and a color that only goes along."""
    path.mkdir()
    codes = [CLASSES.index(text) * 7 + 1 for text in labels(30)]
    color = ["red" if text == "a" else "blue" for text in labels(30)]
    rows = [{"code": a, "kind": b, "color": c} for a, b, c in zip(codes, labels(30), color, strict=True)]
    plain: dict[str, list[dict[str, int]]] = {"nodes": [{"node": k} for k in range(30)]}
    plain["edges"] = [{"source": k, "target": (k + 1) % 30} for k in range(30)]
    for name in plain:
        more = rows if name == table else [{} for _ in range(30)]
        write_csv(path / f"{name}.csv", [{**one, **other} for one, other in zip(plain[name], more, strict=True)])
    return open_custom(path, target="kind", overrides=overrides).schema


@pytest.mark.parametrize(("table", "level"), [("nodes", "node"), ("edges", "edge")])
def test_a_copy_among_the_features_is_left_out_and_said(tmp_path: Path, table: str, level: str) -> None:
    schema = folder(tmp_path / "one", table)
    features = {each.name: each.kind for each in getattr(schema, f"{level}_features")}
    assert features == {"code": "ignored", "color": "categorical"}
    assert schema.notes[f"{level}_features.code"] == NOTE
    assert (f"{level} feature", f"code: ignored ({NOTE})", f"overrides.{level}_features") in schema.rows()
    kept = folder(tmp_path / "two", table, **{f"{level}_features": {"code": "categorical"}})
    assert {each.kind for each in getattr(kept, f"{level}_features")} == {"categorical"}


def test_a_copy_among_the_features_of_whole_graphs_is_left_out_unless_it_is_named(tmp_path: Path) -> None:
    graphs = [
        ring(5, targets={"kind": text}, features={"code": CLASSES.index(text), "heat": k / 7})
        for k, text in enumerate(labels(30))
    ]
    path = write_jsonl(tmp_path / "graphs.jsonl", graphs)
    schema = open_custom(path).schema
    assert [each.name for each in schema.graph_features] == ["heat"]
    assert ("graph feature", f"code: {NOTE}", "overrides.graph_features") in schema.rows()
    assert not any(each.name == "code" for each in open_custom(path, schema=schema).schema.graph_features)
    named = open_custom(path, overrides={"graph_features": ["code", "heat"]}).schema
    assert [each.name for each in named.graph_features] == ["code", "heat"]


def test_what_counts_as_a_copy() -> None:
    kind = objects([*labels(24), *[None] * 6])
    code = np.array([CLASSES.index(text) for text in labels(30)], dtype=np.float64)
    one_hot, gaps, off = np.eye(3)[code.astype(int)], code.copy(), code.copy()
    gaps[3], off[3] = np.nan, 1.0
    columns = {"kind": kind, "code": code, "one_hot": one_hot, "gaps": gaps, "off": off, "number": np.arange(30.0)}
    assert label_copies(columns, ["kind"], {}) == {"code": "kind", "one_hot": "kind"}
    assert label_copies(columns, ["kind"], {"code": "categorical"}) == {"one_hot": "kind"}
    few = {name: column[:19] for name, column in columns.items()}
    assert label_copies(few, ["kind"], {}) == {}  # too few to mean something
    rare = np.array([1.0] * 5 + [0.0] * 25)
    assert label_copies({"kind": rare, "mark": 1 - rare}, ["kind"], {}) == {}
    assert label_copies({"kind": np.arange(30.0), "number": -np.arange(30.0)}, ["kind"], {}) == {}
    many = np.arange(3000.0) % 2
    assert label_copies(
        {"kind": many, "copy": many, "late": np.where(np.arange(3000) == 2500, 1 - many, many)}, ["kind"], {}
    ) == {"copy": "kind"}
