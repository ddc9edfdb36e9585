"""File formats and kinds of Python objects that raw data is read from: one file each, found through a registry.

A format of an installed package is registered in the same way, in a module that the package announces as an entry point
of the group `egt.parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from egt.parts import Registry
from egt.sources.custom.raw import RawData


class Format:
    """One kind of raw data.

    Fields:
        what: the data in words, for the message that lists what can be read.
    """

    what: ClassVar[str]

    @staticmethod
    def fits(data: Any) -> bool:
        """Whether this is the format of some data: a `Path` that exists, or Python objects."""
        raise NotImplementedError

    @staticmethod
    def read(data: Any) -> RawData:
        """The columns of the data; raises a `DataError` if it cannot be read as a whole."""
        raise NotImplementedError


FORMATS: Registry[type[Format]] = Registry("file format", "egt.sources.custom.formats")


def one_or_many(data: Any, kind: Callable[[Any], bool]) -> list[Any]:
    """The objects of a kind: the given one, or all items of a list or data set of them; else none."""
    if kind(data):
        return [data]
    items = list(data) if isinstance(data, Iterable) and not isinstance(data, str | Mapping) else []
    return items if all(kind(item) for item in items) else []
