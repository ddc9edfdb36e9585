"""`egt export`: a trained model for programs without egt, or as a repository of a model hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from egt.cli.output import Flag, print_json, print_table, say
from egt.errors import ConfigError
from egt.export.hub_repository import write_repository
from egt.inference.artifact import ENSEMBLE, find_artifact, load_artifact, load_ensemble


def export(
    artifact: str,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    forms: Annotated[tuple[Literal["onnx", "torch"], ...], Parameter(consume_multiple=True, negative="")] = (
        "onnx",
        "torch",
    ),
    hub: Flag = False,
    license: str = "",
    json: Flag = False,
) -> None:
    """Write a model as ONNX and `torch.export`, compared with the model; or, with --hub, for a model hub.

    Args:
        artifact: The folder that `egt train` wrote; of an ensemble, whose models are exported one by one, a member
            (ARTIFACT/member0), except with --hub.
        out: The folder to write: model.onnx, model.pt2 and schema.json, which says what they read.
        forms: Which of them to write: onnx, torch.
        hub: Write a repository for a model hub instead: the artifact and its model card (README.md).
        license: With --hub: the license of the model, as the hub spells it, e.g. mit.
        json: Print one JSON object as the last line.
    """
    if license and not hub:
        raise ConfigError("--license is for the model card of --hub")
    folder = find_artifact(artifact)
    if hub:
        found = load_ensemble(folder) if (folder / ENSEMBLE).is_file() else load_artifact(folder)
        write_repository(found, out, license)
        print_json({"output": str(out)}) if json else say(f"artifact and model card: {out}")
        return
    from egt.export import export as exporters

    written = exporters.export(load_artifact(folder), out, forms)
    deviations = {exporters.FILES[form]: far for form, far in written.deviations.items()}
    if json:
        print_json({"output": str(out), "deviations": deviations})
        return
    rows = [(file, f"{far:.2g}") for file, far in deviations.items()]
    print_table(f"Exported to {out}", ("file", "farthest answer from the model's"), rows, to_error=True)
    say(f"what it reads and answers: {out / 'schema.json'}")
