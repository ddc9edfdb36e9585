"""`egt explain`: why a model predicts what it predicts for one molecule or graph."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from egt.cli.output import Flag, Settings, print_json, print_table, say
from egt.cli.predict import group_inputs
from egt.data.source import SPLITS


def explain(
    artifact: str,
    data: str,
    *,
    row: int = 0,
    of: int = 0,
    target: str | None = None,
    draws: int = 50,
    out: Annotated[Path, Parameter(alias="-o")] = Path("explanation"),
    settings: Settings = (),
    json: Flag = False,
) -> None:
    """Explain one prediction: which atoms and bonds (nodes and edges) it rests on, and whether to believe that.

    Args:
        artifact: The folder that `egt train` wrote.
        data: A SMILES, a file or folder like the training data, or a split of it (train, val, test).
        row: The row of the data, from 0.
        of: The node, edge or query pair whose prediction is explained, from 0; not for models of whole graphs.
        target: The target or class to explain; by default the first target, or the class that is predicted.
        draws: How often random parts are masked for the score of faithfulness of each method.
        out: The folder to write to.
        settings: Settings to change, as path=value: overrides.smiles, overrides.id.
        json: Print one JSON object as the last line.
    """
    from egt.explain.explanation_page import doubt_lines, explain_artifact, score_table, top_rows

    words = ["egt", "explain", artifact, data, "--row", str(row), "--of", str(of), "--draws", str(draws)]
    words += [*([] if target is None else ["--target", target]), *(["--set", *settings] if settings else [])]
    given = data if data in SPLITS else group_inputs([data])[0]
    question = {"row": row, "of": of, "target": target, "draws": draws}
    found, files = explain_artifact(artifact, given, out, shlex.join(words), settings, question)
    if json:
        names = ("target", "value", "probability", "believed", "verdict")
        parts = ("score", "interval", "doubts")
        scores = {
            method: {score.parts: {name: getattr(score, name) for name in parts} for score in both}
            for method, both in found.scores.items()
        }
        print_json({**{name: getattr(found, name) for name in names}, "scores": scores, "output": str(out)})
        return
    for method in found.importance:
        print_table(f"{found.title}, {method}", ("part", "name", "importance"), top_rows(found, method))
    print_table("faithfulness", *score_table(found))
    for doubt in doubt_lines(found):
        say(f"- {doubt}")
    say(found.verdict)
    say(f"wrote {files[0]} and {len(files) - 1} more files")
