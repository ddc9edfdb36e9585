"""`egt evaluate`: the metrics of an artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from egt.cli.output import Bars, print_json, print_table


def evaluate(
    artifact: str,
    *,
    split: str = "test",
    data: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Evaluate a trained model on a split of its training data, or on other data that has the targets.

    Args:
        artifact: The folder that `egt train` wrote.
        split: train, val or test.
        data: A file or folder with the columns of the training data, targets included.
        json: Print one JSON object instead.
    """
    from egt.errors import DataError
    from egt.execution.processes import join_processes, leave_processes
    from egt.inference.predictor import load

    if data is None and split not in ("train", "val", "test"):
        raise DataError(f"--split {split}: there are train, val and test; other data is given with --data FILE")
    processes = join_processes()
    predictor = load(artifact, processes=processes)
    with Bars(shown=not json and not processes.rank) as bars:
        metrics = predictor.evaluate(split if data is None else data, watch=bars)
    leave_processes()
    if processes.rank:  # the first process tells what all have computed
        return
    where = split if data is None else str(data)
    if json:
        print_json({"split": where, "metrics": metrics})
        return
    basis = f"{metrics['num_labels']:.0f} labels of {metrics['num_graphs']:.0f} graphs"
    rows = [(name, f"{value:.6g}", basis) for name, value in metrics.items() if not name.startswith("num_")]
    print_table(f"{predictor.config.name} on {where}", ("metric", "value", "on"), rows)
