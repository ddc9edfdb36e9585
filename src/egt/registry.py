"""The open registry: how inputs, readouts, tasks, schedules, file formats and benchmarks are found by name.

A part is one class in one file: its settings are its fields, and its methods say what it computes. The parts of egt
register themselves when their package is imported. An installed package adds its own by naming the module that defines
them as an entry point:

    [project.entry-points."egt.parts"]
    heat = "my_package.heat"

and a script or notebook just defines and registers them before it calls `egt.train` or `egt.load`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, SerializationInfo, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from egt.errors import ConfigError

if TYPE_CHECKING:
    from egt.config.run import RunConfig


class Section(BaseModel):
    """A part of a run's configuration. Unknown keys are errors; values cannot be changed in place."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_whole_numbers(cls, content: Any) -> Any:
        """Refuse whole numbers that no library below takes."""
        for name, value in content.items() if isinstance(content, dict) else ():
            for number in value if isinstance(value, list | tuple) else (value,):
                if isinstance(number, int) and abs(number) >= 2**63:
                    raise ValueError(f"{name} is a number of {number.bit_length()} bits; at most 63 are allowed")
        return content


GROUP = "egt.parts"  # the entry points of packages with parts of their own
Entry = TypeVar("Entry")

PartClass = TypeVar("PartClass", bound="Part")


class Registry(Generic[Entry]):
    """The parts of one slot ("node input") by name; the modules of `package` define the built-in ones."""

    def __init__(self, slot: str, package: str) -> None:
        self.slot, self._package = slot, package
        self._entries: dict[str, Entry] = {}

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """Make a decorator that adds a part; registering the same definition again replaces it."""

        def add(entry: Entry) -> Entry:
            known = self._entries.get(name)
            if known is not None and _home(known) != _home(entry):
                raise ConfigError(f"there are two parts called {name!r} ({self.slot}): {_home(known)}, {_home(entry)}")
            self._entries[name] = entry
            return entry

        return add

    def find(self, name: str) -> Entry | None:
        """Return the part of this name; None if there is none, also in the installed packages."""
        modules = [] if name in self._entries else sorted(_modules(self._package), key=lambda module: module != name)
        while modules and name not in self._entries:  # the one that is called so comes first
            import_module(f"{self._package}.{modules.pop(0)}")
        if name not in self._entries:
            _import_plugins()
        return self._entries.get(name)

    def get(self, name: str) -> Entry:
        """Return the part of this name; an error names those that exist."""
        found = self.find(name)
        if found is None:
            raise ConfigError(f"there is no {self.slot} {name!r}{self.hint(name)}")
        return found

    def hint(self, name: str) -> str:
        """Return what may have been meant by a name that does not exist, for the end of a message."""
        close = get_close_matches(name, self.names(), n=2)
        return f"; did you mean {' or '.join(close)}?" if close else f"; there are: {', '.join(self.names())}"

    def names(self) -> list[str]:
        """Return all names: built-in parts first, then those of installed packages."""
        for module in _modules(self._package):
            import_module(f"{self._package}.{module}")
        _import_plugins()
        return list(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None


@cache
def _modules(package: str) -> list[str]:
    """Return the modules of a package, which register what they define."""
    return [module.name for module in pkgutil.iter_modules(getattr(import_module(package), "__path__", ()))]


@cache
def _import_plugins() -> None:
    """Import the modules that installed packages announce."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # any error of a plug-in: the message has to name it
            package = point.value.split(".")[0] if point.dist is None else point.dist.name
            raise ConfigError(
                f"the parts of the installed package {package!r} cannot be imported ({point.value}: "
                f"{type(error).__name__}: {error}); update or uninstall it"
            ) from error


def _home(entry: object) -> str:
    """Return where a part is defined."""
    return f"{getattr(entry, '__module__', '')}.{getattr(entry, '__qualname__', entry)}"


class PartError(ValueError):
    """Wrong settings of a part, with the class that knows which settings there are."""

    def __init__(self, part: type[Part], error: ValidationError) -> None:
        super().__init__(str(error))
        self.part, self.error = part, error


class Part(Section):
    """Settings and behavior of one choice for a slot; `kind` names the choice.

    A slot is a direct subclass with a `registry`; a configuration whose field has the type of the slot accepts every
    registered kind, as a mapping (`{kind: svd, rank: 8}`), as the bare name of the kind, or as the object itself.
    """

    kind: str
    registry: ClassVar[Registry[Any]]
    default_kind: ClassVar[str] = ""
    """The kind of settings that do not name one; "" if they have to."""

    def check(self, run: RunConfig) -> None:
        """Raise a `ValueError` if the part does not go together with the rest of a run."""

    @classmethod
    def of_kind(cls, kind: str, **settings: Any) -> Self:
        """Return the part of this kind in this slot; settings that are not given have their defaults."""
        part: Self = cls.registry.get(kind)(**settings)
        return part

    @property
    def plugin(self) -> str:
        """The package that the part comes from; "" for the parts of egt."""
        package = type(self).__module__.split(".")[0]
        return "" if package == __name__.split(".")[0] else package

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate a slot by looking up the kind; a registered kind validates itself."""
        schema = handler(source)
        if "registry" not in cls.__dict__:
            return schema
        return core_schema.no_info_plain_validator_function(
            cls._parse,
            serialization=core_schema.plain_serializer_function_ser_schema(_dump, info_arg=True),
        )

    @classmethod
    def _parse(cls, value: Any) -> Part:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            value = {"kind": value}
        elif isinstance(value, dict) and cls.default_kind:
            value = {"kind": cls.default_kind, **value}
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            raise ValueError(f"a {cls.registry.slot} is a mapping with a kind{cls.registry.hint('')}")
        part = cls.registry.find(value["kind"])
        if part is None:
            raise ValueError(f"there is no {cls.registry.slot} {value['kind']!r}{cls.registry.hint(value['kind'])}")
        try:
            parsed: Part = part.model_validate(value)
        except ValidationError as error:
            raise PartError(part, error) from error
        return parsed


def _dump(part: Part, info: SerializationInfo) -> dict[str, Any]:
    return part.model_dump(mode=info.mode)


def register(part: type[PartClass]) -> type[PartClass]:
    """Add a kind of part to its slot, under the default of its field `kind`; to be used as a decorator."""
    fields: dict[str, FieldInfo] = part.model_fields
    part.registry.register(str(fields["kind"].default))(part)
    return part
