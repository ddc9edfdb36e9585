"""XYZ files: frames, columns, keys, cells; a bad frame keeps its row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egt.data.custom import open_custom, read_raw
from egt.errors import DataError

WATER = "O 0.0 0.0 0.1\nH 0.0 0.8 -0.5\nH 0.0 -0.8 -0.5\n"


def test_plain_frames(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text(f"3\nwater one\n{WATER}\n2\n\nC 0 0 0\nO 0 0 1.1 9 9\n\n")
    raw = read_raw(tmp_path / "a.xyz")
    assert raw.table["comment"].tolist() == ["water one", None]
    first, second = raw.graphs
    assert first is not None
    assert second is not None
    assert first.nodes["element"].tolist() == ["O", "H", "H"]
    np.testing.assert_array_equal(first.nodes["positions"][0], [0.0, 0.0, 0.1])
    np.testing.assert_array_equal(second.nodes["positions"][1], [0.0, 0.0, 1.1])


def test_keys_are_columns_of_frames_and_properties_those_of_atoms(tmp_path: Path) -> None:
    atoms = "O -0.8 0 0 0.1\nH 0.4 0 0.8 -0.5\n"
    frames = [
        f'2\nProperties=species:S:1:charge:R:1:pos:R:3 energy={k}.5 name="a {k}" pbc="F F F"\n{atoms}' for k in (1, 2)
    ]
    (tmp_path / "a.extxyz").write_text("".join(frames))
    source = open_custom(tmp_path / "a.extxyz", target="energy")
    assert source.schema.place == (3,)
    assert [feature.name for feature in source.schema.node_features] == ["element", "charge"]
    graphs = [reading.graph for reading in source.read_all(source.records("all"))]
    assert [graph.graph_targets.tolist() for graph in graphs if graph is not None] == [[1.5], [2.5]]


def test_a_crystal_has_the_shortest_distances_over_its_cells(tmp_path: Path) -> None:
    head = 'Lattice="4 0 0 0 4 0 0 0 20" Properties=species:S:1:pos:R:3 energy=1'
    (tmp_path / "a.extxyz").write_text(
        f'2\n{head}\nNa 0 0 0\nCl 3.5 9 19\n2\n{head} pbc="T F F"\nNa 0 0 0\nCl 3.5 0 19\n'
    )
    first, second = read_raw(tmp_path / "a.extxyz").graphs
    assert first is not None
    assert second is not None
    assert "positions" not in first.nodes
    np.testing.assert_allclose(first.pairs["distance"], np.sqrt(0.25 + 1 + 1) * (1 - np.eye(2)), atol=1e-12)
    np.testing.assert_allclose(second.pairs["distance"][0, 1], np.hypot(0.5, 19), atol=1e-12)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("2\nProperties=species:S:1:pos:R:3\nO 0 0\nH 1 1 1\n", "columns"),
        ("1\n\nO a b c\n", "column 'pos'"),
        ("1\nProperties=species:S:1\nO\n", "no positions"),
        ('1\nLattice="1 2 3"\nO 0 0 0\n', "nine numbers"),
        ('1\nLattice="0 0 0 0 0 0 0 0 0"\nO 0 0 0\n', "no volume"),
        ("0\n\n", "no atoms"),
    ],
)
def test_a_bad_frame_keeps_its_row(frame: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text(f"3\n\n{WATER}{frame}3\n\n{WATER}")
    raw = read_raw(tmp_path / "a.xyz")
    assert raw.num_rows == 3
    assert list(raw.problems) == [1]
    assert message in raw.problems[1]


@pytest.mark.parametrize(("text", "message"), [("", "frame"), ("5\n\nO 0 0 0\n", "ends before"), ("x\n", "number of")])
def test_a_file_of_something_else_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text(text)
    with pytest.raises(DataError, match=message):
        read_raw(tmp_path / "a.xyz")


def test_frames_can_be_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_text("file,y\na.xyz,1\nb.xyz,2\n")
    for name in ("a", "b"):
        (tmp_path / f"{name}.xyz").write_text(f"3\n\n{WATER}")
    source = open_custom(tmp_path, target="y")
    assert source.schema.place == (3,)
    assert not source.schema.pair_features


def test_the_shortest_distances_of_a_skewed_cell_are_those_over_many_cells(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    cell = np.array([[5.0, 0.0, 0.0], [2.4, 4.0, 0.0], [-1.0, 1.9, 6.0]])
    places = random.normal(scale=9, size=(8, 3))
    atoms = "\n".join(f"Si {x} {y} {z}" for x, y, z in places)
    lattice = " ".join(map(str, cell.ravel()))
    (tmp_path / "a.xyz").write_text(f'8\nLattice="{lattice}" energy=1\n{atoms}\n')
    [graph] = read_raw(tmp_path / "a.xyz").graphs
    assert graph is not None
    steps = np.stack(np.meshgrid(*[np.arange(-9, 10)] * 3), axis=-1).reshape(-1, 3) @ cell
    apart = places[:, None] - places
    expected = np.array([[np.linalg.norm(steps + each, axis=1).min() for each in row] for row in apart])
    np.testing.assert_allclose(graph.pairs["distance"], expected, atol=1e-9)
