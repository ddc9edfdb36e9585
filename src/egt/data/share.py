"""A part of a source: some of its training graphs, drawn at random but the same each time, or its first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from egt.data.download import fingerprint
from egt.data.source import DataCard, Reading, Source, read_all


@dataclass(frozen=True)
class TrainShare:
    """A source with fewer training graphs; validation and test are whole.

    Fields:
        whole: the source.
        share: of its training graphs, between 0 and 1; at least one is left.
    """

    whole: Source
    share: float

    @cached_property
    def card(self) -> DataCard:
        """The card of the source, with what is left of its training split."""
        card = self.whole.card
        notes = f"Only a share of {self.share:g} of the training graphs. {card.notes}".strip()
        return replace(card, split_sizes={**card.split_sizes, "train": len(self._chosen)}, notes=notes)

    @cached_property
    def _chosen(self) -> list[int]:
        """Numbers of the training records that are left, ascending."""
        count = self.whole.card.split_sizes["train"]
        order = np.random.default_rng(0).permutation(count)
        return sorted(order[: max(1, round(self.share * count))].tolist())

    def fingerprint(self) -> str:
        """Return a hash of the source and of the share."""
        return fingerprint([], self.whole.fingerprint(), "train share", self.share)

    def records(self, split: str) -> Sequence[Any]:
        """Return the records of a split."""
        records = self.whole.records(split)
        return [records[number] for number in self._chosen] if split == "train" else records

    def read(self, record: Any) -> Reading:
        """Return the graph of one record."""
        return self.whole.read(record)

    def read_all(self, records: Sequence[Any]) -> list[Reading]:
        """Return the graphs of some records."""
        return read_all(self.whole, records)


@dataclass(frozen=True)
class FirstRows:
    """A source of which every split ends after some rows.

    Fields:
        whole: the source.
        limit: the most rows of a split.
    """

    whole: Source
    limit: int

    @property
    def card(self) -> DataCard:
        """The card of the source, with what is left of its splits."""
        card = self.whole.card
        return replace(card, split_sizes={name: min(size, self.limit) for name, size in card.split_sizes.items()})

    def fingerprint(self) -> str:
        """Return a hash of the source and of the limit."""
        return fingerprint([], self.whole.fingerprint(), "first rows", self.limit)

    def records(self, split: str) -> Sequence[Any]:
        """Return the first records of a split."""
        return self.whole.records(split)[: self.limit]

    def read(self, record: Any) -> Reading:
        """Return the graph of one record."""
        return self.whole.read(record)

    def read_all(self, records: Sequence[Any]) -> list[Reading]:
        """Return the graphs of some records."""
        return read_all(self.whole, records)
