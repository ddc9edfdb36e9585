"""Embeddings of any amount of data as a Parquet or NPY file, made part by part; a bad row keeps its place.

Of graphs there is a row for each row of the input. Of nodes and pairs there are as many as each graph has, and one
without an embedding for a graph that cannot be read. Both kinds of files have the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from egt.config.run import RunConfig
from egt.config.run_data import open_new, open_source, preparation
from egt.data.preparing import Prepared, prepare_in_memory
from egt.data.source import ALL, Progress, Source
from egt.errors import DataError
from egt.files import write_result
from egt.inference.answering import rows_of
from egt.inference.embedding import EmbeddingLevel, FloatRows, Rows, check_layer, embedding_rows
from egt.inference.neighbors import KnownRows, training_rows
from egt.inference.predictor import report_reading
from egt.inference.stream import Written, is_streamed

if TYPE_CHECKING:
    from egt.inference.predictor import Predictor

SUFFIXES = (".parquet", ".npy")
_PLACES: dict[EmbeddingLevel, tuple[str, ...]] = {"graph": (), "node": ("node",), "pair": ("source", "target")}


@dataclass(frozen=True, eq=False)
class _Row:
    """One row of the input: its name, its embeddings or the reason why there are none, and what stands beside."""

    name: str
    found: Rows | None
    warning: str
    error: str
    smiles: str | None


def embed_to_file(
    model: Predictor,
    inputs: Sequence[Any],
    output: Path,
    *,
    split: str | None = None,
    level: EmbeddingLevel = "graph",
    layer: int | None = None,
    neighbors: int = 0,
    known: KnownRows | None = None,
    of: Any = None,
    watch: Progress | None = None,
) -> Written:
    """Write the embeddings of some inputs, each as for `Predictor.predict`, or of a split, as .parquet or .npy.

    Rows are those of a level ("graph", "node" or "pair") after so many layers, 0 for what enters the first; by default
    after the last one. Each can have the nearest training graphs, nodes or pairs beside it: `known`, where these are
    embedded already; `of` is the training data, where it was in memory.
    """
    if output.suffix not in SUFFIXES:
        raise DataError(f"{output}: embeddings are written to {' or '.join(SUFFIXES)}; choose such a name (--out)")
    if neighbors < 0:
        raise DataError(f"--neighbors {neighbors}: give how many, at least 1")
    if neighbors and output.suffix != ".parquet":
        raise DataError("--neighbors writes names beside the embeddings: it needs a .parquet file")
    check_layer(layer, model.config)
    if neighbors and known is None:
        known = training_rows(model.model, model.config, level=level, layer=layer, of=of, watch=watch)
    written = Written()
    width = _width(model.config, level)
    with write_result(output) as draft, _open_writer(draft, output.suffix, width) as append:
        for source in _sources(model, inputs, split, of, watch):
            smiles = source.smiles()
            for prepared in prepare_in_memory(source, split or ALL, preparation(model.config), progress=watch):
                part = _embed(model, prepared, smiles, level, layer)
                append(*_columns(part, level, width, known, neighbors))
                written.rows += len(part)
                written.errors += sum(1 for row in part if row.error)
                written.warnings += sum(1 for row in part if row.warning)
        if not written.rows:
            empty = _Row("", None, "", "", None if smiles is None else "")
            rows, columns = _columns([empty], level, width, known, neighbors)
            append(rows[:0], {name: column[:0] for name, column in columns.items()})
    return written


def embed_part(
    model: Predictor,
    known: KnownRows | None,
    path: Path,
    output: Path,
    *,
    level: EmbeddingLevel,
    layer: int | None,
    neighbors: int,
) -> Written:
    """Write the embeddings of one file; arguments as for `embed_to_file`."""
    return embed_to_file(model, [path], output, level=level, layer=layer, neighbors=neighbors, known=known)


def _width(config: RunConfig, level: EmbeddingLevel) -> int:
    """Return how many numbers an embedding has."""
    model = config.model
    if level == "graph":
        return model.readout.width(model) if model.level == "graph" else model.node_width
    return model.node_width if level == "node" else model.edge_width


def _sources(
    model: Predictor, inputs: Iterable[Any], split: str | None, of: Any, watch: Progress | None
) -> Iterator[Source]:
    if split is not None:
        yield open_source(model.config, of)
    for data in inputs if split is None else ():
        if is_streamed(data):
            yield from (source for _, source in model.open_blocks(Path(data)))
        else:
            with report_reading(watch):
                source = open_new(model.config, data, model.overrides)
            yield source


def _embed(
    model: Predictor, part: Prepared, smiles: Sequence[str] | None, level: EmbeddingLevel, layer: int | None
) -> list[_Row]:
    refused = model.find_too_large(part.samples)
    kept = [k for k in range(len(part.samples)) if k not in refused]
    made = embedding_rows(model.model, model.config, [part.samples[k] for k in kept], level, layer)
    found = {part.rows[k]: rows for k, rows in zip(kept, made, strict=True)}
    graphs = {row: sample.graph for row, sample in zip(part.rows, part.samples, strict=True)}
    errors = {part.rows[k]: why for k, why in refused.items()}
    problems = {problem.row: problem for problem in part.problems}
    return [
        _Row(
            name=(graphs[row].id or str(row)) if row in graphs else problems[row].id,
            found=found.get(row),
            warning=problems[row].warning if row in problems else "",
            error=errors.get(row, problems[row].error if row in problems else ""),
            smiles=None if smiles is None else str(smiles[row]),
        )
        for row in rows_of(part)
    ]


def _columns(
    part: Sequence[_Row], level: EmbeddingLevel, width: int, known: KnownRows | None, neighbors: int
) -> tuple[FloatRows, dict[str, pa.Array]]:
    """Return the embeddings for some rows of the input, NaN where there are none, and the columns of a Parquet file."""
    counts = [1 if row.found is None else len(row.found[0]) for row in part]
    present = np.repeat([row.found is not None for row in part], counts)
    places = [row.found[1] if row.found is not None else np.full((len(_PLACES[level]), 1), -1) for row in part]
    missing = np.full((1, width), np.nan, np.float32)
    rows = np.concatenate([missing if row.found is None else row.found[0] for row in part])

    def repeat(texts: Iterable[str | None]) -> pa.Array:
        return pa.array(np.repeat(np.array([*texts], dtype=object), counts), pa.string())

    columns = {"id" if level == "graph" else "graph": repeat(row.name for row in part)}
    if part[0].smiles is not None:
        columns["smiles"] = repeat(row.smiles for row in part)
    for name, numbers in zip(_PLACES[level], np.concatenate(places, axis=1), strict=True):
        columns[name] = pa.array(numbers, pa.int64(), mask=~present)
    vectors = [row if there else None for row, there in zip(rows, present, strict=True)]
    columns["embedding"] = pa.array(vectors, pa.list_(pa.float32()))
    if known is not None:
        columns |= _neighbor_columns(known, level, rows, present, neighbors)
    columns["warning"] = repeat(row.warning for row in part)
    columns["error"] = repeat(row.error for row in part)
    return rows, columns


def _neighbor_columns(
    known: KnownRows, level: EmbeddingLevel, rows: FloatRows, present: Any, count: int
) -> dict[str, pa.Array]:
    found = iter(list(zip(*known.nearest(rows[present], count), strict=True)) if present.any() else [])
    numbers, distances = zip(*(next(found) if there else (None, None) for there in present), strict=True)

    def list_rows(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if each is None else [values[k] for k in each] for each in numbers], pa.list_(kind))

    columns = {"neighbors": list_rows(known.names, pa.string())}
    for name, nodes in zip(_PLACES[level], known.places, strict=True):
        columns[f"neighbor_{name}s"] = list_rows(nodes.tolist(), pa.int64())
    if known.smiles is not None:
        columns["neighbor_smiles"] = list_rows(known.smiles, pa.string())
    return columns | {"neighbor_distances": pa.array(distances, pa.list_(pa.float32()))}


@contextmanager
def _open_writer(path: Path, suffix: str, width: int) -> Iterator[Callable[[FloatRows, dict[str, pa.Array]], None]]:
    """Yield what adds some rows to a file: their columns as a row group of Parquet, or to NPY the embeddings alone.

    The header of an NPY file, which has room to grow, is written again at the end.
    """
    num_rows = 0

    def write_header(file: IO[bytes]) -> None:
        about = {"descr": "<f4", "fortran_order": False, "shape": (num_rows, width)}
        np.lib.format.write_array_header_1_0(file, about)

    with ExitStack() as opened:
        if suffix == ".npy":
            file = opened.enter_context(path.open("wb"))
            write_header(file)
        parquet: pq.ParquetWriter | None = None

        def append(rows: FloatRows, columns: dict[str, pa.Array]) -> None:
            nonlocal num_rows, parquet
            if suffix == ".npy":
                file.write(np.ascontiguousarray(rows, dtype="<f4").tobytes())
                num_rows += len(rows)
                return
            table = pa.table(columns)
            parquet = parquet or opened.enter_context(pq.ParquetWriter(path, table.schema))
            parquet.write_table(table)

        yield append
        if suffix == ".npy":
            file.seek(0)
            write_header(file)
