"""A learner without a network, kept beside one: regression trees and a kernel machine on molecules, as plain arrays.

Each target is a number, or 0 and 1 for no and yes, whose mean is the probability. The answer is the mean of

    trees     the mean over trees of the leaf that a molecule falls into (extremely randomized, Geurts et al., 2006)
    kernel    m + k^T (K + lambda I)^-1 (y - m), the mean of a Gaussian process, where k of two molecules is
              (1 - s) times the share of the fragments that they have in common (Tanimoto, the mean over kinds) plus
              s exp(-d^2 / D), d being the distance of their standardized descriptors

`egt.training.fit_learner` fits it; here it answers. A `Blend` is the mean of its answers and those of the network. It
has a file of its own in the artifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError
from scipy.sparse import csr_array

from egt.data.encodings.encoding import Sample
from egt.data.molecule_descriptors import KIND, KINDS, Described, Keys, describe, missing_descriptors
from egt.errors import ArtifactError

if TYPE_CHECKING:
    from egt.inference.answering import Answer

Rows = NDArray[np.float64]

_ROWS_AT_ONCE = 256
_MOST_DEVIATIONS = 6.0
_MOST_BINS = 1 << 16
_SURE = 1e-3  # a probability of yes is at least this far from 0 and 1


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of all targets, one after another, with their nodes in depth-first order: a left child follows its parent.

    Fields:
        sizes: (T, trees) how many nodes each tree has.
        features: (nodes,) the feature that a node compares; -1 in a leaf.
        values: (nodes,) to the left goes what is at most this; the answer of a leaf.
    """

    sizes: NDArray[np.int32]
    features: NDArray[np.int16]
    values: NDArray[np.float32]

    @cached_property
    def _roots(self) -> NDArray[np.int64]:
        """(T, trees) the first node of each tree."""
        ends: NDArray[np.int64] = np.cumsum(self.sizes.ravel(), dtype=np.int64)
        return (ends - self.sizes.ravel()).reshape(self.sizes.shape)

    @cached_property
    def _open(self) -> NDArray[np.int64]:
        """(nodes,) how many subtrees are still to come after each node, counted through all trees."""
        return np.cumsum(np.where(self.features < 0, -1, 1), dtype=np.int64)

    @cached_property
    def _right(self) -> NDArray[np.int64]:
        """(nodes,) the right child of each node that is no leaf: it follows the end of the left one's subtree.

        That is the first node behind its parent with one subtree fewer to come.
        """
        count = len(self.features)
        order = np.lexsort((np.arange(count), self._open))
        places = (self._open[order] - self._open.min(initial=0)) * (count + 1) + order
        inner = np.flatnonzero(self.features >= 0)
        wanted = (self._open[inner] - 1 - self._open.min(initial=0)) * (count + 1) + inner
        right = np.zeros(count, np.int64)
        right[inner] = order[np.searchsorted(places, wanted)] + 1
        return right

    def check(self, width: int) -> str:
        """Return what is wrong with the arrays of molecules with this many features, or ""."""
        if (self.sizes < 1).any() or self.sizes.sum() != len(self.features) or len(self.features) != len(self.values):
            return "the sizes of the trees are not those of their arrays"
        if self.features.max(initial=-1) >= width or self.features.min(initial=0) < -1:
            return "a tree compares a feature that there is not"
        number = np.repeat(np.arange(self.sizes.size), self.sizes.ravel())
        open_within = self._open + number  # each tree before it has ended at one less
        last = np.cumsum(self.sizes.ravel()) - 1
        ended = open_within < 0
        if ended.sum() != len(last) or not ended[last].all() or (open_within[last] != -1).any():
            return "a tree has nodes without a parent, or none where it needs them"
        return "" if np.isfinite(self.values).all() else "a tree has a number that is not finite"

    def predict(self, X: NDArray[np.float32]) -> Rows:
        """(rows, T) the mean of the trees. X: (rows, features)."""
        at = np.tile(self._roots.ravel(), len(X))
        rows = np.repeat(np.arange(len(X)), self.sizes.size)
        moving = np.arange(len(at))
        while len(moving):
            moving = moving[self.features[at[moving]] >= 0]
            here = at[moving]
            is_left = X[rows[moving], self.features[here]] <= self.values[here]
            at[moving] = np.where(is_left, here + 1, self._right[here])
        answers: Rows = self.values[at].reshape(len(X), *self.sizes.shape).mean(2, dtype=np.float64)
        return answers


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel machine: what it knows of each molecule that it learned from.

    Fields:
        vocabulary: (V,) the keys of their fragments, in ascending order.
        starts: (n + 1,) where each molecule's part of `places` begins.
        places: of the keys of each molecule in the vocabulary.
        centers: (D,) means of the descriptors.
        scales: (D,) deviations; 0 leaves a descriptor out.
        values: (n, D) standardized descriptors.
        weights: (n, T) of each molecule in the answers.
        means: (T,) of the labels.
        shares: (T,) s, of the descriptors in the kernel.
    """

    vocabulary: Keys
    starts: NDArray[np.int32]
    places: NDArray[np.int32]
    centers: NDArray[np.float32]
    scales: NDArray[np.float32]
    values: NDArray[np.float16]
    weights: Rows
    means: Rows
    shares: Rows

    def check(self, num_values: int) -> str:
        """Return what is wrong with the arrays of molecules with this many descriptors, or ""."""
        count = len(self.weights)
        shapes = [
            self.values.shape == (count, num_values),
            self.centers.shape == self.scales.shape == (num_values,),
            self.means.shape == self.shares.shape == self.weights.shape[1:],
        ]
        if not all(shapes) or len(self.starts) != count + 1:
            return "the arrays of the kernel have different sizes"
        if self.starts[0] or (np.diff(self.starts) < 0).any() or self.starts[-1] != len(self.places):
            return "the fragments of the kernel's molecules are not where they should be"
        if ((self.places < 0) | (self.places >= len(self.vocabulary))).any() or (np.diff(self.vocabulary) <= 0).any():
            return "the kernel has a fragment that is not in its vocabulary"
        numbers = (self.values, self.centers, self.scales, self.weights, self.means, self.shares)
        finite = all(np.isfinite(each).all() for each in numbers)
        return "" if finite else "the kernel has a number that is not finite"

    @cached_property
    def _known(self) -> Any:
        """(V, n) sparse: which molecule has which key."""
        ones = np.ones(len(self.places), np.float32)
        return csr_array((ones, self.places, self.starts), shape=(len(self.weights), len(self.vocabulary))).T.tocsr()

    def similarities(self, keys: Sequence[Keys]) -> NDArray[np.float32]:
        """(molecules, n) the share of fragments in common with the known molecules, from 0 to 1: mean over kinds."""
        known = [np.intersect1d(each, self.vocabulary, assume_unique=True) for each in keys]
        known = [np.searchsorted(self.vocabulary, each) for each in known]
        starts = np.cumsum([0, *map(len, known)])
        joined = np.concatenate([*known, np.zeros(0, np.int64)])
        given = csr_array((np.ones(len(joined), np.float32), joined, starts), shape=(len(keys), len(self.vocabulary)))
        ends = np.arange(len(KINDS) + 1) * KIND
        sizes = np.diff([np.searchsorted(each, ends) for each in keys], axis=1).reshape(len(keys), len(KINDS))
        mean = np.zeros((len(keys), len(self.weights)), np.float32)
        for kind, (start, end) in enumerate(pairwise(np.searchsorted(self.vocabulary, ends).tolist())):
            rows = self._known[start:end]
            common = (given[:, start:end] @ rows).toarray()
            mean += common / np.maximum(sizes[:, kind, None] + rows.sum(0) - common, 1) / len(KINDS)
        return mean

    def standardize(self, values: NDArray[np.float32]) -> NDArray[np.float16]:
        """(molecules, D) descriptors in deviations of the known molecules."""
        scaled = (values - self.centers) / np.where(self.scales > 0, self.scales, np.inf)
        return np.clip(scaled, -_MOST_DEVIATIONS, _MOST_DEVIATIONS).astype(np.float16)

    def parts(self, found: Described) -> tuple[Rows, Rows]:
        """(molecules, n) both parts of k of molecules and the known ones: by fragments, and by descriptors."""
        own, known = (each.astype(np.float64) for each in (self.standardize(found.values), self.values))
        squares = np.square(own).sum(1)[:, None] + np.square(known).sum(1) - 2 * (own @ known.T)
        near = np.exp(-np.maximum(squares, 0) / max(np.count_nonzero(self.scales), 1))
        return self.similarities(found.keys).astype(np.float64), near

    def predict(self, found: Described) -> Rows:
        """(molecules, T) the answers."""
        alike, near = self.parts(found)
        answers: Rows = alike @ (self.weights * (1 - self.shares)) + near @ (self.weights * self.shares) + self.means
        return answers


@dataclass(frozen=True, eq=False)
class Learner:
    """The mean of trees and a kernel machine.

    Fields:
        names: of the descriptors that are read; values of rows of the table may follow them.
        num_bins: that fragments of each kind are counted in, by their numbers.
        bins: (B,) those that the trees read, before the descriptors.
        trees: None where scikit-learn was missing; the kernel machine then answers alone.
        chances: whether the answers are probabilities of yes.
    """

    names: tuple[str, ...]
    num_bins: int
    bins: NDArray[np.int32]
    kernel: Kernel
    trees: Trees | None
    chances: bool

    @property
    def title(self) -> str:
        """What it is called beside a network."""
        return "GP" if self.trees is None else "forest and GP"

    def predict(self, found: Described) -> Rows:
        """(molecules, T) numbers, or probabilities of yes."""
        starts = range(0, len(found.keys), _ROWS_AT_ONCE)
        parts = [self._predict(found[start : start + _ROWS_AT_ONCE]) for start in starts]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.kernel.means)))

    def _predict(self, found: Described) -> Rows:
        answers = self.kernel.predict(found)
        if self.trees is not None:
            answers = (self.trees.predict(self.features(found)) + answers) / 2
        return np.clip(answers, _SURE, 1 - _SURE) if self.chances else answers

    def features(self, found: Described) -> NDArray[np.float32]:
        """(molecules, B + D) what the trees read."""
        return np.concatenate([found.counts(self.num_bins)[:, self.bins], found.values], 1)

    def check(self) -> str:
        """Return what is wrong with the arrays, or ""."""
        if not 0 < self.num_bins <= _MOST_BINS or ((self.bins < 0) | (self.bins >= len(KINDS) * self.num_bins)).any():
            return "the trees read a fragment that is not counted"
        num_values = self.kernel.values.shape[1]
        if self.trees is None:
            return self.kernel.check(num_values)
        if len(self.trees.sizes) != self.kernel.weights.shape[1]:
            return "trees and kernel have different targets"
        return self.trees.check(len(self.bins) + num_values) or self.kernel.check(num_values)


_KEY = "learner"  # of the only entry in the file's metadata
_DTYPES = {
    "bins": "int32",
    "trees.sizes": "int32",
    "trees.features": "int16",
    "trees.values": "float32",
    "kernel.vocabulary": "int64",
    "kernel.starts": "int32",
    "kernel.places": "int32",
    "kernel.centers": "float32",
    "kernel.scales": "float32",
    "kernel.values": "float16",
    "kernel.weights": "float64",
    "kernel.means": "float64",
    "kernel.shares": "float64",
}
_DIMENSIONS = {"trees.sizes": 2, "kernel.values": 2, "kernel.weights": 2}  # of the others 1


class _About(BaseModel):
    """The metadata of the file."""

    format: Literal[1] = 1
    share: float = Field(ge=0, le=1)
    num_bins: int
    chances: bool
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Blend:
    """A learner, and the share of the network in the answer."""

    learner: Learner
    share: float

    def describe(self, smiles: Sequence[str], samples: Sequence[Sample]) -> Described:
        """Return what the learner reads of some molecules."""
        return describe_rows(smiles, samples, self.learner.names)

    def mean(self, answers: Rows, theirs: Rows) -> Rows:
        """(rows, T) the joint answers. answers: of the network, decoded; theirs: of the learner."""
        return self.share * answers + (1 - self.share) * theirs

    def join(self, answers: Sequence[Answer], molecules: Described) -> list[Answer]:
        """Return the joint answers for molecules, whose deviations are those of the network's share."""
        found: list[Answer] = []
        for answer, theirs in zip(answers, self.learner.predict(molecules), strict=True):
            if isinstance(answer, str):
                found.append(answer)
                continue
            values, pairs, std = answer
            spread = None if std is None else (self.share * std).astype(np.float32)
            found.append((self.mean(values.astype(np.float64), theirs).astype(np.float32), pairs, spread))
        return found

    def save(self, path: Path) -> None:
        """Write the file that `load` reads."""
        learner, tensors = self.learner, {"bins": self.learner.bins}
        for name, part in (("trees", learner.trees), ("kernel", learner.kernel)):
            if part is not None:
                tensors |= {f"{name}.{each.name}": getattr(part, each.name) for each in fields(part)}
        about = _About(share=self.share, num_bins=learner.num_bins, chances=learner.chances, names=learner.names)
        arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        safetensors.numpy.save_file(arrays, path, {_KEY: about.model_dump_json()})

    @classmethod
    def load(cls, path: Path, num_targets: int, num_row_values: int) -> Blend:
        """Read the file of a model of so many targets, which reads so many values of a whole row."""
        try:
            with safetensors.safe_open(path, framework="np") as file:
                about = _About.model_validate_json((file.metadata() or {}).get(_KEY, ""))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (safetensors.SafetensorError, ValidationError) as error:
            raise ArtifactError(f"{path}: is not a learner to blend with ({_first_line(error)})") from error
        if problem := _problem_of(tensors):
            raise ArtifactError(f"{path}: is not a learner to blend with ({problem}); make the artifact again")
        parts = {
            kind: {name.removeprefix(f"{kind}."): each for name, each in tensors.items() if name.startswith(f"{kind}.")}
            for kind in ("trees", "kernel")
        }
        trees = Trees(**parts["trees"]) if parts["trees"] else None
        learner = Learner(about.names, about.num_bins, tensors["bins"], Kernel(**parts["kernel"]), trees, about.chances)
        if problem := learner.check():
            raise ArtifactError(f"{path}: is not a learner to blend with ({problem}); make the artifact again")
        width = learner.kernel.values.shape[1]
        if (len(learner.kernel.means), width) != (num_targets, len(about.names) + num_row_values):
            raise ArtifactError(f"{path}: is the learner of another task; make the artifact again")
        if missing := missing_descriptors(about.names):
            raise ArtifactError(
                f"{path}: the model reads descriptors that this RDKit does not have ({', '.join(missing[:3])}); "
                "update RDKit"
            )
        return cls(learner, about.share)


def describe_rows(smiles: Sequence[str], samples: Sequence[Sample], names: Sequence[str]) -> Described:
    """Return what a learner reads of some molecules: also the values that the table has of the whole row."""
    found = describe(smiles, names)
    values = [sample.graph.graph_values for sample in samples]
    of_rows = np.stack(values).astype(np.float32) if values else np.zeros((0, 0), np.float32)
    return Described(found.keys, np.concatenate([found.values, of_rows], 1))


def _problem_of(tensors: dict[str, NDArray[Any]]) -> str:
    """Return which tensor is missing, unknown or of another form, or ""."""
    names = {name for name in _DTYPES if "trees.features" in tensors or not name.startswith("trees.")}
    if other := sorted(names ^ tensors.keys()):
        return f"{other[0]} is {'missing' if other[0] in names else 'unknown'}"
    for name, array in tensors.items():
        if str(array.dtype) != _DTYPES[name] or array.ndim != _DIMENSIONS.get(name, 1):
            return f"{name} has another form"
    return ""


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
