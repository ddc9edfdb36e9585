"""What the page may ask for, and the answers, as JSON: one model, the rows it was shown, the graphs it looks at."""

from __future__ import annotations

import re
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from egt.analysis.drawing import MOST_NODES
from egt.analysis.explanation import explain
from egt.app.node_positions import draw
from egt.app.opened_rows import Json, Rows, finite, interval_of, is_no_text, predict_rows, table, without
from egt.app.page_views import attention_view, explanation_view
from egt.app.typed_molecules import typed_features, typed_molecules
from egt.artifact.artifact import find_artifact
from egt.artifact.ensemble import member_name
from egt.errors import DataError, EgtError
from egt.graph import Graph
from egt.inference.attention_capture import Attention
from egt.inference.ensemble import Ensemble
from egt.inference.predictor import Predictor
from egt.inference.run_data import open_new, open_source, reading_schema
from egt.nn.attention import attending
from egt.reporting.record import RunRecord, read_run
from egt.reporting.results import Result, curves
from egt.sources.source import SPLITS

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
