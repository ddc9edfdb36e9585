"""Paths that come from users and machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from egt.errors import ConfigError, DataError, RunError
from egt.files import exists, result_folder, user_folder


def test_a_text_that_can_be_no_name_names_no_file(tmp_path: Path) -> None:
    assert exists(tmp_path)
    assert exists(str(tmp_path))
    assert not exists(tmp_path / "none")
    assert not exists("C" * 300)
    assert not exists("C\0C")


def test_the_folder_of_a_variable_is_taken_before_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("EGT_TEST_DIR", "/data")
    assert user_folder("EGT_TEST_DIR", ".cache", "egt") == Path("/data")
    monkeypatch.delenv("EGT_TEST_DIR")
    assert user_folder("EGT_TEST_DIR", ".cache", "egt") == Path("/home/me/.cache/egt")


def test_without_a_home_folder_the_variable_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(DataError, match=r"no home folder.*set EGT_TEST_DIR"):
        user_folder("EGT_TEST_DIR", ".cache")


def test_results_go_to_a_folder_of_their_own(tmp_path: Path) -> None:
    folder = result_folder(tmp_path / "a" / "b", "page.html")
    assert folder.is_dir()
    (folder / "nodes.csv").write_text("mine")
    with pytest.raises(ConfigError, match="holds other files, which could be overwritten"):
        result_folder(folder, "page.html")
    (folder / "page.html").write_text("")
    assert result_folder(folder, "page.html") == folder
    with pytest.raises(ConfigError, match=r"nodes.csv: is a file; results go to a folder, so choose another name .-o."):
        result_folder(folder / "nodes.csv", "page.html")
    with pytest.raises(RunError, match="cannot be written"):
        result_folder(folder / "nodes.csv" / "below", "page.html")
