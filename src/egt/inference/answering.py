"""From prepared graphs to predictions: what one or several models compute, averaged, and what stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from egt.assemble import build_task
from egt.config.run import RunConfig
from egt.config.run_data import in_pieces
from egt.data.encodings.encoding import Sample
from egt.data.preparing import Prepared
from egt.data.source import Progress, Reading, Source
from egt.errors import DataError, counted
from egt.graph import Graph, IntArray, Level
from egt.inference.artifact import Artifact
from egt.inference.backends import execution, on_backend, too_large
from egt.inference.forward import draw, dropout_mode, forward, part_of, rows_per_graph, split_rows
from egt.inference.predictions import Prediction
from egt.inference.uncertainty import Calibration, Spread, bounds_of
from egt.nn.model import EGT
from egt.parts.tasks.task import TargetScale, Task
from egt.processes import Processes

if TYPE_CHECKING:
    from egt.data.molecule_descriptors import Described
    from egt.inference.familiarity import Judgment, TrainingMolecules
    from egt.inference.learner import Blend

FloatRows = NDArray[np.float32]
Answer = tuple[FloatRows, IntArray | None, FloatRows | None] | str
"""Values, pairs and (of several runs) deviations of a graph, or the reason why there are none."""


@dataclass(frozen=True, eq=False)
class Member:
    """One model in use: the only one, or one of an ensemble."""

    model: EGT
    config: RunConfig
    task: Task
    device: torch.device
    processes: Processes
    blend: Blend | None = None

    @classmethod
    def of(cls, artifact: Artifact, device: torch.device, processes: Processes) -> Member:
        """Return the model of an artifact on a device, computed by the backend that suits it."""
        config = artifact.config
        backend = execution(config, device, training=False).backend
        model = on_backend(artifact.model, config, backend).to(device).eval()
        task = build_task(config, TargetScale.from_json(artifact.data.get("scale")))
        return cls(model, config, task, device, processes, artifact.blend)

    def answers(
        self,
        samples: Sequence[Sample],
        progress: Progress | None,
        dropout_samples: int = 0,
        described: Described | None = None,
    ) -> list[Answer]:
        """For each graph its values and pairs, and deviations over draws of dropout; or why there are none."""
        if not dropout_samples:
            found = self._run(samples, progress)
        else:
            watches = [part_of(progress, k, dropout_samples) for k in range(dropout_samples)]
            found = pool(
                self._run(samples, watch, mode=dropout_mode, pose=draw(self.config.seed, k))
                for k, watch in enumerate(watches)
            )
        return found if self.blend is None or described is None else self.blend.join(found, described)

    def find_too_large(self, samples: Sequence[Sample]) -> dict[int, str]:
        """Return the numbers of the graphs that do not fit into memory, each with the reason."""
        sizes = [sample.graph.num_nodes for sample in samples]
        if not too_large(self.config, max(sizes, default=0), self.device):
            return {}
        return {k: why for k, size in enumerate(sizes) if (why := too_large(self.config, size, self.device))}

    def _run(self, samples: Sequence[Sample], progress: Progress | None, **options: Any) -> list[Answer]:
        """Return the answers of one pass over whole graphs or over pieces of them. options: of `forward`."""
        level = self.task.level
        if self.config.data.pieces is not None:
            values = self._run_pieces(samples, progress, **options)
            return [(each, _pairs_at(level, sample.graph), None) for each, sample in zip(values, samples, strict=True)]
        reasons = self.find_too_large(samples)
        answers: list[Any] = [reasons.get(k) for k in range(len(samples))]
        fitting = np.array([k for k in range(len(samples)) if k not in reasons], dtype=np.int64)
        kept = [samples[k] for k in fitting.tolist()]
        for numbers, _, output in forward(self.model, self.config, kept, progress, self.processes, **options):
            parts = split_rows(self.task.decode(output), rows_per_graph(kept, numbers, level))
            for k, part in zip(fitting[numbers].tolist(), parts, strict=True):
                answers[k] = (part, _pairs_at(level, samples[k].graph), None)
        of_processes = self.processes.gather(answers)
        return [next(found for found in row if found is not None) for row in zip(*of_processes, strict=True)]

    def _run_pieces(self, samples: Sequence[Sample], progress: Progress | None, **options: Any) -> list[FloatRows]:
        """Return the decoded answers (rows, outputs) for each whole graph, computed piece by piece.

        The pieces have their roots in the order of the graph, and are the same at every time.
        """
        pieces: Any = in_pieces(self.config, samples, every=True)
        counts = rows_per_graph(samples, np.arange(len(samples)), self.task.level)
        values = [np.full((count, self.task.part.num_outputs), np.nan, np.float32) for count in counts]
        for numbers, _, output in forward(self.model, self.config, pieces, progress, self.processes, **options):
            roots = [pieces.asked(number) for number in numbers.tolist()]
            parts = split_rows(self.task.decode(output), [each.num_rows for each in roots])
            for each, part in zip(roots, parts, strict=True):
                values[each.graph][each.rows] = part[each.places]
        first, *others = self.processes.gather(values)
        for other in others:  # each process has other pieces
            for own, theirs in zip(first, other, strict=True):
                np.copyto(own, theirs, where=np.isnan(own))
        return first


def answers_of(
    members: Sequence[Member],
    samples: Sequence[Sample],
    smiles: Sequence[str] | None,
    progress: Progress | None = None,
    dropout_samples: int = 0,
) -> list[Answer]:
    """Return the answers of a model, or the mean and the deviation over several and all their draws of dropout.

    `smiles` are those of the samples, which a blend reads; None for other graphs.
    """
    described = _describe(members, samples, smiles)
    if len(members) == 1:
        return members[0].answers(samples, progress, dropout_samples, described)
    runs = (member.answers(samples, progress, dropout_samples, described) for member in members)
    return pool(runs, max(dropout_samples, 1))


def _describe(members: Sequence[Member], samples: Sequence[Sample], smiles: Sequence[str] | None) -> Described | None:
    """Return what the learners of blends read of some molecules; None where there is no blend."""
    blend = next((member.blend for member in members if member.blend is not None), None)
    if blend is None:
        return None
    if smiles is None:
        raise DataError(
            f"{members[0].config.name}: the model is a blend with a learner that reads SMILES; give molecules as SMILES"
        )
    return blend.describe(smiles, samples)


def pool(runs: Iterable[Sequence[Answer]], count: int = 1) -> list[Answer]:
    """Return for each graph the mean and the deviation over runs: models of an ensemble, or draws of dropout.

    A graph that has no answer in some run has none, for the first reason. The answers of a run may be the mean of
    `count` draws.
    """
    total: list[Spread | str] = []
    last: Sequence[Answer] = ()
    for last in runs:
        each = [answer if isinstance(answer, str) else Spread.of(answer[0], answer[2], count) for answer in last]
        total = [_add(*both) for both in zip(total, each, strict=True)] if total else each
    answers: list[Answer] = []
    for spread, answer in zip(total, last, strict=True):
        if isinstance(spread, str) or isinstance(answer, str):
            answers.append(spread if isinstance(spread, str) else answer)
        else:
            answers.append((spread.mean.astype(np.float32), answer[1], spread.std.astype(np.float32)))
    return answers


def _add(one: Spread | str, other: Spread | str) -> Spread | str:
    if isinstance(one, str):
        return one
    return other if isinstance(other, str) else one + other


@dataclass(frozen=True, eq=False)
class Query:
    """One call of `Predictor.predict`: prepared graphs -> predictions, averaged over the members.

    Fields:
        smiles: of each row of the source; None for other graphs.
        columns: of the source that stand beside the answers, by name.
        with_truth: put the labels beside the answers.
        whole: also answer the nodes or edges of a graph that its split does not have.
        calibration: of the intervals; None without an interval.
        temperatures: (T,) temperatures of probabilities; None leaves them as they are.
        molecules: those of training, which say how familiar others are; None where they are not known.
        warn: gives warnings for each answer of each graph; None for no warnings.
    """

    members: Sequence[Member]
    source: Source
    split: str
    smiles: Sequence[str] | None
    columns: Mapping[str, Any]
    with_truth: bool = False
    whole: bool = False
    dropout_samples: int = 0
    interval: float | None = None
    calibration: Calibration | None = None
    temperatures: NDArray[np.float64] | None = None
    molecules: TrainingMolecules | None = None
    warn: Callable[[Sequence[Sample]], list[list[str]]] | None = None

    def answer(self, part: Prepared, watch: Progress | None = None) -> list[Prediction]:
        """Return the prediction for each record, in order."""
        smiles = None if self.smiles is None else [str(self.smiles[row]) for row in part.rows]
        found = answers_of(self.members, part.samples, smiles, watch, self.dropout_samples)
        answers = dict(zip(part.rows, found, strict=True))
        samples = dict(zip(part.rows, part.samples, strict=True))
        problems = {problem.row: problem for problem in part.problems}
        judged: dict[int, Judgment] = {}
        unlike: dict[int, list[str]] = {}
        if self.molecules is not None:
            graphs = [sample.graph for sample in part.samples]
            judged = dict(zip(part.rows, self.molecules.judge(graphs, smiles or []), strict=True))
        computed = {row: sample for row, sample in samples.items() if not isinstance(answers[row], str)}
        if self.warn is not None and computed:
            unlike = dict(zip(computed, self.warn([*computed.values()]), strict=True))
        return [
            self._prediction(
                row,
                answers[row] if row in answers else problems[row].error,
                samples[row].graph if row in samples else None,
                problems.get(row),
                unlike.get(row, []),
                judged.get(row),
            )
            for row in rows_of(part)
        ]

    def _prediction(
        self,
        row: int,
        answer: Answer,
        graph: Graph | None,
        problem: Reading | None,
        unlike: list[str],
        judged: Judgment | None,
    ) -> Prediction:
        """Return the prediction for a record, of which the graph or the problem may be missing."""
        level = self.members[0].task.level
        is_whole = level == "graph"
        warnings = ["" if problem is None else problem.warning, "" if judged is None else judged.warning]
        warnings += unlike if is_whole else []
        truth = None if graph is None or not self.with_truth else getattr(graph, f"{level}_targets")
        found = Prediction(
            row,
            (graph.id or str(row)) if graph is not None else problem.id if problem is not None else "",
            smiles=None if self.smiles is None else str(self.smiles[row]),
            names=() if graph is None else self.source.names(row),
            kept={name: column[row] for name, column in self.columns.items()},
            truth=None if truth is None else np.atleast_2d(truth),
            warning="; ".join(filter(None, warnings)),
            row_warnings=[] if is_whole else unlike,
            num_nodes=0 if graph is None else graph.num_nodes,
            familiarity=None if judged is None else judged.familiarity,
            **self._fields(answer, judged),
        )
        chosen = self.source.rows_in(self.split, row) if self.with_truth and not self.whole else None
        return found if chosen is None else found.only(chosen)

    def _fields(self, answer: Answer, judged: Judgment | None) -> dict[str, Any]:
        if isinstance(answer, str):
            return {"error": answer}
        (values, pairs, std), part = answer, self.members[0].task.part
        bounds = None
        if self.interval is not None and self.calibration is not None:
            near = None if judged is None else np.full(len(values), judged.familiarity)
            bounds = bounds_of(part, self.calibration, values, self.interval, near)
        if self.temperatures is not None:
            values = part.decode(torch.from_numpy(part.encode(values) / self.temperatures)).numpy()
        return {"values": values, "pairs": pairs, "std": std, "bounds": bounds}


def rows_of(part: Prepared) -> list[int]:
    """Return the rows of some records in order; each has either a graph or an error."""
    rows = sorted({*part.rows, *(problem.row for problem in part.problems)})
    if len(rows) != part.num_records:
        raise DataError(f"{counted(part.num_records, 'row')} given, but {len(rows)} read")
    return rows


def _pairs_at(level: Level, graph: Graph) -> IntArray | None:
    """(2, R) the edges or query pairs that are answered; None at other levels."""
    if level != "edge":
        return None
    return np.array(graph.edge_index if graph.query_index is None else graph.query_index)
