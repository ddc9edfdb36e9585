"""Property checks that anyone can call on their own composition of parts.

Each takes a model and prepared samples, and raises `CheckFailed` with the deviation it saw.
"""

from __future__ import annotations

from egt.testing.properties import (
    CheckFailed,
    check_batch_independence,
    check_finite_gradients,
    check_layouts_agree,
    check_masked,
    check_models_agree,
    check_permutation,
    reach,
)

__all__ = [
    "CheckFailed",
    "check_batch_independence",
    "check_finite_gradients",
    "check_layouts_agree",
    "check_masked",
    "check_models_agree",
    "check_permutation",
    "reach",
]
