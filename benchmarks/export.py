"""An exported model beside the model: how far its answers are, and how long both take for the same prepared graphs.

    python -m benchmarks.export ARTIFACT DATA [--graphs 200] [--rounds 5]

The model computes as `egt predict` does; onnxruntime gets the same graphs, padded, in batches of like size. Both have
as many threads as torch has here (OMP_NUM_THREADS), and take turns; times are those of the processor. For molecules the
answers of `examples/onnx_predict.py`, which makes its features by numpy and RDKit alone, are compared too.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
import torch

import egt
from egt.config.run_data import open_new
from egt.data.batching.loader import evaluation_batches, graph_sizes
from egt.data.encodings.encoding import Sample
from egt.data.source import ALL
from egt.export.export import FILES, Run, answers, deviation, export, portable_preparation, tensor_inputs, tensors_of
from egt.graph import Graph
from egt.inference.artifact import Artifact
from egt.inference.forward import forward
from egt.inference.predictor import Predictor

EXAMPLE = Path(__file__).parents[1] / "examples/onnx_predict.py"
GRAPHS_AT_ONCE = 32


def read(model: Predictor, data: str, count: int) -> tuple[list[Graph], list[str] | None]:
    """Return the first graphs of a file, and their SMILES."""
    source = open_new(model.config, data)
    readings = [source.read(record) for record in source.records(ALL)]
    kept = [reading for reading in readings if reading.graph is not None][:count]
    smiles = source.smiles()
    graphs = [reading.graph for reading in kept if reading.graph is not None]
    return graphs, None if smiles is None else [smiles[reading.row] for reading in kept]


def onnx_run(artifact: Artifact, path: Path) -> Run:
    """Return the exported model as a function of tensors."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    read, inputs = {each.name for each in session.get_inputs()}, tensor_inputs(artifact.config)

    def run(tensors: tuple[torch.Tensor, ...]) -> Any:
        named = zip(inputs, tensors, strict=True)
        return session.run(None, {each.name: tensor.numpy() for each, tensor in named if each.name in read})[0]

    return run


def batches(samples: Sequence[Sample], artifact: Artifact) -> list[tuple[torch.Tensor, ...]]:
    """Put graphs of like size side by side, so that little is padding."""
    inputs = tensor_inputs(artifact.config)
    groups = evaluation_batches(graph_sizes(samples), GRAPHS_AT_ONCE, "padded")
    return [tensors_of([samples[k] for k in numbers.tolist()], inputs) for numbers in groups]


def seconds(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Measure the median processor time of each work; they take turns."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds + 1):  # the first one warms up
        for name, work in works.items():
            begin = time.process_time()
            work()
            found[name].append(time.process_time() - begin)
    return {name: median(times[1:]) for name, times in found.items()}


def example_deviation(folder: Path, smiles: list[str], expected: np.ndarray[Any, Any], unit: Any) -> float:
    """Return how far the answers of the example, for all molecules at once, are from the model's."""
    spec = importlib.util.spec_from_file_location("onnx_predict", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return float((np.abs(example.predict(str(folder), smiles) - expected) / unit).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact")
    parser.add_argument("data")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    model = egt.load(given.artifact, device="cpu")
    [artifact] = model.artifact.members
    graphs, smiles = read(model, given.data, given.graphs)
    sizes = [graph.num_nodes for graph in graphs]
    print(f"{len(graphs)} graphs of {min(sizes)} to {max(sizes)} nodes, mean {np.mean(sizes):.1f}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "exported"
        export(artifact, folder, ["onnx"])
        run = onnx_run(artifact, folder / FILES["onnx"])
        far = deviation(artifact, tensor_inputs(artifact.config), run, graphs)
        print(f"farthest answer: {far:.2g} (of a standard deviation of the targets, or of a probability)")
        scale = artifact.data.get("scale")
        unit = np.array(1.0 if scale is None else scale["std"])
        if smiles is not None:
            expected = np.concatenate(answers(artifact, graphs))
            print(f"with the features of the example: {example_deviation(folder, smiles, expected, unit):.2g}")
        samples = [portable_preparation(artifact.config)(graph) for graph in graphs]
        tensors = batches(samples, artifact)
        alone = [tensors_of([sample], tensor_inputs(artifact.config)) for sample in samples]
        works: dict[str, Callable[[], object]] = {
            "egt": lambda: list(forward(model.model, artifact.config, samples)),
            "onnxruntime": lambda: [run(each) for each in tensors],
            "egt, one at a time": lambda: [list(forward(model.model, artifact.config, [each])) for each in samples],
            "onnxruntime, one at a time": lambda: [run(each) for each in alone],
        }
        times = seconds(works, given.rounds)
    for name, each in times.items():
        print(f"{name:<28} {1e3 * each:8.1f} ms, {len(graphs) / each:8.0f} graphs a second")


if __name__ == "__main__":
    main()
