"""The unit of regression targets: what standardization learned from the training split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class TargetScale:
    """value = mean + std * standardized, for each target.

    Args:
        mean: (T,) of the training labels.
        std: (T,) of the training labels, never 0.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, rows: Iterable[NDArray[np.float64]]) -> TargetScale:
        """The scale of training targets, each (T,) or (rows, T); missing labels are left out.

        A target without labels or without spread keeps a std of 1.
        """
        values = np.concatenate([np.atleast_2d(row) for row in rows])
        known = ~np.isnan(values)
        count = np.maximum(known.sum(0), 1)
        mean = np.where(known, values, 0.0).sum(0) / count
        std = np.sqrt(np.square(np.where(known, values - mean, 0.0)).sum(0) / count)
        std = np.where(std > 1e-12 * np.maximum(np.abs(mean), 1.0), std, 1.0)
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def tensors(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """Mean and std, (T,) each."""
        import torch

        return torch.tensor(self.mean, device=device), torch.tensor(self.std, device=device)

    def to_json(self) -> dict[str, list[float]]:
        """What `from_json` takes."""
        return {"mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_json(cls, content: Mapping[str, Sequence[float]] | None) -> TargetScale | None:
        """The scale that a checkpoint or an artifact keeps; None where targets are not standardized."""
        return None if content is None else cls(tuple(content["mean"]), tuple(content["std"]))
