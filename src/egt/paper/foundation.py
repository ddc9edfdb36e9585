"""The pre-trained model `molecules` again: descriptors of unlabeled molecules, learned as its card says."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from egt import api
from egt.config.load import Settings, parse_settings
from egt.data.download import data_folder
from egt.data.molecule_descriptors import KINDS
from egt.data.source import Progress
from egt.errors import DataError
from egt.files import exists
from egt.inference.artifact import save_artifact
from egt.training.run import Run

FILE = Path("molecules", "unlabeled_molecules.parquet")  # below EGT_DATA_DIR: a table with a column `smiles`
RECIPE = {
    "split.kind": "random",
    "split.fractions": [0.98, 0.01, 0.01],
    "model.node_width": 128,
    "data.batch_size": 128,
    "optimizer.lr": 1e-3,
}

NAME = "molecules"

_NOTES = (
    "Pre-trained on RDKit descriptors, which it predicts from the graph alone, and on counts of fragments. Made to "
    "be fine-tuned: `egt train table.csv --target NAME` starts from it. Its molecules are those of MOSES, ChEMBL 31, "
    "and of samples of both that come with molscore and reinvent (all under the MIT license as files; ChEMBL is "
    "CC BY-SA 3.0): drug-like and neutral for the most part, up to 150 characters of SMILES, no mixtures, few metals. "
    "What is far from these is outside of what it has seen."
)


def train_foundation(
    out: Path,
    *,
    epochs: int | None = None,
    settings: Settings = (),
    resume: bool = False,
    watch: Progress | None = None,
    progress: bool = True,
) -> Path:
    """Train the model, or continue, and return the folder of its artifact in half precision: OUT/molecules.

    The file of molecules is looked for in EGT_DATA_DIR. The computed descriptors are kept with the prepared graphs.
    There are 3 epochs by default; other arguments as for `egt.train`.
    """
    file = data_folder() / FILE
    if not exists(file):
        raise DataError(f"{file}: there is no such file; put a table with a column `smiles` there (EGT_DATA_DIR)")
    wanted: dict[str, Any] = {**RECIPE, "name": NAME, "trainer.max_epochs": epochs or 3}
    wanted |= {setting.path: setting.value for setting in parse_settings(settings)}
    run = api.train(file, task="pretrain", set=wanted, out=out / "run", resume=resume, watch=watch, progress=progress)
    return pack(run, out / NAME)


def pack(run: Run, path: Path) -> Path:
    """Write the artifact of a run in half precision, without fragments and without the places of its files.

    Learning to count fragments helps the other outputs; the counts themselves are of no use.
    """
    artifact, file = run.artifact, FILE.as_posix()
    config, task, model = artifact.config, artifact.config.task, deepcopy(artifact.model).half()
    kept = [k for k, name in enumerate(task.names) if not name.startswith(KINDS)]
    names = {task.names[k] for k in kept}
    fields = ("names", "mean", "std")
    last = model.head.last
    last.weight, last.bias = (nn.Parameter(each.detach()[kept]) for each in (last.weight, last.bias))
    [digest] = artifact.data["card"]["checksums"].values()
    card = {**artifact.data["card"], "title": "unlabeled molecules", "checksums": {file: digest}}
    by_target = {
        split: {name: scores for name, scores in found.items() if name in names}
        for split, found in artifact.data["metrics_by_target"].items()
    }
    packed = replace(
        artifact,
        config=config.replace(
            data={"source": file},
            task={name: tuple(getattr(task, name)[k] for k in kept) for name in fields},
            start=None,
        ),
        model=model,
        data={**artifact.data, "card": card, "metrics_by_target": by_target},
        notes=_NOTES,
    )
    save_artifact(packed, path)
    return path
