"""Compilation happens once, survives races, and says in one line why there is no kernel."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from egt.native import library as module
from egt.native.library import FLAGS, SOURCES, build, cache_folder, compiler, prebuilt


@pytest.fixture
def fake_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Installs a shell script as the compiler; it writes one line per call to the returned file."""

    def install(script: str) -> Path:
        calls = tmp_path / "calls"
        cxx = tmp_path / "cxx"
        cxx.unlink(missing_ok=True)  # one that runs cannot be written to
        cxx.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo fake 1.0 && exit 0\necho "$@" >> {calls}\n{script}\n')
        cxx.chmod(cxx.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("CXX", str(cxx))
        return calls

    return install


WRITES_OUTPUT = 'for last; do :; done; sleep 0.05; echo library > "$last"'
CALLS_OF_ONE_BUILD = len(list(SOURCES.glob("*.cpp"))) + 1  # and one to link


def start_builder(folder: Path) -> subprocess.Popen[str]:
    """A process that is ready to build when it reads a line, and then prints the library's path."""
    code = f"""
from pathlib import Path
from egt.native.library import build
print("ready", flush=True)
input()
print(build(folder=Path({str(folder)!r})))
"""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def libraries(folder: Path) -> list[Path]:
    """Everything in a cache except its lock and the checksums."""
    return [path for path in folder.iterdir() if path.name != ".lock" and path.suffix != ".sha256"]


def test_second_call_finds_the_first_one_s_library(fake_compiler: Callable[[str], Path], tmp_path: Path) -> None:
    calls = fake_compiler(WRITES_OUTPUT)
    first = build(folder=tmp_path / "cache")
    number = len(calls.read_text().splitlines())
    assert first is not None
    assert build(folder=tmp_path / "cache") == first
    assert len(calls.read_text().splitlines()) == number
    assert libraries(tmp_path / "cache") == [first]


def test_flags_machine_and_sources_decide_the_name(
    fake_compiler: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_compiler(WRITES_OUTPUT)
    names = {build(folder=tmp_path / "cache"), build(flags=["-O0"], folder=tmp_path / "cache")}
    other = tmp_path / "csrc"
    other.mkdir()
    (other / "a.cpp").write_text("int x;")
    monkeypatch.setattr(module, "SOURCES", other)
    names.add(build(folder=tmp_path / "cache"))
    monkeypatch.setattr(platform, "machine", lambda: "another, with the same home")
    names.add(build(folder=tmp_path / "cache"))
    assert len(names) == 4


def test_of_processes_that_start_at_once_one_compiles(fake_compiler: Callable[[str], Path], tmp_path: Path) -> None:
    calls = fake_compiler(WRITES_OUTPUT.replace("0.05", "0.5"))
    processes = [start_builder(tmp_path / "cache") for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    printed, notices = zip(*(process.communicate() for process in processes), strict=True)
    assert len(calls.read_text().splitlines()) == CALLS_OF_ONE_BUILD
    assert set(printed) == {f"{libraries(tmp_path / 'cache')[0]}\n"}
    compiling = [notice for notice in notices if "compiling the fused kernel (once" in notice]
    assert len(compiling) == 1
    assert compiling[0].count("\n") == 1
    waiting = [notice for notice in notices if "waiting for it" in notice]
    assert waiting
    assert {notice.count("\n") for notice in waiting} == {1}


def test_a_killed_compilation_stops_nobody(fake_compiler: Callable[[str], Path], tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    fake_compiler(f"echo > {begun}; sleep 60")
    process = start_builder(tmp_path / "cache")
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    try:
        begun.read_text()  # waits for the compiler
        process.kill()  # its compilers live on, without the lock
        process.wait()
        assert [path.is_dir() for path in libraries(tmp_path / "cache")] == [True]
        fake_compiler(WRITES_OUTPUT)
        library = build(folder=tmp_path / "cache")
        assert library is not None
        assert libraries(tmp_path / "cache") == [library]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_without_locks_builders_at_once_leave_one_whole_library(
    fake_compiler: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    calls = fake_compiler(WRITES_OUTPUT)
    found: list[Path | None] = []
    threads = [threading.Thread(target=lambda: found.append(build(folder=tmp_path / "cache"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls.read_text().splitlines()) > CALLS_OF_ONE_BUILD, "these were to race"
    assert len(found) == 4
    assert len(set(found)) == 1
    assert libraries(tmp_path / "cache") == [found[0]]
    assert libraries(tmp_path / "cache")[0].read_text() == "library\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose kernel is one small function."""
    (tmp_path / "package" / "csrc").mkdir(parents=True)
    (tmp_path / "package" / "csrc" / "answer.cpp").write_text('extern "C" int answer() { return 42; }')
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(module, "SOURCES", tmp_path / "package" / "csrc")
    return tmp_path / "package"


def test_a_prebuilt_library_needs_no_compiler_until_sources_or_flags_change(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiler() is None:
        pytest.skip("no C++ compiler: nothing to load")
    library = build(folder=tmp_path / "cache")
    assert library is not None
    assert library.name != prebuilt().name, "the cache's name holds the compiler too"
    library.rename(prebuilt())
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build(folder=tmp_path / "cache") == prebuilt()
    assert prebuilt().parent == package
    assert libraries(tmp_path / "cache") == []
    assert build([*FLAGS, "-g"], folder=tmp_path / "cache") is None
    (package / "csrc" / "answer.cpp").write_text('extern "C" int answer() { return 43; }')
    assert build(folder=tmp_path / "cache") is None


def test_a_prebuilt_library_that_does_not_load_is_compiled_instead(
    package: Path, fake_compiler: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake_compiler(WRITES_OUTPUT)
    prebuilt().write_text("for another machine")
    library = build(folder=tmp_path / "cache")
    assert library is not None
    assert library.parent == tmp_path / "cache"
    assert "does not load here" in caplog.records[0].message


def test_machines_without_avx_never_meet_its_instructions() -> None:
    objdump, library = shutil.which("objdump"), build()
    if objdump is None or library is None or platform.machine() != "x86_64":
        pytest.skip("needs a kernel for x86 and objdump")
    command = [objdump, "--disassemble", "--demangle", "--no-show-raw-insn", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    functions = re.split(r"^[0-9a-f]+ <(.*)>:$", listing, flags=re.MULTILINE)[1:]
    using = {name for name, body in zip(functions[::2], functions[1::2], strict=True) if re.search("[yz]mm", body)}
    assert "egt::avx2::forward" in str(using)
    assert [name for name in using if "egt::avx2::" not in name] == []


def test_no_compiler_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build(folder=tmp_path) is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "no C++ compiler found" in caplog.text


def test_failing_compiler_is_one_line(
    fake_compiler: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake_compiler("echo 'x.cpp:1: error: no such thing' >&2; exit 1")
    assert build(folder=tmp_path / "cache") is None
    assert "error: no such thing" in caplog.records[-1].message
    assert libraries(tmp_path / "cache") == []


def test_unwritable_cache_is_one_line(
    fake_compiler: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake_compiler(WRITES_OUTPUT)
    (tmp_path / "file").write_text("in the way")
    assert build(folder=tmp_path / "file" / "cache") is None
    assert "cannot write the fused kernel" in caplog.text


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EGT_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path / "kernels"
    monkeypatch.delenv("EGT_CACHE_DIR")
    assert cache_folder() == Path(os.path.expanduser("~")) / ".cache" / "egt" / "kernels"


@pytest.mark.parametrize("header", sorted(SOURCES.glob("*.h")), ids=lambda path: path.name)
def test_every_header_compiles_alone(header: Path) -> None:
    cxx = compiler()
    if cxx is None:
        pytest.skip("no C++ compiler")
    targets: list[list[str]] = [[]]
    if platform.machine() == "x86_64":
        targets.append(["-DEGT_TARGET=avx2", "-DEGT_AVX2=1", "-mavx2", "-mfma"])
    for target in targets:
        command = [cxx, *FLAGS, "-Wall", "-fsyntax-only", *target, "-x", "c++", str(header)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        warnings = [line for line in result.stderr.splitlines() if "warning:" in line]
        assert [line for line in warnings if "#pragma once in main file" not in line] == []


FEW_THREADS = """
#include <cerrno>
#include <cstdlib>
#include <new>
#include <pthread.h>
#include <dlfcn.h>
#include "parallel.h"

static int calls = 0;

#ifdef NO_MEMORY
void *operator new(std::size_t size) {
    if (calls > 0) throw std::bad_alloc();
    return std::malloc(size);
}

void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
#endif

// The system gives one thread and then no more.
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *data) {
    if (calls++ > 0) return EAGAIN;
    using Create = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"))(thread, how, work, data);
}

int main() {
    std::atomic<int> done{0};
    egt::for_each_part(1000, 8, nullptr, [&](int) { ++done; });
    return done == 1000 ? 0 : 1;
}
"""


@pytest.mark.parametrize("trouble", ["NO_THREADS", "NO_MEMORY"])
def test_threads_that_the_system_refuses_are_done_without(trouble: str, tmp_path: Path) -> None:
    cxx = compiler()
    if cxx is None or sys.platform != "linux":
        pytest.skip("no C++ compiler, or threads that are started in another way")
    (tmp_path / "few.cpp").write_text(FEW_THREADS)
    command = [
        cxx,
        *FLAGS,
        f"-D{trouble}",
        "-I",
        str(SOURCES),
        str(tmp_path / "few.cpp"),
        "-ldl",
        "-o",
        str(tmp_path / "few"),
    ]
    subprocess.run(command, check=True)
    assert subprocess.run([tmp_path / "few"], check=False).returncode == 0


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "no checksum"])
def test_a_damaged_library_of_the_cache_is_compiled_again(
    damage: str, fake_compiler: Callable[[str], Path], tmp_path: Path
) -> None:
    calls = fake_compiler(WRITES_OUTPUT)
    library = build(folder=tmp_path / "cache")
    assert library is not None
    if damage == "no checksum":
        library.with_suffix(".so.sha256").unlink()
    else:
        library.write_bytes({"cut": b"libr", "flipped": b"libsary\n", "empty": b""}[damage])
    assert build(folder=tmp_path / "cache") == library
    assert library.read_text() == "library\n"
    assert len(calls.read_text().splitlines()) == 2 * CALLS_OF_ONE_BUILD


def test_a_compiler_that_cannot_be_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cxx = tmp_path / "cxx"
    cxx.write_bytes(b"\x7fELF, but of no machine")
    cxx.chmod(0o755)
    monkeypatch.setenv("CXX", str(cxx))
    assert build(folder=tmp_path / "cache") is None
    assert "cannot be run (Exec format error)" in caplog.text


def test_a_compiler_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cxx = tmp_path / "cxx"
    cxx.write_text("#!/bin/sh\nexec sleep 60\n")
    cxx.chmod(0o755)
    monkeypatch.setenv("CXX", str(cxx))
    monkeypatch.setattr(module, "_VERSION_SECONDS", 0.2)
    assert build(folder=tmp_path / "cache") is None
    assert "no answer within" in caplog.text


def test_without_a_home_folder_there_is_a_notice(
    fake_compiler: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    fake_compiler(WRITES_OUTPUT)
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert build() is None
    assert "set EGT_CACHE_DIR" in caplog.text


STRANGER = 12345
"""The number of another user."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and a place for temporary folders beside it."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    module._temporary_folder.cache_clear()
    return tmp_path / "home"


def give_away(*paths: Path) -> None:
    """Make another user the owner, as of files which that user wrote."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in paths:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


def forge(library: Path) -> tuple[Path, Path]:
    """Put another library in the place of one, with a checksum that fits."""
    checksum = library.with_suffix(".so.sha256")
    library.write_text("forged\n")
    checksum.write_text(hashlib.sha256(library.read_bytes()).hexdigest())
    return library, checksum


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("mode", [0o755, 0o1777])
@pytest.mark.parametrize("forged", [(0, 1), (0,), (1,)], ids=["both", "library", "checksum"])
def test_a_file_of_another_user_is_compiled_again(
    mode: int, forged: tuple[int, ...], fake_compiler: Callable[[str], Path], tmp_path: Path
) -> None:
    fake_compiler(WRITES_OUTPUT)
    library = build(folder=tmp_path / "cache")
    assert library is not None
    (tmp_path / "cache").chmod(mode)
    files = forge(library)
    give_away(*(files[number] for number in forged))
    found = build(folder=tmp_path / "cache")
    assert found is not None
    assert found.read_text() == "library\n"
    assert found.stat().st_uid == os.geteuid()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write_is_compiled_again(
    mode: int, fake_compiler: Callable[[str], Path], tmp_path: Path
) -> None:
    fake_compiler(WRITES_OUTPUT)
    library = build(folder=tmp_path / "cache")
    assert library is not None
    for path in forge(library):
        path.chmod(mode)
    assert build(folder=tmp_path / "cache") == library
    assert library.read_text() == "library\n"


@pytest.mark.usefixtures("home")
def test_a_link_in_place_of_a_library_is_not_followed(fake_compiler: Callable[[str], Path], tmp_path: Path) -> None:
    fake_compiler(WRITES_OUTPUT)
    library = build(folder=tmp_path / "cache")
    assert library is not None
    library.rename(tmp_path / "elsewhere.so")
    library.symlink_to(tmp_path / "elsewhere.so")
    assert build(folder=tmp_path / "cache") == library
    assert not library.is_symlink()


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_folder_of_another_user_is_left_for_the_home_folder(
    mode: int, home: Path, fake_compiler: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = fake_compiler(WRITES_OUTPUT)
    library = build(folder=tmp_path / "cache")
    assert library is not None
    (tmp_path / "cache").chmod(mode)
    give_away(tmp_path / "cache", *forge(library))
    calls.unlink()
    caplog.clear()
    found = build(folder=tmp_path / "cache")
    assert found == home / ".cache" / "egt" / "kernels" / library.name
    assert found.read_text() == "library\n"
    assert str(tmp_path / "cache") in caplog.messages[0]
    assert str(found.parent) in caplog.messages[0]
    assert build(folder=tmp_path / "cache") == found
    assert len(calls.read_text().splitlines()) == CALLS_OF_ONE_BUILD, "it is kept there"


@pytest.mark.parametrize("trouble", ["of another user", "a file"])
def test_without_a_safe_home_a_temporary_folder_is_used(
    trouble: str, home: Path, fake_compiler: Callable[[str], Path], tmp_path: Path
) -> None:
    calls = fake_compiler(WRITES_OUTPUT)
    kernels = home / ".cache" / "egt" / "kernels"
    kernels.mkdir(parents=True)
    give_away(kernels)
    if trouble == "a file":
        kernels.rmdir()
        kernels.write_text("in the way")
    (tmp_path / "cache").mkdir()
    give_away(tmp_path / "cache")
    library = build(folder=tmp_path / "cache")
    assert library is not None
    assert library.is_relative_to(tmp_path / "tmp")
    assert stat.S_IMODE(library.parent.stat().st_mode) == 0o700
    assert build(folder=tmp_path / "cache") == library
    assert len(calls.read_text().splitlines()) == CALLS_OF_ONE_BUILD


@pytest.mark.parametrize(("mode", "used"), [(0o1777, True), (0o777, False)])
def test_others_must_not_be_able_to_replace_the_folder(
    mode: int, used: bool, home: Path, fake_compiler: Callable[[str], Path], tmp_path: Path
) -> None:
    fake_compiler(WRITES_OUTPUT)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    library = build(folder=tmp_path / "shared" / "kernels")
    assert library is not None
    assert library.is_relative_to(tmp_path / "shared" if used else home)


def test_what_is_written_is_writable_by_its_owner_alone(
    home: Path, fake_compiler: Callable[[str], Path], tmp_path: Path
) -> None:
    fake_compiler(WRITES_OUTPUT + '; chmod 775 "$last"')
    before = os.umask(0o002)
    try:
        library = build(folder=tmp_path / "cache")
    finally:
        os.umask(before)
    assert library is not None
    for path in (library.parent, library, library.with_suffix(".so.sha256")):
        assert not path.stat().st_mode & 0o022
    assert not home.exists()


def test_a_loose_folder_of_ours_is_tightened_and_stays_in_use(
    home: Path, fake_compiler: Callable[[str], Path], tmp_path: Path
) -> None:
    calls = fake_compiler(WRITES_OUTPUT)
    library = build(folder=tmp_path / "cache")
    (tmp_path / "cache").chmod(0o775)
    assert build(folder=tmp_path / "cache") == library
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o755
    assert len(calls.read_text().splitlines()) == CALLS_OF_ONE_BUILD
    assert not home.exists()


def test_where_there_are_no_users_the_cache_is_used(
    home: Path, fake_compiler: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_compiler(WRITES_OUTPUT)
    for name in ("getuid", "geteuid"):
        monkeypatch.delattr(os, name)
    library = build(folder=tmp_path / "cache")
    assert library is not None
    assert build(folder=tmp_path / "cache") == library
    assert library.parent == tmp_path / "cache"
    assert not home.exists()
