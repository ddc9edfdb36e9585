"""Paths that come from users and machines: a text that may be a path, the folders of caches and data."""

from __future__ import annotations

import os
from pathlib import Path

from egt.errors import DataError


def exists(path: Path | str) -> bool:
    """Whether there is a file or folder of this name; a text that can be no name, as a long SMILES, has none."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def user_folder(variable: str, *default: str) -> Path:
    """The folder that an environment variable names, else one in the home folder.

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
