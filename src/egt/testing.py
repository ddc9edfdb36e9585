"""Property checks that anyone can call on their own composition of parts.

Each takes a model and prepared samples, or a layer (`check_layer`), and raises `CheckFailed` with the deviation it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from egt.assemble import build_model
from egt.config.run import DataConfig, ModelConfig, RunConfig, TrainerConfig
from egt.config.run_data import preparation
from egt.data.batching.batch import GraphBatch, LayoutName, collate
from egt.data.encodings.encoding import Sample
from egt.data.molecules import graph_from_smiles, require_rdkit
from egt.errors import DataError
from egt.graph import FeatureSchema, Graph, Level
from egt.inference.backends import execution, on_backend
from egt.native import library
from egt.nn.kernels import binding
from egt.nn.model import EGT
from egt.parts.inputs import edge_features, node_features
from egt.parts.readouts import LayerPart, PerNode
from egt.parts.tasks.regression import Regression

Model = Callable[[GraphBatch], Tensor]
LAYOUTS: tuple[LayoutName, ...] = ("packed", "padded", "edge_list")

__all__ = [
    "CheckFailed",
    "check_batch_independence",
    "check_finite_gradients",
    "check_layer",
    "check_layouts_agree",
    "check_masked",
    "check_models_agree",
    "check_permutation",
    "check_spellings",
    "reach",
]


__path__: list[str] = []  # a folder in 0.1: `egt.deprecation` finds `egt.testing.properties`


class CheckFailed(AssertionError):
    """A property that every EGT has does not hold."""


@torch.no_grad()
def check_permutation(
    model: Model, samples: Sequence[Sample], level: Level, layout: LayoutName = "packed", *, atol: float = 1e-5
) -> float:
    """Check that renumbering the nodes and their encodings renumbers the answers. Returns the largest deviation."""
    generator = np.random.default_rng(0)
    orders = [generator.permutation(sample.graph.num_nodes) for sample in samples]
    renumbered = [_permute(sample, order) for sample, order in zip(samples, orders, strict=True)]
    expected = model(collate(samples, layout))
    if level == "node":
        starts = np.cumsum([0, *(len(order) for order in orders[:-1])])
        expected = expected[np.concatenate([start + order for start, order in zip(starts, orders, strict=True)])]
    return _compare(model(collate(renumbered, layout)), expected, atol, "the answers depend on the numbering of nodes")


MOLECULES = ("c1ccccc1", "C[N+](C)(C)CC([O-])=O", "C[C@H](N)C(=O)O", "C[C@H]1CC[C@@H](C)CC1", "C/C=C/C=C\\C")
"""Symmetric, charged, chiral, chiral only as a whole, and with double bonds."""


@torch.no_grad()
def check_spellings(
    answer: Callable[[Sequence[str]], Tensor], smiles: Sequence[str] = MOLECULES, *, tries: int = 5, atol: float = 1e-5
) -> float:
    """Check that the answer for a molecule does not depend on how its SMILES is written.

    Args:
        answer: SMILES -> (molecules, outputs).
        smiles: the molecules.
        tries: random spellings of each.
        atol: the largest deviation allowed.

    Returns:
        The largest deviation.
    """
    Chem = require_rdkit()
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    random = Chem.rdBase.SeedRandomNumberGenerator
    expected, deviation = answer(smiles), 0.0
    for seed in range(tries):
        random(seed)
        written = [Chem.MolToSmiles(molecule, doRandom=True) for molecule in molecules]
        message = "an answer depends on how the SMILES is written"
        deviation = max(deviation, _compare(answer(written), expected, atol, message))
    return deviation


@torch.no_grad()
def check_batch_independence(
    model: Model, samples: Sequence[Sample], layout: LayoutName = "packed", *, atol: float = 1e-5
) -> float:
    """Check that a graph's answers are the same alone and among others of any size. Returns the largest deviation."""
    alone = torch.cat([model(collate([sample], layout)) for sample in samples])
    return _compare(model(collate(samples, layout)), alone, atol, "an answer depends on the other graphs of its batch")


@torch.no_grad()
def check_layouts_agree(model: Model, samples: Sequence[Sample], *, atol: float = 1e-5) -> float:
    """Check that the packed and the padded layout give the same answers. Returns the largest deviation."""
    packed, padded = model(collate(samples, "packed")), model(collate(samples, "padded"))
    return _compare(padded, packed, atol, "the padded and the packed layout disagree")


@torch.no_grad()
def check_models_agree(
    model: Model, other: Model, samples: Sequence[Sample], layout: LayoutName = "packed", *, atol: float = 2e-5
) -> float:
    """Two models, as one model on two backends, give the same answers. Returns the largest deviation."""
    batch = collate(samples, layout)
    return _compare(model(batch), other(batch), atol, "the two models disagree")


@torch.no_grad()
def check_masked(model: Model, samples: Sequence[Sample], *, atol: float = 1e-5) -> float:
    """Check that the padding is never read: garbage there changes nothing. Returns the largest deviation."""
    batch = collate(samples, "padded")
    expected = model(batch)
    return _compare(model(_with_garbage(batch)), expected, atol, "an answer depends on what lies in the padding")


def check_finite_gradients(model: EGT, samples: Sequence[Sample], layout: LayoutName = "packed") -> None:
    """Answers and the gradients of all parameters are finite, in training mode, for any graphs."""
    was_training = model.training
    model.train().zero_grad()
    try:
        output = model(collate(samples, layout))
        output.square().sum().backward()
        bad = [name for name, p in model.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
        if not output.isfinite().all() or bad:
            raise CheckFailed(f"not finite: {'the answers' if not output.isfinite().all() else ', '.join(bad)}")
    finally:
        model.train(was_training).zero_grad()


def check_layer(part: LayerPart) -> list[LayoutName]:
    """Check a layer of your own in a small model. Returns the layouts that it takes, as its `check` says.

    Numbers of nodes, other graphs of a batch, padding and layout change no answer, answers and gradients are finite,
    and weights that are saved and loaded are all that a step of training has changed.
    """
    width, features = 16, FeatureSchema(node_categories=(5,), edge_categories=(3,))
    samples, random = [], np.random.default_rng(0)
    for num_nodes in (1, 4, 9, 9):
        i, j = np.nonzero(np.triu(random.random((num_nodes, num_nodes)) < 0.4, 1))
        atoms, bonds = random.integers(0, 5, (num_nodes, 1)), random.integers(0, 3, (len(i), 1))
        samples.append(
            Sample(
                Graph.undirected(
                    num_nodes=num_nodes, edge_index=np.stack([i, j]), node_categories=atoms, edge_categories=bonds
                )
            )
        )
    models: dict[LayoutName, EGT] = {}
    for layout in LAYOUTS:
        model = ModelConfig(
            num_layers=2,
            node_width=width,
            edge_width=width,
            num_heads=4,
            node_inputs=node_features(features),
            pair_inputs=edge_features(features),
            scope="neighbors" if layout == "edge_list" else "everyone",
            readout=PerNode(),
        )
        run = RunConfig(
            name="check_layer",
            data=DataConfig(source="check_layer", layout=layout),
            model=model,
            task=Regression(names=("y",)),
            trainer=TrainerConfig(max_epochs=1),
        )
        config = run.model_copy(update={"model": model.model_copy(update={"layer": part})})
        try:
            part.check(config)
        except ValueError:
            continue
        torch.manual_seed(0)
        models[layout] = build_model(config).eval()
        _check_alone(models[layout], build_model(config).eval(), samples, layout)
    if not models:
        raise CheckFailed(f"the layer {part.kind} refuses all layouts: {', '.join(LAYOUTS)}")
    if "padded" in models:
        check_masked(models["padded"], samples)
        if "packed" in models:
            models["packed"].load_state_dict(models["padded"].state_dict())
            check_layouts_agree(models["packed"], samples)
    return [*models]


def _check_alone(model: EGT, other: EGT, samples: Sequence[Sample], layout: LayoutName) -> None:
    """Check a model on one layout; `other` is one of its configuration with other weights."""
    check_permutation(model, samples, "node", layout)
    check_batch_independence(model, samples, layout)
    check_finite_gradients(model, samples, layout)
    model.train()(collate(samples, layout)).square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=1e-3).step()
    other.load_state_dict(model.state_dict())
    batch = collate(samples, layout)
    with torch.no_grad():
        _compare(other(batch), model.eval()(batch), 1e-6, "a layer has learned what its `state_dict` does not hold")


def reach(
    model: EGT, sample: Sample, node: int, layout: LayoutName = "packed"
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which input nodes influence the final embedding of `node`: (N,) boolean, from the gradient."""
    x = model.embed(collate([sample], layout))
    h = x.h.detach().requires_grad_()
    x = model.readout.prepare(x.updated(h, x.e.detach()))
    for layer in model.layers:
        x = x.updated(*layer(x.h, x.e, x.context))
    embedding = x.context.layout.node_rows(x.h)[node]
    # A random direction: a plain sum could cancel.
    direction = torch.randn(embedding.shape, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad((embedding * direction).sum(), h)
    influence: np.ndarray[tuple[int], np.dtype[np.bool_]] = (gradient.flatten(0, -2).abs().sum(-1) > 0).numpy()
    return influence


def _permute(sample: Sample, order: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Sample:
    return Sample(
        sample.graph.permuted(order),
        {name: array[order] for name, array in sample.node.items()},
        {name: array[order][:, order] for name, array in sample.pair.items()},
    )


def _compare(found: Tensor, expected: Tensor, atol: float, message: str) -> float:
    if found.shape != expected.shape:
        raise CheckFailed(f"{message}: shape {tuple(found.shape)} instead of {tuple(expected.shape)}")
    scale = expected.abs().max().clamp(min=1.0)
    deviation = float(((found - expected).abs() / scale).max()) if found.numel() else 0.0
    if not deviation <= atol:
        raise CheckFailed(f"{message}: they differ by {deviation:.1e} (allowed {atol:.0e})")
    return deviation


def _with_garbage(batch: GraphBatch) -> GraphBatch:
    def spoil(tensor: Tensor, real: Tensor) -> Tensor:
        keep = real.view(*real.shape, *(1,) * (tensor.dim() - real.dim()))
        return torch.where(keep, tensor, torch.full_like(tensor, 7))

    nodes, pairs = batch.layout.real_nodes, batch.layout.real_pairs
    assert nodes is not None
    assert pairs is not None
    return replace(
        batch,
        node_values=spoil(batch.node_values, nodes),
        node={name: spoil(tensor, nodes) for name, tensor in batch.node.items()},
        pair={name: spoil(tensor, pairs) for name, tensor in batch.pair.items()},
    )


def describe_engine(config: RunConfig) -> dict[str, str]:
    """Return in words the threads, devices and kernels that compute a run on this machine."""
    backend, kernel = execution(config).backend, binding.library()
    origin = "none"
    if kernel is not None:
        path = library.build()
        origin = "prebuilt in the package" if path == library.prebuilt() else "compiled in the cache"
        origin += f", {'AVX2' if kernel.egt_pair_pass_has_avx2() else 'portable'}: {path}"
    return {
        "threads": str(torch.get_num_threads()),
        "gpus": str(torch.cuda.device_count()),
        "backend": f"{backend.name} ({backend.title}) on the CPU",
        "CPU kernel": origin,
    }


def self_checks(config: RunConfig) -> tuple[dict[str, str], list[str]]:
    """Check all properties of a model of molecules with random weights; return the results, and which have failed."""
    torch.manual_seed(0)
    plain = build_model(config).eval()
    model = on_backend(plain, config, execution(config, training=False).backend)
    rng = np.random.default_rng(0)
    samples = []
    for num_nodes in (1, 4, 9, 17):
        i, j = np.nonzero(np.triu(rng.random((num_nodes, num_nodes)) < 0.3, 1))
        atoms, bonds = rng.integers(0, 20, (num_nodes, 9)), rng.integers(0, 4, (len(i), 3))
        features = {"node_categories": atoms, "edge_categories": bonds}
        graph = Graph.undirected(num_nodes=num_nodes, edge_index=np.stack([i, j]), **features)
        samples.append(preparation(config)(graph))

    def predict(smiles: Sequence[str]) -> Tensor:
        graphs = [graph_from_smiles(text, canonical=True)[0] for text in smiles]
        answers: Tensor = model(collate([preparation(config)(graph) for graph in graphs]))
        return answers

    checks: dict[str, Callable[[], float | None]] = {
        "numbering of nodes": lambda: check_permutation(model, samples, "graph"),
        "independence of the batch": lambda: check_batch_independence(plain, samples, "padded"),
        "packed equals padded": lambda: check_layouts_agree(plain, samples),
        "padding is never read": lambda: check_masked(plain, samples),
        "the backend equals the plain one": lambda: check_models_agree(model, plain, samples),
        "spellings of a molecule": lambda: check_spellings(predict),
        "finite gradients": lambda: check_finite_gradients(model, samples),
    }
    results, failed = dict[str, str](), list[str]()
    for name, check in checks.items():
        try:
            deviation = check()
            results[name] = "ok" if deviation is None else f"ok (differs by {deviation:.0e})"
        except DataError as error:
            results[name] = f"not checked: {error}"
        except CheckFailed as failure:
            results[name] = f"FAILED: {failure}"
            failed.append(name)
    return results, failed
