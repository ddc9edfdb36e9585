"""The page over HTTP, for the browser of this machine alone.

A page of the web may send requests to any address, this one included: with its own origin, or with a name of its own
that leads here (DNS rebinding). Both are refused, and nothing is answered that another page could read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError, validate_call

from egt.errors import EgtError, RunError
from egt.explain.page.session import MOST_BYTES, Session

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
"""How long a browser may take to send a request."""


class Refused(Exception):
    """A request that is not answered; status and reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Server(ThreadingHTTPServer):
    """The page of a model, on this machine only.

    Args:
        session: the model.
        port: 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, session: Session, port: int) -> None:
        self.session = session
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it must be between 0 and 65535"
            raise RunError(f"--port {port}: {reason}; choose another, or 0 for any that is free") from error

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    @property
    def hosts(self) -> set[str]:
        """What a browser calls this server; it leaves out the port 80."""
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
        """Send what is answered, or one sentence that says why not."""
        status = HTTPStatus.OK
        try:
            self._check_caller()
            kind, content = answer()
        except Refused as refused:
            status, (kind, content) = refused.status, _json({"error": str(refused)})
        except ValidationError as error:
            status, (kind, content) = HTTPStatus.BAD_REQUEST, _json({"error": f"not understood: {_first(error)}"})
        except EgtError as error:
            kind, content = _json({"error": str(error)})  # an answer as well: browsers log other statuses as failures
        except Exception as error:  # the page goes on; whoever started it reads what happened
            log.error("%s: %s: %s", self.path, type(error).__name__, error)
            log.debug("where it happened", exc_info=True)
            reason = "this could not be computed; the terminal that runs `egt app` says why"
            status, (kind, content) = HTTPStatus.INTERNAL_SERVER_ERROR, _json({"error": reason})
        self._send(status, kind, content)

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        try:
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):  # the browser no longer wants it
            self.close_connection = True

    def _check_caller(self) -> None:
        """Refuse other names of this machine, and requests that another page sends."""
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            raise Refused(HTTPStatus.FORBIDDEN, f"this page is only available at {self.server.url}")
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() not in self.server.hosts:
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other pages are refused")
        foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        if foreign and self.headers.get("Sec-Fetch-Mode") != "navigate":
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other pages are refused")

    def _get(self) -> tuple[str, bytes]:
        path = urlsplit(self.path).path
        if path == "/api/about":
            return _json(self.server.session.about())
        file = _STATIC / (path.removeprefix("/") or "index.html")
        if file.parent != _STATIC or file.suffix not in _KINDS or not file.is_file():
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such page")
        return _KINDS[file.suffix], file.read_bytes()

    def _post(self) -> tuple[str, bytes]:
        asked, session = urlsplit(self.path), self.server.session
        calls = {f"/api/{call.__name__}": call for call in _calls(session)}
        if asked.path == "/api/upload":
            content = self._body("application/octet-stream")
            [name] = parse_qs(asked.query).get("name", ["file"])[:1]
            with session.lock:
                return _json(session.upload(name, content))
        if asked.path not in calls:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such page")
        given = _object(self._body("application/json"))
        with session.lock:
            return _json(validate_call(calls[asked.path])(**given))

    def _body(self, kind: str) -> bytes:
        """Read what was sent; only of a kind that no page of the web may send here without asking first."""
        if self.headers.get_content_type() != kind:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {kind}")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "the request has no valid Content-Length")
        if int(length) > MOST_BYTES:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"this is larger than {MOST_BYTES / 1e6:.0f} MB, which is the most that the page takes; "
                "`egt predict ARTIFACT FILE -o out.csv` takes any size",
            )
        try:
            return self.rfile.read(int(length))
        except TimeoutError as error:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the rest of the request did not arrive") from error


def _calls(session: Session) -> list[Callable[..., Any]]:
    return [session.smiles, session.split, session.look, session.weights, session.explain]


def _json(content: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(content, allow_nan=False).encode()


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "this is not JSON") from error
    if not isinstance(found, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, "this is not a JSON object")
    return found


def _first(error: ValidationError) -> str:
    """Return the first thing that is wrong."""
    wrong = error.errors()[0]
    return f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
