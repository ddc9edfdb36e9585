"""`Predictor`: a trained model that reads raw data and answers in the user's terms."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_task
from egt.config.preparation import preparation
from egt.config.run_data import open_new, open_source, prepare_split, reading_schema, warn_of_labels
from egt.data.custom import open_custom, with_columns
from egt.data.encodings.encoding import Sample
from egt.data.formats.tables import molecule_blocks
from egt.data.source import ALL, SPLITS, FirstRows, Progress, Source
from egt.data.store import Chunk, Prepared, prepare_in_memory
from egt.errors import ArtifactError, DataError
from egt.graph import Graph, IntArray, Level
from egt.inference.answering import Answering, rows_of
from egt.inference.artifact import Artifact
from egt.inference.attention_capture import Attention, attentions
from egt.inference.backends import execution, on_backend, too_large
from egt.inference.calibrating import bounds_of, doubts
from egt.inference.embedding import Embedding, embeddings
from egt.inference.evaluation import Evaluation, evaluate
from egt.inference.forward import forward, rows_per_graph, split_rows
from egt.inference.predictions import Answer, Prediction, Predictions, pooled
from egt.inference.sharing import in_processes, is_shared
from egt.inference.uncertainty import Calibration
from egt.parts.tasks.task import TargetScale
from egt.processes import ALONE, Processes, device_of

if TYPE_CHECKING:
    from egt.inference.neighbors import Novelty

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 20_000
"""Of a large file: how many rows are in memory together."""


class Asked(TypedDict, total=False):
    """What may be asked for beside the predictions; see `Predictor.predict`."""

    keep: Sequence[str]
    interval: float | None
    dropout_samples: int


class Predictor:
    """An artifact in use.

    Args:
        artifact: model, configuration and statistics.
        device: where to compute; by default a GPU if there is one, another one for each process of this machine.
        processes: that share the work; each gets all results.
        overrides: the columns `smiles` and `id` of new data, where they are not called as in training.
        calibrated: give probabilities at the temperature that fits the validation labels.
    """

    has_spread = False
    """Whether answers have a deviation."""

    def __init__(
        self,
        artifact: Artifact,
        device: str | torch.device | None = None,
        processes: Processes = ALONE,
        overrides: Mapping[str, Any] | None = None,
        *,
        calibrated: bool = False,
    ) -> None:
        self.processes = processes
        self.overrides = overrides
        self.artifact = artifact
        self.config = artifact.config
        self.device = torch.device(device) if device else device_of(processes)
        backend = execution(self.config, self.device, training=False).backend
        self.model = on_backend(artifact.model, self.config, backend).to(self.device).eval()
        self.task = build_task(self.config, TargetScale.from_json(artifact.data.get("scale")))
        self.temperatures = self._temperatures() if calibrated else None
        self.novelty: Novelty | None = None
        self._doubted: set[float] = set()

    def predict(
        self,
        data: Any,
        *,
        keep: Sequence[str] = (),
        interval: float | None = None,
        dropout_samples: int = 0,
        watch: Progress | None = None,
    ) -> Predictions:
        """Return the predictions for new data, one per row, in the order of the input. No file is written.

        Args:
            data: SMILES strings, one or a list, RDKit molecules (None for a row without one), `Graph`s, the path of a
                file or folder, a data frame, NetworkX graphs or PyG data; for a model of several SMILES in a row tuples
                of them, or texts with commas between them.
            keep: columns of the input to keep beside the predictions: names, or patterns such as `*`.
            interval: also give intervals (`NAME_low`, `NAME_high`) or sets of classes (`NAME_set`) that hold the truth
                with this chance, such as 0.9.
            dropout_samples: give the mean and the deviation (`NAME_std`) of so many answers with the dropout of
                training, drawn again for each; not together with intervals or calibrated probabilities.
            watch: receives the progress of the work.
        """
        with reading(watch):
            source = open_new(self.config, data, self.overrides)
        return self.predict_source(
            source, ALL, keep=keep, interval=interval, dropout_samples=dropout_samples, watch=watch
        )

    def predict_blocks(
        self,
        path: Path,
        *,
        rows: int = ROWS_AT_ONCE,
        skip: int = 0,
        watch: Progress | None = None,
        **asked: Unpack[Asked],
    ) -> Iterator[Predictions]:
        """Yield the predictions for a text file of molecules, part by part: its size does not matter.

        Args:
            path: of a .csv, .csv.gz, .tsv or .tsv.gz file.
            rows: of a part.
            skip: rows that are left out at the beginning.
            watch: receives the progress of the work on a part.
            asked: other arguments of `predict`.
        """
        for first_row, source in self.open_blocks(path, rows=rows, skip=skip):
            found = self.predict_source(source, ALL, watch=watch, **asked)
            yield found[max(skip - first_row, 0) :]

    def open_blocks(self, path: Path, *, rows: int = ROWS_AT_ONCE, skip: int = 0) -> Iterator[tuple[int, Source]]:
        """Yield the parts of a text file of molecules, each with its first row; those before row `skip` are left out.

        Arguments as for `predict_blocks`.
        """
        schema = reading_schema(self.config)
        for number, raw in enumerate(molecule_blocks(path, rows)):
            if number == 0:
                schema = with_columns(raw, schema, self.overrides or {})
            if raw.first_row + raw.num_rows > skip:
                yield raw.first_row, open_custom(raw, schema=schema)

    def predict_split(
        self,
        split: str,
        data: Any = None,
        *,
        watch: Progress | None = None,
        **asked: Unpack[Asked],
    ) -> Predictions:
        """Predict a split of the data that the model was trained on, beside its labels (`NAME_true`).

        Where the splits are nodes or edges of the same graph, those of the split are answered.

        Args:
            split: its name, e.g. "test".
            data: the data itself, where the model was trained on objects in memory.
            watch: receives the progress of the work.
            asked: other arguments of `predict`.
        """
        with reading(watch):
            source = open_source(self.config, data)
        return self.predict_source(source, split, with_truth=True, watch=watch, **asked)

    def evaluate(self, data: Any = "test", *, of: Any = None, watch: Progress | None = None) -> dict[str, float]:
        """Return the metrics on a split of the data that the model was trained on, or on new data with its targets.

        Args:
            data: the name of a split ("train", "val", "test"), or whatever `predict` takes.
            of: the data that is split, where the model was trained on objects in memory.
            watch: receives the progress of the work.
        """
        return self.evaluation(data, of=of, watch=watch).metrics

    def evaluation(self, data: Any = "test", *, of: Any = None, watch: Progress | None = None) -> Evaluation:
        """Return what `evaluate` gives, with the loss and the metrics of each of several targets (`by_target`)."""
        source, split = self.opened(data, of, watch)
        store = prepare_split(self.config, source, split, progress=watch)
        if not len(store) and (errors := [problem.error for problem in store.problems if problem.error]):
            raise DataError(f"no row can be read (of {len(errors)}); the first: {errors[0]}")
        return evaluate(self.model, self.task, self.config, store, watch, self.processes)

    def opened(self, data: Any, of: Any, watch: Progress | None) -> tuple[Source, str]:
        """Return the data that `evaluate` is asked about, with the name of its split; arguments as there."""
        with reading(watch):
            if isinstance(data, str) and data in SPLITS:
                source, split = open_source(self.config, of), data
                self._check_same_data(source)
            else:
                source, split = open_new(self.config, data, self.overrides), ALL
                _check_targets(source)
        warn_of_labels(source)
        if not len(source.records(split)):
            raise DataError(f"the split {split!r} is empty; the data has {_split_sizes(source)}")
        if why := too_large(self.config, int(source.card.num_nodes[2]), self.device):
            raise DataError(f"{why}; leave such graphs out")
        return source, split

    def warn_if_unlike(self, of: Any = None, *, watch: Progress | None = None) -> None:
        """Warn, from now on, of rows that are unlike the training data, which must be in its place: see `Novelty`.

        Args:
            of: the data that the model was trained on, where that was objects in memory.
            watch: receives the progress of the work.
        """
        from egt.inference.neighbors import novelty_of

        self.novelty = novelty_of(self, of, watch)

    def encode(self, data: Any, *, layer: int | None = None, watch: Progress | None = None) -> list[Embedding | None]:
        """Return what the model makes of each graph of new data before its head: see `Embedding`.

        Args:
            data: as for `predict`.
            layer: after how many layers, 0 for what enters the first; by default after the last one.
            watch: receives the progress of the work.

        Returns:
            One embedding per row of the input, None where a row could not be read or does not fit into memory.
        """
        with reading(watch):
            source = open_new(self.config, data, self.overrides)
        found: list[Embedding | None] = []
        for part in prepare_in_memory(source, ALL, preparation(self.config), progress=watch):
            refused = self.refused(part.samples)
            kept = {row: part.samples[k] for k, row in enumerate(part.rows) if k not in refused}
            made = dict(zip(kept, embeddings(self.model, self.config, [*kept.values()], layer), strict=True))
            found += [made.get(row) for row in rows_of(part)]
        return found

    def attention(
        self, data: Any, *, limit: int | None = None, watch: Progress | None = None
    ) -> Iterator[Attention | None]:
        """Yield what the model looks at in each graph: see `Attention`. Whatever backend predicts, the plain one tells.

        Args:
            data: as for `predict`, or the name of a split of the data that the model was trained on.
            limit: end after this many rows; None for all.
            watch: receives the progress of the work.

        Yields:
            One per row of the input, in order, None where a row could not be read; a few are in memory at a time.
        """
        with reading(watch):
            known = isinstance(data, str) and data in SPLITS
            source = open_source(self.config) if known else open_new(self.config, data, self.overrides)
        part = source if limit is None else FirstRows(source, limit)
        total, done = len(part.records(data if known else ALL)), 0
        for prepared in prepare_in_memory(part, data if known else ALL, preparation(self.config), progress=watch):
            found = attentions(self.model, self.config, prepared.samples)
            have = set(prepared.rows)
            for row in rows_of(prepared):
                yield next(found) if row in have else None
                done += 1
                if watch is not None:
                    watch("looking", done, total)

    def predict_source(
        self,
        source: Source,
        split: str,
        *,
        keep: Sequence[str] = (),
        interval: float | None = None,
        dropout_samples: int = 0,
        with_truth: bool = False,
        watch: Progress | None = None,
        ready: Mapping[int, Chunk] | None = None,
    ) -> Predictions:
        """Return the predictions for a split of a source, beside its labels `with_truth`. Arguments as elsewhere.

        ready: what a head start has prepared of the source.
        """
        if dropout_samples:
            self._check_dropout(dropout_samples, interval)
        more = self._more_columns(interval, has_spread=self.has_spread or bool(dropout_samples))
        self._warn_of_doubts(interval)
        answer = Answering(self, source, split, keep, interval, dropout_samples, with_truth=with_truth)
        predictions: list[Prediction] = []
        for part in self._parts(source, split, answer, watch, ready or {}):
            predictions += part
        return Predictions(self.config, predictions, more)

    def _parts(
        self, source: Source, split: str, answer: Answering, watch: Progress | None, ready: Mapping[int, Chunk]
    ) -> Iterator[list[Prediction]]:
        """Yield the predictions for a split, part by part."""
        total, done = len(source.records(split)), 0
        if is_shared(self, source, split):
            for part in in_processes(self, source, split, answer, ready):
                yield part
                done += len(part)
                if watch is not None:
                    watch("predicting", done, total)
            return
        for prepared in prepare_in_memory(source, split, preparation(self.config), progress=watch):
            told = watch if watch is None or self.config.data.pieces is not None else _counting(watch, done, total)
            yield answer(prepared, told)
            done += prepared.num_records

    def answers(self, samples: Sequence[Sample], progress: Progress | None, dropout_samples: int = 0) -> list[Answer]:
        """For each graph its values and pairs, and deviations over draws of dropout; or why there are none."""
        if not dropout_samples:
            return self._computed(samples, progress)
        from egt.inference.forward import draw, dropping, part_of

        return pooled(
            self._computed(
                samples, part_of(progress, k, dropout_samples), mode=dropping, pose=draw(self.config.seed, k)
            )
            for k in range(dropout_samples)
        )

    def _computed(self, samples: Sequence[Sample], progress: Progress | None, **how: Any) -> list[Answer]:
        """Return for each graph its values and pairs, or the reason why there are none. how: options of `forward`."""
        level = self.task.level
        if self.config.data.pieces is not None:
            from egt.inference.pieces import values_in_pieces  # here: most models read graphs whole

            values = values_in_pieces(self.model, self.task, self.config, samples, progress, self.processes, **how)
            graphs = [sample.graph for sample in samples]
            return [(each, _pairs_at(level, graph), None) for each, graph in zip(values, graphs, strict=True)]
        reasons = self.refused(samples)
        answers: list[Any] = [reasons.get(k) for k in range(len(samples))]
        fitting = np.array([k for k in range(len(samples)) if k not in reasons], dtype=np.int64)
        kept = [samples[k] for k in fitting.tolist()]
        for numbers, _, output in forward(self.model, self.config, kept, progress, self.processes, **how):
            parts = split_rows(self.task.decode(output), rows_per_graph(kept, numbers, level))
            for k, part in zip(fitting[numbers].tolist(), parts, strict=True):
                answers[k] = (part, _pairs_at(level, samples[k].graph), None)
        parts_of_all = self.processes.gather(answers)
        return [next(found for found in row if found is not None) for row in zip(*parts_of_all, strict=True)]

    def refused(self, samples: Sequence[Sample]) -> dict[int, str]:
        """Return the numbers of the graphs that do not fit into memory, each with the reason."""
        sizes = [sample.graph.num_nodes for sample in samples]
        if not too_large(self.config, max(sizes, default=0), self.device):
            return {}
        return {k: why for k, size in enumerate(sizes) if (why := too_large(self.config, size, self.device))}

    def unlike(self, part: Prepared, answers: Mapping[int, Answer]) -> dict[int, list[str]]:
        """Return row -> warnings of its answers that are unlike training, of what could be computed."""
        samples = zip(part.rows, part.samples, strict=True)
        computed = {row: sample for row, sample in samples if not isinstance(answers[row], str)}
        if self.novelty is None or not computed:
            return {}
        return dict(zip(computed, self.novelty([*computed.values()]), strict=True))

    def fields(self, answer: Answer, interval: float | None) -> dict[str, Any]:
        """Return the fields of the `Prediction` with this answer."""
        if isinstance(answer, str):
            return {"error": answer}
        values, pairs, std = answer
        bounds = None if interval is None else bounds_of(self.task.part, self._calibration(), values, interval)
        if self.temperatures is not None:
            outputs = torch.from_numpy(self.task.part.encode(values) / self.temperatures)
            values = self.task.part.decode(outputs).numpy()
        return {"values": values, "pairs": pairs, "std": std, "bounds": bounds}

    def _check_dropout(self, samples: int, interval: float | None) -> None:
        from egt.inference.forward import check_dropout

        if interval is not None or self.temperatures is not None:
            what = "calibrated probabilities" if interval is None else "intervals and sets"
            raise DataError(f"{what} are made for answers without dropout; ask for one of the two")
        check_dropout(self.model, self.config.name, samples)

    def _more_columns(self, interval: float | None, *, has_spread: bool) -> list[str]:
        """Return the names of the columns of deviations and of intervals or sets."""
        part, zeros = self.task.part, np.zeros((1, self.task.part.num_outputs), np.float32)
        columns = [*part.spread_columns(zeros[0], zeros[0])] if has_spread else []
        if interval is not None:
            columns += part.bound_columns(bounds_of(part, self._calibration(), zeros, interval)[0])
        if both := sorted({*columns} & {*part.names}):
            raise DataError(
                f"{self.config.name}: {both[0]!r} is a target, and also the column of a deviation or interval; "
                "predict without them"
            )
        return columns

    def _warn_of_doubts(self, interval: float | None) -> None:
        """Say once, and not for each part of a file, what intervals or sets cannot promise."""
        if interval is None or interval in self._doubted:
            return
        self._doubted.add(interval)
        for doubt in doubts(self.task.part, self._calibration(), interval):
            log.warning("%s: %s", self.config.name, doubt)

    def _calibration(self) -> Calibration:
        if self.artifact.calibration is None:
            raise ArtifactError(
                f"{self.config.name}: the model has no calibration (training leaves one where there is a validation "
                "split, egt 0.1.0 did not); train it again, or predict without intervals and calibrated probabilities"
            )
        return self.artifact.calibration

    def _temperatures(self) -> NDArray[np.float64]:
        """(T,) the temperature of each target."""
        found = self._calibration().temperatures
        if not found:
            raise DataError(
                f"{self.config.name}: the model predicts numbers, which have no probabilities to calibrate; "
                "for their intervals ask for an interval (--interval 0.9)"
            )
        return np.array(found)

    def _check_same_data(self, source: Source) -> None:
        """Warn if the data has changed since training."""
        if self.artifact.data and not source.has_same_content(self.artifact.data):
            log.warning("the data is not what this model was trained on: its content or the reading of it has changed")


def _check_targets(source: Source) -> None:
    """Name the columns that an evaluation needs and the data lacks."""
    missing = source.missing_targets()
    where = source.card.title.removeprefix("custom data: ")
    if missing and source.card.target.level == "link":
        raise DataError(
            f"{where}: nothing says which of the pairs in question are links; evaluate a split of the training data "
            "(--split test), or predict the pairs (egt predict)"
        )
    if missing and len(missing) == len(source.card.target.names):
        raise DataError(
            f"{where}: the target column {', '.join(missing)} is missing; "
            "evaluation compares with it (without it: egt predict)"
        )
    if missing:
        log.warning("the target columns %s are missing; the others are evaluated", ", ".join(missing))


@contextmanager
def reading(watch: Progress | None) -> Iterator[None]:
    """Tell that files are read, and when they have been: how much there is, is known only then."""
    if watch is not None:
        watch("reading", 0, None)
    yield
    if watch is not None:
        watch("reading", 1, 1)


def _counting(watch: Progress, before: int, total: int) -> Progress:
    return lambda stage, done, _: watch(stage, before + done, total)


def _pairs_at(level: Level, graph: Graph) -> IntArray | None:
    """(2, R) the edges or query pairs that are answered; None at other levels."""
    if level != "edge":
        return None
    return np.array(graph.edge_index if graph.query_index is None else graph.query_index)


def _split_sizes(source: Source) -> str:
    sizes: Mapping[str, int] = source.card.split_sizes
    return ", ".join(f"{name}: {size}" for name, size in sizes.items())
