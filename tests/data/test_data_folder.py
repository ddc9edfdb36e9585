from __future__ import annotations

from pathlib import Path

import pytest

from egt.data import download as module
from egt.data.benchmark import open_benchmark
from egt.data.download import data_folder, fingerprint
from egt.errors import DataError


def test_the_argument_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_DATA_DIR", "/from/environment")
    assert data_folder("/given") == Path("/given")
    assert data_folder() == Path("/from/environment")
    monkeypatch.delenv("EGT_DATA_DIR")
    assert data_folder() == Path.home() / ".cache" / "egt" / "data"


def test_the_error_names_the_files_the_folder_and_the_address(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        open_benchmark("zinc", tmp_path)
    for part in (str(tmp_path / "ZINC" / "ZINC.h5"), "https://", "EGT_DATA_DIR"):
        assert part in str(raised.value)


@pytest.mark.parametrize("limit", [10**9, 4])
def test_the_fingerprint_follows_content_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(module, "_WHOLE_FILE_LIMIT", limit)
    monkeypatch.setattr(module, "_SAMPLE", 2)
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    first = fingerprint([path], "a", 1)
    assert fingerprint([path], "a", 1) == first
    assert fingerprint([path], "a", 2) != first
    path.write_bytes(b"0123456780")
    assert fingerprint([path], "a", 1) != first
