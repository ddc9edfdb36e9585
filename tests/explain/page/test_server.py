"""The page answers the browser of this machine, and nobody else."""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from egt.config.run_data import open_new
from egt.errors import RunError
from egt.explain.page import server as module
from egt.explain.page import session as sessions
from egt.explain.page.server import Server
from egt.explain.page.session import MOST_BYTES, Session

JSON = {"Content-Type": "application/json"}
FILE = {"Content-Type": "application/octet-stream"}


def ask(
    server: Server, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and content; a body that is no bytes is sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection.request("GET" if body is None else "POST", path, sent, headers or ({} if body is None else JSON))
    reply = connection.getresponse()
    content = reply.read()
    found = {name.lower(): value for name, value in reply.getheaders()}
    connection.close()
    return reply.status, found, json.loads(content) if found["content-type"].startswith("application/json") else content


def test_a_prediction_is_that_of_the_predictor(server: Server) -> None:
    smiles = ["CCO", "c1ccccc1"]
    status, _, found = ask(server, "/api/smiles", {"smiles": smiles})
    assert status == 200
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    assert rows == server.session.model.predict(smiles).table()


def test_every_file_of_the_page_is_there_and_says_what_it_is(server: Server) -> None:
    files = {path.name: path for path in module._STATIC.iterdir()}
    for name, path in files.items():
        status, headers, content = ask(server, f"/{name}")
        assert (status, content) == (200, path.read_bytes())
        assert headers["content-type"].startswith({".js": "text/javascript"}.get(path.suffix, ("text", "image")))
    assert ask(server, "/")[2] == files["index.html"].read_bytes()


def test_the_page_loads_nothing_from_elsewhere_and_no_markup_from_users(server: Server) -> None:
    for path in module._STATIC.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text, path
        assert "innerHTML" not in text, path
        assert "insertAdjacentHTML" not in text, path
    policy = ask(server, "/")[1]["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("path", ["/", "/api/about"])
@pytest.mark.parametrize("host", ["evil.example:{port}", "evil.example", "127.0.0.1", "localhost:1", ""])
def test_other_names_that_lead_here_are_refused(server: Server, path: str, host: str) -> None:
    status, _, found = ask(server, path, headers={"Host": host.format(port=server.server_port)})
    assert status == 403
    assert found == {"error": f"this page is only available at {server.url}"}


def test_both_names_of_this_machine_are_fine(server: Server) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST"):
        host = f"{name}:{server.server_port}"
        headers = {**JSON, "Host": host, "Origin": f"http://{host.lower()}", "Sec-Fetch-Site": "same-origin"}
        assert ask(server, "/api/smiles", {"smiles": ["C"]}, headers)[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://["},
        {"Origin": "https://localhost:{port}"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_requests_of_other_pages_are_refused(server: Server, headers: dict[str, str]) -> None:
    headers = {name: value.format(port=server.server_port) for name, value in headers.items()}
    for path, body in (("/api/about", None), ("/api/smiles", {"smiles": ["C"]})):
        status, got, found = ask(server, path, body, {**JSON, **headers})
        assert status == 403
        assert found == {"error": "requests from other pages are refused"}
        assert "access-control-allow-origin" not in got


def test_a_link_from_another_page_opens_the_page(server: Server) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(server, "/", headers=link)[0] == 200
    assert ask(server, "/api/smiles", {"smiles": ["C"]}, {**JSON, **link})[0] == 403  # a form that is sent


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_of_another_page_could_send_is_refused(server: Server, kind: str) -> None:
    for path in ("/api/smiles", "/api/upload?name=x.csv"):
        assert ask(server, path, {"smiles": ["C"]}, {"Content-Type": kind})[0] == 415


@pytest.mark.parametrize(("path", "kind"), [("/api/upload?name=x.csv", FILE), ("/api/smiles", JSON)])
def test_a_request_that_is_too_large_is_refused_before_it_is_read(server: Server, path: str, kind: Any) -> None:
    status, _, found = ask(server, path, b"", {**kind, "Content-Length": str(MOST_BYTES + 1)})
    assert status == 413
    assert "5 MB" in found["error"]


@pytest.mark.parametrize("size", [MOST_BYTES + 1, 8 * MOST_BYTES])
def test_the_sender_of_too_much_reads_why(server: Server, size: int) -> None:
    status, _, found = ask(server, "/api/upload?name=x.csv", b"x" * size, FILE)
    assert status == 413
    assert "egt predict" in found["error"]


def test_a_small_file_that_unpacks_to_much_is_refused_in_words(server: Server) -> None:
    bomb = gzip.compress(b"smiles\n" + b"C\n" * 20_000_000)
    assert len(bomb) < 100_000
    status, _, found = ask(server, "/api/upload?name=x.csv.gz", bomb, FILE)
    assert status == 413
    assert "more than 2,000 rows" in found["error"]
    assert "egt predict" in found["error"]


def test_an_upload_that_is_read_keeps_no_prediction_waiting(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    is_reading, may_go_on = Event(), Event()

    def read_slowly(config: Any, data: Any, *rest: Any) -> Any:
        if isinstance(data, Path):
            is_reading.set()
            assert may_go_on.wait(30)
        return open_new(config, data, *rest)

    monkeypatch.setattr(sessions, "open_new", read_slowly)
    with ThreadPoolExecutor() as pool:
        upload = pool.submit(ask, server, "/api/upload?name=x.csv", b"smiles\nCC\n", FILE)
        assert is_reading.wait(30)
        assert ask(server, "/api/smiles", {"smiles": ["C"]})[0] == 200
        may_go_on.set()
        assert upload.result()[0] == 200


def test_a_path_and_a_length_without_end_are_refused(server: Server) -> None:
    assert ask(server, "/" + "x" * 5_000)[0] == 400
    assert ask(server, "/api/" + "x" * 5_000, {})[0] == 400
    assert b" 400 " in status_of(server, f"Content-Type: application/json\r\nContent-Length: {'9' * 5_000}\r\n\r\n")
    assert ask(server, "//[")[0] == 404


def test_many_connections_at_once_are_answered(server: Server) -> None:
    connections = [socket.create_connection(("127.0.0.1", server.server_port), timeout=30) for _ in range(64)]
    try:
        for connection in connections:
            connection.sendall(f"GET / HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        assert all(b" 200 " in connection.recv(200).splitlines()[0] for connection in connections)
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("header", ["Content-Length: -1", "Content-Length: x", "Transfer-Encoding: chunked", "X: y"])
def test_the_length_has_to_be_told(server: Server, header: str) -> None:
    assert b" 411 " in status_of(server, f"Content-Type: application/json\r\n{header}\r\n\r\n")


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/api/smiles", b"{", "not JSON"),
        ("/api/smiles", b"[" * 100_000, "not JSON"),
        ("/api/smiles", b"[]", "not a JSON object"),
        ("/api/smiles", {}, "smiles: Missing required argument"),
        ("/api/smiles", {"smiles": "CCO"}, "smiles: Input should be a valid list"),
        ("/api/smiles", {"smiles": ["C"], "more": 1}, "more: Unexpected keyword argument"),
        ("/api/split", {"split": "../../etc"}, "split: Input should be 'train', 'val' or 'test'"),
        ("/api/look", {"data": "1", "row": -1}, "row: Input should be greater than or equal to 0"),
    ],
)
def test_requests_that_make_no_sense_are_refused(server: Server, path: str, body: object, reason: str) -> None:
    status, _, found = ask(server, path, body)
    assert status == 400
    assert reason in found["error"]


@pytest.mark.parametrize("path", ["/nothing", "/../server.py", "/../../analysis_page.py", "//etc/hosts", "/static"])
def test_no_other_file_is_given(server: Server, path: str) -> None:
    assert ask(server, path)[0] == 404
    assert ask(server, path, {})[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "headers", "reason"),
    [
        ("/api/smiles", {"smiles": []}, JSON, "there is no SMILES yet"),
        ("/api/look", {"data": "999", "row": 0}, JSON, "no longer in memory"),
        ("/api/upload?name=x.exe", b"hello", FILE, "x.exe: this kind of file is not known"),
        ("/api/upload", b"", FILE, "file: this kind of file is not known"),
    ],
)
def test_what_a_user_gets_wrong_is_one_sentence(
    server: Server, path: str, body: object, headers: dict[str, str], reason: str
) -> None:
    status, _, found = ask(server, path, body, headers)
    assert status == 200  # a browser would print any other one on its console
    assert reason in found["error"]
    assert "\n" not in found["error"]


def test_bad_smiles_stand_in_their_row(server: Server) -> None:
    _, _, found = ask(server, "/api/smiles", {"smiles": ["C1CC", "CC"]})
    errors = [row[found["columns"].index("error")] for row in found["rows"]]
    assert "unclosed ring" in errors[0]
    assert errors[1] == ""


def test_a_failure_of_ours_is_told_where_the_server_runs(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Session) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Session, "about", broken)
    with caplog.at_level(logging.ERROR):
        status, _, found = ask(server, "/api/about")
    assert status == 500
    assert "secret" not in found["error"]
    assert [record.getMessage() for record in caplog.records] == ["/api/about: ZeroDivisionError: secret"]


def test_a_browser_leaves_out_the_usual_port(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not {"127.0.0.1", "localhost"} & server.hosts
    monkeypatch.setattr(server, "server_port", 80)
    assert {"127.0.0.1", "localhost", "127.0.0.1:80"} <= server.hosts


def test_a_browser_that_has_gone_is_no_failure(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: module.Handler) -> None:
        done.set()
        raise BrokenPipeError

    done, failed = Event(), list[object]()
    monkeypatch.setattr(module.Handler, "end_headers", gone)
    monkeypatch.setattr(server, "handle_error", lambda *_: failed.append(_))
    with pytest.raises(http.client.HTTPException):
        ask(server, "/")
    assert done.is_set()
    assert not failed


def test_only_this_machine_is_listened_to(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


def test_a_port_that_cannot_be_had(server: Server) -> None:
    for port in (server.server_port, 70_000):
        with pytest.raises(RunError, match=rf"--port.*{port}"):
            Server(server.session, port)


def test_a_request_that_never_ends_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Handler, "timeout", 0.2)
    assert b" 408 " in status_of(server, "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{")


def status_of(server: Server, rest: str) -> bytes:
    """The first line of the answer to a request, of which the first two lines are as they should be."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        head = f"POST /api/smiles HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\n"
        connection.sendall((head + rest).encode())
        return connection.recv(200).splitlines()[0]
