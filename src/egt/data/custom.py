"""`open_custom`: from a path or Python objects to a `Source` of graphs, in four steps.

A format (`egt.data.formats`) reads columns, `infer` decides what each of them means, `divide` splits the rows, and
`learn` takes vocabularies and scales from the training rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from egt.data.columns import (
    FORMATS,
    LARGEST,
    Column,
    Format,
    RawData,
    as_numbers,
    missing_in,
    sorted_texts,
    text_of,
)
from egt.data.custom_source import CustomSource, GraphRows, MoleculeRows
from egt.data.formats.tables import Tables
from egt.data.infer import find_id, find_smiles, find_smiles_of, infer, read_overrides
from egt.data.links import hide_links
from egt.data.molecules import elements_of, parse_smiles
from egt.data.schema import CustomSchema, Division, Feature, SplitKind, SplitPlan, card_schema, divide
from egt.data.source import ALL, GraphsSource, Progress, Reading, Source
from egt.errors import DataError, EgtError
from egt.files import exists
from egt.graph import FeatureSchema, Graph, Level

if TYPE_CHECKING:
    from egt.data.formats.networks import from_networkx
    from egt.data.formats.pyg import from_pyg

__all__ = ["CustomSchema", "CustomSource", "Feature", "GraphsSource", "SplitPlan", "card_schema", "from_networkx"]
__all__ += ["from_pyg", "hide_links", "open_custom", "open_new", "read_raw", "read_sample"]

SAMPLED = 10_000  # how many rows of a larger file `read_sample` reads, about
_CHUNK = 1_000  # how many rows are read between two steps of a bar


def __getattr__(name: str) -> Any:
    if name not in ("from_networkx", "from_pyg"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "networks" if name == "from_networkx" else "pyg"  # loaded when used: most data is of neither kind
    return getattr(import_module(f"egt.data.formats.{home}"), name)


def open_custom(
    data: Any,
    *,
    target: str | Sequence[str] | None = None,
    level: Level | None = None,
    overrides: Mapping[str, Any] | None = None,
    split: SplitPlan | str | None = None,
    seed: int = 0,
    schema: CustomSchema | None = None,
    labeled: bool = True,
) -> CustomSource:
    """Open custom data.

    Args:
        data: the path of a file or folder (formats in docs/data.md), a pandas or Polars frame, `Graph`s, NetworkX
            graphs, PyG data, or SMILES.
        target: the target column, or several names or patterns such as `NR-*`; None to guess.
        level: "graph", "node", "edge", "link" or "pair"; None to guess.
        overrides: corrections of guesses (`egt.data.infer.Overrides`). With `schema` only the columns `smiles` and
            `id`, which new data may call otherwise.
        split: "random", "scaffold", "stratified", the name of a split column, or a `SplitPlan`. None: a split column
            if there is one, else random; with `schema`: no division, all rows are in the split "all".
        seed: of the division, when `split` is not a `SplitPlan`.
        schema: what a model was trained on, to read new data (targets are not needed) in the same way. With
            `split="auto"` the data is divided as the schema says.
        labeled: False for graphs to pre-train on, which have no target.

    Raises:
        DataError: if the data cannot be read, or a guess is ambiguous; the message lists the choices.
    """
    raw = read_raw(data)
    kind: type[CustomSource] = MoleculeRows if raw.is_molecules else GraphRows
    if schema is None:
        chosen = [target] if isinstance(target, str) else target
        guessed = infer(raw, target=chosen, level=level, overrides=overrides, split=_plan(split, seed), labeled=labeled)
        raw = _clean(raw, guessed, merge=True)
        division = divide(raw, guessed)
        return kind(raw, learn(raw, guessed, division), division)
    if target is not None or level is not None:
        raise DataError("with a schema nothing is guessed: change the schema in place of target or level")
    schema = _with_roles(raw, schema, overrides or {})
    _check_fits(raw, schema)
    raw = _clean(raw, schema, merge=split is not None)
    if split is None:
        return kind(raw, schema, None)
    plan = _plan(split, seed)
    divided = schema if plan.kind == "auto" else schema.model_copy(update={"split": plan})
    return kind(raw, divided, divide(raw, divided))


def _clean(raw: RawData, schema: CustomSchema, *, merge: bool) -> RawData:
    """Return the data with standard molecules and, if rows may be merged, each of them once, as the schema says."""
    if not raw.is_molecules:
        if schema.standardize or schema.replicates:
            raise DataError(f"{raw.where}: standardize and replicates are for molecules, and this is {raw.format} data")
        return raw
    if not schema.standardize and not schema.replicates:
        return raw
    from egt.data.cleaning import merge_replicates, standardize  # here: few tables ask for it

    names = find_smiles_of(schema.smiles_columns, raw.table, raw.where)
    raw = standardize(raw, names, schema.standardize, schema.level)
    conditions = [*(feature.name for feature in schema.graph_features), *filter(None, [schema.split.column])]
    return merge_replicates(
        raw,
        names,
        schema.replicates if merge else "",
        targets=schema.targets,
        conditions=conditions,
        classes=[name for name in schema.targets if schema.group_of(name).classes],
        level=schema.level,
    )


def open_new(
    data: Any, schema: CustomSchema, features: FeatureSchema, overrides: Mapping[str, Any] | None = None
) -> Source:
    """Return new data for a trained model; its rows are the split "all".

    The data is SMILES, one or a list (with commas between those of one row), `Graph`s, the path of a file or folder, a
    data frame, NetworkX graphs or PyG data. `overrides` names the columns `smiles` and `id` where they are not called
    as in training; `features` are those that the model reads of graphs.
    """
    if isinstance(data, Sequence) and not data:
        raise DataError("there is nothing to predict: the list is empty")
    graphs = [data] if isinstance(data, Graph) else data
    if isinstance(graphs, Sequence) and all(isinstance(item, Graph) for item in graphs) and schema.format != "graphs":
        # Graphs for a model of other data have the categories and values that it reads.
        return GraphsSource({ALL: graphs}, schema.target(), features)
    if isinstance(data, str) and schema.format == "molecules" and not exists(data):
        parts = data.split(",") if schema.more_smiles else [data]
        if data.strip() and not any(isinstance(molecule, EgtError) for molecule, _ in parse_smiles(parts)):
            data = [data]
    if schema.more_smiles and isinstance(data, list | tuple) and all(isinstance(item, str) for item in data):
        data = [tuple(text.split(",")) for text in data]
    return open_custom(data, schema=schema, overrides=overrides)


def read_raw(data: Any) -> RawData:
    """Parse a path or Python objects, whose format is that of the name of a file or the type of an object."""
    if isinstance(data, RawData):
        return data
    if isinstance(data, str | Path):
        data = Path(data)
        if not exists(data):
            raise DataError(f"{data}: there is no such file or folder")
    elif isinstance(data, Iterator):
        data = list(data)
    raw = _format_of(data).read(data)
    if not raw.num_rows:
        raise DataError(f"{raw.where}: there is no row in it; it needs one at least, in a table below the header")
    return raw


def read_blocks(path: Path, size: int) -> Iterator[RawData]:
    """Yield a file of molecules `size` rows at a time, in the way of its format; each block is data of its own."""
    return _format_of(path).blocks(path, size)


def is_known(data: Any) -> bool:
    """Return whether some format reads this: a path that exists, or Python objects."""
    return _find_format(data) is not None


def _find_format(data: Any) -> type[Format] | None:
    if Tables.fits(data):  # the most common one: the others are imported only when it does not fit
        return Tables
    return next((known for known in map(FORMATS.get, FORMATS) if known.fits(data)), None)


def _format_of(data: Any) -> type[Format]:
    if (found := _find_format(data)) is None:
        allowed = "; ".join(known.what for known in map(FORMATS.get, FORMATS))
        raise DataError(f"{_describe_unknown(data)}; allowed are {allowed}")
    return found


def _describe_unknown(data: Any) -> str:
    if not isinstance(data, Path):
        return f"data of type {type(data).__name__} is given"
    if data.is_file():
        return f"{data}: this kind of file is not known"
    if (data / "config.yaml").is_file():
        return f"{data}: this is the folder of a run (continue it with `egt train {data} --resume`)"
    if edges := sorted(data.glob("edges.*")):
        return f"{data}: {edges[0].name} is there, but no table of nodes; list them in nodes.csv (column node)"
    return f"{data}: this folder holds no graphs that are known"


def _plan(split: SplitPlan | str | None, seed: int) -> SplitPlan:
    if split is None:
        return SplitPlan(seed=seed)
    if isinstance(split, SplitPlan):
        return split
    if split in get_args(SplitKind) and split != "column":
        return SplitPlan(kind=cast(SplitKind, split), seed=seed)
    if not split:
        raise DataError("split is an empty text; name a split column, or random, scaffold or stratified")
    return SplitPlan(kind="column", column=split, seed=seed)


def _with_roles(raw: RawData, schema: CustomSchema, given: Mapping[str, Any]) -> CustomSchema:
    """Return the schema with the columns that hold SMILES and ids in this data, as the user says."""
    if other := sorted(set(given) - {"smiles", "id"}):
        raise DataError(
            f"overrides.{other[0]} cannot be changed once a model is trained; allowed here are overrides.smiles and "
            "overrides.id, the columns of this data that hold the SMILES and the names"
        )
    roles = read_overrides(given)
    if roles.smiles and not raw.is_molecules:
        raise DataError(f"{raw.where}: overrides.smiles is given, but this is {raw.format} data, without SMILES")
    if roles.id is not None:
        schema = schema.model_copy(update={"id": find_id(raw.table, roles.id, raw.where)})
    if not roles.smiles:
        return schema
    found, model = find_smiles(raw.table, roles.smiles, raw.where), schema.smiles_columns
    if len(found) != len(model):
        raise DataError(
            f"{raw.where}: {len(found)} columns of SMILES are given ({', '.join(found)}), and the model reads "
            f"{len(model)} ({', '.join(model)}); name as many, in this order (--smiles)"
        )
    return schema.model_copy(update={"smiles": found[0], "more_smiles": found[1:]})


def with_columns(raw: RawData, schema: CustomSchema, given: Mapping[str, Any]) -> CustomSchema:
    """Fix the columns of SMILES and ids as the first part of a file has them, for its other parts."""
    schema = _with_roles(raw, schema, given)
    if schema.id not in raw.table:
        schema = schema.model_copy(update={"id": find_id(raw.table, None, raw.where)})
    found = find_smiles_of(schema.smiles_columns, raw.table, raw.where)
    return schema.model_copy(update={"smiles": found[0], "more_smiles": found[1:]})


def _check_fits(raw: RawData, schema: CustomSchema) -> None:
    """Refuse data that lacks what a schema needs."""
    if raw.is_molecules != (schema.format == "molecules"):
        what = "does not read molecules" if raw.is_molecules else "reads molecules only"
        raise DataError(
            f"{raw.where}: this is {raw.format} data, but the schema was made for {schema.format} data; "
            f"a model of it {what}"
        )
    if absent := [feature.name for feature in schema.graph_features if feature.name not in raw.table]:
        raise DataError(
            f"{raw.where}: the model was trained with the feature columns {', '.join(absent)}, which are missing; "
            f"there are {', '.join(raw.table) or 'none'}. Add them, named as in the training data"
        )
    graphs = [graph for graph in raw.graphs if graph is not None]
    for level, features in schema.features_by_level.items():
        there = {name for graph in graphs for name in graph.columns(level)}
        absent = [feature.name for feature in features if feature.kind != "ignored" and feature.name not in there]
        if level == "node" and not raw.is_molecules:
            absent += [name for name in schema.positions if name not in there]
        if absent and any(level != "edge" or graph.edges.size for graph in graphs):
            raise DataError(
                f"{raw.where}: the {level} columns {', '.join(absent)} are missing; "
                f"there are {', '.join(sorted(there)) or 'none'}. Name the columns as in the training data"
            )


_PAIRS_LEARNED = 5_000_000  # how many entries of matrices the mean and deviation are taken from, about


def learn(raw: RawData, schema: CustomSchema, division: Division) -> CustomSchema:
    """Return the schema with what the training split teaches, and nothing else: vocabularies, means and deviations.

    When a graph is divided within (node masks), the whole graph is the training input, so its features are learned
    from all its nodes. For links, held-out edges are left out.
    """
    training = {
        row: graph
        for row, graph in enumerate(raw.graphs)
        if graph is not None and (division.within or division.rows[row] == 0)
    }
    hides_edges = schema.level == "link" and division.within
    rows = slice(None) if division.within else division.rows == 0

    def learned(feature: Feature, level: str) -> Feature:
        columns = {row: graph.columns(level) for row, graph in training.items()}
        found = {row: named[feature.name] for row, named in columns.items() if feature.name in named}
        if level == "pair" and feature.kind == "continuous":
            step = max(1, sum(map(len, found.values())) // _PAIRS_LEARNED)
            found = {row: column[::step] for row, column in found.items()}
        if hides_edges and level == "edge":
            found = {row: column[division.parts[row] == 0] for row, column in found.items()}
        return _learn_feature(feature, list(found.values()))

    elements: set[str] = set()
    if raw.is_molecules:
        cells = (cell for name in schema.smiles_columns for cell in raw.table[name][rows])
        elements = elements_of(cell for cell in cells if isinstance(cell, str))
    return schema.model_copy(
        update={
            "elements": tuple(sorted(elements)),
            **{
                f"{level}_features": tuple(learned(feature, level) for feature in features)
                for level, features in schema.features_by_level.items()
            },
            "graph_features": tuple(
                _learn_feature(feature, [raw.table[feature.name][rows]]) for feature in schema.graph_features
            ),
        }
    )


def _learn_feature(feature: Feature, columns: list[Column]) -> Feature:
    match feature.kind:
        case "categorical":
            plain = [column for column in columns if column.ndim == 1]  # a graph that has lists there is refused later
            seen = {text_of(value) for column in plain for value in column[~missing_in(column)]}
            return feature.model_copy(update={"vocabulary": tuple(sorted_texts(seen))})
        case "continuous":
            numbers = [as_numbers(column)[0].reshape(len(column), -1) for column in columns if len(column)]
            alike = [part for part in numbers if part.shape[1] == feature.width]
            return _with_scale(feature, np.concatenate(alike) if alike else np.zeros((0, feature.width)))
        case "ignored":
            return feature


def _with_scale(feature: Feature, values: NDArray[np.float64]) -> Feature:
    """Return the feature with mean and deviation of each part; 0 and 1 where there is nothing to learn.

    Vectors that are mostly zeros (bags of words, one-hot) keep their zeros: all parts are divided by one number, the
    root mean square of the others. Zeros and ones stay unchanged. Numbers that no graph can hold are left out: the
    graphs that have them are refused.
    """
    width, known = feature.width, np.abs(values) <= LARGEST
    filled = values[known & (values != 0)]
    if width > 1 and np.isin(values[known], (0, 1)).all():
        return feature
    if width > 1 and 2 * len(filled) <= known.sum():
        largest = np.abs(filled).max()
        size = float(largest * np.sqrt(np.mean((filled / largest) ** 2)))
        return feature if size == 1 else feature.model_copy(update={"mean": (0.0,) * width, "std": (size,) * width})
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0) / count
    unit = np.abs(np.where(known, values, 0.0)).max(axis=0, initial=0.0)
    unit = np.ldexp(1.0, np.frexp(unit)[1])  # a power of 2; squares of very small numbers would be 0
    spread = np.sqrt((np.where(known, (values - mean) / unit, 0.0) ** 2).sum(axis=0) / count)
    std = np.where(spread > 1e-12, spread * unit, 1.0)
    return feature.model_copy(update={"mean": tuple(mean.tolist()), "std": tuple(std.tolist())})


def read_sample(source: CustomSource, progress: Progress | None = None) -> list[Reading]:
    """Read the rows of custom data, or about `SAMPLED` of many, evenly chosen among all."""
    records = source.records(ALL)
    chosen = records if len(records) <= SAMPLED else records[:: -(-len(records) // SAMPLED)]
    readings: list[Reading] = []
    for start in range(0, len(chosen), _CHUNK):
        readings += source.read_all(chosen[start : start + _CHUNK])
        if progress is not None:
            progress("building graphs", len(readings), len(chosen))
    return readings
