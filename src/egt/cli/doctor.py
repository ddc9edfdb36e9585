"""`egt doctor`: what is installed here, and whether the model does what it must."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter

from egt.cli.output import print_json, print_table
from egt.errors import RunError
from egt.processors import cpu_quota, num_processors, num_visible

_NEEDED = ("torch", "numpy", "scipy", "pyarrow", "pydantic")

_EXTRAS = {
    "mol": ("rdkit",),
    "graph": ("networkx", "torch_geometric", "h5py"),
    "gen": ("skimage", "elkai"),
    "sklearn": ("sklearn",),
    "export": ("onnx", "onnxruntime", "onnxscript"),
    "hub": ("huggingface_hub",),
    "tune": ("optuna",),
    "track": ("tensorboard",),
}

_DISTRIBUTIONS = {"torch_geometric": "torch-geometric", "skimage": "scikit-image", "sklearn": "scikit-learn"}


def doctor(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Show what is installed and run the self-checks; exits with 1 when one fails.

    Args:
        json: Print one JSON object instead.
    """
    import torch

    installed = {name: _version(name) for name in _NEEDED}
    extras = {extra: {name: _version(name) for name in modules} for extra, modules in _EXTRAS.items()}
    machine = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": _processors(),
        "threads": str(torch.get_num_threads()),
        "gpus": str(torch.cuda.device_count()),
        "backend": _backend(),
        "CPU kernel": _kernel(),
        "molecules": _molecule_reader(),
    }
    results = _run_checks()
    failed = [name for name, result in results.items() if not result.startswith("ok")]
    if json:
        print_json({"machine": machine, "packages": installed, "extras": extras, "checks": results})
    else:
        print_table("Machine", ("what", "value"), list(machine.items()))
        rows = [(name, found or "missing", "") for name, found in installed.items()]
        rows += [
            (n, f or "not installed", f'pip install "egt-graph[{x}]"') for x, m in extras.items() for n, f in m.items()
        ]
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


def _processors() -> str:
    """Say how many processors may be used, and what limits them."""
    quota = cpu_quota()
    limit = "no CPU quota" if quota is None else f"CPU quota {quota:g}"
    return f"{num_processors()} used ({num_visible()} visible, {limit})"


def _backend() -> str:
    from egt.inference.backends import execution
    from egt.paper.presets import preset

    backend = execution(preset("zinc-100k")).backend
    return f"{backend.name} ({backend.title}) on the CPU"


def _kernel() -> str:
    from egt.native.compilation import build, prebuilt
    from egt.nn.kernels.binding import library

    kernel = library()
    if kernel is None:
        return "none"
    path = build()
    origin = "prebuilt in the package" if path == prebuilt() else "compiled in the cache"
    return f"{origin}, {'AVX2' if kernel.egt_pair_pass_has_avx2() else 'portable'}: {path}"


def _molecule_reader() -> str:
    """Say whether the compiled reader knows the binary form of this RDKit; else molecules are read atom by atom."""
    if find_spec("rdkit") is None:
        return "RDKit is not installed"
    from rdkit import Chem

    from egt.data.molecule_features import binary_form, raw_numbers
    from egt.native.library import library

    if raw_numbers([binary_form(Chem.MolFromSmiles("CCO"))]).readable[0]:
        return "fast reader"
    if library() is None:
        return "slow reader: there is no compiled library here"
    return f"slow reader: the fast one does not know RDKit {version('rdkit')} yet; please report it"


def _run_checks() -> dict[str, str]:
    import numpy as np
    import torch

    from egt import testing
    from egt.assemble import build_model
    from egt.config.load import override
    from egt.config.preparation import preparation
    from egt.data.batching.batch import collate
    from egt.data.molecules import graph_from_smiles
    from egt.errors import DataError
    from egt.graph import Graph
    from egt.inference.backends import execution, on_backend
    from egt.paper.presets import preset

    config = override(
        preset("pcqm4mv2-small"),
        ["model.num_layers=2", "model.node_width=32", "model.edge_width=8", "model.num_heads=4"],
    )
    torch.manual_seed(0)
    plain = build_model(config).eval()
    model = on_backend(plain, config, execution(config, training=False).backend)
    rng = np.random.default_rng(0)
    samples = []
    for num_nodes in (1, 4, 9, 17):
        i, j = np.nonzero(np.triu(rng.random((num_nodes, num_nodes)) < 0.3, 1))
        atoms, bonds = rng.integers(0, 20, (num_nodes, 9)), rng.integers(0, 4, (len(i), 3))
        graph = Graph.undirected(
            num_nodes=num_nodes, edge_index=np.stack([i, j]), node_categories=atoms, edge_categories=bonds
        )
        samples.append(preparation(config)(graph))

    def of_smiles(smiles: Sequence[str]) -> torch.Tensor:
        return model(collate([preparation(config)(graph_from_smiles(text, canonical=True)[0]) for text in smiles]))

    checks: dict[str, Callable[[], float | None]] = {
        "numbering of nodes": lambda: testing.check_permutation(model, samples, "graph"),
        "independence of the batch": lambda: testing.check_batch_independence(plain, samples, "padded"),
        "packed equals padded": lambda: testing.check_layouts_agree(plain, samples),
        "padding is never read": lambda: testing.check_masked(plain, samples),
        "the backend equals the plain one": lambda: testing.check_models_agree(model, plain, samples),
        "spellings of a molecule": lambda: testing.check_spellings(of_smiles),
        "finite gradients": lambda: testing.check_finite_gradients(model, samples),
    }
    results = {}
    for name, check in checks.items():
        try:
            deviation = check()
            results[name] = "ok" if deviation is None else f"ok (differs by {deviation:.0e})"
        except DataError as error:
            results[name] = f"not checked: {error}"
        except testing.CheckFailed as failure:
            results[name] = f"FAILED: {failure}"
    return results
