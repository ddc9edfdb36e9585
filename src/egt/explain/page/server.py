"""The page over HTTP, for the browser of this machine alone.

A page of the web can send requests to any address, this one included: with its own origin, or with a name of its own
that leads here (DNS rebinding). Both are refused, and no answer can be read by another page.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, Self
from urllib.parse import parse_qs

from pydantic import ValidationError, validate_call

from egt.errors import EgtError, RunError
from egt.explain.page.session import ADVICE, MOST_BYTES, Session
from egt.files import TooLarge
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

_SECONDS = 30  # the time a client has to send a request, or to take its answer
_PAUSE = 0.05
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"

_LONGEST_PATH = 2_000
_LONGEST_NUMBER = 20  # the most digits of a length


class Refused(Exception):
    """A request without an answer; status and reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Server(ThreadingHTTPServer):
    """The page of a model, on this machine only; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 256  # connections that wait to be accepted; Linux resets those beyond 5, the default
    most_connections = 256

    def __init__(self, session: Session, port: int, host: str = ADDRESS, handler: type[Handler] | None = None) -> None:
        self.session = session
        self.idle = set[socket.socket]()  # connections without a request
        self.connections = 0
        self._deadlines: dict[socket.socket, float] = {}
        self._counting = Lock()
        try:
            super().__init__((host, port), handler or Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it must be between 0 and 65535"
            where = f"--port {port}" if host == ADDRESS else f"--host {host} --port {port}"
            raise RunError(f"{where}: {reason}; choose another, or 0 for any that is free") from error

    @classmethod
    def of(cls, artifact: str, port: int, settings: Sequence[str] = (), **given: Any) -> Self:
        """Return the page of an artifact or run folder; settings as for `egt.load`."""
        return cls(Session.of(artifact, load(artifact, set=settings)), port, **given)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{self.server_address[0]!s}:{self.server_port}/"

    def expect(self, connection: socket.socket) -> None:
        """Give a client its time for what it has to send or to take, however many pieces it comes in."""
        self._deadlines[connection] = time.monotonic() + _SECONDS

    def release(self, connection: socket.socket) -> None:
        """Let a client wait for its answer."""
        self._deadlines.pop(connection, None)

    def service_actions(self) -> None:
        """End connections whose time is over; called twice a second."""
        for connection, deadline in self._deadlines.copy().items():
            if time.monotonic() > deadline:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; where no more files can be open, others have to end first."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, unless there are too many."""
        with self._counting:
            is_full = self.connections >= self.most_connections
            self.connections += not is_full
        if is_full:
            with suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._end_connection()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._end_connection()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about clients that have gone."""
        log.debug("a connection ended early", exc_info=True)

    def _end_connection(self) -> None:
        with self._counting:
            self.connections -= 1

    @property
    def hosts(self) -> set[str]:
        """The names of this server in a browser, which leaves out the port 80."""
        names = {ADDRESS, "localhost"}
        return {f"{name}:{self.server_port}" for name in names} | (names if self.server_port == 80 else set())


class Handler(BaseHTTPRequestHandler):
    """One connection: checks the caller, and answers its requests."""

    server: Server
    server_version, sys_version = "egt", ""
    timeout = _SECONDS
    wrong = HTTPStatus.OK  # of a request that cannot be answered: browsers log other ones as failures
    status = HTTPStatus.OK
    _is_read = True

    def handle_one_request(self) -> None:
        """Read a request and answer it, each in its time."""
        self.server.expect(self.connection)
        self.server.idle.add(self.connection)
        try:
            super().handle_one_request()
        finally:
            self.server.idle.discard(self.connection)
            self.server.release(self.connection)

    def parse_request(self) -> bool:
        """Read the rest of a request that has begun; one whose end is not clear is the last of its connection."""
        self.server.idle.discard(self.connection)
        is_right = super().parse_request()
        has_body = is_right and ("Content-Length" in self.headers or "Transfer-Encoding" in self.headers)
        self._is_read = not has_body and self.command != "POST"
        return is_right

    def do_GET(self) -> None:
        """Answer a request for a page or a fact."""
        self.reply(self.get)

    def do_POST(self) -> None:
        """Answer a request that sends something."""
        self.reply(self.post)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing about requests."""

    def reply(self, answer: Callable[[], tuple[str, bytes]]) -> None:
        """Send the answer, or one sentence that says why there is none."""
        status, wrong = HTTPStatus.OK, ""
        try:
            if len(self.path) > _LONGEST_PATH:
                raise Refused(HTTPStatus.BAD_REQUEST, f"the address is longer than {_LONGEST_PATH:,} characters")
            self.check_caller()
            kind, content = answer()
        except Refused as refused:
            status, wrong = refused.status, str(refused)
        except ValidationError as error:
            first = error.errors()[0]
            wrong = f"not understood: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            status = HTTPStatus.BAD_REQUEST
        except TooLarge as error:
            status, wrong = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)
        except EgtError as error:
            status, wrong = self.wrong, str(error)
        except Exception as error:  # the page goes on; the terminal shows the error
            log.error("%s: %s: %s", self.path, type(error).__name__, error)
            log.debug("where it happened", exc_info=True)
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            wrong = "this could not be computed; the terminal of the server says why"
        if wrong:
            kind, content = json_reply({"error": wrong})
        self.status = status
        self.close_connection |= not self._is_read
        self.server.expect(self.connection)
        with suppress(OSError):  # the browser has gone
            self.send(status, kind, content)
            if not self._is_read:
                self._discard_body()

    def send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        """Write an answer."""
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(content)

    def _discard_body(self) -> None:
        """Read the rest of a refused request for a second, or its sender sees a reset instead of the answer."""
        self.connection.settimeout(0.5)
        end = time.monotonic() + 1
        while time.monotonic() < end and self.rfile.read1(1 << 16):
            pass

    def check_caller(self) -> None:
        """Refuse other names of this machine, and requests from other pages."""
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            raise Refused(HTTPStatus.FORBIDDEN, f"this page is only available at {self.server.url}")
        origin = self.headers.get("Origin")
        is_foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        is_link = self.command == "GET" and self.headers.get("Sec-Fetch-Mode") == "navigate"
        if (is_foreign and not is_link) or (
            origin is not None and origin.lower() not in {f"http://{host}" for host in self.server.hosts}
        ):
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other pages are refused")

    def get(self) -> tuple[str, bytes]:
        """Return the kind and the content of a page."""
        path = self.path.partition("?")[0]
        if path == "/api/about":
            return json_reply(self.server.session.about())
        pages = {f"/{file.name}": file for file in _STATIC.iterdir() if file.suffix in _KINDS}
        file = pages.get("/index.html" if path == "/" else path)
        if file is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such page")
        return _KINDS[file.suffix], file.read_bytes()

    def post(self) -> tuple[str, bytes]:
        """Return the kind and the content of an answer."""
        path, session = self.path.partition("?")[0], self.server.session
        names = ("smiles", "split", "look", "weights", "explain")
        calls: dict[str, Callable[..., Any]] = {f"/api/{name}": getattr(session, name) for name in names}
        if path == "/api/upload":
            return self.upload()
        if path not in calls:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such page")
        return self.call(calls[path], session.lock)

    def upload(self) -> tuple[str, bytes]:
        """Open a file."""
        content = self.body("application/octet-stream")
        [name] = parse_qs(self.path.partition("?")[2]).get("name", ["file"])[:1]
        return json_reply(self.server.session.upload(name, content))

    def call(self, function: Callable[..., Any], lock: AbstractContextManager[Any]) -> tuple[str, bytes]:
        """Call a function with the arguments that were sent, holding a lock."""
        try:
            arguments = json.loads(self.body("application/json"))
        except (ValueError, RecursionError) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "this is not JSON") from error
        if not isinstance(arguments, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "this is not a JSON object")
        with lock:
            return json_reply(validate_call(function)(**arguments))

    def body(self, kind: str) -> bytes:
        """Read the body; only of a kind that no page of the web may send here without a preflight."""
        if self.headers.get_content_type() != kind:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {kind}")
        [length, *more] = self.headers.get_all("Content-Length", [""])
        if not (length.isascii() and length.isdecimal()) or more or "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "the request has no valid Content-Length")
        if len(length) > _LONGEST_NUMBER:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the Content-Length has more than {_LONGEST_NUMBER} digits")
        if int(length) > MOST_BYTES:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"this is larger than {MOST_BYTES / 1e6:.0f} MB, which is the most that the page takes; {ADVICE}",
            )
        try:
            content = self.rfile.read(int(length))
        except TimeoutError:
            content = b""
        if len(content) < int(length):
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the rest of the request did not arrive")
        self._is_read = True
        self.server.release(self.connection)
        return content


def json_reply(content: Any) -> tuple[str, bytes]:
    """Return an answer as JSON, and its kind."""
    return "application/json", json.dumps(content, allow_nan=False).encode()
