"""Compiles the fused kernel at first use and keeps it in the user's cache."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

log = logging.getLogger(__name__)

SOURCES = Path(__file__).parent / "csrc"
FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-pthread"),
    "-ffp-contract=fast",  # a * b + c becomes one fused instruction where the machine has it
    *("-Wno-psabi", "-Wno-ignored-attributes"),  # vector types never cross a function that is not inlined
)


def cache_folder() -> Path:
    """Where compiled kernels are kept: $EGT_CACHE_DIR, by default ~/.cache/egt."""
    return Path(os.environ.get("EGT_CACHE_DIR") or "~/.cache/egt").expanduser() / "kernels"


def compiler() -> str | None:
    """The C++ compiler: $CXX, else g++, c++ or clang++; None if there is none."""
    candidates = (os.environ.get("CXX"), "g++", "c++", "clang++")
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def build(flags: Sequence[str] = FLAGS, folder: Path | None = None) -> Path | None:
    """The shared library, compiled if the cache does not hold it.

    Its name holds a hash of the sources, the compiler's version and the flags. A build happens in a file of its own
    that is then renamed: two processes may build at once, and neither ever loads a half-written library.

    Args:
        flags: of the compiler.
        folder: to keep it in, by default `cache_folder()`.

    Returns:
        The path of the library; None, after a one-line notice, if there is no compiler or it fails.
    """
    cxx = compiler()
    if cxx is None:
        log.warning("no C++ compiler found (looked for $CXX, g++, c++, clang++): using the PyTorch path")
        return None
    version = subprocess.run([cxx, "--version"], capture_output=True, text=True, check=False).stdout
    content = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))
    key = hashlib.sha256(b"\0".join([content, version.encode(), " ".join(flags).encode()])).hexdigest()[:16]
    folder = folder or cache_folder()
    library = folder / f"pair_pass-{key}.so"
    if library.exists():
        return library
    log.warning("compiling the fused kernel (once, a few seconds) ...")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            unfinished = _compile(cxx, flags, Path(scratch))
            unfinished.replace(library)
    except OSError as error:
        log.warning("cannot write the fused kernel to %s (%s): using the PyTorch path", folder, error)
        return None
    except subprocess.CalledProcessError as error:
        reason = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr[:200])
        log.warning("the fused kernel does not compile with %s (%s): using the PyTorch path", cxx, reason)
        return None
    return library


def _compile(cxx: str, flags: Sequence[str], scratch: Path) -> Path:
    """Compiles all sources at once, one process each, and links them in `scratch`."""
    sources = sorted(SOURCES.glob("*.cpp"))
    objects = [scratch / f"{source.stem}.o" for source in sources]
    library = scratch / "pair_pass.so"
    commands = [
        [cxx, *flags, "-c", str(source), "-o", str(target)] for source, target in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor() as pool:
        list(pool.map(_run, commands))
    _run([cxx, *flags, "-shared", *map(str, objects), "-o", str(library)])
    return library


def _run(command: list[str]) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)
