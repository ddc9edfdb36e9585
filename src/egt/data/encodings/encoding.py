"""The precomputed half of a model input: what it is called, whom it describes, how it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from egt.errors import ConfigError, EgtError, GraphError
from egt.graph import FeatureSchema, Graph, IntArray

Array = NDArray[Any]


class Encoding(Protocol):
    """A pure function of a graph. Implementations are frozen dataclasses, so equal settings are equal objects.

    `level` "node": the result is (N, width); "pair": (N, N) or (N, N, width); "listed": (P,) or (P, width), one row for
    each of the P `Sample.listed_pairs`.
    """

    @property
    def name(self) -> str:
        """The key of the result in the `Sample`; the same for every setting of an encoding."""

    @property
    def level(self) -> Literal["node", "pair", "listed"]:
        """Whether a row of the result describes a node, a pair of nodes, or a pair on the list of edges."""

    @property
    def stored(self) -> bool:
        """False for a result that is cheaper to compute than to keep on disk."""

    def __call__(self, graph: Graph) -> Array:
        """Return the encoding of one graph."""


@runtime_checkable
class Joinable(Protocol):
    """An encoding that can serve several inputs with different settings at once."""

    def join(self, other: Any) -> Encoding:
        """Return an encoding with what both give."""


@runtime_checkable
class Listable(Encoding, Protocol):
    """An encoding of pairs that can be computed for some of them, without anything of size N^2."""

    def at(self, graph: Graph, pairs: IntArray) -> Array:
        """Return the rows (P, ...) of the pairs (2, P), sorted as `Sample.listed_pairs` are."""


@dataclass(frozen=True)
class Listed:
    """An encoding of pairs at the pairs of a list of edges, and nowhere else."""

    encoding: Listable

    level: ClassVar[Literal["listed"]] = "listed"

    @property
    def name(self) -> str:
        """See `Encoding`."""
        return self.encoding.name

    @property
    def stored(self) -> bool:
        """See `Encoding`."""
        return self.encoding.stored

    def __call__(self, graph: Graph) -> Array:
        """Return the encoding (P, ...)."""
        return self.encoding.at(graph, graph.listed_pairs)


def listed(encodings: Iterable[Encoding]) -> tuple[Encoding, ...]:
    """Return the encodings as a list of edges needs them: those of nodes, and those of pairs at its pairs."""
    return tuple(Listed(encoding) if isinstance(encoding, Listable) else encoding for encoding in encodings)


def merged(encodings: Iterable[Encoding]) -> tuple[Encoding, ...]:
    """Return one encoding for each name, whatever number of inputs asks for it.

    Raises:
        ConfigError: two inputs want an encoding with different settings, and it cannot serve both.
    """
    by_name: dict[str, Encoding] = {}
    for encoding in encodings:
        known = by_name.setdefault(encoding.name, encoding)
        if known == encoding:
            continue
        if not isinstance(known, Joinable):
            raise ConfigError(
                f"two inputs ask for the encoding {encoding.name!r} with different settings: {known} and {encoding}; "
                "give both the same settings, or drop one"
            )
        by_name[encoding.name] = known.join(encoding)
    return tuple(by_name.values())


@runtime_checkable
class ManyAtOnce(Protocol):
    """An encoding that is computed for many graphs at once, in less time than for one after another."""

    def each(self, graphs: Sequence[Graph]) -> list[Any]:
        """Return what calling it gives for each graph; if that raises an error for one of them, so does this."""
        ...


@dataclass(frozen=True, eq=False)
class Sample:
    """A graph with its encodings, ready to be batched. Keys are the names of the encodings."""

    graph: Graph
    node: Mapping[str, Array] = field(default_factory=dict)
    pair: Mapping[str, Array] = field(default_factory=dict)
    listed: Mapping[str, Array] = field(default_factory=dict)

    @property
    def listed_pairs(self) -> IntArray:
        """(2, P) the pairs of a list: those that were chosen (`ChosenPairs`), else those of the graph."""
        chosen = self.listed.get("pairs")
        return self.graph.listed_pairs if chosen is None else chosen.T[:2].astype(np.int64)

    def with_encoding(self, encoding: Encoding) -> Sample:
        """Return the sample with one more encoding."""
        if isinstance(encoding, Listed):
            array = encoding.encoding.at(self.graph, self.listed_pairs)
        else:
            array = encoding(self.graph)
        return self.with_array(encoding, array)

    def with_array(self, encoding: Encoding, array: Array) -> Sample:
        """Return the sample with one more encoding, which was computed elsewhere."""
        level: dict[str, Any] = {"node": self.node, "pair": self.pair, "listed": self.listed}
        level[encoding.level] = {**level[encoding.level], encoding.name: array}
        return Sample(self.graph, **level)


@dataclass(frozen=True)
class Preparation:
    """Graph -> Sample: checks the features against the schema, then computes every encoding."""

    schema: FeatureSchema
    encodings: Sequence[Encoding] = ()

    def __call__(self, graph: Graph) -> Sample:
        """Prepare one graph; raises `GraphError` when it does not fit the schema."""
        [result] = self.each([graph])
        if not isinstance(result, Sample):
            raise result
        return result

    def each(self, graphs: Sequence[Graph]) -> list[Sample | Exception]:
        """Prepare many graphs; one that cannot be prepared is replaced by the reason.

        One encoding is computed for all before the next: the processor's caches then hold its code and tables.
        """
        results: list[Sample | Exception] = [Sample(graph) for graph in graphs]

        def to_all(step: Callable[[Sample], Sample]) -> None:
            for number, sample in enumerate(results):
                if isinstance(sample, Sample):
                    try:
                        results[number] = step(sample)
                    except (EgtError, np.linalg.LinAlgError) as error:
                        results[number] = error

        if not self._all_fit(graphs):
            to_all(self._checked)
        for encoding in self.encodings:
            if not _at_once(encoding, results):
                to_all(partial(Sample.with_encoding, encoding=encoding))
        return results

    def _checked(self, sample: Sample) -> Sample:
        self.schema.check(sample.graph)
        return sample

    def _all_fit(self, graphs: Sequence[Graph]) -> bool:
        """Return whether the schema accepts all graphs: asked once for their features, one graph below another."""
        names = ("node_categories", "node_values", "edge_categories", "edge_values")
        try:
            rows = {name: np.concatenate([getattr(graph, name) for graph in graphs]) for name in names}
            whole = np.stack([graph.graph_values for graph in graphs])
            self.schema.check(Graph.trusted(id="", graph_values=whole, **rows))
        except (GraphError, ValueError):  # ValueError: none, or not of one width
            return False
        return True


def _at_once(encoding: Encoding, samples: list[Sample | Exception]) -> bool:
    """Add an encoding to all samples if it can be computed for all at once, and return whether it was."""
    if not isinstance(encoding, ManyAtOnce):
        return False
    numbers = [number for number, sample in enumerate(samples) if isinstance(sample, Sample)]
    given = [sample for sample in samples if isinstance(sample, Sample)]
    try:
        arrays = encoding.each([sample.graph for sample in given])
    except (EgtError, np.linalg.LinAlgError):  # of one of them: asked one by one, the others are computed
        return False
    for number, sample, array in zip(numbers, given, arrays, strict=True):
        samples[number] = sample.with_array(encoding, array)
    return True
