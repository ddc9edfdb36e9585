"""`Calibration`: what the validation labels of a model say about its errors, as an artifact keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from egt.errors import ArtifactError, DataError
from egt.uncertainty.conformal import Floats, Scores, class_scores, intervals, number_scores, sets
from egt.uncertainty.temperature import fit_temperature

FORMAT = 1
Bounds = NDArray[np.bool_] | Floats


@dataclass(frozen=True)
class Calibration:
    """Scores and temperatures for each target.

    Fields:
        kind: "interval" for numbers, "set" for classes.
        scores: for each target one group, or one for each of its classes.
        temperatures: of each target's probabilities; empty for numbers.
        transductive: the labels are of nodes or edges of the graph that the model was trained on, so that it promises
            something about the other nodes or edges of that graph, and nothing about other graphs.
        folds: how many models the scores come from, each on rows that it was not trained on; 0 for validation labels.
        num_graphs: how many graphs have the labels, where these are of nodes or edges; 0 where a label is a graph's.
    """

    kind: Literal["interval", "set"]
    scores: list[list[Scores]]
    temperatures: tuple[float, ...] = ()
    transductive: bool = False
    folds: int = 0
    num_graphs: int = 0

    @classmethod
    def of_numbers(cls, values: Floats, truth: Floats, unit: Floats | float = 1.0, **about: Any) -> Calibration:
        """Calibrate intervals. values, truth, unit: (rows, T), NaN where a label is missing; `about`: other fields."""
        return cls("interval", number_scores(values, truth, unit), **about)

    @classmethod
    def of_classes(cls, values: Floats, truth: Floats, **about: Any) -> Calibration:
        """Calibrate sets and temperatures. values: (rows, T, C) probabilities; truth: (rows, T), NaN where missing."""
        known = [~np.isnan(column) for column in truth.T]
        temperatures = tuple(
            fit_temperature(values[rows, target], truth[rows, target].astype(np.int64))
            for target, rows in enumerate(known)
        )
        return cls("set", class_scores(values, truth), temperatures, **about)

    def bounds(self, values: Floats, coverage: float, unit: Floats | float = 1.0) -> Bounds:
        """(rows, T, 2) intervals or (rows, T, C) sets that hold the truth with this chance.

        Args:
            values: (rows, T) numbers, or (rows, T, C) probabilities before any temperature.
            coverage: the chance.
            unit: (rows, T) of each number, as when it was calibrated.

        Raises:
            DataError: a coverage that is not between 0 and 1.
        """
        if not 0 < coverage < 1:
            raise DataError(
                f"the interval is {coverage:g}; give the chance to hold the truth, such as 0.9 (between 0 and 1)"
            )
        if self.kind == "set":
            return sets(values, self.scores, coverage)
        return intervals(values, self.scores, coverage, unit)

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what `from_json` takes. names: of the targets."""
        targets: list[dict[str, Any]] = [
            {"name": name, "groups": [{"count": each.count, "scores": list(each.ranked)} for each in groups]}
            for name, groups in zip(names, self.scores, strict=True)
        ]
        for target, temperature in zip(targets, self.temperatures, strict=bool(self.temperatures)):
            target["temperature"] = temperature
        about = {"format": FORMAT, "kind": self.kind, "transductive": self.transductive, "folds": self.folds}
        return {**about, "num_graphs": self.num_graphs, "targets": targets}

    @classmethod
    def from_json(cls, content: Any, where: str) -> Calibration:
        """Read what `to_json` gave.

        Raises:
            ArtifactError: it is no calibration.
        """
        try:
            if content["format"] != FORMAT or content["kind"] not in ("interval", "set"):
                raise ValueError(f"format {content['format']} and kind {content['kind']} are unknown")
            scores = [[_scores(group) for group in target["groups"]] for target in content["targets"]]
            warm = tuple(float(target["temperature"]) for target in content["targets"] if "temperature" in target)
            about = bool(content["transductive"]), int(content["folds"]), int(content.get("num_graphs", 0))
            return cls(content["kind"], scores, warm, *about)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{where}: is not a calibration ({error}); make the artifact again") from error


def _scores(group: Mapping[str, Any]) -> Scores:
    ranked, count = tuple(float(score) for score in group["scores"]), int(group["count"])
    if not all(map(math.isfinite, ranked)) or list(ranked) != sorted(ranked) or not len(ranked) <= count:
        raise ValueError("scores must be finite numbers in ascending order")
    return Scores(ranked, count)
