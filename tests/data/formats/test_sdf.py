"""SDF files: molecules, titles and properties; a bad molecule keeps its place."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from egt.data.custom import open_custom, read_blocks, read_raw
from egt.errors import DataError

chem = pytest.importorskip("rdkit.Chem")


def block(smiles: str, title: str, **properties: object) -> str:
    molecule = chem.MolFromSmiles(smiles)
    molecule.SetProp("_Name", title)
    fields = "".join(f">  <{name}>\n{value}\n\n" for name, value in properties.items())
    return chem.MolToMolBlock(molecule) + fields + "$$$$\n"


def test_properties_are_columns_and_titles_are_names(tmp_path: Path) -> None:
    blocks = [block(smiles, f"m{k}", logS=-0.5 * k, lab="ab"[k % 2]) for k, smiles in enumerate(("CCO", "CCN", "CCC"))]
    (tmp_path / "a.sdf").write_text("".join(blocks))
    source = open_custom(tmp_path / "a.sdf", target="logS")
    assert source.smiles() == ["CCO", "CCN", "CCC"]
    assert (source.schema.id, source.schema.targets) == ("name", ("logS",))
    graphs = [reading.graph for reading in source.read_all(source.records("all"))]
    assert [graph and graph.graph_targets for graph in graphs] == [0.0, -0.5, -1.0]
    (tmp_path / "a.sdf.gz").write_bytes(gzip.compress("".join(blocks).encode()))
    assert read_raw(tmp_path / "a.sdf.gz").num_rows == 3


def test_a_molecule_that_cannot_be_read_keeps_its_place(tmp_path: Path) -> None:
    bad = block("CCO", "bad").replace("V2000", "V9000")
    (tmp_path / "a.sdf").write_text(block("CC", "one", y=1) + bad + block("CCC", "two", y=2))
    raw = read_raw(tmp_path / "a.sdf")
    assert raw.num_rows == 3
    assert raw.problems == {1: "a.sdf: molecule 2 cannot be read"}


def test_a_file_without_molecules_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.sdf").write_text("")
    with pytest.raises(DataError):
        read_raw(tmp_path / "a.sdf")


def test_blocks_of_a_file_are_what_it_is_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [block("C" * (k + 1), "", **({"late": k} if k == 8 else {"y": k})) for k in range(10)]
    texts[3] = texts[3].replace("V2000", "V9000")
    (tmp_path / "a.sdf").write_text("".join(texts))
    whole = read_raw(tmp_path / "a.sdf")
    monkeypatch.setenv("EGT_MAX_ROWS", "4")  # in memory at once
    with pytest.raises(DataError):
        read_raw(tmp_path / "a.sdf")
    blocks = [*read_blocks(tmp_path / "a.sdf", 4)]
    assert [(each.first_row, each.num_rows) for each in blocks] == [(0, 4), (4, 4), (8, 2)]
    assert [[*each.table] for each in blocks] == [["smiles", "y", "late"]] * 3 == [[*whole.table]] * 3
    assert [text for each in blocks for text in each.table["smiles"]] == whole.table["smiles"].tolist()
    assert [place for each in blocks for place in (each.placed if each.placed is not None else ())] == (
        [] if whole.placed is None else whole.placed.tolist()
    )
    assert blocks[0].problems == whole.problems == {3: "a.sdf: molecule 4 cannot be read"}
    (tmp_path / "b.sdf").touch()
    assert [each.num_rows for each in read_blocks(tmp_path / "b.sdf", 4)] == [0]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_encodings_of_older_programs(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.sdf").write_bytes(block("CCO", "éthanol", Größe="groß").encode(encoding))
    table = read_raw(tmp_path / "a.sdf").table
    assert table["name"].tolist() == ["éthanol"]
    assert table["Größe"].tolist() == ["groß"]


def test_a_molecule_that_rdkit_cannot_write_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.sdf").write_text("".join(block(smiles, smiles, y=1) for smiles in ("CC", "CCO", "CCC")))
    usual = chem.MolToSmiles

    def fail(molecule: Any) -> str:
        if molecule.GetProp("_Name") == "CCO":
            raise RuntimeError("refused")
        return str(usual(molecule))

    monkeypatch.setattr(chem, "MolToSmiles", fail)
    raw = read_raw(tmp_path / "a.sdf")
    assert raw.table["smiles"].tolist() == ["CC", None, "CCC"]
    assert [*raw.problems] == [1]
