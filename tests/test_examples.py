"""The notebooks and the plug-in of `examples/` run as they are."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import egt
from egt.export.export import export
from egt.inference.artifact import load_artifact
from tests.caches import fresh_cache

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {"chemist": ("rdkit", "pandas"), "engineer": ("networkx", "pandas"), "researcher": ()}


def cells(notebook: Path) -> str:
    """The code of a notebook, one cell after the other."""
    content = json.loads(notebook.read_text())
    return "\n\n".join("".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code")


def run(*words: str, where: Path, first: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder of its own, with a folder in front of its path."""
    paths = [*([str(first)] if first else []), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "EGT_CACHE_DIR": fresh_cache(where)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_a_notebook_runs_from_top_to_bottom_and_holds_no_output(name: str, tmp_path: Path) -> None:
    for module in NEEDS[name]:
        pytest.importorskip(module)
    notebook = EXAMPLES / f"{name}.ipynb"
    assert all(not cell.get("outputs") for cell in json.loads(notebook.read_text())["cells"])
    (tmp_path / "cells.py").write_text(cells(notebook))
    done = run("cells.py", where=tmp_path)
    assert done.returncode == 0, done.stderr


ONNX = EXAMPLES / "onnx_predict.py"
TRAINED = Path(__file__).parent / "fixtures/v0_1/molecules"


def test_the_example_of_onnx_is_short_and_needs_nothing_of_egt() -> None:
    tree = ast.parse(ONNX.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"json", "sys", "pathlib", "numpy", "onnxruntime", "rdkit"}
    assert len(ONNX.read_text().splitlines()) <= 60


@pytest.mark.slow
def test_the_example_of_onnx_predicts_as_egt_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    export(load_artifact(TRAINED / "artifact"), tmp_path / "exported", ["onnx"])
    smiles = ["CCO", "c1ccccc1C(=O)[O-]", "C", "C[C@H](N)C(=O)O.Cl", "F/C=C/F", "N#Cc1ccc2[nH]ccc2c1"]
    done = run(str(ONNX), "exported", "C1CC", *smiles, "nonsense", where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["C1CC", *smiles, "nonsense"]
    assert done.stdout.count(": error, RDKit cannot read this molecule") == 2
    alone = run(str(ONNX), "exported", "nonsense", where=tmp_path)
    assert (alone.returncode, alone.stdout.count("error")) == (0, 1)
    found = np.array(re.findall(r"-?\d+\.\d*(?:e[+-]\d+)?", done.stdout), dtype=float).reshape(len(smiles), -1)
    expected = np.concatenate([answer.values for answer in egt.load(TRAINED).predict(smiles)])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_plug_in_is_found_once_it_is_installed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    installed = run(*pip, "--target", str(site), str(EXAMPLES / "plugin"), where=tmp_path)
    assert installed.returncode == 0, installed.stderr
    code = (
        "import numpy as np, egt\n"
        "from egt.parts.inputs import PairInput\n"
        "[encoding] = PairInput.of_kind('heat_kernel').encodings()\n"
        "graph = egt.Graph.undirected(num_nodes=3, edge_index=[[0, 1], [1, 2]])\n"
        "kernel = encoding(graph)\n"
        "assert kernel.shape == (3, 3, 2)\n"
        "np.testing.assert_allclose(kernel.sum(1), 1, rtol=1e-5)  # no heat is lost\n"
    )
    done = run("-c", code, where=tmp_path, first=site)
    assert done.returncode == 0, done.stderr
