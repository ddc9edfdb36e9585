"""`egt predict`: predictions for files or SMILES, row by row."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from egt.cli.output import Bars, print_json, say
from egt.errors import DataError
from egt.files import exists

if TYPE_CHECKING:
    from egt.inference.predictions import Predictions
    from egt.inference.predictor import Predictor
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
        split: Predict this split of the data that the model was trained on, instead of inputs.
        output: The CSV file to write; standard output by default. A .npz file gets the array `y_pred`, as the
            evaluator of OGB's PCQM4Mv2 takes it (`--split test -o y_pred_pcqm4m-v2_test-dev.npz`).
        json: Print one JSON object as the last line.
    """
    from egt.execution.processes import join_processes, leave_processes
    from egt.inference.predictions import join
    from egt.inference.predictor import load

    if bool(inputs) == (split is not None):
        raise DataError("give either inputs (files or SMILES) or --split")
    if output is not None:
        _check_writable(output)
    processes = join_processes()
    model = load(artifact, processes=processes)
    with Bars(shown=not json and not processes.rank) as bars:
        found = model.predict_split(split, watch=bars) if split is not None else join([*_each(model, inputs, bars)])
    leave_processes()
    if not processes.rank:  # the first process writes what all have computed
        _write(found, output, json)


def _each(model: Predictor, inputs: Iterable[str], bars: Bars) -> Iterator[Predictions]:
    for data in _grouped(inputs):
        yield model.predict(data, watch=_about(bars, data if isinstance(data, str) else "SMILES"))


def _about(bars: Bars, name: str) -> Progress:
    """Bars that name the input as well."""
    return lambda stage, done, total: bars(f"{stage} {name}", done, total)


def _grouped(inputs: Iterable[str]) -> list[str | list[str]]:
    """Files, and SMILES that follow each other as one input."""
    groups: list[str | list[str]] = []
    for text in inputs:
        if exists(text) or _FILE.search(text):
            groups.append(text)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(text)
        else:
            groups.append([text])
    return groups


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


def _write(found: Predictions, output: Path | None, json: bool) -> None:
    if output is not None and output.suffix == ".npz":
        from egt.inference.submission import save_submission

        save_submission(found, output)
    elif output is not None or not json:
        found.to_csv(output or sys.stdout)
    if json:
        where = {"predictions": found.table()} if output is None else {"output": str(output)}
        print_json({"rows": len(found), "errors": found.num_errors, "warnings": found.num_warnings, **where})
        return
    counts = f"{len(found)} rows, {found.num_errors} with an error, {found.num_warnings} with a warning"
    say(counts + (f": {output}" if output else ""))
