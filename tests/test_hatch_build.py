"""A wheel carries the compiled kernel where there is a compiler, and works without one everywhere else."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin.utils import load_plugin_from_script

from egt.native.library import compiler, prebuilt

ROOT = Path(__file__).parents[1]
LIBRARY = f"egt/native/{prebuilt().name}"


def make(target: str, source: Path, folder: Path, cxx: Path | str = "", path: str = "") -> Path:
    """Builds one target as pip does, but in this environment. Compilers are `cxx` and those in `path`."""
    environment = {**os.environ, "PATH": path, "CXX": str(cxx)}
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=source, env=environment, capture_output=True, check=True)
    (built,) = folder.iterdir()
    return built


def script(path: Path, commands: str) -> Path:
    path.write_text(f"#!/bin/sh\n{commands}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


@pytest.fixture
def fake_compiler(tmp_path: Path) -> Path:
    return script(tmp_path / "cxx", 'for last; do :; done; [ "$last" = --version ] || echo library > "$last"')


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution: what is built from it shows that it is complete."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(make("sdist", ROOT, folder / "packed")) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_wheel_holds_the_package_and_its_compiled_kernel(sdist: Path, fake_compiler: Path, tmp_path: Path) -> None:
    wheel = make("wheel", sdist, tmp_path / "wheel", fake_compiler)
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    names = names_in(wheel)
    assert [name for name in names if name.endswith(".so")] == [LIBRARY]
    files = [path for path in (ROOT / "src" / "egt").rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    inside = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert {"egt/py.typed", "egt/native/csrc/part.h"} <= inside
    assert {name for name in names if ".dist-info/" not in name} == {*inside, LIBRARY}
    assert not list(sdist.rglob("*.so")), "a source tree must not look prebuilt"


def test_without_a_compiler_the_wheel_is_pure(sdist: Path, tmp_path: Path) -> None:
    wheel = make("wheel", sdist, tmp_path)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in names_in(wheel) if name.endswith(".so")]


def test_an_editable_install_compiles_nothing(
    sdist: Path, fake_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(fake_compiler))
    hook_class = load_plugin_from_script(
        str(sdist / "hatch_build.py"), "hatch_build.py", BuildHookInterface, "build_hook"
    )
    hook = hook_class(str(sdist), {}, None, None, "", "wheel")
    for version, compiles in (("standard", True), ("editable", False)):
        build_data: dict[str, Any] = {"force_include": {}, "pure_python": True}
        hook.initialize(version, build_data)
        assert list(build_data["force_include"].values()) == [LIBRARY] * compiles
        assert build_data["pure_python"] is not compiles
        hook.finalize(version, build_data, "")


def test_the_tag_is_that_of_the_system_that_is_built_for(
    sdist: Path, fake_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(fake_compiler))
    monkeypatch.setenv("_PYTHON_HOST_PLATFORM", "macosx-11.0-arm64")  # as cibuildwheel does
    hook_class = load_plugin_from_script(
        str(sdist / "hatch_build.py"), "hatch_build.py", BuildHookInterface, "build_hook"
    )
    hook = hook_class(str(sdist), {}, None, None, "", "wheel")
    build_data: dict[str, Any] = {"force_include": {}, "pure_python": True}
    hook.initialize("standard", build_data)
    hook.finalize("standard", build_data, "")
    assert build_data["tag"] == "py3-none-macosx_11_0_arm64"


@pytest.mark.slow
def test_a_wheel_computes_with_its_own_kernel_where_there_is_no_compiler(sdist: Path, tmp_path: Path) -> None:
    cxx = compiler()
    if cxx is None:
        pytest.skip("no C++ compiler: no kernel in the wheel")
    wheel = make("wheel", sdist, tmp_path / "wheel", cxx, path=os.environ["PATH"])
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    command = [sys.executable, "-m", "egt", "doctor", "--json"]
    searched = {"CXX": "", "PATH": "", "PYTHONPATH": str(site), "EGT_CACHE_DIR": str(tmp_path / "cache")}
    result = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **searched}, capture_output=True, text=True, check=True
    )
    kernel = json.loads(result.stdout)["machine"]["CPU kernel"]
    assert kernel.startswith("prebuilt in the package, ")
    assert kernel.endswith(f": {site / LIBRARY}")
    assert not (tmp_path / "cache").exists()
