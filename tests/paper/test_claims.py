"""A run is in one pair of hands, and comes free when they are gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from egt import files
from egt.errors import RunStopped
from egt.files import lease_holder
from egt.training.callbacks import claim_run


def test_a_claim_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    place = tmp_path / "row" / "seed0"
    with claim_run(place) as first:
        assert first is not None
        assert lease_holder(place)
        with claim_run(place) as second:
            assert second is None
        assert first.lease.is_held()
    assert not lease_holder(place)
    assert not list(place.parent.iterdir())
    with claim_run(place) as third:
        assert third is not None


def test_a_claim_of_a_process_that_is_gone_is_taken_over_at_once(tmp_path: Path) -> None:
    code = "import sys, os; from pathlib import Path; from egt.training.callbacks import claim_run\n"
    code += f"with claim_run(Path({str(tmp_path / 'seed0')!r})) as claim: os._exit(0 if claim else 1)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert (tmp_path / "seed0.claim-1").exists()
    with claim_run(tmp_path / "seed0") as claim:
        assert claim is not None
        assert claim.lease.number == 2
    assert not list(tmp_path.iterdir())


def other_machine(place: Path, number: int, age: float) -> Path:
    """A claim of a machine that we cannot look into, last written to some seconds ago."""
    file = place.with_name(f"{place.name}.claim-{number}")
    file.write_text(json.dumps({"machine": "elsewhere", "process": 1, "space": "another"}))
    os.utime(file, (time.time() - age,) * 2)
    return file


def test_a_claim_of_another_machine_lasts_as_long_as_it_is_renewed(tmp_path: Path) -> None:
    place = tmp_path / "seed0"
    other_machine(place, 1, files.LEASE_SECONDS - 60)
    assert lease_holder(place) == "elsewhere"
    with claim_run(place) as claim:
        assert claim is None
    other_machine(place, 1, files.LEASE_SECONDS + 60)
    assert lease_holder(place) == ""
    with claim_run(place) as claim:
        assert claim is not None


def test_a_sleeper_finds_out_that_it_lost_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "HEARTBEAT_SECONDS", 0.0)
    place = tmp_path / "seed0"
    with claim_run(place) as claim:
        assert claim is not None
        claim.on_step(None, None)
        other_machine(place, 2, 0)
        with pytest.raises(RunStopped, match="another process has taken over"):
            claim.on_step(None, None)
    assert lease_holder(place) == "elsewhere"  # what is not ours stays


def test_a_heartbeat_does_not_take_a_lost_run_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "HEARTBEAT_SECONDS", 0.02)
    with claim_run(tmp_path / "seed0") as claim:
        assert claim is not None
        claim.lease.file.unlink()  # as another process does that took over and has finished
        time.sleep(0.1)
        assert not claim.lease.is_held()


def test_the_heartbeat_renews_a_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "HEARTBEAT_SECONDS", 0.02)
    with claim_run(tmp_path / "seed0") as claim:
        assert claim is not None
        os.utime(claim.lease.file, (0, 0))
        end = time.monotonic() + 10
        while claim.lease.file.stat().st_mtime == 0 and time.monotonic() < end:
            time.sleep(0.02)
        assert claim.lease.file.stat().st_mtime > 0
