"""Compiles the fused kernel into the wheel. Without a compiler the wheel is pure Python, and first use compiles."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

KERNELS = "egt/native"


class KernelBuildHook(BuildHookInterface[BuilderConfig]):
    """Adds the compiled kernel to a wheel; not to an editable install, whose sources change."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile outside the sources: a checkout must not hold a library that looks prebuilt."""
        self.scratch = tempfile.TemporaryDirectory()
        if version == "editable":
            return
        kernel = _load(Path(self.root, "src", KERNELS, "compilation.py"))
        library = kernel.build(folder=Path(self.scratch.name))
        if library is None:
            self.app.display_warning("no compiled kernel in this wheel: first use compiles it, given a compiler")
            return
        build_data["force_include"][str(library)] = f"{KERNELS}/{kernel.prebuilt().name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"  # a plain C interface: one library for every Python

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder of the compiled kernel."""
        self.scratch.cleanup()


def _load(path: Path) -> ModuleType:
    """Load a module without the package around it, which would need what it is not yet installed with."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _platform() -> str:
    """Return the platform tag of this very machine: nobody has checked what manylinux and musllinux promise."""
    return next(tag.platform for tag in sys_tags() if not tag.platform.startswith(("manylinux", "musllinux")))
