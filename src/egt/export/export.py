"""`export`: a trained model as `torch.export` and ONNX files, each compared with the model before it is kept."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from egt.assemble import build_task
from egt.config.run import RunConfig
from egt.config.run_data import feature_schema, preparation, reading_schema
from egt.data.batching.batch import GraphBatch, collate
from egt.data.batching.layout import Padded
from egt.data.encodings.encoding import Array, Preparation, Sample
from egt.data.molecules import (
    OGB_ATOM_CODES,
    OGB_ATOM_FEATURES,
    OGB_ATOM_METHODS,
    OGB_BOND_CODES,
    OGB_BOND_FEATURES,
    OGB_BOND_METHODS,
    ZINC_ATOMS,
    ZINC_BONDS,
)
from egt.errors import ArtifactError, ConfigError, RunError, require_extra
from egt.files import exists
from egt.graph import UNKNOWN, Graph
from egt.inference.artifact import Artifact, versions
from egt.inference.backends import PLAIN, on_backend
from egt.inference.forward import evaluation_mode, forward, rows_per_graph, split_rows
from egt.inference.predictor import Predictor
from egt.nn.model import EGT
from egt.parts.tasks.task import TargetScale, Task

log = logging.getLogger(__name__)


def probe(config: RunConfig, num_nodes: int, seed: int) -> Graph:
    """Return a random graph with the features of a run; about one pair in four is an edge, in one direction or both."""
    random = np.random.default_rng(seed)
    pairs = np.argwhere((random.random((num_nodes, num_nodes)) < 0.25) & ~np.eye(num_nodes, dtype=bool)).T
    features = feature_schema(config.model).draw_features(num_nodes, pairs.shape[1], random)
    return Graph(num_nodes=num_nodes, edge_index=pairs, **features)


GRAPHS, NODES, EDGES, QUERIES = "graphs", "nodes", "edges", "queries"  # the sizes that may be anything
_CATEGORIES = "the category of each feature as a number, -1 where it is unknown or there is no node"


@dataclass(frozen=True)
class TensorInput:
    """One tensor that the model reads.

    Fields:
        dtype: "bool", "int64" or "float32".
        shape: numbers, and names of sizes that may be anything.
        meaning: what it holds, for whoever has to make it.
        encodes: what it is an encoding of; None for what a graph itself holds.
    """

    name: str
    dtype: str
    shape: tuple[str | int, ...]
    meaning: str
    encodes: Literal["node", "pair"] | None = None


class Portable(nn.Module):
    """Tensors in, in the order of `inputs`, answers in the unit of the data out; on the plain backend."""

    def __init__(self, model: EGT, task: Task, inputs: Sequence[TensorInput]) -> None:
        super().__init__()
        self.model, self.task, self.inputs = model, task, inputs

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return (B, outputs) of graphs, (B, N, outputs) of nodes with padding, or (R, outputs) of query pairs."""
        return self.task.decode(self.model(self._batch(tensors)))

    def _batch(self, tensors: Sequence[Tensor]) -> GraphBatch:
        """Return the batch, with one more row of padding that holds an edge: onnxruntime fails on lists without any."""
        given = {each.name: _lengthen(tensor, each) for each, tensor in zip(self.inputs, tensors, strict=True)}
        encoded = {each.name: each.encodes for each in self.inputs}
        num_graphs, width = given["mask"].shape
        spare = torch.tensor([[0], [1], [1]]) * (width - 1)
        edges = torch.cat([given["edges"], spare], dim=1)
        no_nodes, no_edges = edges.new_zeros((num_graphs, width, 0)), edges.new_zeros((edges.shape[1], 0))
        return GraphBatch(
            layout=_WithPadding(given["mask"].sum(1), width),
            graph_ids=torch.arange(num_graphs),
            node_categories=given.get("node_categories", no_nodes),
            node_values=given.get("node_values", no_nodes.float()),
            edge_categories=given.get("edge_categories", no_edges),
            edge_values=given.get("edge_values", no_edges.float()),
            graph_values=given.get("graph_values", torch.zeros(num_graphs, 0)),
            edge_pairs=_rows(edges, width),
            queries=_rows(given.get("queries", edges), width),
            node={name: tensor for name, tensor in given.items() if encoded[name] == "node"},
            pair={name: tensor for name, tensor in given.items() if encoded[name] == "pair"},
        )


def _lengthen(tensor: Tensor, about: TensorInput) -> Tensor:
    """Add a row of padding for nodes, and a row for the edge there; places of edges and queries stay unchanged."""
    if about.name in ("edges", "queries"):
        return tensor
    more = [0 if isinstance(size, int) or size == GRAPHS else 1 for size in about.shape]
    sides = [side for extra in reversed(more) for side in (0, extra)]  # from the last axis to the first
    fill = UNKNOWN if about.name.endswith("categories") else 0
    return functional.pad(tensor.to(torch.int64) if about.dtype == "bool" else tensor, sides, value=fill)


class _WithPadding(Padded):
    """The padded layout whose nodes are read with their padding: a shape that does not depend on the content."""

    def node_rows(self, h: Tensor) -> Tensor:
        """(B, N, d), without the row that `Portable` has added."""
        return h[:, self.num_virtual : -1]


def tensor_inputs(config: RunConfig) -> list[TensorInput]:
    """Return the tensors that the model of a run reads."""
    features = feature_schema(config.model)
    found = [
        TensorInput("mask", "bool", (GRAPHS, NODES), "whether there is a node; the other rows of a graph are padding"),
        TensorInput("edges", "int64", (3, EDGES), "graph, source and target of each edge; undirected ones twice"),
    ]
    if count := len(features.node_categories):
        found.append(TensorInput("node_categories", "int64", (GRAPHS, NODES, count), _CATEGORIES))
    if count := features.num_node_values:
        found.append(TensorInput("node_values", "float32", (GRAPHS, NODES, count), "continuous features, 0 in padding"))
    if count := len(features.edge_categories):
        found.append(TensorInput("edge_categories", "int64", (EDGES, count), _CATEGORIES))
    if count := features.num_edge_values:
        found.append(TensorInput("edge_values", "float32", (EDGES, count), "continuous features"))
    if count := features.num_graph_values:
        found.append(TensorInput("graph_values", "float32", (GRAPHS, count), "continuous features of the graph"))
    if config.model.level == "edge":
        found.append(TensorInput("queries", "int64", (3, QUERIES), "graph, source and target of each pair to predict"))
    return found + _encoding_inputs(config)


def portable_preparation(config: RunConfig) -> Preparation:
    """Return what is computed for each graph; the padded layout has a row for every pair, whatever the run had."""
    return preparation(config.replace(data={"layout": "padded"}))


def tensors_of(samples: Sequence[Sample], inputs: Sequence[TensorInput]) -> tuple[Tensor, ...]:
    """Return the tensors of some prepared graphs, in the order of the inputs."""
    batch = collate(samples, "padded")
    assert isinstance(batch.layout, Padded)
    found: dict[str, Tensor] = {
        "mask": batch.layout.real_nodes,
        "edges": _places(batch.edge_pairs, batch.layout.width),
        "queries": _places(batch.queries, batch.layout.width),
        "node_categories": batch.node_categories,
        "node_values": batch.node_values,
        "edge_categories": batch.edge_categories,
        "edge_values": batch.edge_values,
        "graph_values": batch.graph_values,
        **batch.node,
        **batch.pair,
    }
    return tuple(found[each.name].to(getattr(torch, each.dtype)) for each in inputs)


def _encoding_inputs(config: RunConfig) -> list[TensorInput]:
    """Return the inputs for encodings; how wide each is shows on a small graph."""
    sample = portable_preparation(config)(probe(config, 2, seed=0))
    return [
        *(_encoding_input("node", (GRAPHS, NODES), name, array) for name, array in sample.node.items()),
        *(_encoding_input("pair", (GRAPHS, NODES, NODES), name, array) for name, array in sample.pair.items()),
    ]


def _encoding_input(encodes: Literal["node", "pair"], rows: tuple[str, ...], name: str, array: Array) -> TensorInput:
    """Return the input for an encoding, of which `array` is that of one graph: (N, ...) or (N, N, ...)."""
    dtype = "float32" if array.dtype.kind == "f" else "int64"
    shape = (*rows, *array.shape[len(rows) - 1 :])
    return TensorInput(name, dtype, shape, f"the encoding of this name of each {encodes}", encodes)


def _rows(places: Tensor, width: int) -> Tensor:
    """(R,) flat rows of the edge channel, from (3, R) graph, source and target."""
    graph, source, target = places.unbind(0)
    return (graph * width + source) * width + target


def _places(rows: Tensor, width: int) -> Tensor:
    """Return the inverse of `_rows`."""
    return torch.stack([rows // width**2, rows // width % width, rows % width])


SCHEMA, FORMAT = "schema.json", 1


def describe(artifact: Artifact, inputs: Sequence[TensorInput], deviations: Mapping[str, float]) -> dict[str, Any]:
    """Return the content of `schema.json`. deviations: file -> how far it was from the model when it was written."""
    config = artifact.config
    return {
        "format": FORMAT,
        "name": config.name,
        "level": config.model.level,
        "inputs": [{key: value for key, value in asdict(each).items() if key != "encodes"} for each in inputs],
        "encodings": [
            {"name": each.name, "level": each.level, "settings": asdict(each)}  # type: ignore[call-overload]
            for each in portable_preparation(config).encodings
        ],
        "features": _features(config),
        "answers": _answers(config),
        "deviations": dict(deviations),
        "metrics": {split: dict(found) for split, found in artifact.metrics.items()},
        "versions": versions(),
    }


def _answers(config: RunConfig) -> dict[str, Any]:
    """Return the columns of the output, and what each number is."""
    task = config.task
    classes = list(getattr(task, "class_names", ()))
    return {
        "kind": task.kind,
        "targets": list(task.names),
        "classes": classes,
        "num_outputs": task.num_outputs,
        "columns": list(task.columns(np.zeros(task.num_outputs, np.float32))),
    }


def _features(config: RunConfig) -> dict[str, Any]:
    """Return how raw data becomes categories and values: the vocabularies of molecules, or those of custom data."""
    schema = reading_schema(config)
    of_graphs = schema.model_dump(mode="json", include={"graph_features"}) if schema.graph_features else {}
    if schema.more_smiles:  # the last category of each atom: which of these it belongs to
        of_graphs["components"] = list(schema.smiles_columns)
    if schema.format != "molecules":
        wanted = {"format", "weight", "directed", "node_features", "edge_features"}
        return schema.model_dump(mode="json", include=wanted) | of_graphs
    if schema.vocabulary == "zinc":
        atoms, bonds = list(ZINC_ATOMS), list(ZINC_BONDS)
        return {"format": "molecules", "vocabulary": "zinc", "atoms": atoms, "bonds": bonds} | of_graphs
    return of_graphs | {
        "format": "molecules",
        "vocabulary": "ogb",
        "atoms": _of_rdkit(OGB_ATOM_FEATURES, OGB_ATOM_METHODS, OGB_ATOM_CODES),
        "bonds": _of_rdkit(OGB_BOND_FEATURES, OGB_BOND_METHODS, OGB_BOND_CODES),
    }


def _of_rdkit(names: Iterable[str], methods: Iterable[str], codes: Iterable[Sequence[int | None]]) -> list[Any]:
    """Return the features: the method of RDKit, and the values behind category 0, 1, ...; any other is the last."""
    columns = zip(names, methods, codes, strict=True)
    return [{"name": name, "rdkit": method, "values": list(values)} for name, method, values in columns]


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
    if artifact.blend is not None:
        log.warning(
            "%s: the network alone is exported, without the learner it is averaged with: answers differ from "
            "those of `egt predict`",
            artifact.config.name,
        )
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
    program = _trace(module, inputs, config)
    torch.export.save(program, path)
    exported = torch.export.load(path).module()
    return lambda tensors: np.asarray(exported(*tensors).detach().numpy())


def _write_onnx(module: Portable, inputs: Sequence[TensorInput], config: RunConfig, path: Path) -> Run:
    onnxruntime = _require("onnxruntime", "onnx", "onnxscript")
    with _quiet():
        torch.onnx.export(
            _trace(module, inputs, config),
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


def _trace(module: Portable, inputs: Sequence[TensorInput], config: RunConfig) -> torch.export.ExportedProgram:
    """Return the model as a graph of operations in which the named sizes may be anything."""
    prepare = portable_preparation(config)
    example = tensors_of([prepare(probe(config, size, seed=size)) for size in (9, 6, 11)], inputs)
    shapes = tuple(
        {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(each.shape) if isinstance(size, str)}
        for each in inputs
    )
    with _quiet(), evaluation_mode(module.model), torch.no_grad():
        program = torch.export.export(module, example, dynamic_shapes=(shapes,), strict=False)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    return program


def _require(*names: str) -> Any:
    """Return the first of these modules; all have to be there."""
    with require_extra("export", f"an export needs {' and '.join(names)}"):
        first, *_ = [import_module(name) for name in names]
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
