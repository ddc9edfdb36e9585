"""A model as a service: the page's server without the page, for programs, with a token, a schema and metrics.

Rows of requests that wait at the same time are predicted together, in one thread.
"""

from __future__ import annotations

import hmac
import socket
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from threading import Condition, Thread
from typing import Any

from pydantic import TypeAdapter

from egt import __version__
from egt.errors import ConfigError, DataError
from egt.explain.page.server import ADDRESS, Handler, Refused, Server, json_reply
from egt.explain.page.session import AT_ONCE, MOST_BYTES, MOST_ROWS, Json, Session
from egt.files import strict_json
from egt.inference.predictions import Predictions

Features = Mapping[str, float | None]
SHORTEST_TOKEN = 16
MOST_WAITING = 50_000  # the most rows that wait to be predicted; requests beyond them are refused
_GRACE = 1.0
_TEXT = "text/plain"
_GET = ("/health", "/metrics", "/openapi.json", "/api/about")
_POST = ("/api/predict", "/api/upload")


@dataclass(eq=False)
class _Job:
    """The rows of one request; those that need a column of numbers share its value."""

    smiles: Sequence[str]
    features: Features
    answer: Future[Predictions] = field(default_factory=Future)


class Batches:
    """Predicts the rows of all requests that wait, up to 64 together, in a thread of its own."""

    def __init__(self, predict: Callable[[Sequence[str], Features], Predictions]) -> None:
        self._predict = predict
        self._jobs, self._change, self._is_open = deque[_Job](), Condition(), True
        self.count = 0
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of rows that wait."""
        with self._change:
            return sum(len(job.smiles) for job in self._jobs)

    def predict(self, smiles: Sequence[str], features: Features) -> Predictions:
        """Return the answers for the rows of a request, when their turn has come."""
        job = _Job(smiles, features)
        with self._change:
            if not self._is_open or sum(len(each.smiles) for each in self._jobs) + len(smiles) > MOST_WAITING:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many rows wait to be predicted; try again later")
            self._jobs.append(job)
            self._change.notify()
        return job.answer.result()

    def close(self) -> None:
        """End when nothing waits."""
        with self._change:
            self._is_open = False
            self._change.notify()
        self._thread.join()

    def _run(self) -> None:
        while jobs := self._next():
            self.count += 1
            try:
                found = self._predict([text for job in jobs for text in job.smiles], jobs[0].features)
                start = 0
                for job in jobs:
                    job.answer.set_result(found[start : start + len(job.smiles)])
                    start += len(job.smiles)
            except Exception as error:
                if len(jobs) == 1:
                    jobs[0].answer.set_exception(error)
                    continue
                for job in jobs:  # a request of others is not answered with the error of one
                    try:
                        job.answer.set_result(self._predict(job.smiles, job.features))
                    except Exception as own:
                        job.answer.set_exception(own)

    def _next(self) -> list[_Job]:
        """Return jobs to compute together, when there are any; none at the end."""
        with self._change:
            while self._is_open and not self._jobs:
                self._change.wait()
            jobs = [self._jobs.popleft()] if self._jobs else []
            rows = len(jobs[0].smiles) if jobs else 0
            while self._jobs and self._jobs[0].features == jobs[0].features:
                rows += len(self._jobs[0].smiles)
                if rows > AT_ONCE:
                    break
                jobs.append(self._jobs.popleft())
            return jobs


class Service(Server):
    """A model over HTTP.

    Args:
        session: of the model.
        port: to listen on; 0 takes a free one.
        host: the address to listen on.
        token: what each request has to give; None on this machine alone.

    Raises:
        ConfigError: other machines can reach the address, and there is no token, or a short one.
    """

    daemon_threads = False  # requests are answered before it ends
    most_connections = 1_000

    def __init__(self, session: Session, port: int, host: str = ADDRESS, token: str | None = None) -> None:
        if token is None and host not in (ADDRESS, "localhost"):
            raise ConfigError(f"--host {host}: other machines could reach the model; set EGT_TOKEN to a secret first")
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ConfigError(
                f"EGT_TOKEN is shorter than {SHORTEST_TOKEN} characters; `openssl rand -hex 32` makes one"
            )
        self.token, self.is_stopping = token, False
        self._counted = defaultdict[tuple[str, str], float](float)
        self.batches = Batches(self._answers)
        super().__init__(session, port, host, _Handler)

    def predict(self, smiles: list[str], features: dict[str, float | None] | None = None) -> Json:
        """Predict molecules, each with an answer in its place; features: columns of numbers that the model reads."""
        if len(smiles) > MOST_ROWS:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{len(smiles):,} SMILES; a request takes up to {MOST_ROWS:,}"
            )
        if not smiles:
            raise DataError("there is no SMILES")
        found = self.batches.predict(smiles, features or {})
        self.count("rows", "", len(smiles))
        return {"predictions": strict_json([row for k in range(len(found)) for row in found[k : k + 1].table()])}

    def _answers(self, smiles: Sequence[str], features: Features) -> Predictions:
        return self.session.predict(smiles, features)

    def count(self, what: str, where: str, number: float = 1) -> None:
        """Add to a counter of `/metrics`."""
        with self._counting:
            self._counted[what, where] += number

    def metrics(self) -> str:
        """Return all counters as Prometheus reads them."""
        with self._counting:
            counted = sorted(self._counted.items())
        lines = [f"egt_{what}_total{where} {number:.10g}" for (what, where), number in counted]
        gauges = {"waiting_rows": self.batches.waiting, "connections": self.connections}
        lines += [f"egt_batches_total {self.batches.count}", *(f"egt_{name} {value}" for name, value in gauges.items())]
        return "\n".join(lines) + "\n"

    @cached_property
    def schema(self) -> Json:
        """The API as an OpenAPI document."""
        model = self.session.model
        cell = {"type": ["number", "string", "null"]}
        columns = Predictions(model.config, []).columns
        row = {"type": "object", "properties": dict.fromkeys(columns, cell), "additionalProperties": cell}
        error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
        table = {"type": "object", "properties": {"columns": {"type": "array"}, "rows": {"type": "array"}}}

        def answer(content: Json, kind: str = "application/json") -> Json:
            return {
                "200": {"description": "the answer", "content": {kind: {"schema": content}}},
                "default": {"description": "why not", "content": {"application/json": {"schema": error}}},
            }

        def post(summary: str, kind: str, content: Json, reply: Json) -> Json:
            body = {"required": True, "content": {kind: {"schema": content}}}
            return {"post": {"summary": summary, "requestBody": body, "responses": answer(reply)}}

        predictions = {"type": "object", "properties": {"predictions": {"type": "array", "items": row}}}
        call: Any = self.predict
        arguments = TypeAdapter(call).json_schema()
        arguments["properties"]["smiles"]["maxItems"] = MOST_ROWS
        file = {"type": "string", "format": "binary", "maxLength": MOST_BYTES}
        upload = post("Predict the rows of a file", "application/octet-stream", file, table)
        named = {"name": "name", "in": "query", "required": True, "schema": {"type": "string"}}
        upload["post"]["parameters"] = [{**named, "description": "the name of the file, whose ending says what it is"}]
        about = {"get": {"summary": "Facts about the model", "responses": answer({"type": "object"})}}
        health = {"get": {"summary": "Whether it answers", "security": [], "responses": answer({"type": "object"})}}
        counters = {"get": {"summary": "Counters", "responses": answer({"type": "string"}, _TEXT)}}
        return {
            "openapi": "3.1.0",
            "info": {"title": f"egt: {model.config.name}", "version": __version__},
            "paths": {
                "/api/predict": post("Predict molecules", "application/json", arguments, predictions),
                "/api/upload": upload,
                "/api/about": about,
                "/health": health,
                "/metrics": counters,
            },
            "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
            "security": [{"token": []}] if self.token else [],
        }

    def server_close(self) -> None:
        """Answer the requests that are here, and end; an open connection has a second for one more request."""
        self.is_stopping = True
        end = time.monotonic() + _GRACE
        while self.connections and time.monotonic() < end:
            time.sleep(_GRACE / 20)
        for connection in self.idle.copy():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        super().server_close()
        self.batches.close()


class _Handler(Handler):
    server: Service
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wrong = HTTPStatus.UNPROCESSABLE_ENTITY

    def reply(self, answer: Callable[[], tuple[str, bytes]]) -> None:
        began, path = time.monotonic(), self.path.partition("?")[0]
        super().reply(answer)
        known = path if path in (*_GET, *_POST) else "other"
        self.server.count("requests", f'{{path="{known}",status="{self.status.value}"}}')
        self.server.count("seconds", f'{{path="{known}"}}', time.monotonic() - began)

    def send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.close_connection |= self.server.is_stopping
        super().send(status, kind, content)

    def check_caller(self) -> None:
        if self.server.token is None:
            super().check_caller()
        elif self.path != "/health":
            given = self.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(given, f"Bearer {self.server.token}".encode()):
                raise Refused(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong (Authorization: Bearer TOKEN)")

    def get(self) -> tuple[str, bytes]:
        match self.path:
            case "/health":
                if self.server.is_stopping:
                    raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "it is being stopped")
                return json_reply({"status": "ok"})
            case "/metrics":
                return _TEXT, self.server.metrics().encode()
            case "/openapi.json":
                return json_reply(self.server.schema)
            case "/api/about":
                return json_reply(self.server.session.about())
        raise Refused(HTTPStatus.NOT_FOUND, f"there are GET {', '.join(_GET)} and POST {', '.join(_POST)}")

    def post(self) -> tuple[str, bytes]:
        path = self.path.partition("?")[0]
        if path == "/api/predict":
            return self.call(self.server.predict, nullcontext())
        if path == "/api/upload":
            return self.upload()
        raise Refused(HTTPStatus.NOT_FOUND, f"there are GET {', '.join(_GET)} and POST {', '.join(_POST)}")
