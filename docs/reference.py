"""Write the pages that follow from the code and the kept results: `python docs/reference.py`.

It makes `options.md` and `settings.md`, and the table of `results.md`. What a page says about an option or a setting is
its docstring: the `Args:` of a command, the `Fields:` of a section.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cyclopts import Argument
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from egt.cli.main import app
from egt.config.run import RunConfig
from egt.paper.results import collect, read_records, results_sheet
from egt.registry import Part, Section

HERE = Path(__file__).parent
WIDTH = 120
MADE = "<!-- made by `python docs/reference.py`; change the docstrings instead -->\n"
KEPT, END = "<!-- made by `python docs/reference.py` from benchmarks/runs -->\n", "<!-- /results -->"
OPTIONS = f"""{MADE}
# Options of every command

What each command takes. [commands.md](commands.md) shows them in use, `egt COMMAND --help` says the same in a terminal.
Every command also takes `--debug`, which shows where an error comes from.
"""
SETTINGS = f"""{MADE}
# Settings of a run

Everything that decides a run's result is a setting. `egt train ... --set path=value` changes one, a `run.yaml` holds
many, and the `config.yaml` of a run folder lists all of them with their values (`egt presets show NAME` those of a
preset):

```
egt train data.csv --target y --set optimizer.lr=1e-3 model.readout.kind=mean trainer.patience=null
egt train data.csv --target y --set 'model.pair_inputs=[{{kind: distance}}, {{kind: random_walk, num_steps: 8}}]'
egt train data.csv --target y --set 'model.pair_inputs+={{kind: random_walk, num_steps: 8}}' model.node_inputs-=svd
```

`+=` adds an entry to a list (one of the same kind gives way), `-=` takes the entry of a kind away.

The defaults are those of a bare configuration. Presets and the models for your own data choose values of their own
([what your own data gets](commands.md#egt-train)). An installed package can add kinds to every slot
([how](architecture.md#where-do-i-add-)).
"""
WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path", Any: "anything"}
BOUNDS = {
    "gt": "above {}",
    "ge": "at least {}",
    "lt": "below {}",
    "le": "at most {}",
    "multiple_of": "a multiple of {}",
}


def main() -> None:
    """Write the pages."""
    for name, page in (("options", options_page()), ("settings", settings_page()), ("results", results_page())):
        (HERE / f"{name}.md").write_text(page)


def results_page() -> str:
    """Return the page of results with its table, between two marks, of the results in `benchmarks/runs`."""
    text = (HERE / "results.md").read_text()
    start = text.index(KEPT) + len(KEPT)
    records, _ = read_records([HERE.parent / "benchmarks" / "runs"])
    whole = results_sheet("", sorted(collect(records), key=lambda group: (group.data, group.name)))
    columns = ("data", "model", "measure", "result", "seeds", "paper", "marks")
    return f"{text[:start]}\n{whole.only(columns).markdown(level=0)}\n{text[text.index(END, start) :]}"


def options_page() -> str:
    """Return the page of every command's arguments."""
    return "\n".join([OPTIONS, *(line for name in app() if not name.startswith("-") for line in command(name))])


def command(name: str) -> Iterator[str]:
    """Yield the lines about one command."""
    found = app()[name]
    doc = inspect.getdoc(found.default_command) or ""
    meaning = described(doc, "Args")
    yield f"## `egt {name}`\n\n{fill(prose(doc), WIDTH)}\n"
    for argument in found.assemble_argument_collection():
        default = usual(argument)
        facts = [accepted(argument), default if default in ("", "required") else f"default {default}"]
        yield entry(option(argument), facts, meaning[argument.field_info.name])
    yield ""


def option(argument: Argument) -> str:
    """Return how an argument is given: by its place (WHAT) or by its name (--target)."""
    if argument.index is None:
        return ", ".join(f"`{name}`" for name in argument.names)
    return f"`{argument.name.lstrip('-').upper()}`"


def accepted(argument: Argument) -> str:
    """Return what an argument takes; a flag takes nothing."""
    taken = values(argument.hint).removesuffix(" or `null`")
    return "" if taken == WORDS[bool] else taken


def usual(argument: Argument) -> str:
    """Return the default of an argument; empty where leaving it out means nothing."""
    value = argument.field_info.default
    if argument.required:
        return "required"
    if isinstance(value, bool):
        return "on" if value else ""
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return "" if value in (None, inspect.Parameter.empty) or not text else f"`{text}`"


def settings_page() -> str:
    """Return the page of every setting."""
    return "\n".join([SETTINGS, *(line for path in homes().values() for line in place(path))])


@cache
def homes() -> dict[tuple[type[Section], ...], str]:
    """Return the sections that may stand at each path of a run, in the order of the page; each at its first path."""
    found: dict[tuple[type[Section], ...], str] = {}

    def walk(sections: tuple[type[Section], ...], path: str) -> None:
        if sections in found:
            return
        found[sections] = path
        for section in kinds(sections):
            for name, field in section.model_fields.items():
                if inner := sections_of(field.annotation):
                    walk(inner, f"{path}.{name}".lstrip("."))

    walk((RunConfig,), "")
    return found


def sections_of(annotation: Any) -> tuple[type[Section], ...]:
    """Return the sections that a type mentions."""
    if inspect.isclass(annotation) and issubclass(annotation, Section):
        return (annotation,)
    return tuple(section for inner in get_args(annotation) for section in sections_of(inner))


def kinds(sections: tuple[type[Section], ...]) -> list[type[Section]]:
    """Return the alternatives of a place: the registered parts of a slot that come with egt, or the sections."""
    [first, *_] = sections
    if not issubclass(first, Part):
        return list(sections)
    parts = [first.registry.get(name) for name in sorted(first.registry)]
    return [part for part in parts if part.__module__.split(".")[0] == "egt"]


def place(path: str) -> Iterator[str]:
    """Yield the lines about the sections at one path."""
    [sections] = [sections for sections, home in homes().items() if home == path]
    yield heading(path)
    [first, *others] = sections
    if others or issubclass(first, Part):
        yield from alternatives(sections)
        return
    doc = inspect.getdoc(first) or ""
    yield f"{fill(prose(doc), WIDTH)}\n"
    meaning = described(doc, "Fields")
    for name, field in first.model_fields.items():
        yield entry(f"`{name}`", [values(field.annotation, field.metadata), default(field)], meaning.get(name, ""))
    yield ""


def heading(path: str) -> str:
    """Return the heading of a path; the run itself has none."""
    return f"{'#' * min(path.count('.') + 2, 4)} `{path}`\n" if path else "## The run\n"


def alternatives(sections: tuple[type[Section], ...]) -> Iterator[str]:
    """Yield the lines about a place that takes one of several kinds."""
    if issubclass(sections[0], Part):
        yield f"{fill(prose(inspect.getdoc(sections[0]) or ''), WIDTH)}\n"
    for section in kinds(sections):
        doc = inspect.getdoc(section) or ""
        meaning = described(doc, "Fields")
        yield entry(f"**`{section.model_fields['kind'].default}`**", [], prose(doc))
        for name, field in section.model_fields.items():
            if name != "kind":
                facts = [values(field.annotation, field.metadata), default(field)]
                yield entry(f"`{name}`", facts, meaning.get(name, ""), depth=1)
    yield ""


def values(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """Return in words what a type allows."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if sections := sections_of(annotation):
        path = homes()[sections]
        many = "list of " if "tuple" in str(annotation) else ""
        return f"{many}[`{path}`](#{anchor(path)})" + (" or `null`" if type(None) in inner else "")
    if origin is Annotated:
        return values(inner[0], inner[1:])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join("`null`" if each is type(None) else values(each) for each in inner)
    if origin is tuple:
        if inner[1:] == (...,):
            return f"list of {values(inner[0])}"
        return f"list of {len(inner)}: {', '.join(dict.fromkeys(map(values, inner)))}"
    if origin is dict:
        return "mapping"
    return ", ".join([WORDS[annotation], *bounds(metadata)])


def bounds(metadata: Iterable[Any]) -> Iterator[str]:
    """Yield the limits of a number in words."""
    for each in (inner for outer in metadata for inner in (outer, *getattr(outer, "metadata", ()))):
        for name, words in BOUNDS.items():
            if (limit := getattr(each, name, None)) is not None:
                yield words.format(limit)


def default(field: FieldInfo) -> str:
    """Return the default of a setting as it is written in YAML."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel):
        return f"default `{value.kind}`" if hasattr(value, "kind") else "its own defaults"
    return f"default `{json.dumps(value)}`"


def anchor(path: str) -> str:
    """Return the anchor that a forge and the site make of the heading of a path."""
    return re.sub(r"[^\w\- ]", "", path)


def prose(doc: str) -> str:
    """Return a docstring without its lists of arguments or fields, paragraph by paragraph on one line."""
    text = re.split(r"\n+(?:Args|Fields|Returns|Raises):\n", doc)[0]
    return " ".join(text.split())


def described(doc: str, title: str) -> dict[str, str]:
    """Return what a docstring says under a title (`Args`, `Fields`) about each name."""
    _, _, rest = doc.partition(f"\n{title}:\n")
    entries = re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", rest, re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}


def entry(name: str, facts: Sequence[str], meaning: str, depth: int = 0) -> str:
    """Return an entry of a list: a name, what it takes and its default, and what it means."""
    taken = "; ".join(filter(None, facts))
    text = f"{name} ({taken})" if taken else name
    first = f"{text}: {meaning}" if meaning else text
    indent = "  " * depth
    lines = fill(
        first, WIDTH - 1, initial_indent=f"{indent}- ", subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
    return re.sub(r"\n( *)([-+*] )", r"\n\1\\\2", lines)  # a line of a sentence must not begin another list


if __name__ == "__main__":
    main()
