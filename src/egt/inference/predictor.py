"""`Predictor`: one trained model or several, which read raw data and answer in the user's terms."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import torch

from egt.config.load import Settings, override, split_trained
from egt.config.run_data import open_new, open_source, preparation, prepare_split, reading_schema, warn_of_labels
from egt.data.custom import open_custom, read_blocks, with_columns
from egt.data.encodings.encoding import Sample
from egt.data.preparing import Prepared, compute_in_workers, prepare_in_memory
from egt.data.source import ALL, SPLITS, Progress, SomeRows, Source
from egt.deprecation import warn_renamed
from egt.errors import ArtifactError, DataError
from egt.files import exists
from egt.inference.answering import Answer, Member, Query, answers_of, rows_of
from egt.inference.artifact import (
    ENSEMBLE,
    Artifact,
    EnsembleArtifact,
    find_artifact,
    load_artifact,
    load_ensemble,
    member_name,
)
from egt.inference.backends import device_of, too_large
from egt.inference.forward import check_dropout
from egt.inference.predictions import Prediction, Predictions, Row
from egt.inference.uncertainty import Calibration, bounds_of, doubts
from egt.parts.tasks.task import FAMILIARITY
from egt.processes import ALONE, Processes
from egt.processors import num_processors

if TYPE_CHECKING:
    from egt.inference.attention_capture import Attention
    from egt.inference.embedding import Embedding
    from egt.inference.evaluation import Evaluation
    from egt.inference.neighbors import Novelty

log = logging.getLogger(__name__)
ROWS_AT_ONCE = 20_000  # rows of a streamed file that are in memory together
RECORDS_AT_ONCE = 256
"""Molecules that a process predicts at once where several share them: enough to spend little time in Python."""

_LONGEST = 1_000
"""Characters of a SMILES that is shared. Larger molecules need much memory: they are computed one after another."""


class Options(TypedDict, total=False):
    """What stands beside the predictions on request; see `Predictor.predict`."""

    keep: Sequence[str]
    interval: float | None
    dropout_samples: int


class Predictor:
    """An artifact in use, or an ensemble of them: data is prepared once for all its models.

    A number of an ensemble is the mean of the models' numbers, a probability the mean of their probabilities, with the
    deviation between them. What looks inside a model (`encode`, `attention`) looks inside the first one.

    Args:
        artifact: model, configuration and statistics; or several of them.
        device: where to compute; by default a GPU if there is one, another one for each process of this machine.
        processes: that share the work; each gets all results.
        overrides: the columns `smiles` and `id` of new data, where they are not called as in training.
        calibrated: give probabilities at the temperature that fits the validation labels.
    """

    def __init__(
        self,
        artifact: Artifact | EnsembleArtifact,
        device: str | torch.device | None = None,
        processes: Processes = ALONE,
        overrides: Mapping[str, Any] | None = None,
        *,
        calibrated: bool = False,
    ) -> None:
        self.artifact, self.processes, self.overrides = artifact, processes, overrides
        self.device = torch.device(device) if device else device_of(processes)
        self._members = [Member.of(each, self.device, processes) for each in artifact.members]
        first = self._members[0]
        self.config, self.model, self.task = first.config, first.model, first.task
        self.temperatures = self._temperatures() if calibrated else None
        self.novelty: Novelty | None = None
        self._doubted: set[float] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        """Be rebuilt in another process (Ray, Spark, Dask), which computes alone on the device that is there."""
        rebuild = partial(Predictor, calibrated=self.temperatures is not None)
        return rebuild, (self.artifact, None, ALONE, self.overrides), {"novelty": self.novelty}

    @property
    def is_ensemble(self) -> bool:
        """Whether the answers are means of several models, with a deviation."""
        return self.artifact.kind != "single"

    @property
    def is_blend(self) -> bool:
        """Whether the answers are averaged with those of a learner without a network."""
        return any(member.blend is not None for member in self._members)

    @cached_property
    def members(self) -> list[Predictor]:
        """Each model of an ensemble as one of its own; a single model is the only one."""
        if not self.is_ensemble:
            return [self]
        return [Predictor(each, self.device, self.processes, self.overrides) for each in self.artifact.members]

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
        with report_reading(watch):
            source = open_new(self.config, data, self.overrides)
        return self._predict(source, ALL, keep=keep, interval=interval, dropout_samples=dropout_samples, watch=watch)

    def predict_blocks(
        self,
        path: Path,
        *,
        rows: int = ROWS_AT_ONCE,
        skip: int = 0,
        watch: Progress | None = None,
        **options: Unpack[Options],
    ) -> Iterator[Predictions]:
        """Yield the predictions for a file of molecules, part by part: the size of a table or SDF does not matter.

        Args:
            path: of the file.
            rows: of a part.
            skip: rows that are left out at the beginning.
            watch: receives the progress of the work on a part.
            options: other arguments of `predict`.
        """
        for first_row, source in self.open_blocks(path, rows=rows, skip=skip):
            found = self._predict(source, ALL, watch=watch, **options)
            yield found[max(skip - first_row, 0) :]

    def open_blocks(self, path: Path, *, rows: int = ROWS_AT_ONCE, skip: int = 0) -> Iterator[tuple[int, Source]]:
        """Yield the parts of a file of molecules, each with its first row; those before row `skip` are left out.

        Arguments as for `predict_blocks`.
        """
        schema = reading_schema(self.config)
        for number, raw in enumerate(read_blocks(path, rows)):
            if number == 0:
                schema = with_columns(raw, schema, self.overrides or {})
            if raw.first_row + max(raw.num_rows, 1) > skip:
                yield raw.first_row, open_custom(raw, schema=schema)

    def predict_split(
        self, split: str, data: Any = None, *, watch: Progress | None = None, **options: Unpack[Options]
    ) -> Predictions:
        """Predict a split of the data that the model was trained on, beside its labels (`NAME_true`).

        Where the splits are nodes or edges of the same graph, those of the split are answered.

        Args:
            split: its name, e.g. "test".
            data: the data itself, where the model was trained on objects in memory.
            watch: receives the progress of the work.
            options: other arguments of `predict`.
        """
        self._check_split(split)
        with report_reading(watch):
            source = open_source(self.config, data)
        return self._predict(source, split, with_truth=True, watch=watch, **options)

    def predict_rows(
        self, source: Source, split: str, start: int, stop: int, *, interval: float | None = None
    ) -> Predictions:
        """Predict whole graphs of open data, from one row of a split to another; splits of training beside labels."""
        rows = SomeRows(source, start, stop)
        return self._predict(source, split, rows=rows, interval=interval, with_truth=split != ALL)

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
        from egt.inference.evaluation import (  # here: predictions need none of it
            collect_labels,
            evaluate,
            evaluate_answers,
        )

        source, split = self._open_labeled(data, of, watch)
        if self.is_ensemble or self.is_blend:
            answers = self._predict(source, split, with_truth=True, watch=watch)
            return evaluate_answers(self.task, *collect_labels(answers), num_graphs=len(answers) - answers.num_errors)
        store = prepare_split(self.config, source, split, progress=watch)
        if not len(store) and (errors := [problem.error for problem in store.problems if problem.error]):
            raise DataError(f"no row can be read (of {len(errors)}); the first: {errors[0]}")
        return evaluate(self.model, self.task, self.config, store, watch, self.processes)

    def warn_if_unlike(self, of: Any = None, *, watch: Progress | None = None) -> None:
        """Warn, from now on, of rows that are unlike the training data, which must be in its place: see `Novelty`.

        A model of molecules does so without being asked: it keeps fingerprints of those that it was trained on.

        Args:
            of: the data that the model was trained on, where that was objects in memory.
            watch: receives the progress of the work.
        """
        if self.artifact.molecules is not None:
            warn_renamed("--unlike (warn_if_unlike) of molecules", "what every prediction says: the column familiarity")
            return
        from egt.inference.neighbors import novelty_of  # here, as in `evaluation`

        self._check_split("train")
        self.novelty = novelty_of(self.model, self.config, of, watch)

    def encode(self, data: Any, *, layer: int | None = None, watch: Progress | None = None) -> list[Embedding | None]:
        """Return what the model makes of each graph of new data before its head: see `Embedding`.

        Args:
            data: as for `predict`.
            layer: after how many layers, 0 for what enters the first; by default after the last one.
            watch: receives the progress of the work.

        Returns:
            One embedding per row of the input, None where a row could not be read or does not fit into memory.
        """
        from egt.inference.embedding import embeddings  # here, as in `evaluation`

        with report_reading(watch):
            source = open_new(self.config, data, self.overrides)
        found: list[Embedding | None] = []
        for part in prepare_in_memory(source, ALL, preparation(self.config), progress=watch):
            refused = self.find_too_large(part.samples)
            kept = {row: part.samples[k] for k, row in enumerate(part.rows) if k not in refused}
            made = dict(zip(kept, embeddings(self.model, self.config, [*kept.values()], layer), strict=True))
            found += [made.get(row) for row in rows_of(part)]
        return found

    def attention(
        self, data: Any, *, limit: int | None = None, watch: Progress | None = None
    ) -> Iterator[Attention | None]:
        """Yield what the model looks at in each graph, as the plain backend computes it: see `Attention`.

        Args:
            data: as for `predict`, or the name of a split of the data that the model was trained on.
            limit: end after this many rows; None for all.
            watch: receives the progress of the work.

        Yields:
            One per row of the input, in order, None where a row could not be read; a few are in memory at a time.
        """
        from egt.inference.attention_capture import attentions  # here, as in `evaluation`

        is_split = isinstance(data, str) and data in SPLITS
        split = data if is_split else ALL
        with report_reading(watch):
            source = open_source(self.config) if is_split else open_new(self.config, data, self.overrides)
        part = source if limit is None else SomeRows(source, 0, limit)
        total, done = len(part.records(split)), 0
        for prepared in prepare_in_memory(part, split, preparation(self.config), progress=watch):
            found = attentions(self.model, self.config, prepared.samples)
            have = set(prepared.rows)
            for row in rows_of(prepared):
                yield next(found) if row in have else None
                done += 1
                if watch is not None:
                    watch("looking", done, total)

    def answers(self, samples: Sequence[Sample], smiles: Sequence[str] | None = None) -> list[Answer]:
        """Return the values, pairs and deviations for each prepared graph, or the reason why there are none.

        Args:
            samples: the graphs.
            smiles: of each, where they are molecules.
        """
        return answers_of(self._members, samples, smiles)

    def find_too_large(self, samples: Sequence[Sample]) -> dict[int, str]:
        """Return the numbers of the graphs that do not fit into memory, each with the reason."""
        return self._members[0].find_too_large(samples)

    def _predict(
        self,
        source: Source,
        split: str,
        *,
        keep: Sequence[str] = (),
        interval: float | None = None,
        dropout_samples: int = 0,
        with_truth: bool = False,
        rows: SomeRows | None = None,
        watch: Progress | None = None,
    ) -> Predictions:
        """Return the predictions for a split of a source, beside its labels `with_truth`. Arguments as elsewhere.

        rows: some rows of the source, whose graphs are answered whole even where the split has a part of them.
        """
        if dropout_samples:
            self._check_dropout(dropout_samples, interval)
        more = self._more_columns(interval, has_spread=self.is_ensemble or bool(dropout_samples))
        self._warn_of_doubts(interval)
        smiles, columns = source.smiles(), {**source.components(), **source.columns(keep)}
        query = Query(
            self._members,
            source,
            split,
            smiles,
            columns,
            with_truth=with_truth,
            whole=rows is not None,
            dropout_samples=dropout_samples,
            interval=interval,
            calibration=None if interval is None else self._calibration(),
            temperatures=self.temperatures,
            molecules=self.artifact.molecules,
            warn=self.novelty,
        )
        predictions = [each for part in self._parts(rows or source, split, query, watch) for each in part]
        like = Prediction(-1, "", smiles=None if smiles is None else "", kept=dict.fromkeys(columns, ""))
        return Predictions(self.config, predictions, more, like)

    def _parts(self, source: Source, split: str, query: Query, watch: Progress | None) -> Iterator[list[Prediction]]:
        """Yield the predictions for a split, part by part, computed by this process or shared by several."""
        total, done, prepare = len(source.records(split)), 0, preparation(self.config)
        if self._is_shared(source, split):
            work = partial(_answer_alone, query)
            for part in compute_in_workers(source, split, prepare, work, at_once=RECORDS_AT_ONCE):
                yield part
                done += len(part)
                if watch is not None:
                    watch("predicting", done, total)
            return
        # The same groups whether processes share them or not: the sums of a group depend on its size in the last bit.
        options = {"at_once": RECORDS_AT_ONCE} if source.smiles() is not None else {}
        if torch.get_num_threads() == 1:  # no more processors are asked for
            options["num_workers"] = 1
        for prepared in prepare_in_memory(source, split, prepare, progress=watch, **options):
            counting = watch if watch is None or self.config.data.pieces is not None else _count(watch, done, total)
            yield query.answer(prepared, counting)
            done += prepared.num_records

    def _is_shared(self, source: Source, split: str) -> bool:
        """Return whether one process for each processor predicts, with a single thread each.

        Threads of one process wait for each other some dozen times in every layer; for graphs of the size of molecules
        processes get through 1.6 times as many. Only on Linux, whose processes have the model from the start.
        """
        return (
            sys.platform == "linux"
            and self.device.type == "cpu"
            and self.processes.count == 1
            and min(num_processors(), torch.get_num_threads()) > 1
            and source.schema is not None
            and len(source.records(split)) > RECORDS_AT_ONCE
            and max(map(len, source.smiles() or ()), default=_LONGEST + 1) <= _LONGEST
        )

    def _open_labeled(self, data: Any, of: Any, watch: Progress | None) -> tuple[Source, str]:
        """Return the data that `evaluate` is given, with the name of its split; arguments as there."""
        is_split = isinstance(data, str) and data in SPLITS
        if is_split:
            self._check_split(data)
        with report_reading(watch):
            if is_split:
                source, split = open_source(self.config, of), data
                self._check_same_data(source)
            else:
                source, split = open_new(self.config, data, self.overrides), ALL
                _check_targets(source)
        warn_of_labels(source)
        if not len(source.records(split)):
            sizes = ", ".join(f"{name}: {size}" for name, size in source.card.split_sizes.items())
            raise DataError(f"the split {split!r} is empty; the data has {sizes}")
        if why := too_large(self.config, int(source.card.num_nodes[2]), self.device):
            raise DataError(f"{why}; leave such graphs out")
        return source, split

    def _check_split(self, split: str) -> None:
        if self.artifact.kind == "folds":
            raise DataError(
                f"each model of these folds has another {split} split, and the others were trained on its rows; take "
                "new data, or one of the models (ARTIFACT/member0), or read the metrics of all in ensemble.json"
            )

    def _check_dropout(self, samples: int, interval: float | None) -> None:
        if interval is not None or self.temperatures is not None:
            what = "calibrated probabilities" if interval is None else "intervals and sets"
            raise DataError(f"{what} are made for answers without dropout; ask for one of the two")
        check_dropout(self.model, self.config.name, samples)

    def _more_columns(self, interval: float | None, *, has_spread: bool) -> Row:
        """Return the columns of deviations, intervals or sets, and how familiar molecules are, with a cell of each."""
        part, zeros = self.task.part, np.zeros((1, self.task.part.num_outputs), np.float32)
        columns: Row = part.spread_columns(zeros[0], zeros[0]) if has_spread else {}
        if interval is not None:
            columns |= part.bound_columns(bounds_of(part, self._calibration(), zeros, interval)[0])
        if both := sorted({*columns} & {*part.names}):
            raise DataError(
                f"{self.config.name}: {both[0]!r} is a target, and also the column of a deviation or interval; "
                "predict without them"
            )
        return columns if self.artifact.molecules is None else {**columns, FAMILIARITY: 0.0}

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

    def _temperatures(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
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
        data = self.artifact.members[0].data
        if data and not source.has_same_content(data):
            log.warning("the data is not what this model was trained on: its content or the reading of it has changed")


def _answer_alone(query: Query, part: Prepared) -> list[Prediction]:
    """Answer in a process of its own, beside one for each other processor."""
    torch.set_num_threads(1)
    return query.answer(part)


def _check_targets(source: Source) -> None:
    """Name the columns that an evaluation needs and the data lacks."""
    missing, where = source.missing_targets(), source.card.title
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
def report_reading(watch: Progress | None) -> Iterator[None]:
    """Report that files are read, and when they have been; how much there is to read is not known before."""
    if watch is not None:
        watch("reading", 0, None)
    yield
    if watch is not None:
        watch("reading", 1, 1)


def _count(watch: Progress, before: int, total: int) -> Progress:
    return lambda stage, done, _: watch(stage, before + done, total)


def load(
    path: str | Path,
    *,
    device: str | None = None,
    processes: Processes = ALONE,
    set: Settings = (),
    calibrated: bool = False,
) -> Predictor:
    """Return a trained model, or an ensemble of them, from an artifact or from a run folder that holds one.

    Args:
        path: of the artifact or the run folder.
        device: where to compute, e.g. "cpu" or "cuda"; by default as for `Predictor`.
        processes: that share the work.
        set: settings to change: `overrides.smiles=NAME` and `overrides.id=NAME` name columns of new data; those of
            `data` and `trainer` say how it is computed (`data.pair_budget=100000`).
        calibrated: as for `Predictor`.
    """
    place = torch.device(device) if device else device_of(processes)
    computing, overrides = split_trained(set)
    folder = find_artifact(path)
    found = load_ensemble(folder, place) if exists(folder / ENSEMBLE) else load_artifact(folder, place)
    members = tuple(replace(each, config=override(each.config, computing)) for each in found.members)
    changed = replace(found, members=members) if isinstance(found, EnsembleArtifact) else members[0]
    return Predictor(changed, place, processes, overrides, calibrated=calibrated)


def load_single(path: str | Path, *, set: Settings = ()) -> Predictor:
    """Return a trained model for what looks inside it; an ensemble is refused. Arguments as in `load`."""
    folder = find_artifact(path)
    if exists(folder / ENSEMBLE):
        raise ArtifactError(f"{folder}: is an ensemble; name one of its models, as {folder / member_name(0)}")
    return load(folder, set=set)


def load_first(path: str | Path, *, set: Settings = ()) -> Predictor:
    """Return a trained model, of an ensemble the first one, with a warning. Arguments as in `load`."""
    folder = find_artifact(path)
    if exists(folder / ENSEMBLE):
        folder = folder / member_name(0)
        log.warning("%s: each model of an ensemble has a space of its own; the first one embeds, %s", path, folder)
    return load(folder, set=set)
