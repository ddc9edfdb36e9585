"""Rows that were opened in the page, whatever they come from: SMILES, an uploaded file, a split of the data set.

Molecules that are typed into the page together with the numbers that a model needs beside them.

Attention and explanations as the page is told them.

What the page may ask for, and the answers, as JSON: one model, the rows it was shown, the graphs it looks at.
"""

from __future__ import annotations

import codecs
import io
import math
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
from egt.explain.explanation import Explanation, explain
from egt.explain.explanation_page import MOST_NODES, TITLES
from egt.explain.faithfulness import Faithfulness
from egt.explain.page.node_positions import draw
from egt.graph import Graph
from egt.inference.artifact import find_artifact
from egt.inference.attention_capture import Attention
from egt.inference.ensemble import Ensemble
from egt.inference.members import member_name
from egt.inference.predictions import Prediction, Predictions
from egt.inference.predictor import Predictor
from egt.nn.attention import attending
from egt.paper.record import RunRecord, read_run
from egt.paper.results import Result, curves

Json = dict[str, Any]

_BINARY = (".gz", ".parquet", ".zip", ".xlsx", ".npz", ".pt")

AT_ONCE = 64
"""Graphs that are predicted together. More of them would be prepared by forked processes, which threads forbid."""

INTERVAL = 0.9
"""The chance that the intervals and sets on the page hold the truth."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a split.

    Fields:
        source: the data.
        split: the split.
        folder: where the data was read from, if nobody should be told.
    """

    source: Source
    split: str = ALL
    folder: str = ""

    def __len__(self) -> int:
        return len(self.source.records(self.split))

    def read(self, start: int, count: int) -> list[Reading]:
        """Read some rows of the split."""
        found = self.source.read_all(self.source.records(self.split)[start : start + count])
        return [replace(reading, error=without(self.folder, reading.error)) for reading in found]

    def smiles(self, reading: Reading) -> str | None:
        """Return the molecule of a row; None for other graphs."""
        return None if self._smiles is None else str(self._smiles[reading.row])

    def names(self, reading: Reading) -> list[str]:
        """Return what the data calls the nodes of a row; empty where they are numbered."""
        return list(self.source.names(reading.row))

    def components(self, reading: Reading) -> dict[str, str]:
        """Return column -> SMILES of a row that has several; else nothing."""
        return {name: column[reading.row] for name, column in self._components.items()}

    @cached_property
    def _components(self) -> dict[str, list[str]]:
        return self.source.components()

    @cached_property
    def _smiles(self) -> Sequence[Any] | None:
        return self.source.smiles()


def interval_of(model: Predictor) -> float | None:
    """Return the chance of the intervals or sets that a model can give; None without a calibration.

    Nor has a model any where a target is called like a column of them.
    """
    names = model.config.task.names
    taken = {f"{name}_{end}" for name in names for end in ("low", "high", "set")} & {*names}
    return None if model.artifact.calibration is None or taken else INTERVAL


def predict_rows(model: Predictor, rows: Rows, start: int, count: int) -> Predictions:
    """Predict some rows: what `Predictor.predict` says about them, beside the labels if they are of a split."""
    parts = [
        _predict(model, rows, rows.read(first, min(AT_ONCE, start + count - first)))
        for first in range(start, start + count, AT_ONCE)
    ]
    more = max((part.more for part in parts), key=len, default=())  # rows that cannot be read have none
    return Predictions(model.config, [answer for part in parts for answer in part], more)


def table(found: Predictions, start: int) -> Json:
    """Return predictions for the page: columns, which of them are answers, rows, and all as CSV.

    `of` has the row of the data behind each row of cells: several for a graph whose nodes or edges are predicted.

    Args:
        found: the predictions.
        start: the position of the first one in its data.
    """
    columns, rows, of = found.columns, [], []
    for number in range(len(found)):
        for row in found[number : number + 1].table():
            rows.append([finite(row.get(name, "")) for name in columns])
            of.append(start + number)
    text = io.StringIO()
    found.to_csv(text)
    own = Predictions(found.config, [], found.more).columns[1:-2]  # without name, warning and error
    answers = [name for name in columns if name in own or name.removesuffix("_true") in found.config.task.names]
    return {"columns": columns, "answers": answers, "rows": rows, "of": of, "csv": text.getvalue()}


def without(folder: str, message: str) -> str:
    """Return a message with the names of files alone."""
    return message.replace(f"{folder}/", "") if folder else message


def is_no_text(name: str, content: bytes) -> bool:
    """Return whether a file that is called a text is none, such as a picture with the name of a table."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return not name.lower().endswith(_BINARY) and not wide and b"\0" in content


def finite(value: Any) -> Any:
    """Return a value that JSON can hold: None in the place of a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _predict(model: Predictor, rows: Rows, readings: list[Reading]) -> Predictions:
    graphs = [reading.graph for reading in readings if reading.graph is not None]
    computed = model.predict(graphs, interval=interval_of(model)) if graphs else Predictions(model.config, [])
    answers, found = iter(computed), []
    for reading in readings:
        answer = Prediction(reading.row, reading.id) if reading.graph is None else next(answers)
        found.append(_beside(model, rows, reading, answer))
    return Predictions(model.config, found, computed.more)


def _beside(model: Predictor, rows: Rows, reading: Reading, answer: Prediction) -> Prediction:
    """Return the answer with what its data says about the row."""
    labeled = reading.graph if rows.split != ALL else None
    truth = getattr(labeled, f"{model.task.level}_targets", None)
    return replace(
        answer,
        row=reading.row,
        id=reading.id,
        warning=reading.warning,
        error=answer.error or reading.error,
        smiles=rows.smiles(reading),
        names=rows.names(reading),
        kept=rows.components(reading),
        truth=None if truth is None else np.atleast_2d(truth),
    )


def typed_features(schema: CustomSchema) -> list[str]:
    """Return the features of a molecule that can be typed: columns of single numbers."""
    return [feature.name for feature in schema.graph_features if feature.width == 1]


def typed_molecules(schema: CustomSchema, smiles: Sequence[str], features: Mapping[str, float | None]) -> RawData:
    """Return SMILES as a table whose rows all have the same features; the training mean where one is left open.

    Args:
        schema: how the model reads tables.
        smiles: of each row; with commas between them where a row has several.
        features: column -> number.
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
    """Return what there is to see of a graph, and the hop profile of all layers and heads, (L, H, hops)."""
    profile = HopProfile.empty(*found.product.shape[:2])
    profile.add(found, pair_hops(found))
    codes = profile.codes
    return {
        "layers": [layer + 1 for layer in found.layers],
        "heads": found.product.shape[1],
        "virtual": found.num_virtual,
        "hops": profile.columns(found.layers[:1])["hop"],
        "product": profile.mean(profile.product)[..., codes].round(5).tolist(),
        "softmax": profile.mean(profile.softmax)[..., codes].round(5).tolist(),
        "even": profile.mean(profile.even)[codes].round(5).tolist(),
    }


def explanation_view(found: Explanation) -> Json:
    """Return an explanation: what each method says about nodes and edges, and whether to believe it."""
    said = {"target": found.target, "value": found.value, "probability": found.probability}
    methods = [_method(found, name) for name in found.importance]
    return {**said, "without": found.without, "verdict": found.verdict, "believed": found.believed, "methods": methods}


def _method(found: Explanation, name: str) -> Json:
    edges = zip(found.edges.T.tolist(), found.of_edges[name].tolist(), strict=True)
    return {
        "name": name,
        "title": TITLES[name],
        "nodes": found.importance[name].nodes.tolist(),
        "edges": [[i, j, value] for (i, j), value in edges],
        "scores": [
            {**_score(score), "doubts": [reason for parts, reason in found.doubts(name) if parts == score.parts]}
            for score in found.scores[name]
        ],
    }


def _score(score: Faithfulness) -> Json:
    return {
        "parts": score.parts,
        "size": score.size,
        "of": score.of,
        "top": score.top,
        "random": float(score.random.mean()),
        "score": score.score,
        "interval": score.interval,
    }


MOST_BYTES = 5_000_000
"""Of an upload, and of any other request."""

MOST_ROWS = 2_000
"""Of SMILES or of a file that the page predicts."""

PAGE_ROWS = 100
"""Of a split that are shown together."""

Thing = TypeVar("Thing")

Number = Annotated[int, Field(ge=0)]

Split = Literal["train", "val", "test"]


class Recent(Generic[Thing]):
    """The last few things that the page was shown, by name.

    Args:
        what: they are called.
        size: how many are kept.
    """

    def __init__(self, what: str, size: int) -> None:
        self.what, self.size = what, size
        self._count, self._kept = 0, OrderedDict[str, Thing]()

    def keep(self, thing: Thing) -> str:
        """Keep a thing, in the place of the oldest one if there are many, and return its name."""
        self._count += 1
        self._kept[str(self._count)] = thing
        if len(self._kept) > self.size:
            self._kept.popitem(last=False)
        return str(self._count)

    def __getitem__(self, name: str) -> Thing:
        if name not in self._kept:
            raise DataError(f"{self.what} {name} is no longer in memory, because others came after it; enter it again")
        self._kept.move_to_end(name)
        return self._kept[name]


@dataclass(frozen=True, eq=False)
class Look:
    """A graph on the page, the model that looks at it, and its attention."""

    graph: Graph
    model: Predictor
    attention: Attention


class Session:
    """A model and what its page has open. One request at a time: whoever calls holds `lock`.

    Args:
        model: the model, or an ensemble: all of it predicts, one member at a time is looked into.
        record: of its run; of an ensemble that of the first member, with the metrics of all.
    """

    def __init__(self, model: Predictor, record: RunRecord) -> None:
        self.model, self.record, self.lock = model, record, Lock()
        self.members = model.members if isinstance(model, Ensemble) else [model]
        self._recent, self._looks = Recent[Rows]("data", 8), Recent[Look]("graph", 4)

    @classmethod
    def of(cls, artifact: str | Path, model: Predictor) -> Session:
        """Return the session of a model that was loaded from an artifact or a run folder."""
        place = find_artifact(artifact)
        run = place.parent if place.name == "artifact" else place
        if not isinstance(model, Ensemble):
            return cls(model, read_run(run))
        first, copied = run / member_name(0), place / member_name(0)  # the run has curves, its copy has none
        record = read_run(first if first.is_dir() else copied)
        return cls(model, replace(record, metrics=model.ensemble.metrics))

    def warm_up(self) -> None:
        """Load what the first answer needs, so that it does not have to wait for it."""
        with self.lock, suppress(EgtError):  # whoever asks is told
            schema, splits = reading_schema(self.model.config), self.about()["splits"]
            if schema.format == "molecules":
                self.look(self.smiles([",".join("C" for _ in schema.smiles_columns)])["data"], 0)
            elif splits and self.model.config.data.pieces is None:  # one large graph would take too long
                self.look(next(reversed(splits)), 0)

    def about(self) -> Json:
        """Return what the page shows before anything is asked."""
        config, record, schema = self.model.config, self.record, reading_schema(self.model.config)
        single = Result(record.name, (record,), ())
        return {
            "name": config.name,
            "level": config.model.level,
            "targets": list(config.task.names),
            "meaning": self.model.artifact.data.get("card", {}).get("target_meaning", ""),
            "molecules": schema.format == "molecules",
            "features": typed_features(schema),
            "members": len(self.members),
            "interval": interval_of(self.model),
            "classes": config.task.has_classes,
            "parameters": record.parameters,
            "layers": config.model.num_layers,
            "heads": config.model.num_heads,
            "splits": {} if self._divided_apart else dict(record.split_sizes),
            "metric": config.task.deciding_metric,
            "metrics": {
                split: {name: finite(value) for name, value in values.items()}
                for split, values in record.metrics.items()
            },
            "curves": {
                name: {line: [finite(value) for value in values] for line, values in series.items()}
                for name, series in curves(single).items()
            },
            "best_epoch": record.epoch + 1,
            "limits": {"bytes": MOST_BYTES, "rows": MOST_ROWS, "page": PAGE_ROWS},
        }

    def smiles(self, smiles: list[str], features: dict[str, float | None] | None = None) -> Json:
        """Open SMILES; features: column -> number, of a model that reads such columns beside the molecule."""
        given = [text.strip() for text in smiles if text.strip()]
        if not given:
            raise DataError("there is no SMILES yet; type one, such as CCO")
        config, schema = self.model.config, reading_schema(self.model.config)
        if schema.graph_features:
            return self._opened(Rows(open_new(config, typed_molecules(schema, given, features or {}))))
        return self._opened(Rows(open_new(config, given, self.model.overrides)))

    def upload(self, name: str, content: bytes) -> Json:
        """Open a file that was uploaded; nothing of it stays on the disk."""
        safe = re.sub(r"[^\w.-]+", "_", Path(name).name)[-60:].lstrip(".") or "file"
        with TemporaryDirectory(prefix="egt-app-") as folder:
            path = Path(folder, safe)
            if is_no_text(safe, content):
                raise DataError(
                    f"{safe}: this looks like a picture or a program, not like a table of molecules or graphs"
                )
            path.write_bytes(content)
            try:
                return self._opened(Rows(open_new(self.model.config, path, self.model.overrides), folder=folder))
            except EgtError as error:
                raise DataError(without(folder, str(error))) from error

    def split(self, split: Split, start: Number = 0) -> Json:
        """Open a part of a split of the data that the model was trained on."""
        rows = self._rows(split)
        first = min(start, max(len(rows) - 1, 0)) // PAGE_ROWS * PAGE_ROWS
        found = predict_rows(self.model, rows, first, min(PAGE_ROWS, len(rows) - first))
        return {"data": split, "start": first, "total": len(rows), **table(found, first)}

    def look(self, data: str, row: Number, member: Number = 0) -> Json:
        """Look at one row: prediction, drawing, and where the model looks.

        Args:
            data: the name that it got when it was opened, or that of a split.
            row: its position there.
            member: of an ensemble, which of its models is looked into.
        """
        rows = self._rows(data)
        if member >= len(self.members):
            raise DataError(f"member {member}: the models of this page are 0..{len(self.members) - 1}")
        if row >= len(rows):
            raise DataError(f"row {row}: the rows of this data are 0..{len(rows) - 1}")
        predictions = predict_rows(self.model, rows, row, 1)
        [prediction], [reading] = predictions, rows.read(row, 1)
        graph = reading.graph
        if graph is None or prediction.error:
            raise DataError(prediction.error)
        found: Json = {
            "title": prediction.smiles or prediction.id,
            "warning": prediction.warning,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "prediction": table(predictions, row),
        }
        if unseen := self._unseen(graph):
            return {**found, "unseen": unseen}
        model = self.members[member]
        [attention] = model.attention([graph])
        assert attention is not None  # the graph was read
        words = next(iter(rows.source.card.vocabulary.values()), ())
        drawing = draw(graph, prediction.smiles, prediction.names, words)
        look = self._looks.keep(Look(graph, model, attention))
        return {**found, "look": look, "drawing": asdict(drawing), "attention": attention_view(attention)}

    def weights(
        self, look: str, layer: Number, head: Number | None, of: Literal["product", "softmax", "gates"]
    ) -> Json:
        """Return the matrix of one layer and head, (n, n), virtual nodes first; of no head: the mean of all."""
        found = self._looks[look].attention
        values = getattr(found, of)  # (L, H, P)
        if layer >= values.shape[0] or (head is not None and head >= values.shape[1]):
            raise DataError(f"there are {values.shape[0]} layers that attend, with {values.shape[1]} heads each")
        chosen = values[layer].mean(0) if head is None else values[layer, head]
        return {"matrix": found.matrix(chosen).astype(float).round(5).tolist()}

    def explain(self, look: str, of: Number = 0, target: str | None = None) -> Json:
        """Explain the prediction for a graph, of the model that looks at it."""
        found = self._looks[look]
        return explanation_view(explain(found.model, [found.graph], of=of, target=target))

    def _rows(self, data: str) -> Rows:
        return self._splits[data] if data in SPLITS else self._recent[data]

    @property
    def _divided_apart(self) -> bool:
        """Whether each model has splits of its own, whose rows others were trained on."""
        return isinstance(self.model, Ensemble) and self.model.ensemble.kind == "folds"

    @cached_property
    def _splits(self) -> dict[str, Rows]:
        if self._divided_apart:
            raise DataError(
                "each model of these folds has other splits; open new data, or one member (egt app RUN/member0)"
            )
        source = open_source(self.model.config)
        return {split: Rows(source, split) for split in SPLITS}

    def _unseen(self, graph: Graph) -> str:
        """Say why the attention of a graph is not shown; nothing if it is."""
        if not attending(self.model.model.layers):
            return "This model has no attention to show."
        if graph.num_nodes > MOST_NODES:
            return f"Graphs of more than {MOST_NODES} nodes are not drawn; `egt analyze` looks at them."
        return ""

    def _opened(self, rows: Rows) -> Json:
        if len(rows) > MOST_ROWS:
            raise DataError(
                f"there are {len(rows):,} rows, and this page takes {MOST_ROWS:,}; "
                "`egt predict ARTIFACT FILE -o out.csv` takes any number"
            )
        answers = table(predict_rows(self.model, rows, 0, len(rows)), 0)
        return {"data": self._recent.keep(rows), "start": 0, "total": len(rows), **answers}
