"""What an explanation is about: a number in its unit, or how far a class is ahead of the others."""

from __future__ import annotations

import torch
from torch import Tensor

from egt.tasks.task import Task

_NEAR_CERTAIN = 1e-6


def margins(task: Task, outputs: Tensor) -> Tensor:
    """Return numbers decoded, and of classes the log-odds, log p / (1 - p); (rows, outputs), like the outputs.

    A probability near 1 hardly moves whatever is masked, and has no gradient; log-odds do not saturate. With an output
    for each class they are z_c - log sum_(k != c) exp z_k, with one for yes and no they are that output.
    """
    decoded = task.decode(outputs)
    if not task.part.has_classes:
        return decoded
    z = outputs.float()
    odds = z if task.part.num_outputs == len(task.part.names) else z - _others(z)
    if torch.allclose(odds.sigmoid(), decoded, atol=1e-4):
        return odds
    return decoded.logit(_NEAR_CERTAIN)  # a task of another package, whose outputs are no logits


def _others(z: Tensor) -> Tensor:
    """Return log sum_(k != c) exp z_k for each class c. z: (rows, C)."""
    itself = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
    return z[:, None].expand(-1, z.shape[1], -1).masked_fill(itself, -torch.inf).logsumexp(-1)
