"""Tensors -> tensors: the parts of the paper, in the paper's letters. No config, no files.

Sizes, wherever they occur: d_h `node_width`, d_e `edge_width`, H `num_heads`, d_k = d_h / H; B graphs, M nodes and P
pairs in a batch, N nodes of the largest graph, E edges, R query pairs. "(nodes..., d)" is (M, d) on packed layouts and
lists of edges and (B, N, d) on the padded layout, "(pairs..., d)" is (P, d) or (B, N, N, d).

The modules are loaded when they are first used: a part names its module (`nn.terms.SharedVector`) and is still
described, checked and written without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egt.nn import hiding, losses, readout, terms

__all__ = ["hiding", "losses", "readout", "terms"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'egt.nn' has no attribute {name!r}")
    return import_module(f"egt.nn.{name}")
