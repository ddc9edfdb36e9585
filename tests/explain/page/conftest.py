"""The page of a small model of molecules that is kept with the tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import egt
from egt.explain.page.server import Server
from egt.explain.page.session import Session
from egt.inference.predictor import Predictor, load

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/v0_1"


def session_of(name: str, data: str, folder: Path) -> Session:
    """A session of a kept model in a run folder, with its training data."""
    shutil.copytree(FIXTURES / name / "artifact", folder / "artifact")
    shutil.copy(FIXTURES / name / "history.csv", folder / "metrics.csv")
    artifact = load(folder).artifact
    found = artifact.config.data.model_copy(update={"source": str(FIXTURES / name / data)})
    config = artifact.config.model_copy(update={"data": found})
    return Session.of(folder, Predictor(replace(artifact, config=config)))


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session_of("molecules", "molecules.csv", tmp_path_factory.mktemp("molecules"))


@pytest.fixture(scope="session")
def looked(session: Session) -> dict[str, Any]:
    """What the page is told about a molecule."""
    return session.look(session.smiles([ASPIRIN])["data"], 0)


@pytest.fixture(scope="session")
def node_session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session_of("nodes", "graphs.jsonl", tmp_path_factory.mktemp("nodes"))


TINY = {
    "model.num_layers": 1,
    "model.node_width": 16,
    "model.edge_width": 8,
    "model.num_heads": 2,
    "trainer.max_epochs": 1,
}


@pytest.fixture(scope="session")
def pair_session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Two models that read a temperature beside the molecule, with a calibration."""
    folder = tmp_path_factory.mktemp("pair")
    lines = [f"{'C' * (k % 12 + 1)}O,{k},{k / 3}" for k in range(60)]
    (folder / "data.csv").write_text("\n".join(["smiles,temperature,solubility", *lines]))
    settings = {**TINY, "split.fractions": [0.5, 0.4, 0.1]}
    options: dict[str, Any] = {"features": ["temperature"], "ensemble": 2, "progress": False}
    egt.train(folder / "data.csv", "solubility", set=settings, out=folder / "run", **options)
    return Session.of(folder / "run", load(folder / "run"))


@pytest.fixture(scope="session")
def class_session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A model of two classes, with a calibration."""
    folder = tmp_path_factory.mktemp("classes")
    lines = [f"{'C' * (k % 12 + 1)}{'ON'[k % 2]},{('yes', 'no')[k % 2]}" for k in range(60)]
    (folder / "data.csv").write_text("\n".join(["smiles,kind", *lines]))
    settings = {**TINY, "split.fractions": [0.5, 0.4, 0.1]}
    egt.train(folder / "data.csv", "kind", set=settings, out=folder / "run", progress=False)
    return Session.of(folder / "run", load(folder / "run"))


@pytest.fixture(scope="session")
def class_server(class_session: Session) -> Iterator[Server]:
    yield from serving(class_session)


@pytest.fixture(scope="session")
def server(session: Session) -> Iterator[Server]:
    yield from serving(session)


@pytest.fixture(scope="session")
def pair_server(pair_session: Session) -> Iterator[Server]:
    yield from serving(pair_session)


def serving(session: Session) -> Iterator[Server]:
    """The page of a session, while it is looked at."""
    with Server(session, 0) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()
