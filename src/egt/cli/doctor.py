"""`egt doctor`: what is installed here, and whether the model has the properties that it must have."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from egt.cli.output import Flag, print_json, print_table
from egt.config.load import override
from egt.data.molecules import binary_form, raw_numbers, require_rdkit
from egt.errors import RunError
from egt.native.library import library
from egt.paper.presets import preset
from egt.processors import cpu_quota, num_processors, num_visible

_NEEDED = ("torch", "numpy", "scipy", "pyarrow", "pydantic")
_EXTRAS = {
    "mol": ("rdkit",),
    "excel": ("openpyxl",),
    "graph": ("networkx", "torch_geometric", "h5py"),
    "gen": ("skimage", "elkai"),
    "sklearn": ("sklearn",),
    "export": ("onnx", "onnxruntime", "onnxscript"),
    "hub": ("huggingface_hub",),
    "tune": ("optuna",),
    "track": ("tensorboard",),
}

_DISTRIBUTIONS = {"torch_geometric": "torch-geometric", "skimage": "scikit-image", "sklearn": "scikit-learn"}
_SMALL = ["model.num_layers=2", "model.node_width=32", "model.edge_width=8", "model.num_heads=4"]


def doctor(*, json: Flag = False) -> None:
    """Show what is installed and run the self-checks; exits with 1 when one fails.

    Args:
        json: Print one JSON object instead.
    """
    from egt.testing import describe_engine, self_checks

    config = override(preset("pcqm4mv2-small"), _SMALL)
    quota = cpu_quota()
    limit = "no CPU quota" if quota is None else f"CPU quota {quota:g}"
    machine = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": f"{num_processors()} used ({num_visible()} visible, {limit})",
        **describe_engine(config),
        "molecules": _molecule_reader(),
    }
    installed = {name: _version(name) for name in _NEEDED}
    extras = {extra: {name: _version(name) for name in modules} for extra, modules in _EXTRAS.items()}
    results, failed = self_checks(config)
    if json:
        print_json({"machine": machine, "packages": installed, "extras": extras, "checks": results})
    else:
        print_table("Machine", ("what", "value"), list(machine.items()))
        rows = [(name, number or "missing", "") for name, number in installed.items()]
        for extra, modules in extras.items():
            command = f'pip install "egt-graph[{extra}]"'
            rows += [(name, number or "not installed", command) for name, number in modules.items()]
        print_table("Packages", ("name", "version", "extra"), rows)
        print_table("Self-checks", ("check", "result"), list(results.items()))
    if failed:
        raise RunError(f"self-checks failed: {', '.join(failed)}; please report this with the output of egt doctor")


def _version(name: str) -> str:
    if find_spec(name) is None:
        return ""
    try:
        return version(_DISTRIBUTIONS.get(name, name))
    except PackageNotFoundError:
        return "unknown"


def _molecule_reader() -> str:
    """Say whether the compiled reader knows the binary form of this RDKit; else molecules are read atom by atom."""
    if find_spec("rdkit") is None:
        return "RDKit is not installed"
    if raw_numbers([binary_form(require_rdkit().MolFromSmiles("CCO"))]).readable[0]:
        return "fast reader"
    if library() is None:
        return "slow reader: there is no compiled library here"
    return f"slow reader: the fast one does not know RDKit {version('rdkit')} yet; please report it"
