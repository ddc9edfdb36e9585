"""Images with labels: MNIST from arrays and CIFAR10 from JPEG files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egt.errors import DataError
from egt.graph import IntArray

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_NUM_VALIDATION = 5_000


@dataclass(frozen=True)
class Images:
    """The images of a data set: image(k) is (height, width) or (height, width, 3) of 0..255, labels is (images,)."""

    image: Callable[[int], NDArray[np.uint8]]
    labels: IntArray
    splits: Mapping[str, IntArray]


@lru_cache(maxsize=2)
def load_mnist(train: Path, test: Path) -> Images:
    """MNIST from two .npz files with `x` (images, 28, 28) and `y`; the first 5,000 of train are for validation.

    Raises:
        DataError: if a file is missing or has other content.
    """
    parts = []
    for path in (train, test):
        try:
            with np.load(path, allow_pickle=False) as file:
                parts.append((file["x"], file["y"]))
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path}: expected an .npz file with the arrays x and y ({error})") from error
    pixels = np.concatenate([x for x, _ in parts])
    labels = np.concatenate([y for _, y in parts]).astype(np.int64)
    num_train = len(parts[0][1])
    num_validation = min(_NUM_VALIDATION, num_train)
    rows = np.arange(len(labels))
    splits = {"train": rows[num_validation:num_train], "val": rows[:num_validation], "test": rows[num_train:]}
    return Images(pixels.__getitem__, labels, splits)


@lru_cache(maxsize=2)
def load_cifar10_jpeg(path: Path) -> Images:
    """CIFAR10 from a Parquet table of JPEG files with the columns split, label (the class name), num and jpg.

    The files are sorted by class, so the first 500 training images of each class are for validation.

    Raises:
        DataError: if the file is missing or has other content.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path, columns=["split", "label", "num", "jpg"])
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: expected a Parquet table with split, label, num and jpg ({error})") from error
    jpegs = table.column("jpg").combine_chunks()
    split, number = np.array(table["split"].to_pylist()), table["num"].to_numpy()
    labels = np.array([CIFAR10_CLASSES.index(name) for name in table["label"].to_pylist()], dtype=np.int64)
    validation = (split == "train") & (number < _NUM_VALIDATION // 10)
    splits = {
        "train": np.flatnonzero((split == "train") & ~validation),
        "val": np.flatnonzero(validation),
        "test": np.flatnonzero(split == "test"),
    }
    return Images(lambda row: _decode(jpegs[row].as_py()), labels, splits)


def _decode(jpeg: bytes) -> NDArray[np.uint8]:
    """(height, width, 3) of 0..255. Pillow comes with scikit-image."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))
