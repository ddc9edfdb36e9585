"""EGT: the Edge-augmented Graph Transformer for node, edge and graph tasks on any graph.

The names here are loaded when they are first used, so `import egt` costs nothing and changes nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from egt.deprecation import find_moved_modules

if TYPE_CHECKING:
    from egt.api import train as train
    from egt.config.run import RunConfig as RunConfig
    from egt.config.run_data import preparation as preparation
    from egt.data.columns import FORMATS as FORMATS
    from egt.data.columns import Format as Format
    from egt.data.columns import RawData as RawData
    from egt.data.columns import column_of_values as column_of_values
    from egt.data.custom import open_custom as open_custom
    from egt.errors import EgtError as EgtError
    from egt.export.export import tensor_inputs as tensor_inputs
    from egt.graph import Graph as Graph
    from egt.inference.predictions import Predictions as Predictions
    from egt.inference.predictor import load as load
    from egt.nn.attention_record import watch as watch
    from egt.nn.channels import AttentionContext as AttentionContext
    from egt.nn.layer import EGTLayer as EGTLayer
    from egt.nn.model import EGT as EGT
    from egt.nn.randomness import graph_keys as graph_keys
    from egt.paper import presets as presets
    from egt.paper.presets import preset as preset
    from egt.sklearn import EGTClassifier as EGTClassifier
    from egt.sklearn import EGTRegressor as EGTRegressor
    from egt.training.callbacks import Callback as Callback
    from egt.training.run import Run as Run
    from egt.training.run import train as _fit
    from egt.tuning.tune import tune as tune

    fit = _fit

__version__ = "0.2.0"

_HOMES = {
    "AttentionContext": "egt.nn.channels",
    "Callback": "egt.training.callbacks",
    "EGT": "egt.nn.model",
    "EGTClassifier": "egt.sklearn",
    "EGTLayer": "egt.nn.layer",
    "EGTRegressor": "egt.sklearn",
    "EgtError": "egt.errors",
    "FORMATS": "egt.data.columns",
    "Format": "egt.data.columns",
    "Graph": "egt.graph",
    "Predictions": "egt.inference.predictions",
    "RawData": "egt.data.columns",
    "Run": "egt.training.run",
    "RunConfig": "egt.config.run",
    "column_of_values": "egt.data.columns",
    "fit": "egt.training.run",
    "graph_keys": "egt.nn.randomness",
    "load": "egt.inference.predictor",
    "open_custom": "egt.data.custom",
    "preparation": "egt.config.run_data",
    "preset": "egt.paper.presets",
    "presets": "egt.paper",
    "tensor_inputs": "egt.export.export",
    "train": "egt.api",
    "tune": "egt.tuning.tune",
    "watch": "egt.nn.attention_record",
}
__all__ = ["__version__", *_HOMES]

find_moved_modules()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egt' has no attribute {name!r}")
    if name == "presets":
        return import_module("egt.paper.presets")
    return getattr(import_module(_HOMES[name]), "train" if name == "fit" else name)
