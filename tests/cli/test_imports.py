"""No command loads the compiler of torch, which takes seconds; only `trainer.compile` and torch's own code for
`trainer.recompute` do.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runs import SMILES, TINY, write_csv

CODE = """
import sys
from egt.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print("compiler:", [name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and, once trained, a run."""
    folder = tmp_path_factory.mktemp("imports")
    write_csv(folder / "data.csv", [{"smiles": smiles, "y": len(smiles)} for smiles in SMILES])
    return folder


@pytest.mark.parametrize(
    "words",
    [
        f"train data.csv --out run --set {' '.join(TINY)}",
        "evaluate run",
        "predict zinc-100k CCO",
        "plan data.csv",
        "data info data.csv",
        "presets",
    ],
)
def test_commands_do_not_load_the_compiler(folder: Path, words: str) -> None:
    run = subprocess.run([sys.executable, "-c", CODE, *words.split()], capture_output=True, text=True, cwd=folder)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "compiler: []"
