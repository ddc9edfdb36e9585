"""Predictions in the user's terms: one answer per row of the input, and all of them as a table, a frame or a file."""

from __future__ import annotations

import csv
import logging
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

import numpy as np
from numpy.typing import NDArray

from egt.config.run import RunConfig
from egt.errors import ConfigError, DataError, RunError, counted
from egt.files import write_result
from egt.graph import IntArray
from egt.parts.tasks.task import FAMILIARITY, PLACES, REMARKS

if TYPE_CHECKING:
    import pandas
    import pyarrow

log = logging.getLogger(__name__)
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer for one row of the input, in its place whether it could be read or not.

    Fields:
        row: the position in the input, from 0.
        values: (rows, outputs) values in the targets' unit, or probabilities; one row for a graph target, one per
            node, or one per edge or query pair. None for a row that could not be read.
        pairs: (2, rows) the nodes of each edge or query pair; None for graph and node targets.
        warning: what the answer should be read with, such as a category that training never saw.
        row_warnings: the same for each row of the values, "" where there is nothing to say; empty for none at all.
        smiles: the molecule, several joined by dots; None for other graphs.
        truth: (rows, T) the labels of a split, NaN where one is missing; None where none are asked for.
        names: what the data calls the nodes; empty where they are numbered.
        kept: other columns of the input.
        std: (rows, outputs) deviation of the values between the models of an ensemble or draws of dropout; None for
            one answer of a single model.
        bounds: (rows, T, 2) the lowest and highest number, or (rows, T, C) whether a class is in the set, where an
            interval was asked for.
        nodes: (rows,) the nodes that the rows are about, where they are some nodes of a graph; None for all of them.
        num_nodes: of the graph; 0 where that is not known.
        familiarity: how similar the nearest training molecule is, from 0 to 1; None where that is not known.
    """

    row: int
    id: str
    values: NDArray[np.float32] | None = None
    pairs: IntArray | None = None
    warning: str = ""
    row_warnings: Sequence[str] = ()
    error: str = ""
    smiles: str | None = None
    truth: NDArray[Any] | None = None
    names: Sequence[str] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    std: NDArray[np.float32] | None = None
    bounds: NDArray[Any] | None = None
    nodes: IntArray | None = None
    num_nodes: int = 0
    familiarity: float | None = None

    def only(self, chosen: NDArray[np.bool_]) -> Prediction:
        """Return the answer for some nodes or edges of a graph. chosen: (rows,) which of them."""
        if self.values is None:
            return self
        found = {name: getattr(self, name) for name in ("values", "truth", "std", "bounds")}
        fields = {name: rows[chosen] for name, rows in found.items() if rows is not None}
        if self.pairs is not None:
            return replace(self, **fields, pairs=self.pairs[:, chosen])
        return replace(self, **fields, nodes=np.flatnonzero(chosen))


class Predictions(Sequence[Prediction]):
    """The answers for all rows of some data, in its order.

    As a table, a graph target has one row per input row. A node or edge target has one row per node or edge, with the
    name of its graph and the numbers of the nodes; an input row that could not be read has one row with its error.

    Args:
        config: of the run that the model comes from.
        answers: one per input row.
        more: columns behind those of the answers (deviations, intervals or sets), each with a cell of its kind.
        like: an answer whose columns are there though no row has them, as of a file without rows.
    """

    def __init__(
        self, config: RunConfig, answers: Iterable[Prediction], more: Row | None = None, like: Prediction | None = None
    ) -> None:
        self.config, self.more, self.like = config, dict(more or {}), like
        self._answers = tuple(answers)
        self._shapes = self._answers if like is None else (*self._answers, like)

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self._answers)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> Predictions: ...
    def __getitem__(self, index: int | slice) -> Prediction | Predictions:
        """Return one answer, or some of them."""
        if isinstance(index, slice):
            return Predictions(self.config, self._answers[index], self.more, self.like)
        return self._answers[index]

    def __repr__(self) -> str:
        return f"<{len(self)} predictions of {', '.join(self.config.task.names)}, {self.num_errors} with an error>"

    @property
    def num_errors(self) -> int:
        """How many rows have no answer."""
        return sum(1 for answer in self if answer.error)

    @property
    def num_warnings(self) -> int:
        """How many rows should be read with a warning."""
        return sum(1 for answer in self if answer.warning or any(answer.row_warnings))

    @property
    def columns(self) -> list[str]:
        """The columns of the table."""
        named, own = self._written()
        return [*named, *self._kept(named, own).values(), *own]

    def _kept(self, named: Sequence[str], own: Sequence[str]) -> dict[str, str]:
        """Return what the columns of the input are called that no other column repeats.

        Beside a result of that name it is `solubility_input`.
        """
        schema = self.config.data.custom
        known = {*named, "" if schema is None else schema.id}
        known |= {name for name in self.config.task.names if f"{name}_true" in own}
        names = dict.fromkeys(name for answer in self._shapes for name in answer.kept if name not in known)
        return {name: f"{name}_input" if name in own else name for name in names}

    def _written(self) -> tuple[list[str], list[str]]:
        """Return the columns that are there whatever is kept: those that name a row, and those behind them."""
        task = self.config.task
        answers = task.columns(np.zeros(task.num_outputs, np.float32))
        places = [*PLACES[self.config.model.level]]
        if any(len(answer.names) for answer in self._shapes):
            places += [f"{place}_name" for place in places]
        molecule = [self._molecule] if self._molecule and self._has("smiles") else []
        truth = [f"{name}_true" for name in task.names] if self._has("truth") else []
        more = [name for name in self.more if name not in answers]
        named = [*dict.fromkeys([self._identity, *molecule])]  # molecules may be named by their SMILES
        return named, [*places, *answers, *more, *truth, *REMARKS]

    def _has(self, name: str) -> bool:
        return any(getattr(answer, name) is not None for answer in self._shapes)

    def table(self) -> list[Row]:
        """Return the rows by column; a row without an answer has None in the columns that would hold it."""
        return list(self._rows())

    def to_csv(self, path: Path | str | TextIO, *, header: bool = True, delimiter: str = ",") -> None:
        """Write the table as a CSV file, or into an open text file, as `egt predict -o` does."""
        if not isinstance(path, Path | str):
            self._write(path, header, delimiter)
            return
        # "a": a draft is empty, and what is in the file that /dev/stdout leads to must stay
        with write_result(path) as draft, draft.open("a", newline="", encoding="utf-8") as file:
            self._write(file, header, delimiter)

    def to_npz(self, path: Path | str) -> None:
        """Write the answers for pairs as a matrix for each graph that has one, as `egt predict -o matrices.npz` does.

        It is (N, N), or (N, N, outputs) of several targets or classes, under the name of the graph, or its row where
        names repeat. Pairs that were not asked about are NaN; those without a direction are there in both.
        """
        schema = self.config.data.custom
        is_symmetric = schema is not None and schema.symmetric
        names = [answer.id for answer in self]
        if len(set(names)) < len(names):
            names = [str(answer.row) for answer in self]
        with write_result(path) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, answer in zip(names, self, strict=True):
                if answer.values is None or answer.pairs is None:
                    continue
                matrix = np.full((answer.num_nodes, answer.num_nodes, answer.values.shape[1]), np.nan, np.float32)
                i, j = answer.pairs
                matrix[i, j] = answer.values
                if is_symmetric:
                    matrix[j, i] = answer.values
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, matrix if matrix.shape[-1] > 1 else matrix[..., 0])

    def to_parquet(self, path: Path | str) -> None:
        """Write the table as a Parquet file; what a row does not have is null."""
        import pyarrow.parquet

        with write_result(path) as draft:
            pyarrow.parquet.write_table(self.to_arrow(), draft)

    def to_arrow(self) -> pyarrow.Table:
        """Return the table as one of Arrow; the kind of a column does not depend on the cells that happen to be there.

        Only that of labels does: an empty text among numbers is a missing one.
        """
        import pyarrow

        task = self.config.task
        examples = {**self.more, **task.columns(np.zeros(task.num_outputs, np.float32))}
        text, number = pyarrow.string(), pyarrow.float64()
        kinds = {name: text if isinstance(cell, str) else number for name, cell in examples.items()}
        kinds |= dict.fromkeys(PLACES[self.config.model.level], pyarrow.int64())

        def column(name: str, cells: list[Any]) -> Any:
            if name in kinds or all(isinstance(cell, str | None) for cell in cells):
                return pyarrow.array(cells, kinds.get(name, text))
            return pyarrow.array([None if cell == "" else cell for cell in cells])

        rows = self.table()
        return pyarrow.table({name: column(name, [row.get(name) for row in rows]) for name in self.columns})

    def to_xlsx(self, path: Path | str) -> None:
        """Write the table as an Excel file; what a row does not have is an empty cell."""
        from egt.data.formats.spreadsheets import write_xlsx  # here: most answers go elsewhere

        with write_result(path) as draft:
            write_xlsx([self.columns, *([*map(row.get, self.columns)] for row in self._rows())], draft, str(path))

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas data frame."""
        try:
            import pandas
        except ImportError as error:
            raise RunError("to_pandas needs pandas: pip install pandas (or use .table() or .to_csv(path))") from error
        return pandas.DataFrame(self.table(), columns=self.columns)

    def _write(self, file: TextIO, header: bool, delimiter: str) -> None:
        writer, columns = csv.writer(file, delimiter=delimiter), self.columns
        if header:
            writer.writerow(columns)
        writer.writerows([*map(row.get, columns)] for row in self._rows())

    @property
    def _identity(self) -> str:
        if self.config.model.level != "graph":
            return "graph"
        return (self.config.data.custom.id if self.config.data.custom else "") or "id"

    @property
    def _molecule(self) -> str:
        """The column of the molecule; "" where the components of a row are kept, each in a column of its own."""
        schema = self.config.data.custom
        if schema is not None and schema.more_smiles:
            return ""
        return (schema.smiles if schema is not None else "") or "smiles"

    def _rows(self) -> Iterator[Row]:
        task, level, identity, molecule = self.config.task, self.config.model.level, self._identity, self._molecule
        named, own = self._written()
        kept_names = self._kept(named, own)
        empty = dict.fromkeys(self.columns)
        for answer in self:
            kept = {kept_names[name]: value for name, value in answer.kept.items() if name in kept_names}
            head: Row = {**kept, identity: answer.id, "warning": answer.warning, "error": answer.error}
            if molecule and answer.smiles is not None:
                head[molecule] = answer.smiles
            if answer.familiarity is not None:
                head[FAMILIARITY] = answer.familiarity
            if answer.values is None:
                yield empty | head
                continue
            for k, values in enumerate(answer.values):
                ends = {"node": k if answer.nodes is None else int(answer.nodes[k])} if level == "node" else {}
                if answer.pairs is not None:
                    ends = {"source": int(answer.pairs[0, k]), "target": int(answer.pairs[1, k])}
                names = {f"{end}_name": answer.names[number] for end, number in ends.items()} if answer.names else {}
                truth = {} if answer.truth is None else task.true_columns(answer.truth[k])
                spread = {} if answer.std is None else task.spread_columns(values, answer.std[k])
                bounds = {} if answer.bounds is None else task.bound_columns(answer.bounds[k])
                if answer.row_warnings:
                    head["warning"] = "; ".join(filter(None, (answer.warning, answer.row_warnings[k])))
                yield {**head, **ends, **names, **task.columns(values), **spread, **bounds, **truth}


def join(parts: Sequence[Predictions]) -> Predictions:
    """Return the predictions of one model for several inputs, one after another."""
    return Predictions(parts[0].config, (answer for part in parts for answer in part), parts[0].more, parts[0].like)


def save_submission(predictions: Predictions, path: Path) -> None:
    """Write `y_pred`, (molecules,) float32, as `PCQM4Mv2Evaluator.save_test_submission` of OGB does.

    The official names are `y_pred_pcqm4m-v2_test-dev.npz` (147,037 molecules, our split "test") and
    `y_pred_pcqm4m-v2_test-challenge.npz` (147,432 molecules, "test-challenge").
    A molecule that could not be read gets the mean of the others, with a warning.
    """
    config = predictions.config
    if config.model.level != "graph" or config.task.num_outputs != 1:
        raise ConfigError(f"{path}: an .npz file holds one number per graph; write a .csv file for this model")
    values = np.array([np.nan if p.values is None else p.values[0, 0] for p in predictions], dtype=np.float32)
    missing = np.isnan(values)
    if missing.all():
        raise DataError(f"{path}: no molecule could be read (of {len(values)})")
    if missing.any():
        log.warning("%s could not be read: the mean of the others is used", counted(missing.sum(), "molecule"))
        values[missing] = values[~missing].mean()
    with write_result(path) as draft:
        np.savez_compressed(draft, y_pred=values)
