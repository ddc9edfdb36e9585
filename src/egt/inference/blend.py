"""A network's answers averaged with those of a learner that is kept beside it, in a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from egt.data.encodings.encoding import Sample
from egt.data.molecule_descriptors import Described, describe, missing_descriptors
from egt.errors import ArtifactError
from egt.inference.learner import Kernel, Learner, Rows, Trees

if TYPE_CHECKING:
    from egt.inference.answering import Answer

_KEY = "learner"
"""Of the only entry in the file's metadata."""

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
_DIMENSIONS = {"trees.sizes": 2, "kernel.values": 2, "kernel.weights": 2}
"""Of the others 1."""


class _About(BaseModel):
    """The metadata of the file."""

    format: int = Field(ge=1, le=1)
    share: float = Field(ge=0, le=1)
    num_bins: int
    chances: bool
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Blend:
    """A learner, and the share of the network in the answer."""

    learner: Learner
    share: float

    def mean(self, answers: Rows, theirs: Rows) -> Rows:
        """(rows, T) the joint answers. answers: of the network, decoded; theirs: of the learner."""
        return self.share * answers + (1 - self.share) * theirs

    def joined(self, answers: Sequence[Answer], molecules: Described) -> list[Answer]:
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
        about = _About(
            format=1, share=self.share, num_bins=learner.num_bins, chances=learner.chances, names=learner.names
        )
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
    width = len(values[0]) if values else 0
    of_rows = np.stack(values).astype(np.float32) if width else np.zeros((len(samples), 0), np.float32)
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
