"""Many molecules are predicted by one process for each processor: the same answers, in the same order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import egt
from egt.data.preparing import Prepared, compute_in_workers, prepare_in_memory
from egt.errors import RunError
from egt.inference import predictor
from egt.inference.answering import Query
from egt.inference.predictor import Predictor
from tests.cli.runs import SMILES, TINY

AT_ONCE = 7


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of molecules, with a calibration."""
    folder = tmp_path_factory.mktemp("sharing")
    frame = pd.DataFrame({"smiles": SMILES, "y": [len(smiles) + 0.01 * k for k, smiles in enumerate(SMILES)]})
    egt.train(frame, "y", set=[*TINY, "split.fractions=[0.6, 0.3, 0.1]"], out=folder / "run", progress=False)
    return folder / "run"


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts of a few molecules, and two processors whatever machine this is."""
    monkeypatch.setattr(predictor, "RECORDS_AT_ONCE", AT_ONCE)
    for module in ("egt.inference.predictor", "egt.data.preparing"):
        monkeypatch.setattr(f"{module}.num_processors", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def rows() -> pd.DataFrame:
    """Four parts: molecules, one that is none, and one that the model has not seen the like of."""
    smiles = [*SMILES, "not a molecule", "[Pu]", *SMILES][: 4 * AT_ONCE - 2]
    return pd.DataFrame({"smiles": smiles, "batch": [f"b{k}" for k in range(len(smiles))]})


def predicted(model: Predictor, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What several processes say, and what this one says; which of them it was is checked."""
    asked_for: list[int] = []

    def counted(*words: Any, **options: Any) -> Iterator[Any]:
        asked_for.append(os.getpid())
        return compute_in_workers(*words, **options)

    monkeypatch.setattr(predictor, "compute_in_workers", counted)
    shared = model.predict(rows(), **asked).to_pandas()
    assert asked_for
    monkeypatch.setattr(predictor, "num_processors", lambda: 1)
    alone = model.predict(rows(), **asked).to_pandas()
    assert len(asked_for) == 1
    return shared, alone


@pytest.mark.usefixtures("two_processors")
def test_several_processes_say_what_one_says(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, alone = predicted(egt.load(trained, device="cpu"), monkeypatch, keep=["batch"], interval=0.5)
    assert list(shared["smiles"]) == list(rows()["smiles"])
    assert list(shared["batch"]) == list(rows()["batch"])
    bad = len(SMILES)
    assert "not a molecule" in shared["error"][bad]
    assert "Pu" in shared["warning"][bad + 1]
    numbers = ["y", "y_low", "y_high"]
    np.testing.assert_allclose(shared[numbers], alone[numbers], rtol=1e-5, atol=1e-6)
    pd.testing.assert_frame_equal(shared.drop(columns=numbers), alone.drop(columns=numbers))


@pytest.mark.usefixtures("two_processors")
def test_progress_counts_the_rows_that_are_done(trained: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    egt.load(trained, device="cpu").predict(rows(), watch=lambda *call: told.append(call))
    total = len(rows())
    steps = [call for call in told if call[0] == "predicting"]
    assert steps == [("predicting", min(k * AT_ONCE, total), total) for k in range(1, 5)]


@pytest.mark.usefixtures("two_processors")
def test_each_process_computes_with_one_thread_and_is_not_this_one(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = egt.load(trained, device="cpu")
    plain = Query.answer

    def told(self: Query, part: Prepared, watch: Any = None) -> Any:
        threads = torch.get_num_threads()
        return [replace(each, id=f"{os.getpid()} {threads}") for each in plain(self, part)]

    monkeypatch.setattr(Query, "answer", told)
    said = {each.id.split()[0]: each.id.split()[1] for each in model.predict(rows())}
    assert set(said.values()) == {"1"}
    assert str(os.getpid()) not in said
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_processors")
def test_a_process_that_is_killed_is_an_error(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: Query, part: Prepared, watch: Any = None) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Query, "answer", killed)
    with pytest.raises(RunError, match="process"):
        egt.load(trained, device="cpu").predict(rows())


@pytest.mark.usefixtures("two_processors")
@pytest.mark.parametrize("why", ["few", "large", "one thread", "one processor", "graphs"])
def test_what_one_process_does_alone(why: str, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = egt.load(trained, device="cpu")
    data: Any = rows()
    if why == "few":
        data = data[:AT_ONCE]
    elif why == "large":
        monkeypatch.setattr(predictor, "_LONGEST", max(map(len, SMILES)) - 1)
    elif why == "one thread":
        torch.set_num_threads(1)
    elif why == "one processor":
        monkeypatch.setattr(predictor, "num_processors", lambda: 1)
    else:
        sample = next(iter(prepare_in_memory(*opened(model, data)))).samples[0]
        data = [sample.graph] * len(rows())
    monkeypatch.setattr(predictor, "compute_in_workers", None)
    assert len(model.predict(data)) == len(data)


def opened(model: Predictor, data: Any) -> tuple[Any, str, Any]:
    """What `prepare_in_memory` needs."""
    from egt.config.run_data import open_new, preparation

    return open_new(model.config, data), "all", preparation(model.config)
