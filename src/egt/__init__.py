"""EGT: the Edge-augmented Graph Transformer for node, edge and graph tasks on any graph.

The names here are loaded when they are first used, so `import egt` costs nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from egt.deprecation import find_moved_modules
from egt.processors import limit_threads

__version__ = "0.1.0"

# OpenMP reads these when torch is loaded. Threads that wait for work spin for some microseconds and then sleep: without
# a bound, two trainings on the same cores slow each other down twenty times; without spinning at all, small ones are up
# to 1.6 times slower on idle cores (benchmarks/results/threads.md). The bound is for GNU's OpenMP, others sleep at
# once. Where torch is loaded already, `egt.inference.threads` has the same effect.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
limit_threads()
find_moved_modules()

if TYPE_CHECKING:
    from egt.api import Run, train
    from egt.config.run import RunConfig
    from egt.errors import EgtError
    from egt.graph import Graph
    from egt.inference.loading import load
    from egt.inference.predictions import Predictions
    from egt.nn.layer import EGTLayer
    from egt.nn.model import EGT
    from egt.paper import presets
    from egt.paper.presets import preset
    from egt.sklearn import EGTClassifier, EGTRegressor
    from egt.training.run import train as fit
    from egt.tuning.tune import tune

_HOMES = {
    "EGT": "egt.nn.model:EGT",
    "EGTClassifier": "egt.sklearn:EGTClassifier",
    "EGTLayer": "egt.nn.layer:EGTLayer",
    "EGTRegressor": "egt.sklearn:EGTRegressor",
    "EgtError": "egt.errors:EgtError",
    "Graph": "egt.graph:Graph",
    "Predictions": "egt.inference.predictions:Predictions",
    "Run": "egt.api:Run",
    "RunConfig": "egt.config.run:RunConfig",
    "fit": "egt.training.run:train",
    "load": "egt.inference.loading:load",
    "preset": "egt.paper.presets:preset",
    "presets": "egt.paper.presets:",
    "train": "egt.api:train",
    "tune": "egt.tuning.tune:tune",
}
__all__ = [
    "EGT",
    "EGTClassifier",
    "EGTLayer",
    "EGTRegressor",
    "EgtError",
    "Graph",
    "Predictions",
    "Run",
    "RunConfig",
    "__version__",
    "fit",
    "load",
    "preset",
    "presets",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egt' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)
