"""Files of molecules: SDF with properties as columns and MOL2, which RDKit reads, and lists with a SMILES a line."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from egt.data.columns import FORMATS, Format, RawData, Table, digest_of_files, objects
from egt.data.formats.tables import (
    LIST_SUFFIXES,
    SDF_SUFFIXES,
    column_of_texts,
    encoding_of,
    molecules_of,
    open_text,
    read_table,
)
from egt.data.molecules import RDKIT_ERRORS, reason_of, require_rdkit, with_coordinates
from egt.errors import DataError
from egt.files import Bounds, open_bytes

_MOL2_MOLECULE = "@<TRIPOS>MOLECULE"


@FORMATS.register("sdf")
class Sdf(Format):
    """A file of molecules with properties, as databases and drawing programs write it."""

    suffixes = SDF_SUFFIXES
    what = f"molecules with properties ({', '.join(SDF_SUFFIXES)})"

    @staticmethod
    def read(data: Any) -> RawData:
        return _read_molecules(data, _molecules(data), digest_of_files([data]))

    @classmethod
    def blocks(cls, data: Any, size: int) -> Iterator[RawData]:
        names = _property_names(data)
        molecules, first_row = _molecules(data, whole=False), 0
        while (block := [*islice(molecules, size)]) or not first_row:
            yield _read_molecules(data, block, f"{data} from row {first_row}", names, first_row)
            first_row += size


@FORMATS.register("mol2")
class Mol2(Format):
    """A file of molecules with Tripos atom types, as docking programs write it."""

    suffixes = (".mol2", ".mol2.gz")
    what = f"molecules ({', '.join(suffixes)})"

    @staticmethod
    def read(data: Any) -> RawData:
        return _read_molecules(data, _mol2_molecules(data), digest_of_files([data]))


@FORMATS.register("smiles-list")
class SmilesList(Format):
    """A text file with a SMILES a line and a name behind it where there is one, or a table with another name."""

    suffixes = LIST_SUFFIXES
    what = f"a list of SMILES ({', '.join(LIST_SUFFIXES)})"

    @staticmethod
    def read(data: Any) -> RawData:
        with open_text(data) as file:
            first = file.readline()
        is_header = any(sign in first for sign in ",;\t|") and "smi" in first.lower()  # no SMILES has these signs
        return molecules_of(read_table(data) if is_header else _read_list(data), str(data), digest_of_files([data]))


def _read_molecules(
    path: Path, molecules: Iterable[Any], digest: str, known: Iterable[str] = (), first_row: int = 0
) -> RawData:
    """Return the columns: `smiles`, `name` where a molecule has one, and properties in order of appearance.

    Args:
        path: of the file.
        molecules: all of the file, or a block of them; None for one that cannot be read.
        digest: of what they are.
        known: columns that are there even if none of these molecules has them, in front of others.
        first_row: the place of a block in the file.
    """
    chem = require_rdkit()
    smiles: list[str | None] = []
    placed: list[str | None] = []
    names: list[str | None] = []
    rows: list[dict[str, str]] = []
    problems: dict[int, str] = {}
    bounds = Bounds.current()
    for number, molecule in enumerate(molecules):
        bounds.check("rows", number + 1, path)
        text, place, name, row = None, None, None, {}
        try:
            if molecule is None:
                problems[number] = f"{path.name}: molecule {first_row + number + 1} cannot be read"
            else:
                name = molecule.GetProp("_Name").strip() or None
                row = {key: molecule.GetProp(key) for key in molecule.GetPropNames()}
                place = with_coordinates(molecule)
                text = chem.MolToSmiles(chem.RemoveHs(molecule))
        except RDKIT_ERRORS as error:
            problems[number] = f"{path.name}: molecule {first_row + number + 1} cannot be read: {reason_of(error)}"
        smiles.append(text)
        placed.append(place)
        names.append(name)
        rows.append(row)
    keys = [*known, *(["name"] if any(names) else []), *(key for row in rows for key in row)]
    columns = {"smiles": objects(smiles)} | ({"name": objects(names)} if "name" in keys else {})
    for key in dict.fromkeys(keys):
        if key.lower() not in ("smiles", "name"):
            columns[key] = column_of_texts([row.get(key, "") for row in rows])
    raw = molecules_of(Table(columns, len(rows), problems), str(path), digest)
    return replace(raw, keeps_order=False, placed=objects(placed) if any(placed) else None, first_row=first_row)


def _property_names(path: Path) -> list[str]:
    """Return the columns of a file that is read in blocks, all of which have them."""
    names: dict[str, None] = {}
    for molecule in filter(None, _molecules(path, whole=False, sanitize=False)):
        names |= dict.fromkeys(molecule.GetPropNames())
        if molecule.GetProp("_Name").strip():
            names["name"] = None
    return [*names]


def _molecules(path: Path, *, whole: bool = True, sanitize: bool = True) -> Iterator[Any]:
    """Yield the molecules of an SDF, None for one that cannot be read. whole: as for `open_bytes`."""
    chem = require_rdkit()
    try:
        with open_bytes(path, whole=whole) as file:
            encoding = encoding_of(file)
        with chem.rdBase.BlockLogs(), open_bytes(path, whole=whole) as file:
            # RDKit reads UTF-8 only; a file of an older program is converted in memory.
            is_utf8 = encoding == "utf-8-sig"
            content: Any = file if is_utf8 else io.BytesIO(file.read().decode(encoding, "replace").encode())
            yield from chem.ForwardSDMolSupplier(content, sanitize=sanitize, removeHs=False)
    except (OSError, EOFError, RuntimeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as SDF ({error})") from error


def _mol2_molecules(path: Path) -> Iterator[Any]:
    chem = require_rdkit()
    with open_text(path) as file:
        _, *blocks = file.read().split(_MOL2_MOLECULE)
    with chem.rdBase.BlockLogs():
        for block in blocks:
            yield chem.MolFromMol2Block(_MOL2_MOLECULE + block, removeHs=False)


def _read_list(path: Path) -> Table:
    """Read a molecule and, after it, its name from each line; a first line that says `smiles` is skipped."""
    bounds = Bounds.current()
    with open_text(path) as file:
        lines = [line.split(maxsplit=1) for line in islice(file, bounds.rows + 2)]  # one may be a header
    bounds.check("rows", len(lines) - 1, path)
    while lines and not lines[-1]:  # the file ends with them
        lines.pop()
    if lines and lines[0] and lines[0][0].lower() in ("smiles", "smi"):
        lines = lines[1:]
    names = [words[1].strip() if len(words) > 1 else None for words in lines]
    columns = {"smiles": objects([words[0] if words else None for words in lines])}
    return Table(columns | ({"name": objects(names)} if any(names) else {}), len(lines), {})
