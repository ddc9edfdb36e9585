"""`Predictor`: a trained model that reads raw data and answers in the user's terms."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.artifact.artifact import Artifact, find_artifact, load_artifact
from egt.assemble import build_task, preparation
from egt.encodings.encoding import Sample
from egt.encodings.store import Prepared, prepare_in_memory
from egt.errors import DataError
from egt.execution.execution import execution, on_backend
from egt.execution.memory import too_large
from egt.execution.processes import ALONE, Processes, device_of
from egt.graph import Graph, IntArray
from egt.inference.embedding import Embedding, embeddings
from egt.inference.evaluation import evaluate
from egt.inference.forward import forward, rows_per_graph, split_rows
from egt.inference.predictions import Prediction, Predictions
from egt.inference.run_data import open_new, open_source, prepare_split
from egt.sources.custom.custom_source import CustomSource
from egt.sources.source import ALL, SPLITS, Progress, Source
from egt.tasks.task import TargetScale

log = logging.getLogger(__name__)

Answer = tuple[NDArray[np.float32], IntArray | None] | str
"""Values and pairs of a graph, or the reason why there are none."""


class Predictor:
    """An artifact in use.

    Args:
        artifact: model, configuration and statistics.
        device: where to compute; by default a GPU if there is one, another one for each process of this machine.
        processes: that share the work; each gets all results.
    """

    def __init__(
        self, artifact: Artifact, device: str | torch.device | None = None, processes: Processes = ALONE
    ) -> None:
        self.processes = processes
        self.artifact = artifact
        self.config = artifact.config
        self.device = torch.device(device) if device else device_of(processes)
        backend = execution(self.config, self.device, training=False).backend
        self.model = on_backend(artifact.model, self.config, backend).to(self.device).eval()
        self.task = build_task(self.config, TargetScale.from_json(artifact.data.get("scale")))

    def predict(self, data: Any, *, watch: Progress | None = None) -> Predictions:
        """The predictions for new data, one per row, in the order of the input. No file is written.

        Args:
            data: SMILES strings, `Graph`s, the path of a file or folder, a data frame, NetworkX graphs or PyG data.
            watch: is told how far the work is.
        """
        with reading(watch):
            source = open_new(self.config, data)
        return self._predict(source, ALL, watch)

    def predict_split(self, split: str, data: Any = None, *, watch: Progress | None = None) -> Predictions:
        """The predictions for a split of the data that the model was trained on.

        Args:
            split: its name, e.g. "test".
            data: the data itself, where the model was trained on objects in memory.
            watch: is told how far the work is.
        """
        with reading(watch):
            source = open_source(self.config, data)
        return self._predict(source, split, watch)

    def evaluate(self, data: Any = "test", *, of: Any = None, watch: Progress | None = None) -> dict[str, float]:
        """The metrics on a split of the data that the model was trained on, or on new data with its targets.

        Args:
            data: the name of a split ("train", "val", "test"), or whatever `predict` takes.
            of: the data that is split, where the model was trained on objects in memory.
            watch: is told how far the work is.
        """
        with reading(watch):
            if isinstance(data, str) and data in SPLITS:
                source, split = open_source(self.config, of), data
                self._check_same_data(source)
            else:
                source, split = open_new(self.config, data), ALL
        if not len(source.records(split)):
            raise DataError(f"the split {split!r} is empty; the data has {_split_sizes(source)}")
        store = prepare_split(self.config, source, split, progress=watch)
        return evaluate(self.model, self.task, self.config, store, watch, self.processes).metrics

    def encode(self, data: Any, *, watch: Progress | None = None) -> list[Embedding | None]:
        """What the model makes of each graph of new data before its head: see `Embedding`.

        Args:
            data: as for `predict`.
            watch: is told how far the work is.

        Returns:
            One embedding per row of the input, None where a row could not be read.
        """
        with reading(watch):
            source = open_new(self.config, data)
        found: list[Embedding | None] = []
        for part in prepare_in_memory(source, ALL, preparation(self.config), progress=watch):
            made = iter(embeddings(self.model, self.config, part.samples))
            have = set(part.rows)
            found += [next(made) if row in have else None for row in _rows(part)]
        return found

    def _predict(self, source: Source, split: str, watch: Progress | None) -> Predictions:
        total, done = len(source.records(split)), 0
        smiles = source.smiles() if isinstance(source, CustomSource) and split == ALL else None
        predictions: list[Prediction] = []
        for part in prepare_in_memory(source, split, preparation(self.config), progress=watch):
            told = None if watch is None else _counting(watch, done, total)
            answers = dict(zip(part.rows, self._answers(part.samples, told), strict=True))
            names = {row: sample.graph.id for row, sample in zip(part.rows, part.samples, strict=True)}
            problems = {problem.row: problem for problem in part.problems}
            for row in _rows(part):
                warning = problems[row].warning if row in problems else ""
                molecule = None if smiles is None else smiles[row]
                if row not in answers:
                    found = Prediction(row, problems[row].id, None, None, warning, problems[row].error, molecule)
                elif isinstance(reason := answers[row], str):
                    found = Prediction(row, names[row] or str(row), None, None, warning, reason, molecule)
                else:
                    found = Prediction(row, names[row] or str(row), *reason, warning, "", molecule)
                predictions.append(found)
            done += part.num_records
        return Predictions(self.config, predictions)

    def _answers(self, samples: Sequence[Sample], progress: Progress | None) -> list[Answer]:
        """For each graph its values and pairs, or the reason why there are none."""
        level = self.task.level
        sizes = [sample.graph.num_nodes for sample in samples]
        reasons: dict[int, str] = {}
        if too_large(self.config, max(sizes, default=0), self.device):
            reasons = {k: why for k, size in enumerate(sizes) if (why := too_large(self.config, size, self.device))}
        answers: list[Any] = [reasons.get(k) for k in range(len(samples))]
        fitting = np.array([k for k in range(len(samples)) if k not in reasons], dtype=np.int64)
        kept = [samples[k] for k in fitting.tolist()]
        for numbers, _, output in forward(self.model, self.config, kept, progress, self.processes):
            parts = split_rows(self.task.decode(output), rows_per_graph(kept, numbers, level))
            for k, part in zip(fitting[numbers].tolist(), parts, strict=True):
                answers[k] = (part, _pairs(samples[k].graph) if level == "edge" else None)
        parts_of_all = self.processes.gather(answers)
        return [next(found for found in row if found is not None) for row in zip(*parts_of_all, strict=True)]

    def _check_same_data(self, source: Source) -> None:
        """Warn if the data has changed since; of custom data, whose reading the configuration keeps, its files tell."""
        data = self.artifact.data
        if isinstance(source, CustomSource):
            same = list(data.get("card", {}).get("checksums", {}).values()) == list(source.card.checksums.values())
        else:
            same = data.get("fingerprint") == source.fingerprint()
        if data and not same:
            log.warning("the data is not what this model was trained on: its content or the reading of it has changed")


def load(path: str | Path, *, device: str | None = None, processes: Processes = ALONE) -> Predictor:
    """A trained model from an artifact, or from a run folder that holds one.

    Args:
        path: of the artifact or the run folder.
        device: where to compute, e.g. "cpu" or "cuda"; by default as for `Predictor`.
        processes: that share the work.
    """
    place = torch.device(device) if device else device_of(processes)
    return Predictor(load_artifact(find_artifact(path), place), place, processes)


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


def _rows(part: Prepared) -> list[int]:
    """The rows of some records in order; each has either a graph or an error."""
    rows = sorted({*part.rows, *(problem.row for problem in part.problems)})
    if len(rows) != part.num_records:
        raise DataError(f"{part.num_records} rows were given, but {len(rows)} were read")
    return rows


def _pairs(graph: Graph) -> IntArray:
    return np.array(graph.edge_index if graph.query_index is None else graph.query_index)


def _split_sizes(source: Source) -> str:
    sizes: Mapping[str, int] = source.card.split_sizes
    return ", ".join(f"{name}: {size}" for name, size in sizes.items())
