"""The requests of the page and their answers as JSON: one model, the rows that were opened, the graphs in view."""

from __future__ import annotations

import codecs
import io
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated, Any, Generic, Literal, TypeVar

import numpy as np
from pydantic import Field

from egt.config.run_data import open_new, open_source, reading_schema
from egt.data.columns import RawData, Table, objects
from egt.data.formats.tables import molecules_of
from egt.data.schema import CustomSchema
from egt.data.source import ALL, SPLITS, Reading, Source
from egt.errors import DataError, EgtError
from egt.explain.analysis import HopProfile, pair_hops
from egt.explain.explanation import Explanation, Subject, draw, explain_subject
from egt.explain.explanation_page import MOST_NODES, TITLES
from egt.files import Bounds, TooLarge, bounded, strict_json
from egt.inference.artifact import find_artifact, member_name
from egt.inference.attention_capture import Attention
from egt.inference.predictions import Prediction, Predictions, Row
from egt.inference.predictor import Predictor
from egt.nn.attention_record import attending
from egt.parts.tasks.task import FAMILIARITY, REMARKS
from egt.training.record import RunRecord, curves, read_run

Json = dict[str, Any]
AT_ONCE = 64  # graphs that are predicted together; more are prepared by forked processes, which threads forbid

INTERVAL = 0.9  # the chance of intervals and sets on the page to hold the truth
MOST_BYTES = 5_000_000  # the size of the largest request, uploads included
MOST_ROWS = 2_000  # the most SMILES or rows of a file that the page predicts
PAGE_ROWS = 100  # the number of rows of a split that are shown together
ADVICE = "`egt predict ARTIFACT FILE -o out.csv` takes more"
_BOUNDS = Bounds(bytes=50_000_000, line=5_000_000, rows=MOST_ROWS, columns=10_000, cells=5_000_000, advice=ADVICE)
"""Of a file, which may be packed."""

_BINARY = (".gz", ".parquet", ".zip", ".xlsx", ".npz", ".pt")
Thing = TypeVar("Thing")
Number = Annotated[int, Field(ge=0)]
Split = Literal["train", "val", "test"]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a split of some data; messages do not name the folder that it was read from."""

    source: Source
    split: str = ALL
    folder: str = ""

    def __len__(self) -> int:
        return len(self.source.records(self.split))

    def read(self, start: int, count: int) -> list[Reading]:
        """Read some rows of the split."""
        readings = self.source.read_all(self.source.records(self.split)[start : start + count])
        return [replace(each, error=hide_folder(self.folder, each.error)) for each in readings]

    def predict(self, model: Predictor, start: int, count: int) -> Predictions:
        """Predict some rows as `Predictor.predict` does, beside the labels of a split."""
        answers: list[Prediction] = []
        more: Row = {}
        for first in range(start, start + count, AT_ONCE):
            last = min(first + AT_ONCE, start + count)
            found = model.predict_rows(self.source, self.split, first, last, interval=interval_of(model))
            answers += (replace(each, error=hide_folder(self.folder, each.error)) for each in found)
            more = found.more
        return Predictions(model.config, answers, more)


def interval_of(model: Predictor) -> float | None:
    """Return the chance of the intervals or sets of a model; None without a calibration.

    A model whose target has the name of one of their columns has none either.
    """
    names = model.config.task.names
    taken = {f"{name}_{end}" for name in names for end in ("low", "high", "set")} & {*names}
    return None if model.artifact.calibration is None or taken else INTERVAL


def table(found: Predictions, start: int) -> Json:
    """Return predictions for the page: columns, which of them are answers, rows, and all as CSV.

    `of` has the row of the data behind each row of cells: several for a graph whose nodes or edges are predicted.
    `start` is the position of the first prediction in its data.
    """
    columns, rows, of = found.columns, [], []
    for number in range(len(found)):
        for row in found[number : number + 1].table():
            rows.append([strict_json(row.get(name, "")) for name in columns])
            of.append(start + number)
    text = io.StringIO()
    found.to_csv(text)
    own = {*Predictions(found.config, [], found.more).columns[1:]} - {FAMILIARITY, *REMARKS}  # without the name
    answers = [name for name in columns if name in own or name.removesuffix("_true") in found.config.task.names]
    return {"columns": columns, "answers": answers, "rows": rows, "of": of, "csv": text.getvalue()}


def hide_folder(folder: str, message: str) -> str:
    """Return a message with the names of files alone."""
    return message.replace(f"{folder}/", "") if folder else message


def is_binary(name: str, content: bytes) -> bool:
    """Return whether a file with the name of a text is none, such as a picture with the name of a table."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return not name.lower().endswith(_BINARY) and not wide and b"\0" in content


def typed_molecules(schema: CustomSchema, smiles: Sequence[str], features: Mapping[str, float | None]) -> RawData:
    """Return SMILES as a table whose rows all have the same features; the training mean where one is left open.

    A row with several SMILES has commas between them.
    """
    wide = [feature.name for feature in schema.graph_features if feature.width > 1]
    if wide:
        raise DataError(f"this model needs {wide[0]}, a column of vectors; upload a table that has it")
    columns = schema.smiles_columns
    rows = [text.split(",") if schema.more_smiles else [text] for text in smiles]
    if wrong := [text for text, row in zip(smiles, rows, strict=True) if len(row) != len(columns)]:
        raise DataError(f"{wrong[0]}: give {len(columns)} SMILES with commas between them: {', '.join(columns)}")
    table = {name: objects(part) for name, part in zip(columns, zip(*rows, strict=True), strict=True)}
    for feature in schema.graph_features:
        value = features.get(feature.name)
        table[feature.name] = np.full(len(rows), np.nan if value is None else value)
    return molecules_of(Table(table, len(rows), {}), "SMILES")


def attention_view(found: Attention) -> Json:
    """Return the layers and heads of a graph, and the hop profiles of all of them, (L, H, hops)."""
    profile = HopProfile(*found.product.shape[:2])
    profile.add(found, pair_hops(found))
    sums = {name: getattr(profile, name) for name in ("product", "softmax", "even", "even_product")}
    return {
        "layers": [layer + 1 for layer in found.layers],
        "heads": found.product.shape[1],
        "virtual": found.num_virtual,
        "hops": profile.names,
        **{name: profile.mean(values)[..., profile.codes].round(5).tolist() for name, values in sums.items()},
    }


def explanation_view(found: Explanation) -> Json:
    """Return an explanation: the importance of nodes and edges by each method, and whether to believe it."""
    methods = [
        {
            "name": method,
            "title": TITLES[method],
            "nodes": importance.nodes.tolist(),
            "edges": [[i, j, value] for i, j, value in zip(*found.edges.tolist(), found.of_edges[method], strict=True)],
            "scores": [
                {
                    "parts": score.word,
                    "size": score.size,
                    "of": score.of,
                    "top": score.top,
                    "random": float(score.random.mean()),
                    "score": score.score,
                    "interval": score.interval,
                    "doubts": [reason for parts, reason in found.doubts(method) if parts == score.parts],
                }
                for score in found.scores[method]
            ],
        }
        for method, importance in found.importance.items()
    ]
    names = ("target", "value", "probability", "without", "verdict", "believed")
    return {**{name: getattr(found, name) for name in names}, "methods": methods}


class Recent(Generic[Thing]):
    """The last few things in memory, by a name that each gets; `what` is the word for them in messages."""

    def __init__(self, what: str, size: int) -> None:
        self.what, self.size = what, size
        self._count, self._things = 0, OrderedDict[str, Thing]()

    def keep(self, thing: Thing) -> str:
        """Keep a thing, in the place of the oldest one if there are many, and return its name."""
        self._count += 1
        self._things[str(self._count)] = thing
        if len(self._things) > self.size:
            self._things.popitem(last=False)
        return str(self._count)

    def __getitem__(self, name: str) -> Thing:
        if name not in self._things:
            raise DataError(f"{self.what} {name} is no longer in memory, because others came after it; enter it again")
        self._things.move_to_end(name)
        return self._things[name]


@dataclass(frozen=True, eq=False)
class Look:
    """A graph on the page, with the model whose attention is shown."""

    subject: Subject
    model: Predictor
    attention: Attention


class Session:
    """A model and the data that its page has open. One request at a time: the caller holds `lock`.

    All models of an ensemble predict, one at a time is shown and explained; `record` is then that of the first, with
    the metrics of all.
    """

    def __init__(self, model: Predictor, record: RunRecord) -> None:
        self.model, self.record, self.lock = model, record, Lock()
        self.members = model.members
        self._uploading = Lock()
        self._recent, self._looks = Recent[Rows]("data", 8), Recent[Look]("graph", 4)

    @classmethod
    def of(cls, artifact: str | Path, model: Predictor) -> Session:
        """Return the session of a model that was loaded from an artifact or a run folder."""
        place = find_artifact(artifact)
        run = place.parent if place.name == "artifact" else place
        if not model.is_ensemble:
            return cls(model, read_run(run))
        first, copied = run / member_name(0), place / member_name(0)  # the run has curves, its copy has none
        record = read_run(first if first.is_dir() else copied)
        return cls(model, replace(record, metrics=model.artifact.metrics))

    def warm_up(self) -> None:
        """Load all that the first answer needs, so that it comes at once."""
        with self.lock, suppress(EgtError):  # the first answer raises it again
            schema, splits = reading_schema(self.model.config), self.about()["splits"]
            if schema.format == "molecules":
                self.look(self.smiles([",".join("C" for _ in schema.smiles_columns)])["data"], 0)
            elif splits and self.model.config.data.pieces is None:  # one large graph would take too long
                self.look(next(reversed(splits)), 0)

    def about(self) -> Json:
        """Return the facts about the model."""
        config, record, schema = self.model.config, self.record, reading_schema(self.model.config)
        return {
            "name": config.name,
            "level": config.model.level,
            "targets": list(config.task.names),
            "meaning": self.model.artifact.members[0].data.get("card", {}).get("target_meaning", ""),
            "molecules": schema.format == "molecules",
            "features": [feature.name for feature in schema.graph_features if feature.width == 1],
            "members": len(self.members),
            "interval": interval_of(self.model),
            "classes": config.task.has_classes,
            "parameters": record.parameters,
            "layers": config.model.num_layers,
            "heads": config.model.num_heads,
            "splits": {} if self._has_folds else dict(record.split_sizes),
            "metric": config.task.deciding_metric,
            "metrics": strict_json(record.metrics),
            "curves": strict_json(curves([record], config.task.deciding_metric)),
            "best_epoch": record.epoch + 1,
            "limits": {"bytes": MOST_BYTES, "rows": MOST_ROWS, "page": PAGE_ROWS},
        }

    def smiles(self, smiles: list[str], features: dict[str, float | None] | None = None) -> Json:
        """Open SMILES; features: column -> number, of a model that reads such columns beside the molecule."""
        texts = [text.strip() for text in smiles if text.strip()]
        if not texts:
            raise DataError("there is no SMILES yet; type one, such as CCO")
        return self._open(self._typed(texts, features or {}))

    def predict(self, smiles: Sequence[str], features: Mapping[str, float | None]) -> Predictions:
        """Predict SMILES and keep nothing; takes the lock."""
        with self.lock:
            return self._typed(smiles, features).predict(self.model, 0, len(smiles))

    def _typed(self, smiles: Sequence[str], features: Mapping[str, float | None]) -> Rows:
        config, schema = self.model.config, reading_schema(self.model.config)
        if schema.graph_features:
            return Rows(open_new(config, typed_molecules(schema, smiles, features)))
        return Rows(open_new(config, [*smiles], self.model.overrides))

    def upload(self, name: str, content: bytes) -> Json:
        """Open a file that was uploaded, one at a time and without the lock; nothing of it stays on the disk."""
        safe = re.sub(r"[^\w.-]+", "_", Path(name).name)[-60:].lstrip(".") or "file"
        if is_binary(safe, content):
            raise DataError(f"{safe}: this looks like a picture or a program, not like a table of molecules or graphs")
        with self._uploading, TemporaryDirectory(prefix="egt-app-") as folder:
            path = Path(folder, safe)
            path.write_bytes(content)
            try:
                with bounded(_BOUNDS):
                    rows = Rows(open_new(self.model.config, path, self.model.overrides), folder=folder)
                with self.lock:
                    return self._open(rows)
            except EgtError as error:
                kind = TooLarge if isinstance(error, TooLarge) else DataError
                raise kind(hide_folder(folder, str(error))) from error

    def split(self, split: Split, start: Number = 0) -> Json:
        """Open a part of a split of the data that the model was trained on."""
        rows = self._rows(split)
        first = min(start, max(len(rows) - 1, 0)) // PAGE_ROWS * PAGE_ROWS
        found = rows.predict(self.model, first, min(PAGE_ROWS, len(rows) - first))
        return {"data": split, "start": first, "total": len(rows), **table(found, first)}

    def look(self, data: str, row: Number, member: Number = 0) -> Json:
        """Return the prediction, drawing and attention of one row of opened data or a split, by one model."""
        rows = self._rows(data)
        if member >= len(self.members):
            raise DataError(f"member {member}: the models of this page are 0..{len(self.members) - 1}")
        if row >= len(rows):
            raise DataError(f"row {row}: the rows of this data are 0..{len(rows) - 1}")
        predictions = rows.predict(self.model, row, 1)
        [prediction], [reading] = predictions, rows.read(row, 1)
        graph = reading.graph
        if graph is None or prediction.error:
            raise DataError(prediction.error)
        known = self.model.artifact.molecules
        view: Json = {
            "title": prediction.smiles or prediction.id,
            "warning": prediction.warning,
            "familiarity": prediction.familiarity,
            "known": known is not None and known.holds(graph),
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "prediction": table(predictions, row),
        }
        if not attending(self.model.model.layers):
            return {**view, "unseen": "This model has no attention to show."}
        if graph.num_nodes > MOST_NODES:
            reason = f"Graphs of more than {MOST_NODES} nodes are not drawn; `egt analyze` looks at them."
            return {**view, "unseen": reason}
        model = self.members[member]
        [attention] = model.attention([graph])
        assert attention is not None  # the graph was read
        words = next(iter(rows.source.card.vocabulary.values()), ())
        drawing = draw(graph, prediction.smiles, prediction.names, words)
        subject = Subject.of(graph, prediction.smiles, prediction.names)
        look = self._looks.keep(Look(subject, model, attention))
        return {**view, "look": look, "drawing": asdict(drawing), "attention": attention_view(attention)}

    def weights(
        self, look: str, layer: Number, head: Number | None, of: Literal["product", "softmax", "gates"]
    ) -> Json:
        """Return the matrix of one layer and head, (n, n), virtual nodes first; of no head: the mean of all."""
        attention = self._looks[look].attention
        values = getattr(attention, of)  # (L, H, P)
        if layer >= values.shape[0] or (head is not None and head >= values.shape[1]):
            raise DataError(f"there are {values.shape[0]} layers that attend, with {values.shape[1]} heads each")
        chosen = values[layer].mean(0) if head is None else values[layer, head]
        return {"matrix": attention.matrix(chosen).astype(float).round(5).tolist()}

    def explain(self, look: str, of: Number = 0, target: str | None = None) -> Json:
        """Explain the prediction for a graph by the model whose attention is shown."""
        shown = self._looks[look]
        return explanation_view(explain_subject(shown.model, shown.subject, of=of, target=target))

    def _rows(self, data: str) -> Rows:
        return self._splits[data] if data in SPLITS else self._recent[data]

    @property
    def _has_folds(self) -> bool:
        """Whether each model has splits of its own, with rows on which others were trained."""
        return self.model.artifact.kind == "folds"

    @cached_property
    def _splits(self) -> dict[str, Rows]:
        if self._has_folds:
            raise DataError(
                "each model of these folds has other splits; open new data, or one member (egt app RUN/member0)"
            )
        source = open_source(self.model.config)
        return {split: Rows(source, split) for split in SPLITS}

    def _open(self, rows: Rows) -> Json:
        if len(rows) > MOST_ROWS:
            raise TooLarge(f"there are {len(rows):,} rows, and this page takes {MOST_ROWS:,}; {ADVICE}")
        answers = table(rows.predict(self.model, 0, len(rows)), 0)
        return {"data": self._recent.keep(rows), "start": 0, "total": len(rows), **answers}
