"""How many files of egt a command executes until it trains or ends: what a reader of that command has to know.

    python -m benchmarks.trace_files [--files] [--json] [COMMAND ...]
    python -m benchmarks.trace_files predict RUN CCO

Without a command: `egt train molecules.csv --target y` on 60 molecules, from an empty cache. A file is executed when
anything in it runs except the statements of the module itself: functions, and bodies of classes when it is imported.
It is called when a function of it runs after its import. A hop is a call from one file of egt to another, a return hop
one to a file that was visited before. Two moments are reported: the first backward pass of all, which may belong to the
memory estimate, and the first of the training loop, where the command is stopped. A command that does not train, as
`egt predict`, is followed to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SMILES = ("CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCl", "C1CCCCC1", "CC#N", "OCCO", "NCC(=O)O", "c1ccncc1", "CCOC", "CS")
ESTIMATE = "memory"
"""In the name of the file whose backward passes estimate memory and train nothing."""


class FirstStep(BaseException):
    """The training loop has reached its first backward pass; ends the command."""


@dataclass(frozen=True)
class Snapshot:
    """What has been executed up to a moment.

    Fields:
        executed: files relative to the package, in order.
        called: those whose functions ran after their import, in the order of the first call.
        hops: calls from one file to another.
        return_hops: those of them to a file that was visited before.
    """

    executed: tuple[str, ...]
    called: tuple[str, ...]
    hops: int
    return_hops: int


@dataclass
class Trace:
    """Counts calls into the files of a package; `record` is the function for `sys.setprofile`.

    Fields:
        root: the folder of the package.
    """

    root: str
    executed: dict[str, None] = field(default_factory=dict)
    called: dict[str, None] = field(default_factory=dict)
    hops: int = 0
    return_hops: int = 0

    def record(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name == "<module>" or not code.co_filename.startswith(self.root):
            return
        name = self._name(code)
        self.executed[name] = None
        if self._at_import(frame):
            return
        caller = self._caller(frame)
        if caller is not None and caller != name:
            self.hops += 1
            self.return_hops += name in self.called
        self.called[name] = None

    def snapshot(self) -> Snapshot:
        return Snapshot(tuple(self.executed), tuple(self.called), self.hops, self.return_hops)

    def _name(self, code: CodeType) -> str:
        return code.co_filename.removeprefix(self.root)

    def _at_import(self, frame: FrameType | None) -> bool:
        """Whether a module of the package is being imported: its own code is on the stack."""
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(self.root):
                return True
            frame = frame.f_back
        return False

    def _caller(self, frame: FrameType) -> str | None:
        """Return the file of the package that the call comes from, through whatever library."""
        above = frame.f_back
        while above is not None:
            if above.f_code.co_filename.startswith(self.root):
                return self._name(above.f_code)
            above = above.f_back
        return None


def trace(words: list[str]) -> tuple[Snapshot, Snapshot]:
    """Run a command of egt up to the first backward pass of its training loop, or to its end.

    Returns:
        what was executed up to the first backward pass of all, and up to the first of the loop; the same where there
        is none.
    """
    # isort: off
    import egt  # before torch, as in the command
    import torch
    from egt.cli.main import main
    # isort: on

    seen = Trace(f"{Path(egt.__file__).parent}{os.sep}")
    backward, found = torch.autograd.backward, list[Snapshot]()

    def watched(*args: Any, **options: Any) -> None:
        sys.setprofile(None)
        found.append(seen.snapshot())
        if not _estimates(sys._getframe()):
            raise FirstStep
        sys.setprofile(seen.record)
        backward(*args, **options)

    torch.autograd.backward = watched
    sys.setprofile(seen.record)
    try:
        main(words)
    except FirstStep:
        return found[0], found[-1]
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        torch.autograd.backward = backward
    return (seen.snapshot(),) * 2


def _estimates(frame: FrameType | None) -> bool:
    while frame is not None:
        if ESTIMATE in Path(frame.f_code.co_filename).name:
            return True
        frame = frame.f_back
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="list the called files in the order of their first call")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="words after `egt`")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = options.command or _example(Path(folder))
        os.environ["EGT_CACHE_DIR"] = str(Path(folder, "cache"))
        first, loop = trace(words)
    if options.json:
        print(json.dumps({"command": words, "first_backward": vars(first), "loop": vars(loop)}))
        return
    print(f"egt {' '.join(words)}\n")
    print(f"{'up to':<40}{'executed':>10}{'called':>10}{'hops':>8}{'return hops':>14}")
    moments = (("the first backward pass of all", first), ("the first backward pass of the loop", loop))
    for name, seen in moments if first is not loop else (("the end", loop),):
        print(f"{name:<40}{len(seen.executed):>10}{len(seen.called):>10}{seen.hops:>8}{seen.return_hops:>14}")
    stations = Counter(Path(name).parts[0].removesuffix(".py") for name in loop.executed)
    print("\nexecuted files of each station: " + ", ".join(f"{name} {count}" for name, count in stations.items()))
    if options.files:
        print("\n" + "\n".join(f"{number:>4} {name}" for number, name in enumerate(loop.called, 1)))


def _example(folder: Path) -> list[str]:
    """Run the command of a newcomer, with its data."""
    write_molecules(folder / "molecules.csv")
    return ["train", str(folder / "molecules.csv"), "--target", "y", "--out", str(folder / "run")]


def write_molecules(path: Path) -> None:
    """Return a table of 60 small molecules with one number each."""
    rows = [f"{SMILES[k % len(SMILES)]}{'C' * (k // len(SMILES))},{k * 0.37 % 5:.2f}" for k in range(60)]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")


if __name__ == "__main__":
    main()
