"""EGT: the Edge-augmented Graph Transformer for node, edge and graph tasks on any graph.

The names here are loaded when they are first used, so `import egt` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from egt.config import presets
    from egt.errors import EgtError
    from egt.graph import Graph
    from egt.inference.predictor import load
    from egt.model import EGT
    from egt.nn.layer import EGTLayer
    from egt.training.complete import fit

_HOMES = {
    "EGT": "egt.model",
    "EGTLayer": "egt.nn.layer",
    "EgtError": "egt.errors",
    "Graph": "egt.graph",
    "fit": "egt.training.complete",
    "load": "egt.inference.predictor",
    "presets": "egt.config",
}
__all__ = ["EGT", "EGTLayer", "EgtError", "Graph", "__version__", "fit", "load", "presets"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egt' has no attribute {name!r}")
    home = _HOMES[name]
    return import_module(f"{home}.{name}") if home == "egt.config" else getattr(import_module(home), name)
