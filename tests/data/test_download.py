from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from egt.data.download import download, extract, file_checksum
from egt.errors import DataError

CONTENT = bytes(range(256)) * 1000
CHECKSUM = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT at /file; the tests set how it misbehaves."""

    daemon_threads = True
    cut_after: int | None = None  # bytes after which the first answer ends
    failures = 0  # how many requests get an error of the server first
    ranges = True  # whether Range is understood

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        asked = self.headers.get("Range", "")
        self.server.requests.append(asked)
        if self.path != "/file":
            self.send_error(404)
            return
        if self.server.failures:
            self.server.failures -= 1
            self.send_error(503)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.ranges else 0
        if start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.cut_after is not None:
            body, self.server.cut_after = body[: self.server.cut_after], None
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join(timeout=5)


def _fetch(server: Server, path: Path, checksum: str = CHECKSUM) -> Path:
    return download(server.url, path, checksum=checksum, pause=0.0, timeout=5.0)


def test_a_file_is_fetched_verified_and_put_in_place(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = tmp_path / "deep" / "file"
    download(server.url, path, checksum=CHECKSUM, progress=lambda *told: seen.append(told[1:]), timeout=5.0)
    assert path.read_bytes() == CONTENT
    assert [item.name for item in path.parent.iterdir()] == ["file"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_file_that_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"mine")
    assert _fetch(server, path).read_bytes() == b"mine"
    assert server.requests == []


def test_a_broken_connection_is_continued_where_it_ended(server: Server, tmp_path: Path) -> None:
    server.cut_after = 100_000
    assert _fetch(server, tmp_path / "file").read_bytes() == CONTENT
    assert server.requests == ["", "bytes=100000-"]


def test_a_part_of_an_earlier_run_is_continued(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:50_000])
    assert _fetch(server, tmp_path / "file").read_bytes() == CONTENT
    assert server.requests == ["bytes=50000-"]


def test_a_part_that_was_complete_is_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    assert _fetch(server, tmp_path / "file").read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file_is_dropped(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    assert _fetch(server, tmp_path / "file", "").read_bytes() == CONTENT


def test_a_folder_that_cannot_be_written_is_reported(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").mkdir()
    with pytest.raises(DataError, match="write"):
        _fetch(server, tmp_path / "file")


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:50_000])
    assert _fetch(server, tmp_path / "file").read_bytes() == CONTENT


def test_errors_of_the_server_are_tried_again(server: Server, tmp_path: Path) -> None:
    server.failures = 2
    assert _fetch(server, tmp_path / "file").read_bytes() == CONTENT
    assert len(server.requests) == 3


def test_a_wrong_checksum_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"md5:0+, but|but md5:0+ is expected"):
        _fetch(server, tmp_path / "file", "md5:" + "0" * 32)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_known_checksum_is_used_with_a_warning(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert _fetch(server, tmp_path / "file", "").read_bytes() == CONTENT
    assert "no checksum is known" in caplog.text
    caplog.clear()
    _fetch(server, tmp_path / "other")
    assert caplog.text == ""


def test_a_missing_page_is_not_tried_again(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="404"):
        download(server.url + "nothing", tmp_path / "file", pause=0.0, timeout=5.0)
    assert len(server.requests) == 1


def test_without_a_network_the_error_names_the_file_to_place(tmp_path: Path) -> None:
    with Server() as closed:
        url = closed.url
    path = tmp_path / "data.zip"
    with pytest.raises(DataError) as raised:
        download(url, path, pause=0.0, attempts=2, timeout=1.0)
    assert str(path) in str(raised.value)
    assert url in str(raised.value)


def test_checksums_name_their_algorithm(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert file_checksum(path, "md5") == "md5:900150983cd24fb0d6963f7d28e17f72"


def test_archives_are_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as bundle:
        bundle.writestr("hiv/mapping/mol.csv", "smiles\n")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("datasets/TSP/TSP.h5")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    extract(tmp_path / "a.zip", tmp_path)
    extract(tmp_path / "b.tar.gz", tmp_path)
    assert (tmp_path / "hiv/mapping/mol.csv").read_text() == "smiles\n"
    assert (tmp_path / "datasets/TSP/TSP.h5").read_bytes() == b"abc"


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archives_that_reach_outside_the_folder_are_refused(tmp_path: Path, kind: str) -> None:
    archive = tmp_path / f"bad.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as bundle:
            bundle.writestr("../escaped", "x")
    else:
        with tarfile.open(archive, "w:gz") as tar:
            tar.addfile(tarfile.TarInfo("../escaped"))
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(DataError):
        extract(archive, inside)
    assert not (tmp_path / "escaped").exists()


def test_a_damaged_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK not really")
    with pytest.raises(DataError, match="download"):
        extract(tmp_path / "a.zip", tmp_path)


@pytest.mark.parametrize("change", ["damaged", "encrypted", "unknown method"])
def test_a_zip_that_cannot_be_unpacked_is_reported(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("a.txt", "some text " * 100)
    content = bytearray(path.read_bytes())
    central = content.index(b"PK\x01\x02")
    if change == "damaged":
        content[40] ^= 0xFF
    elif change == "encrypted":
        content[6] |= 1
        content[central + 8] |= 1
    else:
        content[8] = content[central + 10] = 77
    path.write_bytes(content)
    with pytest.raises(DataError, match="download"):
        extract(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tar_gz_whose_checksum_differs_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("a.txt")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="download"):
        extract(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
