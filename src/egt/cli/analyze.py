"""`egt analyze`: what a trained model looks at."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from egt.cli.output import Bars, Flag, Numbers, Settings, print_json, say
from egt.errors import ConfigError, counted


def analyze(
    artifact: str,
    data: str = "val",
    *,
    limit: int | None = 1000,
    show: Numbers = (),
    layers: Numbers = (),
    head: int | None = None,
    crop: int | None = None,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    settings: Settings = (),
    json: Flag = False,
) -> None:
    """Show what a model looks at: the paper's Figure 3 for any model and data, hop profiles, heads, gates.

    Args:
        artifact: The folder that `egt train` wrote.
        data: A split of the data that the model was trained on (train, val, test), or a file or folder like it.
        limit: Look at this many graphs at most; 0 for all.
        show: Rows of the data, from 0, whose matrices are drawn; by default the first that can be read.
        layers: One or two layers to draw, from 1; by default one in the middle and the last.
        head: The example head to draw, from 1; by default the most selective one of the first layer drawn.
        crop: Draw only this many nodes of each matrix, for large graphs; by default 500.
        out: The folder to write to; by default `analysis` beside the artifact, in the run folder.
        settings: Settings to change, as path=value: overrides.smiles, overrides.id, data.layout.
        json: Print one JSON object as the last line.
    """
    from egt.explain.analysis_page import analyze_artifact, summary

    if limit is not None and limit < 0:
        raise ConfigError(f"--limit {limit}: give a number of graphs, or 0 for all")
    several = {"--show": show, "--layers": layers, "--set": settings}
    single = {"--limit": limit, "--head": head, "--crop": crop}
    words = ["egt", "analyze", artifact, data]
    words += [word for name, value in single.items() if value is not None for word in (name, str(value))]
    words += [word for name, values in several.items() if values for word in (name, *map(str, values))]
    with Bars(shown=not json) as bars:
        found, where, files = analyze_artifact(
            artifact,
            data,
            out,
            shlex.join(words),
            limit=limit or None,
            show=show,
            choice={"chosen": layers, "head": head, "crop": crop},
            settings=settings,
            watch=bars,
        )
    sentences = summary(found)
    if json:
        content = {"graphs": found.graphs, "unread": found.unread, "summary": sentences}
        print_json({**content, "output": str(files[0].parent), "files": [file.name for file in files]})
        return
    unread = f", {counted(found.unread, 'row')} could not be read" if found.unread else ""
    say(f"{where}{unread}:")
    for sentence in sentences:
        say(f"- {sentence}")
    say(f"wrote {files[0]} and {len(files) - 1} more files")
