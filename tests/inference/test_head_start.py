"""The first molecules of a file are prepared before torch is loaded; what comes of them is the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import egt
from egt.config.preparation import preparation
from egt.data.source import ALL
from egt.data.store import prepare_in_memory
from egt.data.store.chunks import samples_of
from egt.inference import head_start as module
from egt.inference.head_start import head_start
from tests.cli.runs import SMILES, TINY

AT_ONCE = 6
ROWS = [*SMILES, "not a molecule", *SMILES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a file for it."""
    folder = tmp_path_factory.mktemp("head_start")
    frame = pd.DataFrame({"smiles": SMILES, "y": [len(smiles) + 0.01 * k for k, smiles in enumerate(SMILES)]})
    egt.train(frame, "y", set=TINY, out=folder / "run", progress=False)
    pd.DataFrame({"smiles": ROWS}).to_csv(folder / "new.csv", index=False)
    pd.DataFrame({"smiles": ROWS[:AT_ONCE]}).to_csv(folder / "few.csv", index=False)
    return folder


@pytest.fixture
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if torch were not loaded and a processor idle; with small parts."""
    monkeypatch.setattr(module, "_is_worth_it", lambda: True)
    monkeypatch.setattr(module, "RECORDS_AT_ONCE", AT_ONCE)


@pytest.mark.usefixtures("worth_it")
def test_parts_that_are_ready_are_those_of_the_file(folder: Path) -> None:
    with head_start(str(folder / "run"), str(folder / "new.csv"), ()) as begun:
        assert begun is not None
        while len(begun.parts.made()) < 3:
            time.sleep(0.01)
        ready = dict(begun.parts.take())
    assert set(ready) >= {0, 1, 2}
    config = egt.load(folder / "run").config
    [whole] = prepare_in_memory(begun.source, ALL, preparation(config), num_workers=1)
    samples = dict(zip(whole.rows, whole.samples, strict=True))
    for number, part in ready.items():
        assert part.num_records == len(ROWS[number * AT_ONCE :][:AT_ONCE])
        for row, sample in zip(part.rows.tolist(), samples_of(part, preparation(config)), strict=True):
            assert number * AT_ONCE <= row < (number + 1) * AT_ONCE
            whole_sample = samples[row]
            np.testing.assert_array_equal(sample.graph.node_categories, whole_sample.graph.node_categories)
            for one, other in ((sample.node, whole_sample.node), (sample.pair, whole_sample.pair)):
                assert one.keys() == other.keys() != set()
                for name, array in one.items():
                    np.testing.assert_array_equal(array, other[name])


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize(
    ("artifact", "file", "settings"),
    [
        ("run", "few.csv", ()),
        ("run", "missing.csv", ()),
        ("nowhere", "new.csv", ()),
        ("run", "new.csv", ("overrides.smiles=nothing",)),
        ("run", "new.csv", ("model.num_layers=7",)),
    ],
)
def test_what_is_wrong_or_small_is_left_to_the_command(
    folder: Path, artifact: str, file: str, settings: tuple[str, ...]
) -> None:
    with head_start(str(folder / artifact), str(folder / file), settings) as begun:
        assert begun is None


def test_nothing_is_begun_where_torch_is_loaded(folder: Path) -> None:
    with head_start(str(folder / "run"), str(folder / "new.csv"), ()) as begun:
        assert begun is None


CODE = f"""
import sys
import time
import egt.processors
egt.processors.num_processors = lambda: 2
from egt.inference import head_start
head_start.RECORDS_AT_ONCE = {AT_ONCE}
taken = []
plain = head_start.Ahead.take
def take(self):
    while len(self.made()) < 2:
        time.sleep(0.01)
    found = plain(self)
    taken.extend(found)
    return found
head_start.Ahead.take = take
from egt.cli.main import main
try:
    main(["predict", "run", "new.csv", "-o", sys.argv[1]])
except SystemExit as end:
    assert not end.code
assert taken[:2] == [0, 1], taken
"""


def test_the_command_goes_on_with_what_was_begun(folder: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", CODE, "shared.csv"], cwd=folder, check=True, env=environment)
    expected = egt.load(folder / "run").predict(str(folder / "new.csv")).to_pandas()
    found = pd.read_csv(folder / "shared.csv", keep_default_na=False)
    assert list(found["smiles"]) == ROWS
    assert [bool(error) for error in found["error"]] == [smiles == "not a molecule" for smiles in ROWS]
    known = found["error"] == ""
    assert (found["y"][known].astype(float) - expected["y"][known]).abs().max() < 1e-5
