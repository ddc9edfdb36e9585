"""An exported model answers as the model does, for any number of graphs and nodes; a wrong one is not written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import egt
from egt.assemble import build_model
from egt.config.run import ModelConfig
from egt.data.encodings.encoding import Sample
from egt.data.schema import CustomSchema, Feature
from egt.errors import ArtifactError, ConfigError, RunError
from egt.export import export as exporting
from egt.export.export import (
    TOLERANCE,
    answers,
    describe,
    deviation,
    export,
    portable,
    portable_preparation,
    probe,
    tensor_inputs,
    tensors_of,
    without_padding,
)
from egt.graph import Graph
from egt.inference.artifact import Artifact
from egt.parts.inputs import (
    Distance,
    EdgeCategories,
    EdgeValues,
    GraphValues,
    NodeCategories,
    PairCategories,
    PairValues,
    Positions,
    Svd,
)
from tests.inference.test_predictor import make

SIZES = (6, 1, 3, 11, 2)


def rich(level: str = "graph", **more: Any) -> Artifact:
    """An untrained model that reads categories, values and encodings of nodes and pairs, and values of graphs."""
    artifact = make(level, scale={"mean": [5.0], "std": [2.0]})
    model = artifact.config.model
    changed = {
        "node_inputs": (*model.node_inputs, NodeCategories(sizes=(4, 3)), Svd(rank=3), GraphValues(num_values=2)),
        "pair_inputs": (Distance(max_hops=4), EdgeCategories(sizes=(5, 2), absent="learned"), EdgeValues(num_values=2)),
        "gate": "centrality",
        **more,
    }
    config = artifact.config.model_copy(update={"model": ModelConfig.model_validate(dict(model) | changed)})
    torch.manual_seed(1)
    network = build_model(config).eval()
    for parameter in network.parameters():
        parameter.data *= 1.5  # so that answers differ and logits are clipped
    return Artifact(config, network, data=artifact.data)


def graphs(artifact: Artifact, sizes: tuple[int, ...] = SIZES) -> list[Graph]:
    return [probe(artifact.config, size, seed=size) for size in sizes]


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
@pytest.mark.parametrize("scope", ["everyone", "neighbors"])
def test_the_function_of_tensors_is_the_model(level: str, scope: str) -> None:
    artifact = rich(level, scope=scope)
    inputs = tensor_inputs(artifact.config)
    module = portable(artifact, inputs)
    given = graphs(artifact)
    samples = [portable_preparation(artifact.config)(graph) for graph in given]
    with torch.no_grad():
        rows = module(*tensors_of(samples, inputs)).numpy()
    if level == "node":
        assert rows.shape == (len(SIZES), max(SIZES), 1)
    found = without_padding(rows, samples, artifact.config)
    np.testing.assert_allclose(found, np.concatenate(answers(artifact, given)), rtol=1e-4, atol=1e-4)


DENSE = (PairValues(num_values=2), PairCategories(sizes=(9,)), Positions(shape=(2, 3), num_basis=4, types=4))


def test_every_tensor_is_read() -> None:
    artifact = rich()
    artifact = rich(pair_inputs=(*artifact.config.model.pair_inputs, *DENSE))
    inputs = tensor_inputs(artifact.config)
    assert {each.name for each in inputs} == {
        *("mask", "edges", "node_categories", "node_values", "edge_categories", "edge_values", "graph_values"),
        *("svd", "distance", "pair_values", "pair_categories", "positions"),
    }
    module = portable(artifact, inputs)
    tensors = tensors_of([portable_preparation(artifact.config)(graph) for graph in graphs(artifact)], inputs)
    with torch.no_grad():
        before = module(*tensors)
        for number, each in enumerate(inputs):
            if each.name in ("mask", "edges"):
                continue
            changed = [*tensors]
            changed[number] = torch.zeros_like(tensors[number])
            assert (module(*changed) - before).abs().max() > 1e-3, each.name


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Artifact, Path]:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    artifact, folder = rich(), tmp_path_factory.mktemp("export") / "model"
    found = export(artifact, folder)
    assert set(found.deviations) == {"onnx", "torch"}
    assert all(far <= TOLERANCE for far in found.deviations.values())
    return artifact, folder


def run_onnx(folder: Path, samples: list[Sample], artifact: Artifact) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx")
    inputs = tensor_inputs(artifact.config)
    feeds = {each.name: tensor.numpy() for each, tensor in zip(inputs, tensors_of(samples, inputs), strict=True)}
    return session.run(None, {each.name: feeds[each.name] for each in session.get_inputs()})[0]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(40, 3, 17, 1, 25, 2, 8), (1,), (2, 2)])
def test_onnx_takes_any_number_of_graphs_and_nodes(exported: tuple[Artifact, Path], sizes: tuple[int, ...]) -> None:
    artifact, folder = exported
    given = graphs(artifact, sizes)
    samples = [portable_preparation(artifact.config)(graph) for graph in given]
    expected = np.concatenate(answers(artifact, given))
    np.testing.assert_allclose(run_onnx(folder, samples, artifact), expected, rtol=1e-4, atol=1e-4)
    program = torch.export.load(folder / "model.pt2").module()
    found = program(*tensors_of(samples, tensor_inputs(artifact.config))).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_schema_says_what_is_read_and_answered(exported: tuple[Artifact, Path]) -> None:
    _, folder = exported
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "model.pt2", "schema.json"}
    schema = json.loads((folder / "schema.json").read_text())
    shapes = {each["name"]: each["shape"] for each in schema["inputs"]}
    assert shapes["node_categories"] == ["graphs", "nodes", 2]
    assert shapes["distance"] == ["graphs", "nodes", "nodes"]
    assert shapes["svd"] == ["graphs", "nodes", 6]
    assert shapes["graph_values"] == ["graphs", 2]
    settings = {each["name"]: each["settings"] for each in schema["encodings"]}
    assert settings == {"svd": {"rank": 3, "weighted": False}, "distance": {"max_hops": 4}}
    assert schema["answers"]["columns"] == ["y"]
    assert schema["features"]["node_features"][0]["name"] == "x"
    assert max(schema["deviations"].values()) <= TOLERANCE


def test_the_schema_has_the_scales_of_graph_values_and_the_components() -> None:
    artifact = make()
    heat = Feature(name="heat", kind="continuous", mean=(300.0,), std=(10.0,))
    schema = CustomSchema(
        format="molecules",
        level="graph",
        kind="regression",
        targets=("y",),
        smiles="solute",
        more_smiles=("solvent",),
        graph_features=(heat,),
    )
    data = artifact.config.data.model_copy(update={"custom": schema})
    config = artifact.config.model_copy(update={"data": data})
    features = describe(Artifact(config, artifact.model, data=artifact.data), [], {})["features"]
    assert features["components"] == ["solute", "solvent"]
    assert [(each["name"], each["mean"], each["std"]) for each in features["graph_features"]] == [
        ("heat", [300.0], [10.0])
    ]


def test_a_model_that_answers_otherwise_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = rich()
    right = portable(artifact, tensor_inputs(artifact.config))

    def slightly_wrong(*_: object) -> Any:
        return lambda tensors: right(*tensors).detach().numpy() + 6e-4

    assert deviation(artifact, tensor_inputs(artifact.config), slightly_wrong()) == pytest.approx(6e-4 / 2, rel=0.1)
    monkeypatch.setitem(exporting._WRITERS, "torch", slightly_wrong)
    with pytest.raises(RunError, match=r"model.pt2.*0.0003"):
        export(artifact, tmp_path / "model", ["torch"])
    assert not list(tmp_path.iterdir())


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("kept")
    with pytest.raises(ArtifactError, match="export"):
        export(rich(), tmp_path)
    with pytest.raises(ConfigError, match="export"):
        export(rich(), tmp_path / "new", [])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"egt-graph\[export\]"):
        export(rich(), tmp_path / "model", ["onnx"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "more"), [("node", {}), ("edge", {}), ("edge", {"triplets": {"kind": "aggregation"}})]
)
def test_models_of_nodes_and_edges_are_exported(level: str, more: dict[str, Any], tmp_path: Path) -> None:
    found = export(rich(level, **more), tmp_path / "model")
    assert all(far <= TOLERANCE for far in found.deviations.values())


HOSTILE = ("../../y", "C:\\con", "é/\u202e", "a\"b'c", "x\ny", "${HOME}`id`|<b>", "answers", "mask")


@pytest.mark.slow
def test_names_in_the_data_are_text_and_nothing_else(tmp_path: Path) -> None:
    """Names of targets, features and categories stand in the schema alone; no file or tensor is called after them."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    targets, features = HOSTILE[::2], HOSTILE[1::2]
    rows = [
        {
            "id": f"../{k}",
            "edges": [[0, 1], [1, 2]],
            "nodes": {name: [k + 0.5 * c, k % 5, c] for c, name in enumerate(features)} | {"mask": [*HOSTILE[:3]]},
            "targets": {name: k % 7 + 0.25 * c for c, name in enumerate(targets)},
        }
        for k in range(30)
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = ["trainer.max_epochs=1", "model.num_layers=1", "trainer.baseline=false"]
    run = egt.train(tmp_path / "data.jsonl", [*targets], set=settings, out=tmp_path / "run", progress=False)
    folder = tmp_path / "out" / HOSTILE[3]
    export(run.artifact, folder)
    assert {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*")} == {
        HOSTILE[3],
        *(f"{HOSTILE[3]}/{name}" for name in ("model.onnx", "model.pt2", "schema.json")),
    }
    schema = json.loads((folder / "schema.json").read_text())
    assert schema["answers"]["columns"] == [*targets]
    assert {each["name"] for each in schema["features"]["node_features"]} == {*features, "mask"}
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    read = [each.name for each in model.graph.input]
    assert {*read} <= {each["name"] for each in schema["inputs"]}
    assert len({*read}) == len(read)
    assert [each.name for each in model.graph.output] == ["answers"]
    here = str(Path(exporting.__file__).parents[3]).encode()
    assert not [path.name for path in folder.iterdir() if here in path.read_bytes()]  # paths of this machine
