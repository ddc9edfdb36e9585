"""The command line: quick to help, clear when wrong."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from egt.cli.main import app, main
from tests.hostile import HostileFolder


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as done:
        main(list(words))
    code = done.value.code
    assert isinstance(code, int)
    return code


def test_help_is_quick_and_imports_no_torch() -> None:
    code = "import sys; sys.argv=['egt', '--help']\nfrom egt.cli.main import main\n"
    code += "try: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time: what the clock shows depends on what else the machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "Unknown command"),
        (["presets", "show", "zink-500k"], "did you mean zinc-500k"),
        (["presets", "sing"], "egt presets show NAME"),
        (["import-official"], "requires an argument"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_message(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("presets", "show", "zink", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err


def test_presets_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("presets", "--json") == 0
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "zinc-500k" in listed["presets"]
    assert run("presets", "show", "zinc-500k", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["model"]["num_layers"] == 10


def test_doctor_passes_its_own_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(result.startswith("ok") for result in found["checks"].values())
    assert found["packages"]["torch"]


def test_python_m_egt_is_egt() -> None:
    result = subprocess.run([sys.executable, "-m", "egt", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == __import__("egt").__version__


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_reader_that_has_enough_ends_a_command_quietly(
    size: int, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    code = "import sys\nfrom egt.cli import main\n"
    code += f"main.run = lambda words: [sys.stdout.write('x' * {size}) for _ in range(3)]\nmain.main([])"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_command_with_one_line_and_exit_code_1(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("egt.cli.main.run", lambda words: signal.raise_signal(number))
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert run("train") == 1
    assert capsys.readouterr().err == f"stopped by {number.name}\n"
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_second_sigterm_does_not_disturb_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(words: list[str]) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            print("cleaned up")

    monkeypatch.setattr("egt.cli.main.run", work)
    assert run("train") == 1
    assert capsys.readouterr() == ("cleaned up\n", "stopped by SIGTERM\n")


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egt.cli.main.run", lambda words: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        main(["train"])
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("pattern", "nodes: signal (one of 0, 1, 2)"),
        ("tsp", "nodes: x (2 numbers); edges: edge_attr (a number)"),
        ("molhiv", "SMILES"),
    ],
)
def test_info_names_the_columns_that_new_files_need(
    name: str, columns: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("data", "info", name) == 0
    assert f"columns  │ {columns} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (ImportError("libx.so: cannot open shared object file: Too many open files"), "ulimit -n"),
        (OSError("Could not find/load shared object file 'libtorch_cpu.so'"), "ulimit -v"),
        (MemoryError(), "ulimit -v"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "ulimit -v"),
        (OSError(errno.ENOSPC, "No space left on device"), "TMPDIR"),
    ],
)
def test_a_limit_of_the_machine_is_one_line(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("egt.cli.main.run", fail)
    with pytest.raises(SystemExit) as done:
        main(["doctor"])
    assert done.value.code == 1
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert told in message
    assert message.count("\n") == 1


def test_other_errors_stay_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("egt.cli.main.run", fail)
    with pytest.raises(PermissionError):
        main(["doctor"])


@pytest.mark.parametrize(("words", "code"), [("presets", 0), ("presets show nonsense", 2)])
def test_a_process_says_everything_before_it_ends(words: str, code: int, tmp_path: Path) -> None:
    """Also to a file, which Python writes when a buffer is full or at the end."""
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run([sys.executable, "-m", "egt", *words.split()], stdout=out, stderr=subprocess.PIPE)
    said = (tmp_path / "out").read_text()
    assert done.returncode == code
    assert ("zinc-500k" in said) == (code == 0)
    assert (b"error: " in done.stderr) == (code == 2)


def test_what_is_registered_for_the_end_is_done() -> None:
    code = "import atexit, sys; atexit.register(print, 'the end'); sys.argv = ['egt', 'presets']\n"
    code += "from egt.cli.main import script\nscript()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("the end\n")


def test_threads_that_still_work_are_waited_for() -> None:
    code = "import sys, threading, time; sys.argv = ['egt', 'presets']\n"
    code += "threading.Thread(target=lambda: (time.sleep(5), print('done'))).start()\n"
    code += "from egt.cli.main import script\nscript()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("done\n")


@pytest.mark.parametrize(("given", "kept"), [(None, "1"), ("2", "2")])
def test_blas_has_one_thread_unless_the_user_says_otherwise(given: str | None, kept: str) -> None:
    code = (
        "import os, sys; from egt.cli import main as module\n"
        "assert 'numpy' not in sys.modules\n"
        "module.main = lambda: print(os.environ['OPENBLAS_NUM_THREADS'])\nmodule.script()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == kept


EGT = str(Path(sys.executable).with_name("egt"))


@pytest.mark.parametrize("command", [[EGT], [sys.executable, "-m", "egt"]], ids=["egt", "python -m egt"])
def test_a_command_imports_nothing_from_the_current_folder(command: list[str], tmp_path: Path) -> None:
    if not Path(command[0]).exists():
        pytest.skip("the console script is not installed")
    hostile = HostileFolder(tmp_path, "cyclopts", "traceback", "torch", "rdkit", "optuna")
    done = subprocess.run([*command, "presets", "--json"], cwd=hostile.path, capture_output=True, check=False)
    assert hostile.executed == []
    assert done.returncode == 0


def test_python_processes_of_a_command_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    hostile = HostileFolder(tmp_path, "torch", "pickle")
    code = "import subprocess, sys\nfrom egt.cli import main\n"
    code += "main.main = lambda: subprocess.run([sys.executable, '-c', 'import pickle; import torch'])\nmain.script()"
    subprocess.run([sys.executable, "-P", "-c", code], cwd=hostile.path, check=True)
    assert hostile.executed == []


COMMANDS = [command for command in app() if not command.startswith("-")]


def test_the_help_of_every_command_imports_no_torch() -> None:
    code = "import sys\nfrom egt.cli.main import main\n"
    code += f"for command in {COMMANDS}:\n    try: main([command, '--help'])\n    except SystemExit: pass\n"
    code += "print([name for name in ('torch', 'rdkit', 'matplotlib') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--output" not in done.stdout


@pytest.mark.parametrize("option", ["--out", "-o", "--output"])
def test_results_go_where_any_spelling_says(option: str, tmp_path: Path) -> None:
    assert run("predict", "zinc-100k", "CCO", option, str(tmp_path / "a.csv")) == 0
    assert run("predict", "zinc-100k", "CCO", f"{option}={tmp_path}/b.csv") == 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
