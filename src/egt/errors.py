"""The errors a user may see: each message says where, what was given, what is allowed and what to do."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class EgtError(Exception):
    """Wrong input or usage; the command line prints the message and exits with 2."""


class GraphError(EgtError):
    """A graph that breaks a rule of `egt.Graph`."""


class ConfigError(EgtError):
    """A setting that is unknown, of the wrong type, or makes no sense with another one."""


class DataError(EgtError):
    """A file, table or data set that cannot be read as graphs."""


class ArtifactError(EgtError):
    """A saved model that is damaged, incomplete or not ours."""


class RunError(EgtError):
    """The run itself failed (diverged, out of memory, interrupted); the command line exits with 1."""


class RunStopped(RunError):
    """The run was stopped; it can be continued."""


def counted(number: float, noun: str) -> str:
    """Return a number with its noun for a message: "1 row", "2,000 rows"."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


@contextmanager
def require_extra(extra: str, what: str, kind: type[EgtError] = ConfigError) -> Iterator[None]:
    """Turn a failing import into an error that names the extra to install; `what` says what needs which package."""
    try:
        yield
    except ImportError as error:
        raise kind(f'{what}; install it with: pip install "egt-graph[{extra}]"') from error


@contextmanager
def log_from(name: str, level: int) -> Iterator[None]:
    """Keep what is less than a level out of a log."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
