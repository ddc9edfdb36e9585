from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from egt.data.encodings.encoding import Preparation, ShortestPaths
from egt.data.store import cache_folder, publish, store_name
from egt.errors import ConfigError
from egt.graph import FeatureSchema, Graph
from egt.parts.inputs import Degrees, SvdEncoding


def test_name_changes_with_everything_that_changes_the_content(source: Any, preparation: Preparation) -> None:
    def with_encodings(*encodings: Any) -> Preparation:
        return Preparation(preparation.schema, encodings)

    names = [
        store_name(source, "train", preparation),
        store_name(source, "val", preparation),
        store_name(dataclasses.replace(source, num_rows=7), "train", preparation),
        store_name(source, "train", Preparation(FeatureSchema(), preparation.encodings)),
        store_name(source, "train", with_encodings(SvdEncoding(3))),
        store_name(source, "train", with_encodings(SvdEncoding(4))),
        store_name(source, "train", with_encodings(SvdEncoding(3, weighted=True))),
        store_name(source, "train", with_encodings(ShortestPaths(4))),
    ]
    assert len({name[-32:] for name in names}) == len(names)
    assert names[0] == store_name(source, "train", preparation)
    assert names[0].startswith("toy-graphs-of-every-kind-train-")


def test_encodings_that_are_not_stored_do_not_change_the_name(source: Any, preparation: Preparation) -> None:
    with_six, with_nine = (Preparation(preparation.schema, [SvdEncoding(3), Degrees(d)]) for d in (6, 9))
    assert store_name(source, "train", with_six) == store_name(source, "train", with_nine)


def test_encoding_without_readable_settings_is_refused(source: Any, preparation: Preparation) -> None:
    class Opaque:
        name: ClassVar[str] = "opaque"
        level: ClassVar[Any] = "node"
        stored: ClassVar[bool] = True

        def __call__(self, graph: Graph) -> Any:
            return np.zeros((graph.num_nodes, 1))

    with pytest.raises(ConfigError, match="'opaque'"):
        store_name(source, "train", Preparation(preparation.schema, [Opaque()]))


def test_publishing_moves_the_finished_folder(tmp_path: Path) -> None:
    path, built = tmp_path / "store", tmp_path / "building"
    built.mkdir()
    (built / "file").write_text("mine")
    inode = (built / "file").stat().st_ino
    publish(built, path)
    assert (path / "file").stat().st_ino == inode  # moved, not copied: nobody can see a half of it
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]


def test_publishing_keeps_the_folder_of_a_faster_builder(tmp_path: Path) -> None:
    path, built = tmp_path / "store", tmp_path / "building"
    built.mkdir()
    (built / "file").write_text("mine")
    path.mkdir()
    (path / "file").write_text("theirs")
    publish(built, path)
    assert (path / "file").read_text() == "theirs"
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("EGT_CACHE_DIR", raising=False)
    assert cache_folder(None) == tmp_path / ".cache" / "egt"
    monkeypatch.setenv("EGT_CACHE_DIR", "~/elsewhere")
    assert cache_folder(None) == tmp_path / "elsewhere"
    assert cache_folder("here") == Path("here")
