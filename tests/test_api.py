"""`egt.train` and `egt.load` from Python: the same runs, numbers and tables as those of the commands, for any data."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egt
from egt.config.load import read_config
from egt.data.custom import CustomSchema, GraphsSource, open_custom
from egt.data.source import TargetSchema
from egt.errors import ArtifactError, ConfigError, DataError
from egt.graph import Graph
from egt.inference.artifact import load_artifact
from tests.caches import fresh_cache
from tests.cli.runs import SMILES, TINY, molecules, write_csv
from tests.cli.runs import egt as command

Capture = pytest.CaptureFixture[str]
QUICK = {setting.split("=")[0]: int(setting.split("=")[1]) for setting in TINY}


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EGT_CACHE_DIR", fresh_cache(tmp_path))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return molecules(tmp_path / "sizes.csv", length=[10.3 * len(text) for text in SMILES])


def values(answers: Sequence[Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([answer.values for answer in answers])


def ring(size: int, number: int) -> Graph:
    ends = np.arange(size)
    return Graph.undirected(
        num_nodes=size,
        edge_index=np.stack([ends, (ends + 1) % size]),
        node_categories=[[k % 3] for k in range(size)],
        node_values=[[0.5 * k] for k in range(size)],
        edge_categories=[[k % 2] for k in range(size)],
        graph_targets=[float(size)],
        id=f"ring {number}",
    )


RINGS = [ring(3 + number % 7, number) for number in range(24)]


def test_python_gives_what_the_command_gives(table: Path, tmp_path: Path, capsys: Capture) -> None:
    done = command(capsys, "train", table, "--out", "by-command", "--set", *TINY, "--json")
    assert done.code == 0, done.err
    seen: list[CustomSchema] = []
    run = egt.train(table, set=QUICK, out="by-python", progress=False, show=seen.append)
    assert run.artifact.metrics == done.json["metrics"]
    assert seen[0].targets == ("length",)
    assert read_config(Path("by-python/config.yaml")) == read_config(Path("by-command/config.yaml"))
    new = write_csv(tmp_path / "new.csv", [{"smiles": text} for text in ("CCO", "nonsense", "CCCCN")])
    assert command(capsys, "predict", "by-command", new, "-o", tmp_path / "command.csv").code == 0
    found = egt.load("by-python").predict(new)
    found.to_csv(tmp_path / "python.csv")
    assert (tmp_path / "python.csv").read_bytes() == (tmp_path / "command.csv").read_bytes()
    assert [bool(answer.error) for answer in found] == [False, True, False]
    assert found.table()[0]["smiles"] == "CCO"
    evaluated = command(capsys, "evaluate", "by-command", "--json").json["metrics"]
    assert run.model.evaluate("test") == evaluated


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_is_read_like_its_file(library: str, table: Path, capsys: Capture) -> None:
    frames = pytest.importorskip(library)
    frame = frames.read_csv(table)
    by_file = egt.train(table, set=QUICK, out="file", progress=False)
    by_frame = egt.train(frame, "length", set=QUICK, out="frame", progress=False)
    assert by_frame.artifact.metrics == by_file.artifact.metrics
    new = frames.DataFrame({"smiles": ["CCO", "CC(C)O"]})
    np.testing.assert_array_equal(values(egt.load("frame").predict(new)), values(by_file.predict(["CCO", "CC(C)O"])))
    done = command(capsys, "predict", "frame", "CCO", "--json")
    assert done.json["predictions"][0]["length"] == pytest.approx(float(values(by_frame.predict(["CCO"]))[0, 0]))
    with pytest.raises(DataError, match="hand it over again"):
        egt.load("frame").evaluate("test")
    assert egt.load("frame").evaluate("test", of=frame) == by_frame.artifact.metrics["test"]


def test_a_pandas_table_comes_back(table: Path) -> None:
    pandas = pytest.importorskip("pandas")
    run = egt.train(table, set=QUICK, progress=False)
    assert run.path == Path("runs/sizes/artifact")
    frame = run.predict(["CCO", "nonsense"]).to_pandas()
    assert list(frame.columns) == ["id", "smiles", "length", "familiarity", "warning", "error"]
    assert frame["smiles"].tolist() == ["CCO", "nonsense"]
    assert pandas.isna(frame["length"]).tolist() == [False, True]


def test_graphs_train_and_predict() -> None:
    run = egt.train(RINGS, set=QUICK, out="rings", progress=False)
    schema = run.artifact.config.data.custom
    assert schema is not None
    assert (schema.format, schema.kind, schema.targets) == ("graphs", "multiclass", ("y",))
    again = egt.load("rings").predict(RINGS[:5])
    assert [answer.id for answer in again] == [graph.id for graph in RINGS[:5]]
    np.testing.assert_array_equal(values(again), values(run.predict(RINGS[:5])))
    one = egt.load("rings").predict(RINGS[3])
    np.testing.assert_allclose(values(one), values(again[3:4]), rtol=1e-4, atol=1e-6)
    with pytest.raises(DataError, match="hand it over again"):
        egt.load("rings").evaluate("test")
    metrics = egt.load("rings").evaluate("test", of=RINGS)
    assert metrics == run.artifact.metrics["test"]


def test_splits_that_are_given_are_kept() -> None:
    parts = {"train": RINGS[:16], "val": RINGS[16:20], "test": RINGS[20:]}
    run = egt.train(parts, set=QUICK | {"overrides.kind": "regression"}, out="rings", progress=False)
    assert run.artifact.data["card"]["split_sizes"] == {"train": 16, "val": 4, "test": 4}
    assert run.artifact.config.task.kind == "regression"


def test_an_interrupted_run_on_graphs_goes_on_with_them() -> None:
    full = egt.train(RINGS, set=QUICK, out="full", progress=False)
    egt.train(RINGS, set=QUICK | {"trainer.max_epochs": 1}, out="part", progress=False)
    with pytest.raises(ConfigError, match="run"):
        egt.train(RINGS, set=QUICK, out="part", progress=False)
    resumed = egt.train(RINGS, set={"trainer.max_epochs": 2}, out="part", resume=True, progress=False)
    assert resumed.artifact.metrics == full.artifact.metrics


def test_fitting_a_source_keeps_what_is_needed_to_predict(tmp_path: Path) -> None:
    settings = QUICK | {"overrides.kind": "regression"}
    config = egt.train(RINGS, set=settings, out="first", progress=False).artifact.config
    plain = config.model_copy(
        update={"data": config.data.model_copy(update={"custom": None, "source": "mine"}), "name": "mine"}
    )
    source = GraphsSource({"train": RINGS[:16], "val": RINGS[16:]}, TargetSchema("graph", "regression", ("y",)))
    outcome = egt.fit(plain, tmp_path / "run", source=source, show_progress=False)
    assert outcome.artifact.config.data.custom is not None
    found = egt.load(tmp_path / "run").predict(RINGS[:3])
    assert found.num_errors == 0
    assert found.num_warnings == 0


def test_networkx_graphs() -> None:
    networkx = pytest.importorskip("networkx")

    def made(size: int) -> Any:
        graph = networkx.cycle_graph(size)
        networkx.set_node_attributes(graph, {node: "CNO"[node % 3] for node in graph}, "element")
        graph.graph["y"] = 0.5 * size
        return graph

    graphs = [made(3 + number % 6) for number in range(20)]
    run = egt.train(graphs, "y", task="graph", set=QUICK | {"overrides.kind": "regression"}, out="rings")
    found = egt.load("rings").predict(graphs[:4])
    np.testing.assert_array_equal(values(found), values(run.predict(graphs[:4])))
    assert list(found.table()[0]) == ["id", "warning", "error", "y"]


def test_pyg_data() -> None:
    torch = pytest.importorskip("torch")
    geometric = pytest.importorskip("torch_geometric.data")

    def made(size: int) -> Any:
        ends = torch.arange(size)
        there = torch.stack([ends, (ends + 1) % size])
        return geometric.Data(
            x=torch.randn(size, 2), edge_index=torch.cat([there, there.flip(0)], 1), y=torch.tensor([0.37 * size])
        )

    datas = [made(3 + number % 6) for number in range(20)]
    run = egt.train(datas, set=QUICK | {"overrides.kind": "regression"}, out="rings", progress=False)
    found = egt.load("rings").predict(datas[:4])
    np.testing.assert_array_equal(values(found), values(run.predict(datas[:4])))
    assert egt.load("rings").evaluate("test", of=datas) == run.artifact.metrics["test"]


def test_a_preset_and_a_config() -> None:
    small = {"data.options": {"split_sizes": {"train": 4, "val": 2, "test": 2}}, "data.batch_size": 2}
    settings = small | {"trainer.max_epochs": 1, "model.num_layers": 1}
    by_name = egt.train("pattern-100k", set=settings, out="name", progress=False)
    assert isinstance(egt.preset("pattern-100k"), egt.RunConfig)
    by_config = egt.train(egt.preset("pattern-100k"), set=settings, out="config", progress=False)
    assert by_config.artifact.metrics == by_name.artifact.metrics
    Path("run.yaml").write_text(Path("name/config.yaml").read_text())
    by_file = egt.train("run.yaml", out="file", progress=False)
    assert by_file.artifact.metrics == by_name.artifact.metrics
    assert load_artifact(by_name.path).config.data.custom is None
    with pytest.raises(ConfigError, match="custom"):
        egt.train("pattern-100k", "y")


def test_fine_tuning_starts_from_a_run(table: Path) -> None:
    first = egt.train(table, set=QUICK, out="first", progress=False)
    tuned = egt.train(table, set={"trainer.max_epochs": 1}, start="first", keep_head=True, out="tuned", progress=False)
    assert tuned.artifact.config.model == first.artifact.config.model
    assert tuned.artifact.config.start is not None
    with pytest.raises(ConfigError, match="--from"):
        egt.train(table, keep_head=True)


@pytest.mark.parametrize("given", [["x=1"], {"x": 1}])
def test_settings_as_words_or_as_a_mapping(given: Any, table: Path) -> None:
    with pytest.raises(ConfigError, match="'x'"):
        egt.train(table, set=given, out="run")


def test_embeddings_are_aligned_with_nodes_and_pairs() -> None:
    run = egt.train(RINGS, set=QUICK, out="rings", progress=False)
    model = run.artifact.config.model
    found = run.model.encode([RINGS[0], RINGS[5]])
    for graph, embedding in zip([RINGS[0], RINGS[5]], found, strict=True):
        assert embedding is not None
        assert embedding.id == graph.id
        assert embedding.nodes.shape == (graph.num_nodes, model.node_width)
        assert embedding.pairs.shape == (graph.num_nodes**2, model.edge_width)
        pairs = [[i, j] for i in range(graph.num_nodes) for j in range(graph.num_nodes)]
        assert embedding.pair_index.T.tolist() == pairs
        assert embedding.readout.shape == (1, model.node_width)
    alone = run.model.encode(RINGS[5])[0]
    assert alone is not None
    assert found[1] is not None
    np.testing.assert_allclose(alone.readout, found[1].readout, rtol=1e-3, atol=1e-5)


def files_below(*folders: Path) -> dict[Path, float]:
    return {path: path.stat().st_mtime for folder in folders for path in folder.rglob("*")}


def test_predicting_molecules_writes_no_file_and_reads_each_once(
    table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    egt.train(table, set=QUICK, out="run", progress=False)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    parsed = count_parsed(monkeypatch)
    before = files_below(tmp_path)
    done = command(capsys, "predict", "run", "CCO", "CCN")
    assert done.code == 0, done.err
    assert files_below(tmp_path) == before
    assert parsed == ["CCO", "CCN"]
    assert len(list(csv.DictReader(done.out.splitlines()))) == 2


def test_training_reads_each_molecule_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egt.data.preparing.num_processors", lambda: 1)
    parsed = count_parsed(monkeypatch)
    egt.train(table, set=QUICK, out="run", progress=False)
    assert sorted(parsed) == sorted(SMILES)


def count_parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list to which every SMILES is added that is parsed from now on."""
    from egt.data import molecules as module

    parsed: list[str] = []
    parse: Callable[..., Any] = module.parse_smiles

    def counting(smiles: Sequence[str], **options: bool) -> Any:
        parsed.extend(smiles)
        return parse(smiles, **options)

    monkeypatch.setattr(module, "parse_smiles", counting)
    return parsed


@pytest.mark.parametrize("ensemble", [None, 2])
def test_the_run_folder_is_tried_once(table: Path, monkeypatch: pytest.MonkeyPatch, ensemble: int | None) -> None:
    tried: list[Path] = []
    for module in ("egt.api", "egt.training.run", "egt.training.ensemble"):
        monkeypatch.setattr(f"{module}.try_folder", tried.append)
    egt.train(table, set={**QUICK, "trainer.max_epochs": 1}, out="tried", ensemble=ensemble, progress=False)
    assert tried == [Path("tried")]


def test_one_molecule_is_a_text(table: Path) -> None:
    model = egt.train(table, set=QUICK, out="run").model
    (one,), (same,) = model.predict("CCO"), model.predict(["CCO"])
    assert (one.smiles, one.error) == ("CCO", "")
    np.testing.assert_allclose(one.values, same.values, rtol=1e-6)
    for text in ("absent.csv", "no molecule", ""):
        with pytest.raises(DataError):
            model.predict(text)
    with pytest.raises(DataError, match=r"absent.csv"):
        model.predict("absent.csv")


def test_one_row_of_several_molecules_is_a_text(tmp_path: Path) -> None:
    rows = [{"solute": a, "solvent": b, "y": k} for k, (a, b) in enumerate(zip(SMILES, SMILES[::-1], strict=True))]
    data = write_csv(tmp_path / "pairs.csv", rows)
    model = egt.train(data, "y", smiles=["solute", "solvent"], set=QUICK, out="run").model
    np.testing.assert_allclose(model.predict("CCO,C")[0].values, model.predict([("CCO", "C")])[0].values, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set": 5}, "settings"),
        ({"set": [5]}, "settings"),
        ({"target": 5}, "target"),
        ({"target": [None]}, "target"),
        ({"smiles": 5}, "smiles"),
        ({"features": 5}, "features"),
    ],
)
def test_arguments_of_a_wrong_type_are_one_message(options: dict[str, Any], message: str, table: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        egt.train(table, **options)


def test_what_is_no_path_of_a_model_is_said() -> None:
    with pytest.raises(ArtifactError, match="NoneType"):
        egt.load(None)


def test_a_split_without_rows_is_warned_of_and_not_suggested(
    tmp_path: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    data = write_csv(tmp_path / "few.csv", [{"smiles": text, "y": k} for k, text in enumerate(SMILES[:4])])
    expected = "no row is left for the test split: 4 rows are divided random 0.8/0.1/0.1; divide them otherwise"
    for name, settings in (("found", ()), ("asked", ("split.fractions=[0.8, 0.2, 0.0]",))):
        caplog.clear()
        done = command(capsys, "train", data, "--out", name, "--set", *TINY, "overrides.kind=regression", *settings)
        assert done.code == 0, done.err
        assert (expected in caplog.text) == (name == "found")  # nobody misses a split that was not asked for
        assert f"next: egt predict {name}" in done.err
    scaffolds = open_custom(data, target="y", split="scaffold", overrides={"kind": "regression"}).warnings()
    assert any("no row is left for the val split" in warning for warning in scaffolds)
