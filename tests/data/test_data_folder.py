from __future__ import annotations

from pathlib import Path

import pytest

from egt.data import download as module
from egt.data.download import data_folder, find_file, fingerprint, missing_files


def test_the_argument_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGT_DATA_DIR", "/from/environment")
    assert data_folder("/given") == Path("/given")
    assert data_folder() == Path("/from/environment")
    monkeypatch.delenv("EGT_DATA_DIR")
    assert data_folder() == Path.home() / ".cache" / "egt" / "data"


def test_the_first_candidate_that_exists_is_found(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("b")
    assert find_file(tmp_path, ["a", "b"]) == tmp_path / "b"
    assert find_file(tmp_path, ["a"]) is None


def test_the_error_names_the_files_the_folder_and_the_address(tmp_path: Path) -> None:
    text = str(missing_files("zinc", tmp_path, ["x/y.h5"], "https://example.org/z"))
    assert str(tmp_path / "x/y.h5") in text
    assert "https://example.org/z" in text
    assert "EGT_DATA_DIR" in text


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
