"""The folder of the data sets, hashes of their files, and downloads.

Downloads that survive a bad network: resumed, repeated, verified, and put in place only when complete.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import logging
import os
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from egt.data.source import Progress
from egt.errors import DataError
from egt.files import user_folder

_WHOLE_FILE_LIMIT = 64 * 2**20
_SAMPLE = 2**20


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder of the data sets: the argument, else `EGT_DATA_DIR`, else `~/.cache/egt/data`."""
    return Path(data_dir).expanduser() if data_dir else user_folder("EGT_DATA_DIR", ".cache", "egt", "data")


def fingerprint(files: Sequence[Path], *settings: object) -> str:
    """Return a hash of files and settings.

    Files up to 64 MiB are hashed whole; larger ones by size, time of change, and their first and last MiB, so that
    opening several gigabytes does not take a minute.
    """
    digest = hashlib.sha256(repr(settings).encode())
    for path in files:
        size = path.stat().st_size
        with path.open("rb") as stream:
            if size <= _WHOLE_FILE_LIMIT:
                digest.update(stream.read())
            else:
                digest.update(f"{size} {path.stat().st_mtime_ns}".encode())
                digest.update(stream.read(_SAMPLE))
                stream.seek(-_SAMPLE, os.SEEK_END)
                digest.update(stream.read())
    return digest.hexdigest()


_log = logging.getLogger(__name__)
_BLOCK = 1 << 16
_NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)

_ARCHIVE_ERRORS = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, ValueError),
    *(RuntimeError, NotImplementedError),  # encrypted, or packed by a method that Python does not know
)


def download(
    url: str,
    path: Path,
    *,
    checksum: str = "",
    progress: Progress | None = None,
    attempts: int = 4,
    timeout: float = 30.0,
    pause: float = 1.0,
) -> Path:
    """Fetch a file unless it is already there.

    The bytes go to `<path>.part`, which a later call continues, and are renamed to `path` when complete and verified.
    The checksum is "sha256:..." or "md5:...", empty if none is known. An attempt fails after `timeout` seconds without
    a byte, and each further one comes after twice the `pause` (in seconds). A `DataError` names the file to place by
    hand.
    """
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    for attempt in range(attempts):
        try:
            _continue(url, part, progress, timeout)
            break
        except _NETWORK_ERRORS as error:
            final = isinstance(error, urllib.error.HTTPError) and 400 <= error.code < 500
            if final or attempt == attempts - 1:
                raise DataError(
                    f"cannot download {url} ({error}); fetch it on a machine with a network and place it at {path}"
                ) from error
            _log.info("attempt %d for %s failed (%s), trying again", attempt + 1, url, error)
            time.sleep(pause * 2**attempt)
        except OSError as error:
            raise DataError(f"cannot write {part} ({error}); free some space or choose another folder") from error
    _verify(part, checksum, url)
    os.replace(part, path)
    return path


def file_checksum(path: Path, algorithm: str) -> str:
    """Return the checksum of a file, as "sha256:..." or "md5:..."."""
    with path.open("rb") as stream:
        return f"{algorithm}:{hashlib.file_digest(stream, algorithm).hexdigest()}"


def extract(archive: Path, folder: Path) -> None:
    """Unpack a .zip or .tar.gz, if it is whole; a `DataError` where members point outside the folder."""
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as bundle:
                root = folder.resolve()
                for name in bundle.namelist():
                    if not (root / name).resolve().is_relative_to(root):
                        raise DataError(f"{archive} holds the unsafe path {name!r}; do not use this file")
                if (damaged := bundle.testzip()) is not None:
                    raise zipfile.BadZipFile(f"{damaged} does not match its checksum")
                bundle.extractall(folder)
        else:
            if archive.suffix in (".gz", ".tgz"):
                with gzip.open(archive) as stream:  # to the end, where the checksum is; unpacking does not get there
                    while stream.read(_BLOCK):
                        pass
            with tarfile.open(archive) as bundle:
                bundle.extractall(folder, filter="data")
    except _ARCHIVE_ERRORS as error:
        raise DataError(f"{archive} cannot be unpacked ({error}); delete it and download it again") from error


def _continue(url: str, part: Path, progress: Progress | None, timeout: float) -> None:
    """Fetch the bytes that `part` does not have yet."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not done:
            raise
        if error.headers.get("Content-Range", "").endswith(f"/{done}"):  # nothing is left to send
            return
        part.unlink()
        raise ConnectionError("the part at hand is not of this file") from error
    with response:
        if done and response.status != 206:  # the server ignores ranges and starts from the first byte
            done = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        with part.open("ab" if done else "wb") as out:
            while block := response.read(_BLOCK):
                out.write(block)
                done += len(block)
                if progress is not None:
                    progress(f"downloading {part.stem}", done, total)
            out.flush()
            os.fsync(out.fileno())
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def _verify(part: Path, checksum: str, url: str) -> None:
    """Raise, and remove the part, unless it has the checksum."""
    if not checksum:
        _log.warning("no checksum is known for %s; the download is used unverified", url)
        return
    found = file_checksum(part, checksum.partition(":")[0])
    if found != checksum:
        part.unlink()
        raise DataError(
            f"{url} has the checksum {found}, but {checksum} is expected; the download was removed: try again, "
            "or check whether the publisher has replaced the file"
        )
