"""The page over HTTP, for the browser of this machine alone.

A page of the web can send requests to any address, this one included: with its own origin, or with a name of its own
that leads here (DNS rebinding). Both are refused, and no answer can be read by another page.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from pydantic import ValidationError, validate_call

from egt.data.bounds import TooLarge
from egt.errors import EgtError, RunError
from egt.explain.page.session import ADVICE, MOST_BYTES, Session
from egt.inference.predictor import load

log = logging.getLogger(__name__)
ADDRESS = "127.0.0.1"
_STATIC = Path(__file__).parent / "static"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_SECONDS = 30
"""The time a browser has to send a request."""

_LONGEST_PATH = 2_000
_LONGEST_NUMBER = 20
"""The most digits of a length."""


class Refused(Exception):
    """A request without an answer; status and reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Server(ThreadingHTTPServer):
    """The page of a model, on this machine only; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 256  # connections that wait to be accepted; Linux resets those beyond 5, the default

    def __init__(self, session: Session, port: int) -> None:
        self.session = session
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it must be between 0 and 65535"
            raise RunError(f"--port {port}: {reason}; choose another, or 0 for any that is free") from error

    @classmethod
    def of(cls, artifact: str, port: int, settings: Sequence[str] = ()) -> Server:
        """Return the page of an artifact or run folder; settings as for `egt.load`."""
        return cls(Session.of(artifact, load(artifact, set=settings)), port)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    @property
    def hosts(self) -> set[str]:
        """The names of this server in a browser, which leaves out the port 80."""
        names = {ADDRESS, "localhost"}
        return {f"{name}:{self.server_port}" for name in names} | (names if self.server_port == 80 else set())


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "egt", ""
    timeout = _SECONDS

    def do_GET(self) -> None:
        self._reply(self._get)

    def do_POST(self) -> None:
        self._reply(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing about requests."""

    def _reply(self, answer: Callable[[], tuple[str, bytes]]) -> None:
        """Send the answer, or one sentence that says why there is none."""
        status = HTTPStatus.OK
        try:
            self._check_caller()
            kind, content = answer()
        except Refused as refused:
            status, (kind, content) = refused.status, _json({"error": str(refused)})
        except ValidationError as error:
            wrong = error.errors()[0]
            reason = f"not understood: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
            status, (kind, content) = HTTPStatus.BAD_REQUEST, _json({"error": reason})
        except TooLarge as error:
            status, (kind, content) = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _json({"error": str(error)})
        except EgtError as error:
            kind, content = _json({"error": str(error)})  # status 200: browsers log other ones as failures
        except Exception as error:  # the page goes on; the terminal shows the error
            log.error("%s: %s: %s", self.path, type(error).__name__, error)
            log.debug("where it happened", exc_info=True)
            reason = "this could not be computed; the terminal that runs `egt app` says why"
            status, (kind, content) = HTTPStatus.INTERNAL_SERVER_ERROR, _json({"error": reason})
        with suppress(OSError):  # the browser has gone
            self._send(status, kind, content)
            if status != HTTPStatus.OK and self.command == "POST":
                self._discard_body()

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _discard_body(self) -> None:
        """Read the rest of a refused request for a second, or its sender sees a reset instead of the answer."""
        self.connection.settimeout(0.5)
        end = time.monotonic() + 1
        while time.monotonic() < end and self.rfile.read1(1 << 16):
            pass

    def _check_caller(self) -> None:
        """Refuse other names of this machine, requests from other pages, and addresses of any length."""
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            raise Refused(HTTPStatus.FORBIDDEN, f"this page is only available at {self.server.url}")
        origin = self.headers.get("Origin")
        is_foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        is_link = self.command == "GET" and self.headers.get("Sec-Fetch-Mode") == "navigate"
        if (is_foreign and not is_link) or (
            origin is not None and origin.lower() not in {f"http://{host}" for host in self.server.hosts}
        ):
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other pages are refused")
        if len(self.path) > _LONGEST_PATH:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the address is longer than {_LONGEST_PATH:,} characters")

    def _get(self) -> tuple[str, bytes]:
        path = self.path.partition("?")[0]
        if path == "/api/about":
            return _json(self.server.session.about())
        pages = {f"/{file.name}": file for file in _STATIC.iterdir() if file.suffix in _KINDS}
        file = pages.get("/index.html" if path == "/" else path)
        if file is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such page")
        return _KINDS[file.suffix], file.read_bytes()

    def _post(self) -> tuple[str, bytes]:
        (path, _, query), session = self.path.partition("?"), self.server.session
        names = ("smiles", "split", "look", "weights", "explain")
        calls: dict[str, Callable[..., Any]] = {f"/api/{name}": getattr(session, name) for name in names}
        if path == "/api/upload":
            content = self._body("application/octet-stream")
            [name] = parse_qs(query).get("name", ["file"])[:1]
            return _json(session.upload(name, content))
        if path not in calls:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such page")
        try:
            arguments = json.loads(self._body("application/json"))
        except (ValueError, RecursionError) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "this is not JSON") from error
        if not isinstance(arguments, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "this is not a JSON object")
        with session.lock:
            return _json(validate_call(calls[path])(**arguments))

    def _body(self, kind: str) -> bytes:
        """Read the body; only of a kind that no page of the web may send here without a preflight."""
        if self.headers.get_content_type() != kind:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {kind}")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "the request has no valid Content-Length")
        if len(length) > _LONGEST_NUMBER:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the Content-Length has more than {_LONGEST_NUMBER} digits")
        if int(length) > MOST_BYTES:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"this is larger than {MOST_BYTES / 1e6:.0f} MB, which is the most that the page takes; {ADVICE}",
            )
        try:
            return self.rfile.read(int(length))
        except TimeoutError as error:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the rest of the request did not arrive") from error


def _json(content: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(content, allow_nan=False).encode()
