"""How parameters start: torch's defaults, or those of the authors' TensorFlow code.

DISCREPANCY: the paper does not say. The PyTorch code keeps torch's defaults (nothing to do here); the TensorFlow code
has Keras' defaults: Glorot uniform kernels, zero biases, tables and virtual nodes uniform in [-0.05, 0.05].
"""

from __future__ import annotations

from torch import nn

from egt.nn.readout import VirtualNodeReadout


def initialize_like_keras(model: nn.Module) -> None:
    """Start all linear maps, tables and virtual nodes the way Keras does; rows fixed at zero stay so."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.05, 0.05)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight.data[module.padding_idx])
        elif isinstance(module, VirtualNodeReadout):
            nn.init.uniform_(module.nodes, -0.05, 0.05)
            nn.init.uniform_(module.edges, -0.05, 0.05)
