"""Data sets that are made, not read: every graph is a function of (seed, split, number) and of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from egt.data.download import fingerprint
from egt.data.source import DataCard, Reading, check_split
from egt.errors import DataError
from egt.graph import Graph

_SPLIT_NUMBER = {"train": 0, "val": 1, "test": 2}

Recipe = Callable[[int, str, int], Graph]
"""(seed, split, number) -> graph. A function of a module, so that other processes can run it."""


def graph_random(seed: int, split: str, number: int) -> np.random.Generator:
    """Return the random numbers of one graph, independent of those of all others and of the order they are made in."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SPLIT_NUMBER[split], number)))


@dataclass(frozen=True)
class GeneratedSource:
    """Graphs made by a recipe. A record is (split, number).

    Fields:
        base_card: the card of the benchmark that the recipe follows.
        recipe: makes one graph.
        seed: chooses the data set.
        split_sizes: how many graphs of each split; those of the benchmark if None. Graphs do not depend on it.
        made_by: what made the graphs, for the card and the fingerprint.
    """

    base_card: DataCard
    recipe: Recipe
    seed: int
    made_by: str
    split_sizes: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        unknown = set(self.split_sizes or {}) - set(_SPLIT_NUMBER)
        if unknown or any(size < 0 for size in (self.split_sizes or {}).values()):
            raise DataError(
                f"{self.base_card.name}: split_sizes is {dict(self.split_sizes or {})}; give numbers of graphs for "
                f"{', '.join(_SPLIT_NUMBER)}"
            )

    @cached_property
    def card(self) -> DataCard:
        """The card of the benchmark; its notes say that these graphs were generated, by what and with which seed."""
        sizes = self.base_card.split_sizes if self.split_sizes is None else self.split_sizes
        notes = f"Generated with seed {self.seed} ({self.made_by}), not the published files. {self.base_card.notes}"
        return replace(self.base_card, split_sizes=sizes, notes=notes.strip())

    def fingerprint(self) -> str:
        """Return a hash of all that determines the graphs."""
        return fingerprint([], self.base_card.name, self.made_by, self.seed, sorted(self.card.split_sizes.items()))

    def records(self, split: str) -> Sequence[tuple[str, int]]:
        """Return the graphs of a split, by number."""
        check_split(split, self.card.split_sizes, self.card.name)
        return [(split, number) for number in range(self.card.split_sizes[split])]

    def read(self, record: tuple[str, int]) -> Reading:
        """Make one graph."""
        split, number = record
        return Reading(number, f"{split}/{number}", graph=self.recipe(self.seed, split, number))
