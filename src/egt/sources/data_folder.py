"""Where the files of the benchmarks are: one folder, searched for the layouts that a benchmark is known in."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from egt.errors import DataError
from egt.files import user_folder

_WHOLE_FILE_LIMIT = 64 * 2**20
_SAMPLE = 2**20


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder of the data sets: the argument, else `EGT_DATA_DIR`, else `~/.cache/egt/data`."""
    return Path(data_dir).expanduser() if data_dir else user_folder("EGT_DATA_DIR", ".cache", "egt", "data")


def find_file(folder: Path, candidates: Sequence[str]) -> Path | None:
    """Return the first of the relative paths that exists in the folder."""
    return next((folder / name for name in candidates if (folder / name).is_file()), None)


def missing_files(name: str, folder: Path, candidates: Sequence[str], url: str = "") -> DataError:
    """Build the error for a benchmark without files: which file to place, where, and from which address."""
    places = " or ".join(str(folder / candidate) for candidate in candidates)
    source = f" (public address: {url})" if url else ""
    fetch = f", or let `egt data prepare {name} --fetch` download it" if url else ""
    return DataError(
        f"{name}: no data found in {folder}; place {places}{source}{fetch}, "
        "or set EGT_DATA_DIR to the folder that holds it"
    )


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
