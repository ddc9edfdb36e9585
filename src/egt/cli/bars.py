"""Progress bars of the commands, on standard error; silent when it is not a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Bars:
    """One bar per stage of the work; each appears when it is first told about.

    Used as `with Bars() as bars: work(watch=bars)`.

    Args:
        shown: whether anything is shown at all.
    """

    def __init__(self, *, shown: bool = True) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        disable = not (shown and console.is_terminal)
        self._bar = Progress(*columns, console=console, transient=True, disable=disable)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Show that `done` of `total` are done; None if nobody knows how many there are."""
        if stage not in self._tasks:
            self._bar.start()
            self._tasks[stage] = self._bar.add_task(stage, total=total)
        self._bar.update(self._tasks[stage], completed=done, total=total)
        if all(task.finished for task in self._bar.tasks):  # the next piece of work brings the bars back
            self._bar.stop()
