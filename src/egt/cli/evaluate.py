"""`egt evaluate`: the metrics of an artifact."""

from __future__ import annotations

from pathlib import Path

from egt.cli.output import Bars, Flag, Settings, Words, metric_rows, print_json, print_table, print_targets, with_smiles
from egt.data.source import SPLITS
from egt.errors import DataError
from egt.processes import join_processes, leave_processes


def evaluate(
    artifact: str,
    *,
    split: str = "test",
    data: Path | None = None,
    smiles: Words = (),
    settings: Settings = (),
    json: Flag = False,
) -> None:
    """Evaluate a trained model on a split of its training data, or on other data that has the targets.

    Args:
        artifact: The folder that `egt train` wrote.
        split: train, val or test.
        data: A file or folder with the columns of the training data, targets included.
        smiles: Column of the data that holds the SMILES, if its name does not say so; for a model of several as many,
            in the order of the training.
        settings: Settings to change, as path=value: overrides.smiles, overrides.id, data.pair_budget, trainer.backend.
        json: Print one JSON object instead.
    """
    from egt.inference.predictor import load

    if data is None and split not in SPLITS:
        raise DataError(f"--split {split}: there are train, val and test; other data is given with --data FILE")
    processes = join_processes()
    predictor = load(artifact, processes=processes, set=with_smiles(settings, smiles))
    with Bars(shown=not json and not processes.rank) as bars:
        found = predictor.evaluation(split if data is None else data, watch=bars)
    leave_processes()
    if processes.rank:  # the first process tells what all have computed
        return
    where, positive = split if data is None else str(data), predictor.config.task.positive_class
    if json:
        content = {"split": where, "metrics": found.metrics, **({"positive_class": positive} if positive else {})}
        print_json({**content, "by_target": found.by_target} if found.by_target else content)
        return
    rows = metric_rows(found.metrics, positive)
    print_table(f"{predictor.config.name} on {where}", ("metric", "value", "on"), rows)
    print_targets(f"{predictor.config.name} on {where}, each target", found.by_target, positive)
