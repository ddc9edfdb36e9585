"""Compiles the fused kernel into the wheel. Without a compiler the wheel is pure Python, and first use compiles."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from importlib import import_module
from pathlib import Path
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
        sys.path.insert(0, str(Path(self.root, "src")))  # the package is not installed yet
        try:
            kernel = import_module("egt.native.library")
        finally:
            sys.path.remove(str(Path(self.root, "src")))
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


def _platform() -> str:
    """Return the platform tag: what cibuildwheel builds for (macOS), otherwise that of this very machine.

    The tag of Linux is plain `linux`; cibuildwheel turns it into manylinux after auditwheel has looked at the library.
    """
    if target := os.environ.get("_PYTHON_HOST_PLATFORM"):
        return re.sub(r"[-.]", "_", target)
    return next(tag.platform for tag in sys_tags() if not tag.platform.startswith(("manylinux", "musllinux")))
