"""`egt analyze`: what a trained model looks at."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from egt.cli.output import Bars, print_json, say
from egt.errors import counted

Many = Parameter(consume_multiple=True, negative="")


def analyze(
    artifact: str,
    data: str = "val",
    *,
    limit: int | None = 1000,
    show: Annotated[tuple[int, ...], Many] = (),
    layers: Annotated[tuple[int, ...], Many] = (),
    head: int | None = None,
    crop: int | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    settings: Annotated[tuple[str, ...], Parameter(name="--set", consume_multiple=True, negative="")] = (),
    json: Annotated[bool, Parameter(negative="")] = False,
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
        output: The folder to write to; by default `analysis` beside the artifact, in the run folder.
        settings: Settings to change, as path=value: overrides.smiles, overrides.id, data.layout.
        json: Print one JSON object as the last line.
    """
    from egt.data.source import SPLITS
    from egt.errors import ConfigError
    from egt.explain.analysis import analyze as look
    from egt.explain.analysis_page import ANALYSIS, summary, write_analysis
    from egt.explain.figures import choose
    from egt.files import exists
    from egt.inference.artifact import find_artifact
    from egt.inference.loading import load_single
    from egt.nn.attention import attending

    if limit is not None and limit < 0:
        raise ConfigError(f"--limit {limit}: give a number of graphs, or 0 for all")
    model = load_single(artifact, set=settings)
    choice = choose(attending(model.model.layers), model.config.model.num_heads, layers, head, crop)
    # A model of the package or of a hub has no place beside it.
    beside = find_artifact(artifact).parent if exists(artifact) else Path()
    folder = output or beside / ANALYSIS.parent
    with Bars(shown=not json) as bars:
        found = look(model.attention(data, limit=limit or None, watch=bars), show)
    where = f"the split {data} of {model.config.data.source}" if data in SPLITS else data
    command = shlex.join(["egt", "analyze", artifact, data, *_options(limit, show, layers, head, crop, settings)])
    files = write_analysis(found, choice, folder, model.config.name, where, command)
    words = summary(found)
    if json:
        content = {"graphs": found.graphs, "unread": found.unread, "summary": words}
        print_json({**content, "output": str(folder), "files": [file.name for file in files]})
        return
    unread = f", {counted(found.unread, 'row')} could not be read" if found.unread else ""
    say(f"{model.config.name} on {counted(found.graphs, 'graph')} of {where}{unread}:")
    for sentence in words:
        say(f"- {sentence}")
    say(f"wrote {files[0]} and {len(files) - 1} more files")


def _options(
    limit: int | None,
    show: tuple[int, ...],
    layers: tuple[int, ...],
    head: int | None,
    crop: int | None,
    settings: tuple[str, ...],
) -> list[str]:
    """Return the options that were given, as words."""
    given: dict[str, Sequence[object]] = {
        "--limit": [limit],
        "--show": show,
        "--layers": layers,
        "--head": [head],
        "--crop": [crop],
        "--set": settings,
    }
    return [
        word
        for name, values in given.items()
        for word in ([name, *map(str, values)] if any(value is not None for value in values) else [])
    ]
