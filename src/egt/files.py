"""Files of users and machines: texts that may be paths, YAML, folders of caches and data, results written whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from egt.errors import ConfigError, DataError, RunError


def exists(path: Path | str) -> bool:
    """Return whether there is a file or folder of this name; a text that can be no name, as a long SMILES, has none."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def check_no_file(folder: Path, option: str) -> None:
    """Raise a `ConfigError` if a folder to write to, which an option names, is a file."""
    if exists(folder) and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; results go to a folder, so choose another name ({option})")


def result_folder(folder: Path, mark: str) -> Path:
    """Return a folder for results, which is made if there is none.

    Args:
        folder: its path.
        mark: a file that every folder with such results has.

    Raises:
        ConfigError: it has files, and not this one: what is written could take their place.
        RunError: it cannot be made.
    """
    check_no_file(folder, "-o")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_foreign = not exists(folder / mark) and any(folder.iterdir())
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error.strerror}); choose another folder (-o)") from error
    if is_foreign:
        raise ConfigError(f"{folder}: holds other files, which could be overwritten; choose another folder (-o)")
    return folder


@contextmanager
def write_atomically(path: Path | str) -> Iterator[Path]:
    """Yield the path of a draft, which takes the place of a file when all is written; the old file stays until then.

    If the work fails, the draft is gone. Of a link, the file that it leads to is replaced; what can only be written
    to, as a pipe, is its own draft.
    """
    place = replaceable(path)
    if place is None:
        yield Path(path)
        return
    draft = place.with_name(f".{place.stem}.{os.getpid()}.partial{place.suffix}")
    try:
        begin_draft(draft, place)
        yield draft
        put_in_place(draft, place)
    finally:
        draft.unlink(missing_ok=True)


def replaceable(path: Path | str) -> Path | None:
    """Return the file to put a result in the place of, behind all links; None for pipes, devices and open files."""
    path = Path(path)
    if exists(path) and not path.is_file():
        return None
    folder = Path(os.path.realpath(path.parent))
    if folder == Path("/dev") or Path("/proc") in folder.parents:  # /dev/stdout, which may be a file, stays open
        return None
    return Path(os.path.realpath(path))


def begin_draft(draft: Path, place: Path) -> None:
    """Make an empty draft of a file, which may be read and written by those who may read and write the old one.

    Raises:
        OSError: the folder or the old file cannot be written.
    """
    draft.open("wb").close()
    if place.exists():
        with place.open("r+b") as old, suppress(OSError):  # some file systems know no modes
            draft.chmod(stat.S_IMODE(os.fstat(old.fileno()).st_mode))


def put_in_place(draft: Path, place: Path) -> None:
    """Put a draft in the place of a file once the disk holds all of it."""
    with draft.open("r+b") as file:
        os.fsync(file.fileno())
    os.replace(draft, place)


def user_folder(variable: str, *default: str) -> Path:
    """Return the folder that an environment variable names, else one in the home folder.

    Args:
        variable: its name.
        default: parts of the path in the home folder.

    Raises:
        DataError: there is neither.
    """
    try:
        return Path(os.environ.get(variable) or str(Path("~", *default))).expanduser()
    except RuntimeError as error:
        raise DataError(
            f"this user has no home folder to keep files in ({error}); set {variable} to a folder that can be written"
        ) from error


def parse_yaml(text: str, where: str) -> Any:
    """Return the content of a YAML text.

    Args:
        text: of any origin.
        where: begins the message if it is not YAML, or would grow without bound.
    """
    import yaml

    try:
        content = yaml.safe_load(text)
        size = _size(content, {}, set())
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: not valid YAML: nested too deeply") from error
    except Exception as error:  # PyYAML lets those of dates, numbers and tags through, of any kind
        raise ConfigError(f"{where}: not valid YAML: {' '.join(str(error).split())[:200]}; quote texts") from error
    if size > _LARGEST_YAML:
        raise ConfigError(f"{where}: holds more than {_LARGEST_YAML:,} values; write it without so many aliases")
    return content


def _size(content: Any, known: dict[int, int], above: set[int]) -> int:
    """Return how many values there are, those of an alias counted wherever it stands.

    Args:
        content: what was read.
        known: the sizes of lists and mappings, by their identity.
        above: those that this one is inside of.
    """
    if not isinstance(content, dict | list):
        return 1
    if id(content) in above:
        raise ValueError("an alias stands inside of what it names")
    if id(content) not in known:
        inner = content.values() if isinstance(content, dict) else content
        known[id(content)] = 1 + sum(_size(value, known, above | {id(content)}) for value in inner)
    return known[id(content)]


_LARGEST_YAML = 1_000_000
