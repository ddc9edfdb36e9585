"""The scale of targets as checkpoints and artifacts keep it."""

from __future__ import annotations

import json

import numpy as np

from egt.tasks.task import TargetScale


def test_a_scale_comes_back_from_json() -> None:
    scale = TargetScale.of([np.array([1.0, np.nan]), np.array([3.0, 5.0])])
    assert scale == TargetScale((2.0, 5.0), (1.0, 1.0))
    assert TargetScale.from_json(json.loads(json.dumps(scale.to_json()))) == scale
    assert TargetScale.from_json(None) is None
