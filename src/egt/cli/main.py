"""The entry point of `egt`: finds the command, and turns errors and signals into one message and an exit code."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import re
import select
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from egt import __version__
from egt.errors import EgtError, RunError
from egt.processors import prepare_threads

if TYPE_CHECKING:
    from cyclopts import App

_OBJECTS = 100_000
"""The number of new objects after which garbage is collected: modules and predictions are many, and none is garbage."""

_COMMANDS = {
    "train": "Train a preset, a run.yaml or your own data.",
    "tune": "Search for better settings, and keep the best model.",
    "evaluate": "Evaluate a trained model.",
    "predict": "Predict for files or SMILES.",
    "embed": "Write embeddings of graphs, nodes or pairs; find neighbors.",
    "export": "Export a model to ONNX, torch.export or a model hub.",
    "analyze": "Show what a model looks at.",
    "explain": "Explain one prediction.",
    "app": "Open a page in the browser: predict, look, explain.",
    "serve": "Answer predictions over HTTP.",
    "plan": "Estimate memory and time of a run before it starts.",
    "data": "List, describe or prepare data sets.",
    "presets": "List the models of the paper, or show one.",
    "reproduce": "Run the tables of the paper, row by row.",
    "report": "Report runs: tables beside the paper's, curves, plots.",
    "import-official": "Import the authors' weights.",
    "doctor": "Show the installation and run the self-checks.",
}
"""Name -> summary. The code of a command is its module of this name, and loaded when it is called."""


class Stopped(BaseException):
    """A signal asked the command to end. Like `KeyboardInterrupt`, it is not an error for `except Exception`."""


def script() -> None:
    """Run the command of `sys.argv` as a process of its own.

    It ends without taking down the interpreter: with torch and many predictions in memory, that takes half a second.
    """
    # Encodings are computed with one thread of BLAS; others would spin for a while in every process that is started.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prepare_threads()
    os.environ["PYTHONSAFEPATH"] = "1"  # no process that is started imports what lies in the current folder
    gc.set_threshold(_OBJECTS)
    try:
        main()
    except SystemExit as end:
        if end.code or threading.active_count() > 1:  # a failure, or a thread for which Python waits
            raise
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exits with 0 (done), 1 (the run failed or was stopped) or 2 (wrong input or usage)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [re.sub(r"^--output(?==|$)", "--out", word) for word in words if word != "--debug"]  # the name in 0.1
    try:
        with _stoppable():
            try:
                run(words)
            finally:
                sys.stdout.flush()  # here, where a closed pipe can be handled
    except EgtError as error:
        if debug:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, RunError) else 2)
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        sys.exit(1)
    except (OSError, MemoryError, ImportError) as error:
        reason = limit_reached(error)
        if reason is None:
            raise
        if debug:
            traceback.print_exc()
        print(f"error: {reason}", file=sys.stderr)
        sys.exit(1)
    except (Stopped, KeyboardInterrupt) as reason:
        if debug:
            traceback.print_exc()
        print(f"stopped by {reason or 'SIGINT'}", file=sys.stderr)
        sys.exit(1)


def limit_reached(error: Exception) -> str | None:
    """Explain an error that comes from a limit of the machine; None for any other one."""
    number = getattr(error, "errno", None)
    if number in (errno.EMFILE, errno.ENFILE) or "Too many open files" in str(error):
        return "too many files are open at once: raise the limit (`ulimit -n 4096`) and run it again"
    if number == errno.ENOSPC:
        return f"the disk is full ({error}): make room, or set TMPDIR to a folder on another one"
    if isinstance(error, MemoryError) or number == errno.ENOMEM or "allocate memory" in str(error):
        return "not enough memory: close other programs, or raise the limit (`ulimit -v unlimited`), and run it again"
    if "shared object" in str(error):
        return (
            f"a library cannot be loaded ({' '.join(str(error).split())[:120]}); where `egt doctor` works, there is a "
            "limit on memory or on open files: raise it (`ulimit -v unlimited`, `ulimit -n 4096`)"
        )
    return None


def run(words: Sequence[str]) -> None:
    """Run the command that the words name. Words that make no command are an `EgtError`."""
    from cyclopts import CycloptsError  # here, so that a signal while it loads ends the command in words

    try:
        app()(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise EgtError(str(error)) from error


def app() -> App:
    """Build the commands."""
    from cyclopts import App

    egt = App(
        name="egt",
        help="Edge-augmented Graph Transformer: learn on nodes, edges and whole graphs with global self-attention.",
        version=__version__,
        help_epilogue="Every command takes --debug to show where an error comes from.",
    )
    for name, summary in _COMMANDS.items():
        module = name.replace("-", "_")
        egt.command(f"egt.cli.{module}:{module}", name=name, help=summary)
    return egt


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end the work inside, except those that this process ignores."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in ours:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _stop(number: int, _: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` and others send it twice
    raise Stopped(signal.Signals(number).name)


def _reader_is_gone() -> bool:
    """Return whether standard output has no reader any more, as after `| head -1`."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))
