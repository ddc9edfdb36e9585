"""`Predictor`: a trained model that reads raw data and answers in the user's terms."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import egt
from egt.artifact.artifact import CARD, Artifact, load_artifact
from egt.assemble import build_task
from egt.encodings.store import Store
from egt.errors import ArtifactError, DataError
from egt.graph import Graph, IntArray
from egt.inference.data import open_new, open_source, prepare_split
from egt.inference.evaluation import evaluate
from egt.inference.forward import ALONE, forward, rows_per_graph, split_rows
from egt.inference.memory import too_large
from egt.inference.processes import Processes, device_of
from egt.sources.source import ALL, Progress, Reading, Source
from egt.tasks.scale import TargetScale

log = logging.getLogger(__name__)

Answer = tuple[NDArray[np.float32], IntArray | None] | str
"""Values and pairs of a graph, or the reason why there are none."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer for one row of the input, in its place whether it could be read or not.

    Fields:
        row: the position in the input, from 0.
        id: the name of the graph.
        values: (rows, outputs) values in the targets' unit, or probabilities; one row for a graph target, one per
            node, or one per edge or asked pair. None for a row that could not be read.
        pairs: (2, rows) the nodes of each edge or asked pair; None for graph and node targets.
        warning: what the answer should be read with, as a category that training never saw.
        error: why there is no answer.
    """

    row: int
    id: str
    values: NDArray[np.float32] | None = None
    pairs: IntArray | None = None
    warning: str = ""
    error: str = ""


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
        self.model = artifact.model.to(self.device).eval()
        scale = artifact.data.get("scale")
        self.task = build_task(
            self.config, None if scale is None else TargetScale(tuple(scale["mean"]), tuple(scale["std"]))
        )

    def predict(self, data: Any, *, watch: Progress | None = None) -> list[Prediction]:
        """The predictions for new data, one per row, in the order of the input.

        Args:
            data: SMILES strings, `Graph`s, the path of a file or folder, NetworkX graphs or PyG data.
            watch: is told how far the work is.
        """
        with reading(watch):
            source = open_new(self.config, data)
        return self.predict_source(source, ALL, watch=watch)

    def predict_source(self, source: Source, split: str, *, watch: Progress | None = None) -> list[Prediction]:
        """The predictions for all rows of a split of a source."""
        records = source.records(split)
        with tempfile.TemporaryDirectory(prefix="egt-") as folder:
            store = prepare_split(self.config, source, split, cache_dir=folder, progress=watch)
            answers = self._answers(store, _stage(watch, "predicting"))
            rows, problems = store.rows.tolist(), {problem.row: problem for problem in store.problems}
            names = [store[k].graph.id for k in range(len(store))]
            del store  # its files are in the folder
        # Rows are in order in the store, and every record has either a graph or an error.
        found = {row: k for k, row in enumerate(rows)}
        order = sorted(found.keys() | problems.keys())
        if len(order) != len(records):
            raise DataError(f"{len(records)} rows were given, but {len(order)} were read")
        return [_prediction(row, found.get(row), problems.get(row), names, answers) for row in order]

    def evaluate(self, data: Any = "test", *, watch: Progress | None = None) -> dict[str, float]:
        """The metrics on a split of the run's own data ("train", "val", "test"), or on new data with its targets.

        Args:
            data: the name of a split, or whatever `predict` takes.
            watch: is told how far the work is.
        """
        with reading(watch):
            if isinstance(data, str) and data in ("train", "val", "test"):
                source, split = open_source(self.config), data
                self._check_same_data(source)
            else:
                source, split = open_new(self.config, data), ALL
        if not len(source.records(split)):
            raise DataError(f"the split {split!r} is empty; the data has {_split_sizes(source)}")
        store = prepare_split(self.config, source, split, progress=watch)
        return evaluate(
            self.model, self.task, self.config, store, _stage(watch, "evaluating"), processes=self.processes
        )

    def _answers(self, store: Store, progress: Callable[[int, int], None] | None) -> list[Answer]:
        """For each graph its values and pairs, or the reason why there are none."""
        level = self.task.level
        largest = int(store.sizes.max()) if len(store) else 0
        reasons: dict[int, str] = {}
        if too_large(self.config, largest, self.device):
            reasons = {
                k: reason
                for k, size in enumerate(store.sizes.tolist())
                if (reason := too_large(self.config, size, self.device))
            }
        answers: list[Any] = [reasons.get(k) for k in range(len(store))]
        fitting = np.array([k for k in range(len(store)) if k not in reasons], dtype=np.int64)
        samples = store if not reasons else [store[k] for k in fitting.tolist()]
        for numbers, _, output in forward(self.model, self.config, samples, progress, self.processes):
            parts = split_rows(self.task.decode(output), rows_per_graph(samples, numbers, level))
            for k, part in zip(fitting[numbers].tolist(), parts, strict=True):
                answers[k] = (part, _pairs(store[k].graph) if level == "edge" else None)
        parts_of_all = self.processes.gather(answers)
        return [next(found for found in row if found is not None) for row in zip(*parts_of_all, strict=True)]

    def _check_same_data(self, source: Source) -> None:
        known = self.artifact.data.get("fingerprint")
        if known is not None and known != source.fingerprint():
            log.warning("the data is not what this model was trained on: its content or the reading of it has changed")


def load(path: str | Path, *, device: str | None = None, processes: Processes = ALONE) -> Predictor:
    """A trained model from an artifact, a run folder that holds one, or the name of a shipped one.

    Args:
        path: of the artifact.
        device: where to compute, e.g. "cpu" or "cuda"; by default as for `Predictor`.
        processes: that share the work.
    """
    return Predictor(load_artifact(find_artifact(path)), device, processes)


def find_artifact(name: str | Path) -> Path:
    """The folder of an artifact: a path, a run folder with an artifact inside, or a shipped name."""
    given = Path(name)
    shipped = Path(egt.__file__).parent / "pretrained"
    for place in (given, given / "artifact", shipped / str(name)):
        if (place / CARD).is_file():
            return place
    if given.is_dir():
        unfinished = (
            " (the run in it has not finished: continue it with --resume)" if (given / "checkpoints").is_dir() else ""
        )
        raise ArtifactError(f"{given}: holds no artifact{unfinished}; give the folder that `egt train` wrote")
    names = sorted(folder.name for folder in shipped.glob("*") if (folder / CARD).is_file())
    there = f"; shipped are {', '.join(names)}" if names else ""
    raise ArtifactError(f"{given}: no such artifact; give the folder that `egt train` wrote{there}")


@contextmanager
def reading(watch: Progress | None) -> Iterator[None]:
    """Tell when files are read, and when they are: how much there is, is known only then."""
    if watch is not None:
        watch("reading", 0, None)
    yield
    if watch is not None:
        watch("reading", 1, 1)


def _prediction(
    row: int,
    number: int | None,
    problem: Reading | None,
    names: Sequence[str],
    answers: Sequence[Answer],
) -> Prediction:
    warning = "" if problem is None else problem.warning
    if number is None:
        assert problem is not None
        return Prediction(row, problem.id, warning=warning, error=problem.error)
    answer, name = answers[number], names[number] or str(row)
    if isinstance(answer, str):
        return Prediction(row, name, warning=warning, error=answer)
    return Prediction(row, name, *answer, warning)


def _stage(watch: Progress | None, name: str) -> Callable[[int, int], None] | None:
    return None if watch is None else partial(watch, name)


def _pairs(graph: Graph) -> IntArray:
    return np.array(graph.edge_index if graph.query_index is None else graph.query_index)


def _split_sizes(source: Source) -> str:
    sizes: Mapping[str, int] = source.card.split_sizes
    return ", ".join(f"{name}: {size}" for name, size in sizes.items())
