"""Who does which run: several processes or machines with a common folder never do one at the same time.

A claim on `seed0` is the file `seed0.claim-1`, made with O_EXCL, which only one process can make. Its holder writes to
it every half minute. A claim that nobody has written to for ten minutes is given up, or at once when its process on
this machine is gone; whoever makes `seed0.claim-2` takes over. The highest number holds. A holder that was asleep, and
finds a higher number when it wakes, stops before its next step.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egt.errors import ConfigError, RunStopped
from egt.training.callbacks import Callback

if TYPE_CHECKING:
    from egt.training.checkpoint import StepSums
    from egt.training.state import State

HEARTBEAT_SECONDS = 30.0

LEASE_SECONDS = 600.0

_MARK = ".claim-"


class Claim(Callback):
    """A run that this process holds; as a callback it ends the run once another one has taken over.

    Args:
        place: what is claimed, e.g. DIR/zinc-100k/seed0.
        number: of this claim among those on the same place.
    """

    def __init__(self, place: Path, number: int) -> None:
        self.place, self.number = place, number
        self._checked = time.monotonic()

    @property
    def file(self) -> Path:
        """The file that says so."""
        return _file(self.place, self.number)

    def is_held(self) -> bool:
        """Return whether nobody has taken over."""
        return _highest(self.place) == self.number

    def on_step(self, state: State, step: StepSums) -> None:
        """End a run that is not ours any more; looked up now and then."""
        if time.monotonic() - self._checked < HEARTBEAT_SECONDS:
            return
        self._checked = time.monotonic()
        if not self.is_held():
            raise RunStopped(f"{self.place}: another process has taken over, because this one had not been heard from")

    def beat(self, released: threading.Event) -> None:
        """Say every half minute that the work goes on, until it is released.

        A file that is gone is not made again: whoever took over has finished, and this one has lost the run.
        """
        while not released.wait(HEARTBEAT_SECONDS):
            with suppress(OSError), self.file.open("r+") as file:
                file.write(json.dumps(_holder()))

    def release(self) -> None:
        """Let others have the run."""
        for number in range(1, self.number + 1):
            _file(self.place, number).unlink(missing_ok=True)


@contextmanager
def claimed(place: Path) -> Iterator[Claim | None]:
    """Yield the claim on a run while the context lasts; None if another process is at it.

    Args:
        place: what is claimed; its parent folder is made.
    """
    claim = _try(place)
    if claim is None:
        yield None
        return
    released = threading.Event()
    beating = threading.Thread(target=claim.beat, args=(released,), daemon=True)
    beating.start()
    try:
        yield claim
    finally:
        released.set()
        beating.join()
        claim.release()


def holder(place: Path) -> str:
    """Return the machine that does a run now; "" if none does."""
    number = _highest(place)
    return str(_read(_file(place, number)).get("machine", "?")) if number and not _is_given_up(place, number) else ""


def _try(place: Path) -> Claim | None:
    """Make the next claim, unless the last one is alive or another process is faster."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        number = _highest(place)
        if number and not _is_given_up(place, number):
            return None
        with _file(place, number + 1).open("x") as file:
            file.write(json.dumps(_holder()))
    except FileExistsError:
        return None
    except OSError as error:
        raise ConfigError(
            f"{place.parent} cannot be written ({error.strerror}); choose another folder (--out)"
        ) from error
    return Claim(place, number + 1)


def _file(place: Path, number: int) -> Path:
    return place.with_name(f"{place.name}{_MARK}{number}")


def _highest(place: Path) -> int:
    """Return the number of the claim that holds; 0 without any."""
    numbers = [path.name.rpartition("-")[2] for path in place.parent.glob(f"{place.name}{_MARK}*")]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _is_given_up(place: Path, number: int) -> bool:
    file = _file(place, number)
    try:
        age = _now(place.parent) - file.stat().st_mtime
    except FileNotFoundError:  # released a moment ago
        return True
    found, here = _read(file), _holder()
    if found.get("space") == here["space"] and isinstance(found.get("process"), int):
        return not _is_alive(found["process"])
    return age > LEASE_SECONDS


def _now(folder: Path) -> float:
    """Return the time by the clock of the disk, which may be another machine's."""
    trial = folder / f".clock-{os.getpid()}-{threading.get_ident()}"
    try:
        trial.write_text("")
        return trial.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        trial.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):  # it is being written
        return {}
    return content if isinstance(content, dict) else {}


def _holder() -> dict[str, Any]:
    return {"machine": platform.node(), "process": os.getpid(), "space": _process_space()}


def _process_space() -> str:
    """Where numbers of processes mean something: this boot of this machine or container; "" where nobody can tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{platform.node()} {os.getpid()}"  # nobody else's


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
