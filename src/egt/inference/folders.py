"""Folders in, folders out: screens of any size, by one process, by shards that know nothing of each other, or by Ray.

Each file of molecules is a part, and what is made of it is a file of the same name in the folder of the results: there
as a whole or not at all. A record beside it (`_done/NAME.json`) says what it was made from, so that the same command
does what is left to do. Folders may lie wherever fsspec has a file system for (s3://, gs://, hdfs://).
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from egt.data.custom import is_known
from egt.data.formats.tables import LIST_SUFFIXES, SDF_SUFFIXES, TABLE_SUFFIXES
from egt.data.source import Progress
from egt.errors import ConfigError, DataError, RunError, counted, require_extra
from egt.files import drafts_of, exists, write_atomically
from egt.inference.artifact import file_sha256
from egt.inference.stream import Record, Written
from egt.processors import num_processors

log = logging.getLogger(__name__)

Engine = Literal["here", "ray"]
SUFFIXES = (*TABLE_SUFFIXES, *SDF_SUFFIXES, *(each for each in LIST_SUFFIXES if not each.startswith(".txt")))
"""Of files that are parts; a text may also be something to read beside them."""

_DONE = "_done"
_URL = re.compile(r"\w+://")
_SHOWN = 5  # how many names a message lists
_AHEAD = 4  # how many parts for each processor of a cluster wait at once


@dataclass(frozen=True)
class Part:
    """A file of molecules and the file of its results, as URLs, and its name in both folders."""

    name: str
    source: str
    output: str
    record: str


@dataclass(frozen=True)
class Job:
    """What is done with each part: `write(part, output)`, and the record of an output, without its input and rows."""

    write: Callable[[Path, Path], Written]
    record: Record


@dataclass
class Summary:
    """What was written now, and how much there is of it: parts, and those among them that were there before."""

    written: Written
    parts: int
    parts_before: int


def is_folder(output: str, inputs: Sequence[str]) -> bool:
    """Return whether results go to a folder, a file for each input: it is one, or the inputs are parts in a folder."""
    if _URL.match(output) or output.endswith(("/", os.sep)) or (exists(output) and Path(output).is_dir()):
        return True
    return not Path(output).suffix and not exists(output) and any(_has_parts(text) for text in inputs)


def _has_parts(text: str) -> bool:
    """Whether this is a folder, and not one of a format of graphs, a pattern that finds files, or a URL."""
    if _URL.match(text):
        return True
    if exists(text):
        return Path(text).is_dir() and not is_known(Path(text))
    return glob.has_magic(text) and any(exists(each) for each in glob.iglob(text))


def parse_shard(text: str) -> tuple[int, int]:
    """Return the numbers of `--shard I/N`."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        raise ConfigError(f"--shard {text}: give I/N, the I-th of N shards from 1 to N (Slurm: --array=1-N)")
    return number, count


def find_parts(inputs: Sequence[str], output: str, suffix_of: Callable[[str], str]) -> list[Part]:
    """Return the files that inputs name, each with the file of its results.

    Args:
        inputs: files, folders and patterns, here or elsewhere (as URLs). Of a folder all files count, also those of
            folders in it, unless a name begins with a dot or an underscore.
        output: the folder of the results.
        suffix_of: returns the suffix of the results for the name of a part.
    """
    found: dict[str, str] = {}
    for text in inputs:
        files, path = file_system(text)
        with _explain_errors(text):
            is_dir = files.isdir(path)
            if not is_dir and not glob.has_magic(path) and not files.exists(path):
                raise DataError(
                    f"{output}: is a folder; name a file in it for SMILES (-o out.csv), or give files and folders of "
                    f"molecules: there is no {text}"
                )
            base = PurePosixPath(path)
            while not is_dir and (str(base) == path or glob.has_magic(str(base))):
                base = base.parent  # of a file its folder, of a pattern the last one without a sign of patterns
            names = files.find(path) if is_dir else files.glob(path) if not files.exists(path) else [path]
        if is_dir and _is_local(files) and Path(output).resolve().is_relative_to(Path(path).resolve()):
            raise DataError(f"{output}: lies in {text}, so that results would be taken for parts; name another folder")
        parts = {str(PurePosixPath(name).relative_to(base)): files.unstrip_protocol(name) for name in names}
        parts = {name: url for name, url in parts.items() if not re.search(r"(^|/)[._]", name)}
        others = [name for name in parts if not name.lower().endswith(SUFFIXES)]
        if others and len(others) < len(parts) and is_dir:
            shown = ", ".join(others[:_SHOWN]) + (", ..." if len(others) > _SHOWN else "")
            log.warning("%s: %s left out, not molecules: %s", text, counted(len(others), "file"), shown)
        parts = {name: url for name, url in parts.items() if name not in others}
        if not parts:
            raise DataError(f"{text}: there are no files of molecules ({', '.join(SUFFIXES)})")
        if twice := sorted(parts.keys() & found.keys()):
            raise DataError(f"{text}: {twice[0]} is a part of another input as well; predict them one after the other")
        found |= parts
    results: dict[str, str] = {}
    for name in found:
        suffix = next(suffix for suffix in SUFFIXES if name.lower().endswith(suffix))
        result = name[: len(name) - len(suffix)] + suffix_of(name)
        if result in results:
            raise DataError(f"{results[result]} and {name}: both would be written to {result}; rename one of them")
        results[result] = name
    folder = output.rstrip("/") if _URL.match(output) else Path(output).absolute().as_posix()
    return [
        Part(name, found[name], f"{folder}/{result}", f"{folder}/{_DONE}/{result}.json")
        for result, name in sorted(results.items())
    ]


def process(parts: Sequence[Part], job: Job, *, engine: Engine = "here", watch: Progress | None = None) -> Summary:
    """Make the results of all parts that have none. One that cannot be read does not keep the others from theirs.

    Raises:
        DataError: results are there of another model, other options or another input; or parts could not be read.
        RunError: nothing can be written.
    """
    left, before = [], 0
    for part in parts:
        rows = _rows_there(part, job.record)
        if rows is None:
            left.append(part)
        before += rows or 0
    summary = Summary(Written(before), len(parts), len(parts) - len(left))
    failed: dict[str, str] = {}
    results = _with_ray(left, job) if engine == "ray" else (finish(part, job) for part in left)
    for number, (part, result) in enumerate(results, start=summary.parts_before + 1):
        if isinstance(result, Written):
            summary.written.rows += result.rows
            summary.written.errors += result.errors
            summary.written.warnings += result.warnings
        else:
            failed[part.name] = result
            log.warning("%s: %s", part.name, result)
        if watch is not None:
            watch("parts", number, len(parts))
    if failed:
        name, why = next(iter(failed.items()))
        raise DataError(
            f"{counted(len(failed), 'part')} of {len(parts)} could not be read, the others are written; {name}: {why}"
        )
    return summary


Result = tuple[Part, Written | str]  # a part and what was written for it, or why it cannot be read


def finish(part: Part, job: Job) -> Result:
    """Write the results of a part, and then their record."""
    from egt.nn.kernels.binding import keep_freed_memory  # here: a command looks for parts before it loads torch

    keep_freed_memory()  # this process does nothing else
    try:
        with _copy(part.source) as path, _open_draft(part.output) as draft:
            written = job.write(path, draft)
            size = draft.stat().st_size
    except DataError as error:
        return part, str(error)
    files, output = file_system(part.output)
    for left in drafts_of(Path(output)) if _is_local(files) else ():  # by processes that were killed
        left.unlink(missing_ok=True)
    record = replace(job.record, input=_state_of(part.source), rows=written.rows, size=size)
    with _open_draft(part.record) as draft:
        draft.write_text(json.dumps(asdict(record)), encoding="utf-8")
    return part, written


def _with_ray(parts: Sequence[Part], job: Job) -> Iterator[Result]:
    """Finish parts by tasks of Ray, in any order; it gives those of a worker that is lost to another one."""
    with require_extra("ray", "--engine ray needs Ray"):
        import ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        alone = {"num_cpus": num_processors(), "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            ray.init(logging_level=logging.ERROR, **({} if "RAY_ADDRESS" in os.environ else alone))
        except Exception as error:  # its errors have no common kind
            raise RunError(
                f"--engine ray: Ray does not start ({' '.join(str(error).split())[:200]}); look at RAY_ADDRESS and at "
                "what else this machine does, or leave --engine out"
            ) from error
    there = ray.cluster_resources()
    with_gpu = {"num_gpus": 1} if there.get("GPU") else {}
    task = ray.remote(finish).options(num_cpus=1, max_retries=-1, **with_gpu)
    shared = ray.put(job)  # the weights travel to each machine once
    todo = list(parts[::-1])
    running: list[Any] = []
    while todo or running:
        while todo and len(running) < _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1))):
            running.append(task.remote(todo.pop(), shared))
        [done], running = ray.wait(running)
        try:
            yield ray.get(done)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, RunError) else RunError(f"a worker of Ray failed: {cause!r}") from error


def _rows_there(part: Part, record: Record) -> int | None:
    """Return how many rows the results of a part have; None if they are to be made."""
    files, path = file_system(part.record)
    with _explain_errors(part.record):
        if not files.exists(path):
            return None
        text = files.cat_file(path)
    try:
        found = Record(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise DataError(f"{part.record}: cannot be read ({error}); remove it, and the part is made again") from error
    replace(record, input=_state_of(part.source)).check_same(found, part.output, "choose another folder (-o)")
    files, path = file_system(part.output)
    with _explain_errors(part.output):
        return found.rows if files.exists(path) and files.size(path) == found.size else None


def _state_of(url: str) -> str:
    """Return what tells a file from a changed one: a checksum, elsewhere what its file system knows without reading."""
    files, path = file_system(url)
    with _explain_errors(url):
        return file_sha256(Path(path)) if _is_local(files) else str(files.ukey(path))


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path in it."""
    from fsspec.core import url_to_fs

    try:
        files, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise DataError(f"{url}: cannot be reached: {error}") from error
    return files, path


def _is_local(files: Any) -> bool:
    return "file" in ((files.protocol,) if isinstance(files.protocol, str) else files.protocol)


@contextmanager
def _explain_errors(url: str) -> Iterator[None]:
    """Turn what file systems raise into a message."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{url}: cannot be read or written ({error.strerror or error})") from error


@contextmanager
def _copy(url: str) -> Iterator[Path]:
    """Yield the path of a file, of one that is not here that of a copy."""
    files, path = file_system(url)
    if _is_local(files):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="egt-") as folder:
        copy = Path(folder, PurePosixPath(path).name)
        with _explain_errors(url):
            files.get_file(path, str(copy))
        yield copy


@contextmanager
def _open_draft(url: str) -> Iterator[Path]:
    """Yield the draft of a file, which is there when the draft is whole, wherever it is."""
    files, path = file_system(url)
    with _explain_errors(url):
        files.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
        if _is_local(files):
            with write_atomically(path) as draft:
                yield draft
            return
        with tempfile.TemporaryDirectory(prefix="egt-") as folder:
            draft = Path(folder, PurePosixPath(path).name)
            yield draft
            partial = f"{path}.partial"
            files.put_file(str(draft), partial)
            files.mv(partial, path)


def prepare_folder(output: str) -> None:
    """Make a folder for results; one with other files is refused. Several processes may do it at the same time."""
    files, path = file_system(output)
    mark = f"{_DONE}/README.txt"
    with _explain_errors(output):
        files.makedirs(path, exist_ok=True)
        others = [name for name in files.ls(path, detail=False) if PurePosixPath(name).name != _DONE]
        if others and not files.exists(f"{path}/{mark}"):
            raise ConfigError(f"{output}: holds other files, which could be overwritten; choose another folder (-o)")
    with _open_draft(f"{output.rstrip('/')}/{mark}") as draft:
        draft.write_text("What egt has made the files of this folder from. Without it they are made again.\n")
