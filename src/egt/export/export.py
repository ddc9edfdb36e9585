"""`export`: a trained model as `torch.export` and ONNX files, each compared with the model before it is kept."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from egt.assemble import build_task
from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.encodings.encoding import Sample
from egt.errors import ArtifactError, ConfigError, RunError
from egt.export.portable import (
    SCHEMA,
    Portable,
    TensorInput,
    describe,
    portable_preparation,
    probe,
    tensor_inputs,
    tensors_of,
)
from egt.files import exists
from egt.graph import Graph
from egt.inference.artifact import Artifact
from egt.inference.backends import PLAIN, on_backend
from egt.inference.forward import evaluating, forward, rows_per_graph, split_rows
from egt.inference.predictor import Predictor
from egt.parts.tasks.task import TargetScale

Form = Literal["onnx", "torch"]

FILES: dict[Form, str] = {"onnx": "model.onnx", "torch": "model.pt2"}

TOLERANCE = 1e-4
"""How far an answer may be from the model's: in standard deviations of the targets, where the run knows them."""

_PROBE_SIZES = (1, 7, 2, 23, 12, 4, 31, 3)

Run = Callable[[tuple[Tensor, ...]], NDArray[np.float32]]


@dataclass(frozen=True)
class Exported:
    """What was written: the folder, and how far each form was from the model."""

    folder: Path
    deviations: dict[Form, float]


def export(artifact: Artifact, folder: Path, forms: Sequence[Form] = ("onnx", "torch")) -> Exported:
    """Write a model for other programs into a folder, with a description of what it reads (`schema.json`).

    Raises:
        ArtifactError: the folder holds something else than an export.
        ConfigError: a package is missing, or a part of the model cannot be exported.
        RunError: an exported model answers otherwise than the model.
    """
    if not forms:
        raise ConfigError(f"nothing to export; choose {' or '.join(FILES)}")
    _check_folder(folder)
    inputs = tensor_inputs(artifact.config)
    module = portable(artifact, inputs)
    with _draft(folder) as draft:
        runs = {form: _WRITERS[form](module, inputs, artifact.config, draft / FILES[form]) for form in forms}
        deviations = {form: deviation(artifact, inputs, run) for form, run in runs.items()}
        for form, found in deviations.items():
            if not found <= TOLERANCE:
                raise RunError(
                    f"{FILES[form]}: its answers are up to {found:.2g} from the model's, more than {TOLERANCE:g}; "
                    "nothing was written: a part of this model does not survive the export"
                )
        content = describe(artifact, inputs, {FILES[form]: found for form, found in deviations.items()})
        (draft / SCHEMA).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return Exported(folder, deviations)


def portable(artifact: Artifact, inputs: Sequence[TensorInput]) -> Portable:
    """Return the model of an artifact as a function of tensors, on the plain backend."""
    model = on_backend(artifact.model, artifact.config, PLAIN).cpu().eval()
    return Portable(
        model, build_task(artifact.config, TargetScale.from_json(artifact.data.get("scale"))), inputs
    ).eval()


def deviation(artifact: Artifact, inputs: Sequence[TensorInput], run: Run, graphs: Sequence[Graph] = ()) -> float:
    """Return the largest difference between the answers of an exported model and of the model.

    It is a share of the standard deviation of the training targets, where the run has standardized them. The graphs are
    compared all together and the first alone; by default they are random, and the first has one node and no edge.
    """
    graphs = graphs or [probe(artifact.config, size, seed=size) for size in _PROBE_SIZES]
    prepare = portable_preparation(artifact.config)
    samples = [prepare(graph) for graph in graphs]
    expected = answers(artifact, graphs)
    together, alone = (
        without_padding(run(tensors_of(some, inputs)), some, artifact.config) for some in (samples, samples[:1])
    )
    differences = np.abs(together - np.concatenate(expected)), np.abs(alone - expected[0])
    scale = artifact.data.get("scale")
    unit = np.array(1.0 if scale is None else scale["std"])
    return max(float((each / unit).max(initial=0)) for each in differences)


def answers(artifact: Artifact, graphs: Sequence[Graph]) -> list[NDArray[np.float32]]:
    """Return what the model itself, as `egt predict` runs it, answers for each graph: (rows, outputs)."""
    model, prepare = Predictor(artifact, "cpu"), preparation(artifact.config)
    samples = [prepare(graph) for graph in graphs]
    found: dict[int, NDArray[np.float32]] = {}
    for numbers, _, output in forward(model.model, artifact.config, samples):
        parts = split_rows(model.task.decode(output), rows_per_graph(samples, numbers, artifact.config.model.level))
        found |= dict(zip(numbers.tolist(), parts, strict=True))
    return [found[number] for number in range(len(samples))]


def without_padding(rows: NDArray[np.float32], samples: Sequence[Sample], config: RunConfig) -> NDArray[np.float32]:
    """(rows, outputs) of an exported model; of nodes those that exist."""
    if config.model.level != "node":
        return rows
    return np.concatenate([part[: sample.graph.num_nodes] for part, sample in zip(rows, samples, strict=True)])


def _write_torch(module: Portable, inputs: Sequence[TensorInput], config: RunConfig, path: Path) -> Run:
    program = _traced(module, inputs, config)
    torch.export.save(program, path)
    exported = torch.export.load(path).module()
    return lambda tensors: np.asarray(exported(*tensors).detach().numpy())


def _write_onnx(module: Portable, inputs: Sequence[TensorInput], config: RunConfig, path: Path) -> Run:
    onnxruntime = _require("onnxruntime", "onnx", "onnxscript")
    with _quiet():
        torch.onnx.export(
            _traced(module, inputs, config),
            (),
            path,
            input_names=[each.name for each in inputs],
            output_names=["answers"],
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    read = {each.name for each in session.get_inputs()}

    def run(tensors: tuple[Tensor, ...]) -> NDArray[np.float32]:
        feeds = {each.name: tensor.numpy() for each, tensor in zip(inputs, tensors, strict=True) if each.name in read}
        return np.asarray(session.run(None, feeds)[0])

    return run


_WRITERS: dict[Form, Callable[[Portable, Sequence[TensorInput], RunConfig, Path], Run]] = {
    "onnx": _write_onnx,
    "torch": _write_torch,
}


def _traced(module: Portable, inputs: Sequence[TensorInput], config: RunConfig) -> torch.export.ExportedProgram:
    """Return the model as a graph of operations in which the named sizes may be anything."""
    prepare = portable_preparation(config)
    example = tensors_of([prepare(probe(config, size, seed=size)) for size in (9, 6, 11)], inputs)
    shapes = tuple(
        {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(each.shape) if isinstance(size, str)}
        for each in inputs
    )
    with _quiet(), evaluating(module.model), torch.no_grad():
        return torch.export.export(module, example, dynamic_shapes=(shapes,), strict=False)


def _require(*names: str) -> Any:
    """Return the first of these modules; all have to be there."""
    from importlib import import_module

    try:
        first, *_ = [import_module(name) for name in names]
    except ImportError as error:
        raise ConfigError(f'{error.name} is not installed; install it with: pip install "egt-graph[export]"') from error
    return first


def _check_folder(folder: Path) -> None:
    if exists(folder) and not (folder / SCHEMA).is_file() and (folder.is_file() or any(folder.iterdir())):
        raise ArtifactError(f"{folder}: exists and holds no export; choose another place (nothing was changed)")


@contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """Yield a folder beside the one asked for; its files go there when all of them are complete."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise ArtifactError(f"{folder}: cannot be written ({error.strerror}); choose another place") from error
    try:
        yield draft
        folder.mkdir(exist_ok=True)
        for path in draft.iterdir():
            path.replace(folder / path.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' remarks about themselves from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
