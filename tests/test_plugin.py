"""A package that egt has never seen adds an encoding, readout, task and layer, and all commands work with them."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.caches import fresh_cache
from tests.cli.runs import SMILES, TINY, molecules

PLUGIN = Path(__file__).parent / "plugin"
PARTS = ("model.pair_inputs+={kind: common_neighbors, most: 3}", "model.readout.kind=moments", "task.kind=poisson")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into, apart from this environment."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(folder), str(PLUGIN)], check=True, capture_output=True, text=True)
    return folder


def python(*words: str | Path, where: Path, plugin: Path | None) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with or without the package on its path."""
    kept = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = [*([] if plugin is None else [str(plugin)]), *kept]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "EGT_CACHE_DIR": fresh_cache(where)}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def trained(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and a run with the parts of the package, stopped after an epoch and resumed."""
    folder = tmp_path_factory.mktemp("work")
    molecules(folder / "rings.csv", rings=[float(smiles.count("1") // 2) for smiles in SMILES])
    settings = [*(s for s in TINY if not s.startswith("trainer")), *PARTS]
    for epochs, more in (("1", []), ("2", ["--resume"])):
        command = ["-m", "egt", "train", "rings.csv", "--target", "rings", "--out", "run", *more]
        done = python(*command, "--set", *settings, f"trainer.max_epochs={epochs}", where=folder, plugin=installed)
        assert done.returncode == 0, done.stderr
    return folder


def test_a_run_records_where_its_parts_come_from(trained: Path) -> None:
    config = yaml.safe_load((trained / "run" / "artifact" / "config.yaml").read_text())
    assert config["plugins"] == ["egt_moments"]
    assert config["model"]["readout"] == {"kind": "moments"}
    assert config["model"]["pair_inputs"][-1] == {"kind": "common_neighbors", "most": 3}
    assert config["task"] == {"kind": "poisson", "names": ["rings"], "auxiliary": []}


def test_a_resumed_run_has_both_epochs(trained: Path) -> None:
    rows = list(csv.DictReader((trained / "run" / "metrics.csv").open()))
    assert len(rows) == 2
    assert all(float(row["val_mae"]) >= 0 for row in rows)


def test_commands_evaluate_and_predict(trained: Path, installed: Path) -> None:
    done = python("-m", "egt", "evaluate", "run", "--json", where=trained, plugin=installed)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["metrics"]["mae"] >= 0
    done = python("-m", "egt", "predict", "run", "CCO", "nonsense", "-o", "out.csv", where=trained, plugin=installed)
    assert done.returncode == 0, done.stderr
    good, bad = csv.DictReader((trained / "out.csv").open())
    assert float(good["rings"]) > 0
    assert int(good["rings_count"]) == int(float(good["rings"]))
    assert bad["error"]
    assert not bad["rings"]


def test_python_predicts_what_the_command_does(trained: Path, installed: Path) -> None:
    code = "import egt; print(egt.load('run').predict(['CCO'])[0].values[0][0])"
    done = python("-c", code, where=trained, plugin=installed)
    assert done.returncode == 0, done.stderr
    command = python("-m", "egt", "predict", "run", "CCO", "-o", "one.csv", where=trained, plugin=installed)
    assert command.returncode == 0, command.stderr
    [row] = csv.DictReader((trained / "one.csv").open())
    assert float(row["rings"]) == pytest.approx(float(done.stdout), rel=1e-6)


def test_python_trains_and_resumes_with_the_parts(trained: Path, installed: Path) -> None:
    code = (
        "import egt\n"
        f"settings = {[*(s for s in TINY if not s.startswith('trainer')), *PARTS]!r}\n"
        "for epochs in (1, 2):\n"
        "    run = egt.train('rings.csv', target='rings', set=[*settings, f'trainer.max_epochs={epochs}'],\n"
        "                    out='python', resume=epochs > 1, progress=False)\n"
        "assert len(run.history) == 2\n"
        "assert run.artifact.config.plugins == ('egt_moments',)\n"
        "assert list(run.predict(['CCO']).to_pandas().columns)[2:4] == ['rings', 'rings_count']\n"
    )
    done = python("-c", code, where=trained, plugin=installed)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_layer_trains_in_two_processes_as_in_one_resumes_and_predicts(installed: Path, tmp_path: Path) -> None:
    molecules(tmp_path / "rings.csv", rings=[float(smiles.count("1") // 2) for smiles in SMILES])
    settings = [*(s for s in TINY if not s.startswith("trainer")), "model.layer=gated", "model.num_layers=2"]
    curves = []
    for devices in (1, 2):
        for epochs, more in (("1", []), ("2", ["--resume"])):
            command = ["-m", "egt", "train", "rings.csv", "--target", "rings", "--out", f"run{devices}", *more, "--set"]
            limits = [f"trainer.max_epochs={epochs}", f"trainer.devices={devices}"]
            done = python(*command, *settings, *limits, where=tmp_path, plugin=installed)
            assert done.returncode == 0, done.stderr
        rows = list(csv.DictReader((tmp_path / f"run{devices}" / "metrics.csv").open()))
        curves.append([[float(row[name]) for name in ("train_loss", "val_loss")] for row in rows])
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-4)
    assert len(curves[0]) == 2
    done = python("-m", "egt", "predict", "run2", "CCO", "-o", "out.csv", where=tmp_path, plugin=installed)
    assert done.returncode == 0, done.stderr


def test_without_the_package_the_error_names_it(trained: Path) -> None:
    for command in (["evaluate", "run"], ["predict", "run", "CCO"], ["train", "run", "--resume"]):
        done = python("-m", "egt", *command, where=trained, plugin=None)
        assert done.returncode == 2, done.stderr
        assert "egt_moments" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_package_that_cannot_be_imported_is_named(trained: Path, installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    metadata = broken / "egt_broken-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: egt-broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[egt.parts]\nbroken = egt_broken_module\n")
    (broken / "egt_broken_module.py").write_text("import a_module_that_is_not_there\n")
    done = python("-m", "egt", "train", "rings.csv", "--set", "task.kind=poisson", where=trained, plugin=broken)
    assert done.returncode == 2
    assert "egt-broken" in done.stderr
    assert "Traceback" not in done.stderr
