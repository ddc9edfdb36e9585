"""A model as a service: who is answered, what, together with whom, and how it ends."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import Any

import pytest

from egt.errors import ConfigError, RunError
from egt.explain.page import server as server_module
from egt.explain.page.service import MOST_WAITING, Batches, Service
from egt.explain.page.session import AT_ONCE, MOST_BYTES, MOST_ROWS, Session
from egt.inference.predictions import Predictions

TOKEN = "a token of 24 characters"
JSON = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def service(session: Session) -> Iterator[Service]:
    with Service(session, 0, token=TOKEN) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(port: int, path: str, body: Any = None, headers: dict[str, str] = JSON) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection.request("GET" if body is None else "POST", path, sent, headers)
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, json.loads(content) if "json" in reply.headers["Content-Type"] else content.decode()


def test_answers_are_those_of_the_predictor_row_for_row(service: Service) -> None:
    smiles = ["CCO", "C1CC", "c1ccccc1", ""]
    status, found = ask(service.server_port, "/api/predict", {"smiles": smiles})
    assert status == 200
    expected = service.session.model.predict(smiles).table()
    assert len(found["predictions"]) == 4
    assert [row["error"] for row in found["predictions"]] == [row["error"] for row in expected]
    assert found["predictions"][0]["size"] == pytest.approx(expected[0]["size"], rel=1e-5)


def test_clients_at_once_get_their_own_answers(service: Service) -> None:
    smiles = ["C" * (k % 20 + 1) for k in range(120)]
    with ThreadPoolExecutor(40) as pool:
        found = [*pool.map(lambda text: ask(service.server_port, "/api/predict", {"smiles": [text]}), smiles)]
    expected = [row["size"] for row in service.session.model.predict(smiles).table()]
    assert [reply["predictions"][0]["size"] for _, reply in found] == pytest.approx(expected, rel=1e-4)
    assert service.batches.count < len(smiles), "rows that wait are predicted together"
    counted = ask(service.server_port, "/metrics")[1]
    assert 'egt_requests_total{path="/api/predict",status="200"} 120' in counted
    assert "egt_rows_total 120" in counted


def test_a_connection_stays_open_for_more_requests(service: Service) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.server_port, timeout=30)
    for _ in range(3):
        connection.request("POST", "/api/predict", b'{"smiles": ["C"]}', JSON)
        reply = connection.getresponse()
        assert reply.status == 200
        reply.read()
    assert service.connections == 1
    connection.close()


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer wrong", TOKEN, f"Bearer {TOKEN}x", "Bearer \xff"])
@pytest.mark.parametrize("path", ["/api/predict", "/api/about", "/metrics", "/openapi.json", "/health?x"])
def test_without_the_token_only_health_is_told(service: Service, path: str, given: str | None) -> None:
    headers = {"Content-Type": "application/json"} | ({} if given is None else {"Authorization": given})
    body = {"smiles": ["C"]} if path == "/api/predict" else None
    status, found = ask(service.server_port, path, body, headers)
    assert status == 401
    assert "token" in found["error"]
    assert ask(service.server_port, "/health", None, {}) == (200, {"status": "ok"})


def test_other_machines_need_a_token_of_some_length(session: Session) -> None:
    with pytest.raises(ConfigError, match="EGT_TOKEN"):
        Service(session, 0, "0.0.0.0")
    with pytest.raises(ConfigError, match="16 characters"):
        Service(session, 0, token="short")
    with pytest.raises(RunError, match=r"--host 203\.0\.113\.1"):
        Service(session, 0, "203.0.113.1", TOKEN)


def test_without_a_token_other_names_of_this_machine_are_refused(session: Session) -> None:
    with Service(session, 0) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        assert ask(running.server_port, "/api/about", None, {"Host": "evil.example"})[0] == 403
        assert ask(running.server_port, "/api/about", None, {})[0] == 200
        running.shutdown()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/predict", {"smiles": ["C"] * (MOST_ROWS + 1)}, 413),
        ("/api/predict", b" " * (MOST_BYTES + 1), 413),
        ("/api/predict", {"smiles": []}, 422),
        ("/api/predict", {"smiles": "C"}, 400),
        ("/api/predict", {"other": ["C"]}, 400),
        ("/api/predict", b"{", 400),
        ("/api/smiles", {"smiles": ["C"]}, 404),
        ("/index.html", None, 404),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_sentence(service: Service, path: str, body: Any, status: int) -> None:
    found, said = ask(service.server_port, path, body)
    assert found == status
    assert said["error"]


def test_a_file_is_predicted(service: Service) -> None:
    headers = {**JSON, "Content-Type": "application/octet-stream"}
    status, found = ask(service.server_port, "/api/upload?name=new.csv", b"name,smiles\na,CCO\n", headers)
    assert status == 200
    assert len(found["rows"]) == 1


@pytest.mark.parametrize("head", ["Content-Length: 2\r\nContent-Length: 17", "Transfer-Encoding: chunked"])
def test_a_body_whose_end_is_not_clear_ends_the_connection(service: Service, head: str) -> None:
    lines = f"POST /api/predict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json"
    with socket.create_connection(("127.0.0.1", service.server_port), timeout=10) as connection:
        connection.sendall(f"{lines}\r\n{head}\r\n\r\n{{}}GET /health HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = b""
        while part := connection.recv(1 << 16):
            received += part
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"411"]


def test_slow_clients_are_given_up_and_keep_nobody_waiting(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_SECONDS", 1)
    began = time.monotonic()
    slow = [socket.create_connection(("127.0.0.1", service.server_port), timeout=10) for _ in range(50)]
    is_open = {*slow}
    while is_open and time.monotonic() - began < 10:
        for connection in [*is_open]:
            try:
                connection.sendall(b"G")  # a byte at a time, so that none waits long
            except OSError:
                is_open.discard(connection)
        assert ask(service.server_port, "/api/predict", {"smiles": ["C"]})[0] == 200
    assert not is_open
    for connection in slow:
        connection.close()


def test_too_many_connections_are_told_to_come_back(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "most_connections", 2)
    busy = [socket.create_connection(("127.0.0.1", service.server_port), timeout=10) for _ in range(2)]
    for connection in busy:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in connection.recv(1_000)
    with socket.create_connection(("127.0.0.1", service.server_port), timeout=10) as third:
        assert third.recv(1_000).startswith(b"HTTP/1.1 503")
    for connection in busy:
        connection.close()


def test_the_schema_describes_what_is_answered(service: Service) -> None:
    found = ask(service.server_port, "/openapi.json")[1]
    assert found["openapi"].startswith("3.")
    assert {*found["paths"]} == {"/api/predict", "/api/upload", "/api/about", "/health", "/metrics"}
    arguments = found["paths"]["/api/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert arguments["required"] == ["smiles"]
    assert arguments["properties"]["smiles"]["items"] == {"type": "string"}
    reply = found["paths"]["/api/predict"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    row = ask(service.server_port, "/api/predict", {"smiles": ["CCO"]})[1]["predictions"][0]
    assert {"size", "error"} <= {*reply["properties"]["predictions"]["items"]["properties"]} & {*row}


def test_what_waits_is_answered_before_the_end(session: Session) -> None:
    may_go_on = Event()

    def predict(smiles: Any, features: Any) -> Predictions:
        assert may_go_on.wait(30)
        return session.predict(smiles, features)

    running = Service(session, 0, token=TOKEN)
    running.batches.close()
    running.batches = Batches(predict)
    thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(ask, running.server_port, "/api/predict", {"smiles": ["CC"] * 50}) for _ in range(8)]
        while running.connections < 8:
            time.sleep(0.01)
        running.shutdown()
        may_go_on.set()
        running.server_close()
        assert [each.result()[0] for each in waiting] == [200] * 8
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", running.server_port), timeout=1)


def test_rows_wait_for_each_other_only_while_another_batch_is_computed(session: Session) -> None:
    may_go_on, sizes = Event(), list[int]()

    def predict(smiles: Any, features: Any) -> Predictions:
        sizes.append(len(smiles))
        assert may_go_on.wait(30)
        if "bad" in smiles:
            raise ValueError("bad")
        return Predictions(session.model.config, list(smiles))

    batches = Batches(predict)
    with ThreadPoolExecutor(200) as pool:
        first = pool.submit(batches.predict, ["a"], {})
        while not sizes:
            time.sleep(0.01)
        others = [pool.submit(batches.predict, [f"{k}"], {}) for k in range(AT_ONCE)]
        bad = pool.submit(batches.predict, ["bad"], {"t": 1.0})
        good = pool.submit(batches.predict, ["good"], {"t": 1.0})
        while batches.waiting < AT_ONCE + 2:
            time.sleep(0.01)
        with pytest.raises(Exception, match="too many rows"):
            batches.predict(["x"] * MOST_WAITING, {})
        may_go_on.set()
        assert [*first.result()] == ["a"]
        assert [[*each.result()] for each in others] == [[f"{k}"] for k in range(AT_ONCE)]
        assert [*good.result()] == ["good"]
        with pytest.raises(ValueError, match="bad"):
            bad.result()
    batches.close()
    assert sizes[0] == 1
    assert AT_ONCE in sizes, "all of the same kind together"
    assert max(sizes) <= AT_ONCE
