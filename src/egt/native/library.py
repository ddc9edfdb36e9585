"""The compiled library: prebuilt in the package, or compiled at first use and kept in the user's cache; loaded once.

Standard library only: `hatch_build.py`, which puts the library into the wheel, imports this where nothing is installed.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egt.files import lock, put_in_place

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

_INTEGER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p


class Graphs(ctypes.Structure):
    """The graphs that a call is about (EgtGraphs)."""

    _fields_ = (
        ("count", _INTEGER),
        *((name, _ADDRESS) for name in ("num_nodes", "num_edges", "from", "to")),
    )


class Neighbors(ctypes.Structure):
    """The neighbors of each node of a graph (EgtNeighbors)."""

    _fields_ = (("num_nodes", _INTEGER), ("start", _ADDRESS), ("nodes", _ADDRESS))


class _Field(ctypes.Structure):
    """Where a field of a struct is in the library (EgtField)."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", _INTEGER))


_LOOPS = {
    "egt_hop_distances": (ctypes.POINTER(Graphs), _INTEGER, _ADDRESS),
    "egt_undirected_adjacency": (ctypes.POINTER(Graphs), *[_ADDRESS] * 4),
    "egt_signs": (*[_INTEGER] * 3, *[_ADDRESS] * 4),
    "egt_encode_triplets": (*[_INTEGER] * 4, *[_ADDRESS] * 5),
    "egt_encode_eigenvectors": (*[_INTEGER] * 5, *[_ADDRESS] * 4),
    "egt_draw_neighborhood": (
        *(ctypes.POINTER(Neighbors), _INTEGER, _ADDRESS, _INTEGER, _ADDRESS, ctypes.c_uint64, _ADDRESS),
    ),
    "egt_inner_pairs": (ctypes.POINTER(Neighbors), _INTEGER, _ADDRESS, _ADDRESS, _ADDRESS),
    "egt_pair_distances": (*[ctypes.POINTER(Neighbors)] * 2, _INTEGER, _ADDRESS, _INTEGER, _ADDRESS),
    "egt_pair_walks": (*[ctypes.POINTER(Neighbors)] * 2, _INTEGER, _ADDRESS, _ADDRESS),
    "egt_walk_powers": (_INTEGER, _INTEGER, _ADDRESS, _ADDRESS, _INTEGER, _ADDRESS),
    "egt_walk_powers_at": (_INTEGER, _INTEGER, _ADDRESS, _ADDRESS, _INTEGER, _INTEGER, _ADDRESS, _ADDRESS),
    "egt_partition_rows": (_INTEGER, _INTEGER, _ADDRESS, _INTEGER, _ADDRESS),
    "egt_exponentials": (_INTEGER, _ADDRESS, _ADDRESS),
    "egt_count_molecules": (_INTEGER, *[_ADDRESS] * 4),
    "egt_read_molecules": (_INTEGER, *[_ADDRESS] * 7),
}
"""What the functions of csrc/loops.h take."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the library, compiled if need be; None where it cannot be.

    Its loops over graphs are declared here, its kernel in `egt.nn.kernels.binding`.
    """
    path = build()
    try:
        found = None if path is None else ctypes.CDLL(str(path))
    except OSError as error:
        assert path is not None
        log.warning("the fused kernel cannot be loaded (%s): using plain PyTorch, which is slower", error)
        forget(path)
        return None
    if found is not None:
        check_structs(found, Graphs, Neighbors)
        declare(found, _LOOPS)
    return found


def check_structs(library: ctypes.CDLL, *mirrors: type[ctypes.Structure]) -> None:
    """Raise a `RuntimeError` unless mirrors of structs have every field where the library has it."""
    library.egt_struct_fields.restype = ctypes.POINTER(_Field)
    fields = library.egt_struct_fields()
    offsets: dict[str, int] = {}
    while (field := fields[len(offsets)]).name is not None:
        offsets[field.name.decode()] = field.offset
    for mirror in mirrors:
        name = f"Egt{mirror.__name__}"
        there = {field: at for field, at in offsets.items() if field.partition(".")[0] == name}
        here = {f"{name}.{field}": getattr(mirror, field).offset for field, _ in mirror._fields_}  # type: ignore[misc]
        here[name] = ctypes.sizeof(mirror)
        if differing := sorted(field for field, _ in here.items() ^ there.items()):
            raise RuntimeError(
                f"{library._name}: {', '.join(dict.fromkeys(differing))} is elsewhere than in egt's struct; the two "
                "are of different versions: reinstall egt, or make the mirror the same as its header in csrc"
            )


_ERRORS: dict[int, tuple[type[Exception], str]] = {
    1: (ValueError, "sizes or listed pairs do not add up to the rows given"),
    2: (MemoryError, "no memory for working buffers"),
    3: (RuntimeError, "the system gives no more threads"),
    4: (RuntimeError, "failed for an unknown reason; please report this"),
}
"""What the numbers mean that functions of the library return (csrc/status.h)."""


def declare(library: ctypes.CDLL, functions: Mapping[str, Sequence[Any]]) -> None:
    """Say what functions take (undeclared, addresses would be cut to 32 bits), and let them raise what they return."""
    for name, arguments in functions.items():
        function = getattr(library, name)
        function.argtypes, function.errcheck = arguments, _raise_for


def _raise_for(status: int, function: Any, arguments: Any) -> None:
    if status:
        kind, reason = _ERRORS[status]
        raise kind(f"fused kernel: {reason}")


def address(array: NDArray[Any]) -> int:
    """Return where the numbers of a contiguous array are."""
    at: int = array.ctypes.data
    return at


PACKAGE = Path(__file__).parent
SOURCES = PACKAGE / "csrc"
FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-pthread"),
    "-ffp-contract=fast",  # a * b + c becomes one fused instruction where the machine has it
    *("-Wno-psabi", "-Wno-ignored-attributes"),  # vector types never cross a function that is not inlined
)

_VERSION_SECONDS, _COMPILE_SECONDS = 20, 900
_HOME_CACHE = Path("~/.cache/egt")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_UNFINISHED = "unfinished-"  # begins the name of a folder in which a compiler works


def cache_folder() -> Path:
    """Return where compiled kernels are kept: $EGT_CACHE_DIR, by default ~/.cache/egt."""
    return Path(os.environ.get("EGT_CACHE_DIR") or _HOME_CACHE).expanduser() / "kernels"


def compiler() -> str | None:
    """Find the C++ compiler: $CXX, else g++, c++ or clang++; None if there is none."""
    candidates = (os.environ.get("CXX"), "g++", "c++", "clang++")
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def prebuilt(flags: Sequence[str] = FLAGS) -> Path:
    """Return where a wheel holds the library of these sources and flags; it does not exist in a source checkout.

    The compiler has no part in the name: where the library is used there may be none.
    """
    return PACKAGE / f"pair_pass-{_key(flags)}.so"


def build(flags: Sequence[str] = FLAGS, folder: Path | None = None) -> Path | None:
    """Return the shared library: the package's own, else the cache's, else compiled.

    The name of a compiled one holds a hash of the sources, the flags, the compiler's version and the kind of machine.
    Of several processes one compiles and the others wait for it. A build happens in a folder of its own and is then
    renamed: even where there are no locks no process ever loads a half-written library. One that does not match the
    checksum beside it, as after a power cut, is compiled again. So is one that another user can have written, and a
    folder of another user is not used: whoever writes a library runs code as whoever loads it.

    Returns None, after a one-line notice, if there is no compiler or it fails.
    """
    if (library := prebuilt(flags)).exists() and _loads(library):
        return library
    cxx = compiler()
    if cxx is None:
        log.warning("no C++ compiler found (looked for $CXX, g++, c++, clang++)")
        return None
    version = _version(cxx)
    if version is None:
        return None
    try:
        folder = folder or cache_folder()
    except RuntimeError:  # of `expanduser`
        log.warning("no home folder to keep the fused kernel in; set EGT_CACHE_DIR to a folder that can be written")
        return None
    try:
        folder = _safe_folder(folder)
        library = folder / f"pair_pass-{_key(flags, version, sys.platform, platform.machine())}.so"
        if _is_whole(library):
            return library
        with _sole_compiler(folder):
            if _is_whole(library):  # the one we waited for compiled it
                return library
            log.warning("compiling the fused kernel (once, a few seconds) ...")
            with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder) as scratch:
                _keep(_compile(cxx, flags, Path(scratch)), library)
    except OSError as error:
        log.warning("cannot write the fused kernel to %s (%s)", folder, error)
        return None
    except subprocess.TimeoutExpired:
        log.warning("the fused kernel is not compiled: %s did not end within %d s", cxx, _COMPILE_SECONDS)
        return None
    except subprocess.CalledProcessError as error:
        reason = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr[:200])
        log.warning("the fused kernel does not compile with %s (%s)", cxx, reason)
        return None
    return library


def forget(library: Path) -> None:
    """Make the next process compile a library of the cache again; the package's own is left alone."""
    if library != prebuilt():
        with suppress(OSError):
            _checksum_file(library).unlink(missing_ok=True)


def _safe_folder(folder: Path) -> Path:
    """Make a folder that only this user writes to; if this one cannot be that, another: at home, else a temporary one.

    The path that is returned holds no links, which could be led elsewhere later.
    """
    if safe := _protect(folder):
        return safe
    private = None
    with suppress(OSError, RuntimeError):  # a home that cannot be written, or none
        private = _protect(_HOME_CACHE.expanduser() / "kernels")
    private = private or _temporary_folder()
    log.warning(
        "other users can change what is in %s: keeping the fused kernel in %s; set EGT_CACHE_DIR to a folder of yours",
        *(folder, private),
    )
    return private


@functools.cache
def _temporary_folder() -> Path:
    """Make a folder for a library that can be kept nowhere; it goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="egt-kernels-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _protect(folder: Path) -> Path | None:
    """Make a folder, take from others the right to write to it, and return its real path; None if they keep the right.

    A folder of ours has it from a umask such as 002. Others also have it where they can put another folder in its
    place: in one that all may write to, without the sticky bit.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder = folder.resolve()
    if not hasattr(os, "geteuid"):  # Windows: modes say nothing, and a profile is private
        return folder
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & _WRITABLE_BY_OTHERS:
        with suppress(OSError):
            folder.chmod(stat.S_IMODE(status.st_mode) & ~_WRITABLE_BY_OTHERS)
    modes = [parent.stat().st_mode for parent in folder.parents]
    replaceable = any(mode & stat.S_IWOTH and not mode & stat.S_ISVTX for mode in modes)
    return folder if _is_ours(folder) and not replaceable else None


def _is_ours(path: Path) -> bool:
    """Whether only this user and root can have written a file or folder. A link is never: its target may change."""
    if not hasattr(os, "geteuid"):
        return True
    status = path.lstat()
    owned = status.st_uid in (0, os.geteuid())
    return owned and not stat.S_ISLNK(status.st_mode) and not status.st_mode & _WRITABLE_BY_OTHERS


def _is_whole(library: Path) -> bool:
    """Whether a library is there as we compiled it: to load half of one would end the process without a word."""
    try:
        checksum = _checksum_file(library)
        return _is_ours(library) and _is_ours(checksum) and checksum.read_text() == _checksum(library)
    except (OSError, ValueError):
        return False


def _keep(compiled: Path, library: Path) -> None:
    """Bring a library to the disk and to its place, and then its checksum."""
    checksum = compiled.with_suffix(".sha256")
    checksum.write_text(_checksum(compiled))
    for path, place in ((compiled, library), (checksum, _checksum_file(library))):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_WRITABLE_BY_OTHERS)
        put_in_place(path, place)


def _checksum_file(library: Path) -> Path:
    return library.with_suffix(".so.sha256")


def _checksum(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()


def _version(cxx: str) -> str | None:
    """Return what a compiler says about itself; None, after a notice, if it cannot be run."""
    try:
        run = subprocess.run(
            [cxx, "--version"], capture_output=True, text=True, errors="replace", check=False, timeout=_VERSION_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no answer within {_VERSION_SECONDS} s"
        log.warning("the C++ compiler %s cannot be run (%s); set CXX to one that works", cxx, reason)
        return None
    return run.stdout


def _key(flags: Sequence[str], *circumstances: str) -> str:
    content = [part for path in sorted(SOURCES.iterdir()) for part in (path.name.encode(), path.read_bytes())]
    words = [" ".join(flags), *circumstances]
    return hashlib.sha256(b"\0".join([*content, *(word.encode() for word in words)])).hexdigest()[:16]


def _loads(library: Path) -> bool:
    """Try whether this machine can load a library that another one compiled; it may have an older C++ runtime."""
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        log.warning("the package's fused kernel does not load here (%s): compiling it instead", error)
        return False
    return True


@contextmanager
def _sole_compiler(folder: Path) -> Iterator[None]:
    """Hold the lock of the cache, which only saves double work: where there are no locks everyone compiles."""

    def say_so() -> None:
        log.warning("another process is compiling the fused kernel: waiting for it ...")

    with ExitStack() as stack:
        try:
            if stack.enter_context(lock(folder / ".lock", on_wait=say_so)):
                for leftover in folder.glob(f"{_UNFINISHED}*"):  # of a process that was killed
                    shutil.rmtree(leftover, ignore_errors=True)
        except OSError as error:
            log.info("%s cannot be locked (%s): continuing without a lock", folder, error)
        yield


def _compile(cxx: str, flags: Sequence[str], scratch: Path) -> Path:
    """Compile all sources at once, one process each, and links them in `scratch`."""
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
    subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, timeout=_COMPILE_SECONDS)
