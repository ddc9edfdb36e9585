"""EGT as scikit-learn estimators: `fit(X, y)`, `predict(X)`, cross-validation, pipelines and grid searches.

`X` has one graph per row: SMILES (also several, as the columns of an array), RDKit molecules, `Graph`s, NetworkX
graphs, PyG data, or a frame with columns of SMILES and of features. A fitted estimator holds its artifact as bytes, so
that it can be pickled and copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from egt.api import Run, train
from egt.config.load import parse_settings
from egt.data.columns import RawData, digest_of_graphs, split_vectors
from egt.data.custom import read_raw
from egt.errors import ArtifactError, ConfigError, DataError, GraphError
from egt.inference.predictor import Predictor, load

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d
except ImportError as error:
    raise ImportError(
        'egt.sklearn needs scikit-learn 1.6; install it with: pip install "egt-graph[sklearn]"'
    ) from error

TARGET = "target"  # what the column of labels is called in the run
Floats = NDArray[np.float64]


class FittedModel:
    """The files of an artifact as bytes, which are pickled, and the model they make, which is not."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    @classmethod
    def of(cls, artifact: Path) -> FittedModel:
        """Read the files of an artifact."""
        return cls({path.name: path.read_bytes() for path in artifact.iterdir()})

    @cached_property
    def model(self) -> Predictor:
        """The trained model."""
        with TemporaryDirectory(prefix="egt-") as folder:
            self.save(folder)
            return load(folder)

    def save(self, folder: Path | str) -> None:
        """Write the artifact into a folder, for `egt.load` and every command."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (Path(folder) / name).write_bytes(content)

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files}


class GraphEstimator(BaseEstimator):  # type: ignore[misc]
    """What regressor and classifier share.

    Args:
        max_epochs: as `--epochs`; by default as many as suit the size of the data.
        seed: of the weights, the order of the rows and the validation rows.
        validation_fraction: the share of rows that select the best epoch and end the training early; 0 for none.
        settings: further settings of the run, as {"model.num_layers": 2}; `split=scaffold` divides otherwise.
        smiles: the column of a frame that holds the SMILES, if its name does not say so; several are components of
            one graph.
        features: numeric columns of a frame that are given to the model, or patterns, as `--features`.
        folder: where the run is kept; by default in a temporary folder, removed after `fit`.
        verbose: show the progress of training.

    Attributes:
        artifact_: the `FittedModel`; `artifact_.save(folder)` writes it for `egt.load`.
        history_: a row of losses and metrics for each epoch.
    """

    _split = "random"
    """How the validation rows are chosen."""

    def __init__(
        self,
        *,
        max_epochs: int | None = None,
        seed: int = 0,
        validation_fraction: float = 0.1,
        settings: Mapping[str, Any] | Sequence[str] | None = None,
        smiles: str | Sequence[str] | None = None,
        features: Sequence[str] = (),
        folder: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.max_epochs = max_epochs
        self.seed = seed
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.smiles = smiles
        self.features = features
        self.folder = folder
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = False, True, True
        return tags

    @property
    def model_(self) -> Predictor:
        """The trained model: `predict` with a table of answers, `encode`, `evaluate`."""
        check_is_fitted(self, "artifact_")
        fitted: FittedModel = self.artifact_
        return fitted.model

    def _train(self, X: Any, y: Floats, kind: str) -> Self:
        with _value_errors():
            data = with_labels(X, y)
            with TemporaryDirectory(prefix="egt-") as folder:
                run = self._run(data, Path(folder) / "run" if self.folder is None else Path(self.folder), kind)
                self.artifact_ = FittedModel.of(run.path)
        self.history_ = [dict(row) for row in run.history]
        return self

    def _run(self, data: RawData, out: Path, kind: str) -> Run:
        settings = [*parse_settings(self._settings(kind)), *parse_settings(self.settings or ())]
        target = [name for name in data.table if name == TARGET or name.startswith(f"{TARGET}.")]
        return train(
            data,
            target,
            task="graph",
            smiles=self.smiles or (),
            features=self.features,
            set=settings,
            out=out,
            progress=self.verbose,
        )

    def _settings(self, kind: str) -> dict[str, Any]:
        share = self.validation_fraction
        found = {
            "overrides.kind": kind,
            "split.kind": self._split,
            "split.fractions": [1 - share, share, 0.0],
            "split.seed": self.seed,
            "seed": self.seed,
        }
        return found if self.max_epochs is None else {**found, "trainer.max_epochs": self.max_epochs}

    def _values(self, X: Any) -> Floats:
        """(n, outputs) what the model answers for each row; a row that it cannot read is an error, as usual here."""
        model = self.model_
        with _value_errors():
            answers = model.predict(_rows(X))
        for answer in answers:
            if answer.values is None:
                raise ValueError(f"X: row {answer.row} ({answer.id}) cannot be predicted: {answer.error}; leave it out")
        return np.concatenate([answer.values for answer in answers if answer.values is not None]).astype(np.float64)


class EGTRegressor(RegressorMixin, GraphEstimator):  # type: ignore[misc]
    """A graph transformer that predicts one number, or several, for each graph.

    `cross_val_score(EGTRegressor(max_epochs=20), smiles, y, cv=5)` is all it takes. Arguments and attributes as in
    `GraphEstimator`.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train a model on (n,) graphs, less those that cannot be read, and (n,) or (n, T) numbers."""
        _check_given(y)
        return self._train(X, check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), "regression")

    def predict(self, X: Any) -> Floats:
        """Return (n,) or (n, T) numbers, in the unit of y."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values


class EGTClassifier(ClassifierMixin, GraphEstimator):  # type: ignore[misc]
    """A graph transformer that predicts the class of each graph. Arguments and attributes as in `GraphEstimator`.

    Attributes:
        classes_: the labels, in the order of the columns of `predict_proba`.
    """

    _split = "stratified"

    def fit(self, X: Any, y: Any) -> Self:
        """Train a model on (n,) graphs, less those that cannot be read, and (n,) labels of two classes or more."""
        _check_given(y)
        check_array(y, ensure_2d=False, dtype=None, input_name="y")
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_[0]!r}; a classifier needs two or more")
        return self._train(X, codes.astype(np.float64), "binary" if len(self.classes_) == 2 else "multiclass")

    def predict_proba(self, X: Any) -> Floats:
        """Return (n, K) the probability of each of `classes_`."""
        values = self._values(X)
        if values.shape[1] > 1:
            chances: Floats = values / values.sum(axis=1, keepdims=True)  # sums of float32 are not exactly 1
            return chances
        return np.concatenate([1 - values, values], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (n,) the most probable class of each graph."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels


def with_labels(X: Any, y: Floats) -> RawData:
    """Return graphs with their labels as columns of a table, as `egt.train` reads them. y: (n,) or (n, T)."""
    raw = read_raw(_rows(X))
    if raw.num_rows != len(y):
        raise DataError(f"X has {raw.num_rows} rows and y has {len(y)}; each graph needs one label")
    table = {**raw.table, **split_vectors(TARGET, y)}
    return replace(raw, table=table, digest=digest_of_graphs(table, raw.graphs))


def _rows(X: Any) -> Any:
    """Return an array, as pipelines hand it on, as a list of its cells or of rows of SMILES; all else unchanged."""
    if not isinstance(X, np.ndarray):
        return X
    several = X.ndim == 2 and X.shape[1] > 1
    texts = not several or all(isinstance(cell, str) for cell in X.ravel().tolist())
    if X.ndim > 2 or X.dtype.kind not in "OUT" or not texts:
        raise DataError(
            f"X is an array of {X.dtype} with the shape {X.shape}; each row must be one graph: SMILES (one, or a "
            "column for each component), Graphs, NetworkX graphs or PyG data; give features as columns of a frame"
        )
    return X.tolist() if several else X.ravel().tolist()


def _check_given(y: Any) -> None:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")


@contextmanager
def _value_errors() -> Iterator[None]:
    """Turn wrong input into the `ValueError` that scikit-learn and its users expect."""
    try:
        yield
    except (ArtifactError, ConfigError, DataError, GraphError) as error:
        raise ValueError(str(error)) from error
