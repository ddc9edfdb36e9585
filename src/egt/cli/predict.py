"""`egt predict`: predictions for files or SMILES, row by row."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from egt.cli.output import Bars, Flag, Settings, Words, print_json, say, with_smiles
from egt.errors import DataError
from egt.files import begin_draft, exists, replaceable
from egt.inference.folders import (
    Engine,
    Job,
    Part,
    find_parts,
    is_folder,
    parse_shard,
    prepare_folder,
    process,
)
from egt.inference.predictions import Predictions, join, save_submission
from egt.inference.stream import DELIMITERS, Written, find_streamed, predict_at_once, predict_to_file, record_of
from egt.processes import ALONE, find_launch, join_processes, leave_processes

if TYPE_CHECKING:
    from egt.data.source import Progress
    from egt.inference.predictor import Options

_FILE = re.compile(r"\.\w*[^\W\dBCNOPSFIbcnopslr]\w*$")
"""The end of a file name (.csv) and of no SMILES: it has a letter that no atom has outside of brackets."""

_WRITTEN = ("", ".csv", ".tsv", ".xlsx", ".parquet", ".npz")
"""The names of outputs; one without an ending is CSV, as are pipes."""


def predict(
    artifact: str,
    *inputs: str,
    split: str | None = None,
    output: Annotated[str | None, Parameter(name=["--out", "-o"])] = None,
    smiles: Words = (),
    keep: Words = (),
    columns: Literal["all", "only"] = "all",
    settings: Settings = (),
    interval: float | None = None,
    calibrated: Flag = False,
    dropout_samples: int = 0,
    unlike: Flag = False,
    resume: Flag = False,
    shard: str | None = None,
    engine: Engine = "here",
    json: Flag = False,
) -> None:
    """Predict for files or SMILES: one row for each row of the input, in order, bad rows in place with the reason.

    Args:
        artifact: The folder that `egt train` wrote.
        inputs: Files or folders in the format of the training data, or SMILES; for a model of several SMILES in a row
            with commas between them: CCO,O.
        split: Predict this split of the data that the model was trained on, instead of inputs; its labels are beside
            the predictions (NAME_true). Of one graph that is divided, the nodes or edges of the split are written.
        output: The file to write: .csv, .tsv, .xlsx or .parquet; CSV on standard output by default. A .npz file gets
            the matrix of each graph where pairs are predicted, and otherwise the array `y_pred`, as the evaluator of
            OGB's PCQM4Mv2 takes it (`--split test -o y_pred_pcqm4m-v2_test-dev.npz`). A folder (`out/`) gets a file for
            each input, which may be files of molecules (Parquet, CSV, SDF, SMILES), folders, patterns, or URLs of
            these (s3://, gs://, hdfs://); those that are there already are not made again.
        smiles: Column of the inputs that holds the SMILES, if its name does not say so; for a model of several as many,
            in the order of the training.
        keep: Columns of the input to keep beside the predictions, or patterns such as `*`. By default an output (-o)
            keeps all of them; one that is called like a result gets the name NAME_input.
        columns: `only` writes the results without columns of the input.
        settings: Settings to change, as path=value: overrides.smiles, overrides.id, data.pair_budget, trainer.backend.
        interval: Also write intervals (NAME_low, NAME_high) or sets of classes (NAME_set) that hold the truth with this
            chance, such as 0.9; calibrated on the validation split.
        calibrated: Write probabilities at the temperature that fits the validation split.
        dropout_samples: Write the mean and the deviation (NAME_std) of this many answers, e.g. 20, with the dropout of
            training, drawn again for each; 0 answers once, without dropout.
        unlike: Warn of graphs, nodes or edges that are unlike the training data, which must be in its place: they are
            farther from it than almost all of validation. Molecules are warned of without it (column `familiarity`).
        resume: Continue after the rows that are there already (OUTPUT.partial), which must come from the same model,
            input and options; a small file beside it, OUTPUT.resume, says so. It stays there, so that the same command
            can be given again, however often it is stopped. A folder always goes on.
        shard: Do the I-th of N shares (`I/N`, from 1) of the files for a folder, on machines that know nothing of each
            other (Slurm: --array=1-N, --shard $SLURM_ARRAY_TASK_ID/N).
        engine: Who makes the files of a folder: `here` this process, `ray` the workers of the cluster that RAY_ADDRESS
            names, or of this machine.
        json: Print one JSON object as the last line.
    """
    if bool(inputs) == (split is not None):
        raise DataError("give either inputs (files or SMILES, in front of the options) or --split")
    if keep and columns == "only":
        raise DataError(
            f"--keep {keep[0]} keeps columns of the input, --columns only keeps none; leave one of them out"
        )
    if output is not None:
        keep = keep or (("*",) if columns == "all" else ())
    options: Options = {"keep": keep, "interval": interval, "dropout_samples": dropout_samples}
    parts = share_of(inputs, output, _suffix_of, shard, engine)
    file = None if output is None or parts is not None else Path(output)
    if file is not None:
        if file.suffix not in _WRITTEN:
            known = ", ".join(filter(None, _WRITTEN))
            raise DataError(f"{file}: predictions are written to {known}; choose such a name (-o)")
        check_writable(file, inputs)
    streamed = find_streamed(inputs, file, resume=resume) if parts is None else None
    from egt.inference.predictor import load  # this loads the libraries of the model
    from egt.nn.kernels.binding import keep_freed_memory

    processes = join_processes() if parts is None else ALONE
    keep_freed_memory()  # as training does; this process does nothing else
    model = load(artifact, processes=processes, set=with_smiles(settings, smiles), calibrated=calibrated)
    if unlike:
        model.warn_if_unlike()
    if parts is not None:
        job = Job(partial(predict_at_once, model, **options), record_of(model, options))
        finish_parts(parts, job, str(output), engine, json=json)
        return
    with Bars(shown=not json and not processes.rank) as bars:
        if streamed is not None and file is not None:
            watch = about(bars, str(streamed))
            written = predict_to_file(model, streamed, file, resume=resume, watch=watch, **options)
        elif split is not None:
            found = model.predict_split(split, watch=bars, **options)
        else:
            inputs_of_all = [(data, data if isinstance(data, str) else "SMILES") for data in group_inputs(inputs)]
            found = join([model.predict(data, watch=about(bars, name), **options) for data, name in inputs_of_all])
    leave_processes()
    if processes.rank:  # the first process writes what all have computed
        return
    if streamed is not None:
        report(written, str(file), {}, json=json)
    else:
        _write(found, file, json)


def report(written: Written, output: str, parts: Mapping[str, int], *, json: bool) -> None:
    """Say what was written; parts: how many files of a folder, by a word for them."""
    if json:
        counts = {"rows": written.rows, "errors": written.errors, "warnings": written.warnings}
        print_json({**counts, "rows_before": written.before, **parts, "output": output})
        return
    before = f", after {written.before} that were there" if written.before else ""
    say(f"{written.rows} rows, {written.errors} with an error, {written.warnings} with a warning{before}: {output}")


def _suffix_of(part: str) -> str:
    name = part.lower()
    return ".parquet" if name.endswith(".parquet") else ".tsv" if name.endswith((".tsv", ".tsv.gz")) else ".csv"


def share_of(
    inputs: Sequence[str], output: str | None, suffix_of: Callable[[str], str], shard: str | None, engine: Engine
) -> list[Part] | None:
    """Return the files for a folder of results, of shards those of one; None if the output is no folder."""
    if output is None or not inputs or not is_folder(output, inputs):
        if shard is not None or engine != "here":
            option = "--engine" if shard is None else "--shard"
            raise DataError(f"{option} is for the files of a folder; name a folder as output (-o out/)")
        return None
    number, count = (1, 1) if shard is None else parse_shard(shard)
    if shard is None and (find_launch() or ALONE).count > 1:
        raise DataError(f"{output}: the files of a folder are shared by --shard I/N or --engine ray, not by a launcher")
    found = find_parts(inputs, output, suffix_of)
    prepare_folder(output)
    return found[number - 1 :: count]


def finish_parts(parts: Sequence[Part], job: Job, output: str, engine: Engine, *, json: bool) -> None:
    """Make the files of a folder, and say what was written."""
    with Bars(shown=not json) as bars:
        done = process(parts, job, engine=engine, watch=bars)
    report(done.written, output, {"parts": done.parts, "parts_before": done.parts_before}, json=json)


def about(bars: Bars, name: str) -> Progress:
    """Bars that name the input as well."""
    return lambda stage, done, total: bars(f"{stage} {name}", done, total)


def group_inputs(inputs: Iterable[str]) -> list[str | list[str]]:
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


def check_writable(output: Path, inputs: Sequence[str]) -> None:
    """Find out before the work whether its result can be written, and would not take the place of an input."""
    try:
        if output.exists() and any(exists(each) and output.samefile(each) for each in inputs):
            raise DataError(f"{output}: is an input, which would be lost; choose another file (-o)")
        if not output.parent.is_dir():
            raise DataError(f"{output}: there is no folder {output.parent}")
        if output.is_dir():
            raise DataError(f"{output}: is a folder; name a file in it (-o {output / 'out.csv'})")
        place = replaceable(output)
        if place is not None:  # a pipe would take the trial for the result
            trial = place.with_name(f".{place.name}.{os.getpid()}.trial")
            try:
                begin_draft(trial, place)
            finally:
                trial.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror}); choose another file (-o)") from error


def _write(found: Predictions, output: Path | None, json: bool) -> None:
    schema = found.config.data.custom
    if output is None:
        if not json:
            found.to_csv(sys.stdout)
    elif output.suffix == ".npz" and schema is not None and schema.level == "pair":
        found.to_npz(output)
    elif output.suffix == ".npz":
        save_submission(found, output)
    elif output.suffix == ".parquet":
        found.to_parquet(output)
    elif output.suffix == ".xlsx":
        found.to_xlsx(output)
    else:
        found.to_csv(output, delimiter=DELIMITERS[output.suffix])
    if json:
        where = {"predictions": found.table()} if output is None else {"output": str(output)}
        print_json({"rows": len(found), "errors": found.num_errors, "warnings": found.num_warnings, **where})
        return
    counts = f"{len(found)} rows, {found.num_errors} with an error, {found.num_warnings} with a warning"
    say(counts + (f": {output}" if output else ""))
