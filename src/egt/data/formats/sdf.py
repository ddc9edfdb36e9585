"""SDF files: molecules with their properties as columns. RDKit reads them."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from egt.data.custom.columns import FORMATS, Format, RawData, Table, digest_of_files, objects
from egt.data.formats.tables import column_of_texts, encoding_of, molecules_of
from egt.data.molecule_features import RDKIT_ERRORS, reason_of
from egt.data.molecules import require_rdkit
from egt.errors import DataError

SUFFIXES = (".sdf", ".sdf.gz")


@FORMATS.register("sdf")
class Sdf(Format):
    """A file of molecules with properties, as databases and drawing programs write it."""

    what = f"molecules with properties ({', '.join(SUFFIXES)})"

    @staticmethod
    def fits(data: Any) -> bool:
        """Return whether this is a file with such a name."""
        return isinstance(data, Path) and data.is_file() and data.name.lower().endswith(SUFFIXES)

    @staticmethod
    def read(data: Any) -> RawData:
        """Return the molecules as SMILES (three-dimensional coordinates are not used), properties as columns."""
        raw = molecules_of(read_sdf(data), str(data), digest_of_files([data]))
        return replace(raw, keeps_order=False)


def read_sdf(path: Path) -> Table:
    """Return the columns: `smiles`, `name` where a molecule has one, and properties in order of appearance."""
    smiles: list[str | None] = []
    names: list[str | None] = []
    rows: list[dict[str, str]] = []
    problems: dict[int, str] = {}
    for number, molecule in enumerate(_molecules(path)):
        text, name, row = None, None, {}
        try:
            if molecule is None:
                problems[number] = f"{path.name}: molecule {number + 1} cannot be read"
            else:
                name = molecule.GetProp("_Name").strip() or None
                row = {key: molecule.GetProp(key) for key in molecule.GetPropNames()}
                text = _smiles(molecule)
        except RDKIT_ERRORS as error:
            problems[number] = f"{path.name}: molecule {number + 1} cannot be read: {reason_of(error)}"
        smiles.append(text)
        names.append(name)
        rows.append(row)
    if not rows:
        raise DataError(f"{path}: there is no molecule in this file")
    columns = {"smiles": objects(smiles)} | ({"name": objects(names)} if any(names) else {})
    for key in dict.fromkeys(key for row in rows for key in row):
        if key.lower() not in ("smiles", "name"):
            columns[key] = column_of_texts([row.get(key, "") for row in rows])
    return Table(columns, len(rows), problems)


def _molecules(path: Path) -> Iterator[Any]:
    chem = require_rdkit()
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rb") as file:
            encoding = encoding_of(file)
        with chem.rdBase.BlockLogs(), opener(path, "rb") as file:
            # RDKit reads UTF-8 only; a file of an older program is converted in memory.
            is_utf8 = encoding == "utf-8-sig"
            content: Any = file if is_utf8 else io.BytesIO(file.read().decode(encoding, "replace").encode())
            yield from chem.ForwardSDMolSupplier(content)
    except (OSError, EOFError, RuntimeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as SDF ({error})") from error


def _smiles(molecule: Any) -> str:
    text: str = require_rdkit().MolToSmiles(molecule)
    return text
