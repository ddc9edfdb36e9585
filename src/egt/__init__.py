"""EGT: the Edge-augmented Graph Transformer for graphs of any kind."""

from __future__ import annotations

__version__ = "0.1.0"
