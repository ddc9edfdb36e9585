"""`egt reproduce foundation`: from a table of SMILES to a small artifact that others start from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

import egt
from tests.cli.runs import egt as command

pytest.importorskip("rdkit")
SMILES = [f"C{'C' * k}{end}" for k in range(15) for end in ("O", "N", "c1ccccc1", "C(=O)O")]
SMALL = ("model.num_layers=1", "model.node_width=16", "model.edge_width=8", "split.fractions=[0.8,0.1,0.1]")


def test_the_model_is_made_from_the_file_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EGT_DATA_DIR", str(tmp_path))
    failed = command(capsys, "reproduce", "foundation", "--out", str(tmp_path / "out"))
    assert failed.code == 2
    assert "unlabeled_molecules.parquet" in failed.err
    (tmp_path / "molecules").mkdir()
    pq.write_table(pa.table({"smiles": SMILES}), tmp_path / "molecules" / "unlabeled_molecules.parquet")
    words = ("reproduce", "foundation", "--out", str(tmp_path / "out"), "--epochs", "1", "--json", "--set", *SMALL)
    done = command(capsys, *words)
    assert done.code == 0, done.err
    folder = Path(done.json["artifact"])
    weights = safetensors.torch.load_file(folder / "weights.safetensors")
    assert {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()} == {torch.float16}
    assert str(tmp_path) not in "".join(file.read_text() for file in folder.glob("*.[jy]*"))
    packed = egt.load(folder)
    [answer] = packed.predict(["CCO"])
    trained = egt.load(folder.parent / "run" / "artifact")
    [whole] = trained.predict(["CCO"])
    names, all_names = packed.config.task.names, trained.config.task.names
    assert "MolLogP" in names
    assert not any("fragment" in name or "pair" in name for name in names)
    assert answer.values is not None
    assert whole.values is not None
    theirs = whole.values[0, [all_names.index(name) for name in names]]
    assert answer.values[0] == pytest.approx(theirs, rel=0.05, abs=0.05)
    again = command(capsys, *words)
    assert again.code == 0, again.err
