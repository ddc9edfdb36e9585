"""`egt predict`: predictions for files or SMILES, row by row."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from cyclopts import Parameter

from egt.cli.bars import Bars
from egt.cli.output import print_json, say
from egt.errors import DataError, RunError

if TYPE_CHECKING:
    from egt.inference.predictor import Prediction, Predictor
    from egt.sources.source import Progress

_FILE = re.compile(r"\.\w*[^\W\dBCNOPSFIbcnopslr]\w*$")
"""The end of a file name (.csv) and of no SMILES: it has a letter that no atom has outside of brackets."""


def predict(
    artifact: str,
    *inputs: str,
    split: str | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Predict for files or SMILES: one row for each row of the input, in order, bad rows in place with the reason.

    Args:
        artifact: The folder that `egt train` wrote.
        inputs: Files or folders in the format of the training data, or SMILES.
        split: Predict this split of the model's own data instead of inputs.
        output: The CSV file to write; standard output by default. A .npz file gets the array `y_pred`, as the
            evaluator of OGB's PCQM4Mv2 takes it (`--split test -o y_pred_pcqm4m-v2_test-dev.npz`).
        json: Print one JSON object as the last line.
    """
    from egt.inference.predictor import load
    from egt.inference.processes import join_processes, leave_processes

    if bool(inputs) == (split is not None):
        raise DataError("give either inputs (files or SMILES) or --split")
    if output is not None:
        _check_writable(output)
    processes = join_processes()
    predictor = load(artifact, processes=processes)
    with Bars(shown=not json and not processes.rank) as bars:
        parts = list(_parts(predictor, inputs, split, bars))
    leave_processes()
    if processes.rank:  # the first process writes what all have computed
        return
    predictions = [prediction for _, part in parts for prediction in part]
    if output is not None and output.suffix == ".npz":
        from egt.inference.submission import save_submission

        save_submission(predictor.config, predictions, output)
        columns, rows = list[str](), list[dict[str, Any]]()
    else:
        columns, rows = _tables(predictor, parts)
        if output is not None:
            try:
                with output.open("w", newline="", encoding="utf-8") as file:
                    _write(file, columns, rows)
            except OSError as error:
                raise RunError(f"{output}: cannot be written ({error.strerror}); choose another file (-o)") from error
        elif not json:
            _write(sys.stdout, columns, rows)
    bad = sum(1 for prediction in predictions if prediction.error)
    warned = sum(1 for prediction in predictions if prediction.warning)
    if json:
        summary = {"rows": len(predictions), "errors": bad, "warnings": warned}
        where = {"predictions": rows} if output is None else {"output": str(output)}
        print_json({**summary, **where})
        return
    say(f"{len(predictions)} rows, {bad} with an error, {warned} with a warning" + (f": {output}" if output else ""))


def _check_writable(output: Path) -> None:
    """Find out before the work whether its result can be written."""
    try:
        if not output.parent.is_dir():
            raise DataError(f"{output}: there is no folder {output.parent}")
        if output.is_dir():
            raise DataError(f"{output}: is a folder; name a file in it (-o {output / 'out.csv'})")
        is_new = not output.exists()
        if is_new or output.is_file():  # a pipe would take the trial for the result
            output.open("a").close()
        if is_new:
            output.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror}); choose another file (-o)") from error


def _parts(
    predictor: Predictor, inputs: Sequence[str], split: str | None, bars: Bars
) -> Iterator[tuple[list[str] | None, list[Prediction]]]:
    """SMILES of the rows, and their predictions, for each input; SMILES that follow each other are one input."""
    from egt.inference.data import open_new, open_source, smiles_of
    from egt.inference.predictor import reading
    from egt.sources.source import ALL

    if split is not None:
        with reading(bars):
            source = open_source(predictor.config)
        yield None, predictor.predict_source(source, split, watch=bars)
        return
    for data in _grouped(inputs):
        watch = _about(bars, data if isinstance(data, str) else "SMILES")
        with reading(watch):
            new = open_new(predictor.config, data)
        yield smiles_of(new), predictor.predict_source(new, ALL, watch=watch)


def _about(bars: Bars, name: str) -> Progress:
    """Bars that name the input as well."""
    return lambda stage, done, total: bars(f"{stage} {name}", done, total)


def _grouped(inputs: Iterable[str]) -> list[str | list[str]]:
    groups: list[str | list[str]] = []
    for text in inputs:
        if Path(text).exists() or _FILE.search(text):
            groups.append(text)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(text)
        else:
            groups.append([text])
    return groups


def _tables(
    predictor: Predictor, parts: Iterable[tuple[list[str] | None, list[Prediction]]]
) -> tuple[list[str], list[dict[str, Any]]]:
    from egt.inference.table import table

    columns: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    for smiles, predictions in parts:
        names, found = table(predictor.config, predictions, smiles)
        columns |= dict.fromkeys(names)
        rows += found
    return list(columns), rows


def _write(file: TextIO, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    writer = csv.DictWriter(file, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
