"""Data flows one way: a folder imports only from folders above it in the design, and never in a circle."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import egt

ROOT = Path(egt.__file__).parent
ORDER = [
    "errors",
    "deprecation",
    "files",
    "processors",
    "native",
    "registry",
    "graph",
    "data",
    "nn",
    "parts",
    "config",
    "assemble",
    "processes",
    "inference",
    "export",
    "training",
    "testing",
    "api",
    "sklearn",
    "charts",
    "pages",
    "explain",
    "paper",
    "tuning",
    "cli",
]


SHARED = {
    # a command and what it calls
    "export", "plan", "presets", "report", "reproduce", "tune",
    # the settings of a run and the run; files that hold tables and tables of the paper
    "run", "tables",
}  # fmt: skip
"""Names of files that stand in several folders, which make the difference plain."""


def station(module: str) -> str:
    return module.split(".")[1] if "." in module else "egt"


def imports(file: Path) -> set[str]:
    """What a file imports when it runs; names for annotations alone (`if TYPE_CHECKING`) make no circle."""
    found = set()
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "egt":
            found |= {f"{node.module}.{alias.name}" if node.module == "egt" else node.module for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "egt"}
    return found


def files() -> dict[str, Path]:
    relative = {path: path.relative_to(ROOT) for path in ROOT.rglob("*.py")}
    return {".".join(["egt", *short.with_suffix("").parts]): path for path, short in relative.items()}


def test_a_folder_imports_only_from_folders_above_it() -> None:
    wrong = []
    for name, path in files().items():
        here = station(name)
        if here in {"__init__", "__main__"}:
            continue
        assert here in ORDER, f"{name}: a new station; say in ORDER where it stands"
        for used in imports(path):
            there = station(used)
            if there in ORDER and ORDER.index(there) > ORDER.index(here):
                wrong.append(f"{name} imports {used}")
    assert not wrong, wrong


def test_a_name_stands_in_two_folders_only_where_they_make_the_difference_plain() -> None:
    names = [path.stem for path in files().values() if not path.stem.startswith("__")]
    assert {name for name in names if names.count(name) > 1} == SHARED


def test_no_circles_inside_a_folder() -> None:
    known = files()
    graph = {name: {used for used in imports(path) if used in known} for name, path in known.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for used in graph[name]:
                visit(used, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(m for m in sys.modules if '.' not in m))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_what_is_read_before_torch_does_not_import_it() -> None:
    for module in ("egt", "egt.graph", "egt.data.source", "egt.parts.inputs", "egt.paper.presets", "egt.cli.main"):
        assert "torch" not in loaded_by(f"import {module}"), module


def test_a_model_is_described_and_its_data_opened_without_torch() -> None:
    reads = "from egt.config.load import read_config; from egt.inference.artifact import find_artifact"
    reads += "; from egt.config.run_data import open_new, preparation"
    reads += "; config = read_config(find_artifact('zinc-100k') / 'config.yaml')"
    reads += "; preparation(config); open_new(config, 'CCO')"
    loaded = loaded_by(reads)
    assert "rdkit" in loaded
    assert "torch" not in loaded


def test_a_prediction_loads_neither_a_compiler_nor_the_other_extras() -> None:
    loaded = loaded_by("import egt; egt.load('zinc-100k').predict('CCO')")
    assert "torch" in loaded
    assert not {"sympy", "sklearn", "pandas", "pyarrow", "matplotlib"} & loaded


def test_training_needs_no_framework() -> None:
    frameworks = {"lightning", "pytorch_lightning", "accelerate", "torchmetrics", "tensorboard"}
    assert not frameworks & loaded_by("import egt.training.run")
    assert not [name for name, path in files().items() if "lightning" in path.read_text().lower()]


def test_nn_reads_no_files_and_no_config() -> None:
    for name, path in files().items():
        if station(name) == "nn" and ".kernels" not in name:
            assert not any(used.startswith("egt.config") for used in imports(path)), name
            tree = ast.parse(path.read_text())
            assert not [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "open"], (
                name
            )


def section(title: str) -> str:
    """A section of the map of the code."""
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text()
    return page.partition(f"## {title}")[2].partition("\n## ")[0]


def test_the_map_shows_every_station_in_the_order_of_imports() -> None:
    named = re.findall(r"^\| `(\w+)`", section("The rooms"), re.MULTILINE)
    assert named == [name for name in ORDER if name in {station(module) for module in files()}]


def test_the_map_names_files_that_exist() -> None:
    read = section("Reading order") + section("Where do I add") + section("Where is")
    for path in re.findall(r"`([\w/]+\.(?:py|csv))`", read):
        if Path(path).stem not in {"x", "rank"}:  # to be written by the reader
            assert any(ROOT.rglob(path)) or (ROOT.parents[1] / path).exists(), path


def test_reading_orders_and_the_glossary_stay_short() -> None:
    orders = dict(re.findall(r"^- \*\*([^*]+)\*\*: (.*(?:\n  .*)*)", section("Reading order"), re.MULTILINE))
    most = {"To the equation": 5, "To the training loop": 4, "From a CSV cell to a feature": 5}
    for goal, number in most.items():
        assert orders[goal].count(".py`") <= number, goal
    assert len(re.findall(r"^\| \w", section("Words"), re.MULTILINE)) - 1 <= 25
    assert len(re.findall(r"^\| .*`", section("Where is"), re.MULTILINE)) >= 10
