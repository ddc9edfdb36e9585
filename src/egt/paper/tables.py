"""The tables of the paper: what its authors measured, in which column, and which of our presets measures the same.

Numbers are those printed (Hussain, Zaki, Subramanian: Global Self-Attention as a Replacement for Graph Convolution,
KDD 2022), in `printed.csv`. Where a printed number is known to be doubtful, `notes.csv` says why, wherever it is shown.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from egt.errors import ConfigError
from egt.paper.presets import ZINC_STEPS


@dataclass(frozen=True)
class Score:
    """A printed number with its standard deviation over runs; None where the paper gives none."""

    value: float
    deviation: float | None = None


Scores = dict[str, Score]  # the score of each model, by the name that the paper gives it


@dataclass(frozen=True)
class Measure:
    """What a column reports: a metric of a split, in the paper's unit (`factor` is 100 for percent)."""

    metric: str
    title: str
    split: str = "test"
    higher_is_better: bool = True
    factor: float = 1.0
    decimals: int = 3

    def text(self, score: Score) -> str:
        """Return a score in the paper's unit, as it prints them."""
        text = f"{score.value:.{self.decimals}f}"
        return text if score.deviation is None else f"{text} ± {score.deviation:.{self.decimals}f}"


@dataclass(frozen=True)
class Column:
    """A data set and a size of models, with the scores of the EGTs and of the other models in the paper's table."""

    title: str
    measure: Measure
    parameters: str
    egts: Mapping[str, Score] = field(default_factory=dict)
    others: Mapping[str, Score] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperRow:
    """One model in a column of a table: an EGT of the paper, or a baseline that we run beside it.

    An extra row is run only when it is named. A row with a rule has no network: the rule (`egt.paper.rules`) learns on
    the data of the preset.
    """

    preset: str
    model: str
    column: Column
    is_extra: bool = False
    rule: str = ""

    @property
    def name(self) -> str:
        """What the row and the folder of its runs are called."""
        return f"{self.preset}-{self.rule}" if self.rule else self.preset

    @property
    def measure(self) -> Measure:
        """What the row reports."""
        return self.column.measure

    @property
    def is_baseline(self) -> bool:
        """Whether the model is none of the paper's EGTs, but one of ours beside them."""
        return self.model.endswith(_OURS)

    @property
    def paper(self) -> Score | None:
        """The score of this model in the paper; None if it has none."""
        if self.is_baseline:
            return self.column.others.get(self.model.removesuffix(_OURS))
        return self.column.egts.get(self.model)

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known when the score is compared."""
        if self.is_baseline:
            return (_OTHER_RECIPE,) if self.paper else ()
        return () if self.rule else tuple(note for note, presets in _NOTES.items() if self.preset in presets.split())


@dataclass(frozen=True)
class Table:
    """A table of the paper, with the rows that we add to it."""

    name: str
    title: str
    rows: tuple[PaperRow, ...]


_OURS = " (ours)"
_OTHER_RECIPE = "The paper's figure is of another implementation and recipe (that of the public benchmark)."


def _read_facts(name: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


_NOTES = {row["note"]: row["presets"] for row in _read_facts("notes.csv")}
"""What has to be known about printed numbers, and of which presets."""

_WEIGHTED = Measure("weighted_accuracy", "% weighted accuracy", factor=100)
_ACCURACY = Measure("accuracy", "% accuracy", factor=100)
_MAE = Measure("mae", "MAE", higher_is_better=False)
_PCQM_MAE = Measure("mae", "validation MAE", split="val", higher_is_better=False, decimals=4)
_MEASURES = {
    "PATTERN": _WEIGHTED,
    "CLUSTER": _WEIGHTED,
    "MNIST": _ACCURACY,
    "CIFAR10": _ACCURACY,
    "TSP": Measure("f1", "F1"),
    "ZINC": _MAE,
    "PCQM4M": _PCQM_MAE,
    "PCQM4Mv2": _PCQM_MAE,
    "MolPCBA": Measure("average_precision", "test AP (%)", factor=100, decimals=2),
    "MolHIV": Measure("roc_auc", "test ROC-AUC (%)", factor=100, decimals=2),
}

_TITLES = {
    "pcqm4m-small": "PCQM4M 11.5M",
    "pcqm4m-medium": "PCQM4M 47.4M",
    "pcqm4mv2-small": "PCQM4Mv2 11.5M",
    "pcqm4mv2-medium": "PCQM4Mv2 47.4M",
    "pcqm4mv2-large": "PCQM4Mv2 89.3M",
    "molpcba-larger": "MolPCBA",
    "molhiv-larger": "MolHIV",
    "molhiv-500k": "MolHIV",
}
"""The columns of presets that are not called like their column."""


def _read_columns() -> dict[str, Column]:
    """Return the columns by their titles; other models of a column without a size are those of all its sizes."""
    scores: dict[tuple[str, str], Scores] = {}
    for row in _read_facts("printed.csv"):
        deviation = float(row["deviation"]) if row["deviation"] else None
        found = scores.setdefault((row["data"], row["family"]), {})
        found[row["model"]] = Score(float(row["score"]), deviation)
    columns = {}
    for title in (title for title, family in scores if family == "EGT"):
        data, _, size = title.partition(" ")
        others = scores.get((title, "other")) or scores[data, "other"]
        parameters = f"≈{size}" if size.endswith("K") else size or "110.8M"
        columns[title] = Column(title, _MEASURES[data], parameters, scores[title, "EGT"], others)
    return columns


_COLUMNS = _read_columns()


def _column(preset: str) -> Column:
    return _COLUMNS[_TITLES.get(preset) or preset.upper().replace("-", " ")]


# The baseline of a data set that needs no network.
_RULES = {"cluster": "propagation", "tsp": "nearest", "zinc": "forest", "pcqm4mv2": "forest"}
_RULE_TITLES = {
    "propagation": "label propagation",
    "nearest": "nearest-neighbor rule",
    "forest": "Morgan fingerprints + random forest",
}


def _baselines(base: str) -> Iterator[PaperRow]:
    """Yield networks of the same number of parameters by our recipe, and what needs no network."""
    data = base.rpartition("-")[0]
    networks = {"gcn": "GCN", "gin": "GIN", "gatedgcn": "GatedGCN"}
    networks |= {"mlp": "MLP"} if data in ("pattern", "cluster") else {}
    for form, model in networks.items():
        yield PaperRow(f"{base}-{form}", model + _OURS, _column(base), is_extra=True)
    if rule := _RULES.get(data):
        yield PaperRow(base, _RULE_TITLES[rule], _column(base), is_extra=True, rule=rule)


_FORMS = {
    "": "EGT",
    "-constrained": "EGT-Constrained",
    "-simple": "EGT-Simple",
    "-nope": "EGT w/o PE",
    "-ungated": "EGT ungated",
}

_VARIED = (
    "pattern-500k", "cluster-500k", "mnist-100k", "cifar10-100k", "tsp-500k", "zinc-500k", "pcqm4mv2-small",
    "zinc-100k",
)  # fmt: skip
"""Presets whose variants are compared; the last is a size that is quick to compare, and not in the paper's table."""


def _variants() -> Iterator[PaperRow]:
    for base in _VARIED:
        for form, model in _FORMS.items():
            yield PaperRow(base + form, model, _column(base), is_extra=base == _VARIED[-1])
        yield from _baselines(base)


_MEDIUM = (
    "pattern-100k", "pattern-500k", "cluster-500k", "mnist-100k", "cifar10-100k", "tsp-100k", "tsp-500k", "zinc-100k",
    "zinc-500k",
)  # fmt: skip

_LARGE = ("pcqm4m-small", "pcqm4m-medium", "pcqm4mv2-small", "pcqm4mv2-medium", "pcqm4mv2-large")
_TRANSFER = ("molpcba-larger", "molhiv-larger")
_STEPS = (
    "no gates",
    "+ gated aggregation",
    "+ attention dropout",
    "+ virtual nodes",
    "+ centrality scalers",
    "+ positional encodings",
)

_PLUS = (
    "zinc-500k", "pattern-100k", "pattern-500k", "cluster-500k", "mnist-100k", "cifar10-100k", "tsp-100k", "tsp-500k",
    "molhiv-500k",
)  # fmt: skip


def _large_row(preset: str) -> PaperRow:
    return PaperRow(preset, f"EGT-{preset.rpartition('-')[2].capitalize()}", _column(preset))


def _plus() -> Iterator[PaperRow]:
    """Yield one change at a time on ZINC, then the other presets beyond the paper."""
    column = _column("zinc-100k")
    *steps, (last, _) = ZINC_STEPS.values()
    for name, (title, _) in zip(ZINC_STEPS, steps, strict=False):
        yield PaperRow(f"zinc-100k-upto-{name}", title, column)
    yield PaperRow("zinc-100k-plus", f"EGT+ ({last})", column)
    for name in _PLUS:
        yield PaperRow(f"{name}-plus", "EGT+", _column(name), is_extra=True)


TABLES: Mapping[str, Table] = {
    name: Table(name, title, tuple(rows))
    for name, title, rows in (
        (
            "medium",
            "Medium-scale benchmarks (table 1)",
            (
                *(PaperRow(preset, "EGT", _column(preset)) for preset in _MEDIUM),
                *_baselines("pattern-100k"),
                *_baselines("tsp-100k"),
            ),
        ),
        ("pcqm", "OGB-LSC PCQM4M and PCQM4Mv2 (table 2)", map(_large_row, _LARGE)),
        (
            "transfer",
            "Transfer from PCQM4Mv2 (table 3)",
            (
                *map(_large_row, _TRANSFER),
                PaperRow(
                    "molhiv-larger", _RULE_TITLES["forest"], _column("molhiv-larger"), is_extra=True, rule="forest"
                ),
            ),
        ),
        ("variants", "Variants of EGT (table 4)", _variants()),
        (
            "steps",
            "From a bare EGT-Small to the full one, on PCQM4Mv2 (table 5)",
            (PaperRow(f"pcqm4mv2-small-step{k}", step, _column("pcqm4mv2-small")) for k, step in enumerate(_STEPS)),
        ),
        ("plus", "EGT+ on ZINC, one change at a time", _plus()),
    )
}


def find_table(name: str) -> Table:
    """Return the table of this name."""
    if name not in TABLES:
        raise ConfigError(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
    return TABLES[name]


def choose_rows(table: Table, wanted: Iterable[str]) -> tuple[PaperRow, ...]:
    """Return the rows of a table that are wanted, in its order; without any, all rows except extra ones.

    Rows are wanted by name (`zinc-100k`), pattern (`zinc-*`) or part of the name (`gcn`).
    """
    chosen = {name for each in wanted for name in _match_names(table, each)}
    return tuple(row for row in table.rows if (row.name in chosen if chosen else not row.is_extra))


def _match_names(table: Table, wanted: str) -> list[str]:
    names = [row.name for row in table.rows]
    found = [name for name in names if name == wanted] or [name for name in names if fnmatchcase(name, wanted)]
    found = found or [name for name in names if f"-{wanted}-" in f"-{name}-"]
    if not found:
        raise ConfigError(f"table {table.name} has no row {wanted!r}; its rows are {', '.join(names)}")
    return found


def find_row(name: str) -> tuple[Table, PaperRow] | None:
    """Return the first table that has a row of this name, and the row; None if the paper has none."""
    return next(((table, row) for table in TABLES.values() for row in table.rows if row.name == name), None)
