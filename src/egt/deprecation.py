"""Names of earlier versions: they still work, and a `DeprecationWarning` says what to write instead."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MOVED = {
    "egt.artifact.artifact": "egt.inference.artifact",
    "egt.baselines.layer": "egt.parts.readouts",
    "egt.batching.batch": "egt.data.batching.batch",
    "egt.batching.layout": "egt.data.batching.layout",
    "egt.batching.loader": "egt.data.batching.loader",
    "egt.config.model": "egt.config.run",
    "egt.config.preparation": "egt.config.run_data",
    "egt.config.presets": "egt.paper.presets",
    "egt.data.encodings.distances": "egt.data.encodings.encoding",
    "egt.encodings.encoding": "egt.data.encodings.encoding",
    "egt.encodings.store": "egt.data.store",
    "egt.inputs.input": "egt.parts.inputs",
    "egt.model": "egt.nn.model",
    "egt.nn.dropout": "egt.nn.randomness",
    "egt.nn.embed": "egt.nn.terms",
    "egt.nn.feedforward": "egt.nn.layer",
    "egt.nn.pair_pass": "egt.nn.layer",
    "egt.nn.pooling": "egt.nn.readout",
    "egt.parts.layers": "egt.parts.readouts",
    "egt.readouts.readout": "egt.parts.readouts",
    "egt.schedules.schedule": "egt.parts.schedules",
    "egt.sources.benchmarks.benchmark": "egt.data.benchmark",
    "egt.sources.custom": "egt.data.custom",
    "egt.sources.custom.custom_source": "egt.data.custom_source",
    "egt.sources.custom.opening": "egt.data.custom",
    "egt.sources.custom.raw": "egt.data.columns",
    "egt.sources.custom.schema": "egt.data.schema",
    "egt.sources.molecules": "egt.data.molecules",
    "egt.sources.source": "egt.data.source",
    "egt.tasks.scores": "egt.parts.tasks.scores",
    "egt.tasks.task": "egt.parts.tasks.task",
    "egt.testing.properties": "egt.testing",
}
"""Modules of 0.1 that packages with parts of their own import, and where their content is now."""


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Say that a name of an earlier version has another one now."""
    warnings.warn(f"{old} is now {new}; the old name goes in 0.4", DeprecationWarning, stacklevel=stacklevel)


def renamed(function: Callable[P, R], old: str, new: str) -> Callable[P, R]:
    """Return a function under its old name, which warns when it is called."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        warn_renamed(old, new)
        return function(*args, **kwargs)

    return call


class MovedModules(MetaPathFinder, Loader):
    """Finds the modules in `MOVED` under their old names."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a stand-in for a module that moved, or for a folder that had one."""
        is_folder = any(moved.startswith(f"{name}.") for moved in MOVED)
        if name not in MOVED and not is_folder:
            return None
        return ModuleSpec(name, self, is_package=is_folder)

    def exec_module(self, module: ModuleType) -> None:
        """Let the stand-in look up its names in the new place."""
        old = module.__name__
        if old not in MOVED:
            return
        warn_renamed(old, MOVED[old], stacklevel=2)
        module.__dict__["__getattr__"] = lambda name: getattr(import_module(MOVED[old]), name)


def find_moved_modules() -> None:
    """Make the old names importable."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
