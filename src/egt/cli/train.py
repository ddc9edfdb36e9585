"""`egt train`: from a preset, a configuration or your own data to an artifact."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from egt.cli.output import (
    Bars,
    Flag,
    Settings,
    Words,
    metric_rows,
    print_coverage,
    print_json,
    print_members,
    print_table,
    print_targets,
    say,
    suggest_blend,
    with_epochs,
)
from egt.errors import counted, log_from
from egt.processes import is_first

if TYPE_CHECKING:
    from egt.api import Run
    from egt.data.custom import CustomSchema


def train(
    what: str,
    *,
    target: Words = (),
    task: Literal["graph", "node", "edge", "link", "pair", "pretrain"] | None = None,
    smiles: Words = (),
    features: Words = (),
    weight: str | None = None,
    standardize: Literal["parent", "tautomer"] | None = None,
    replicates: Literal["mean", "median", "drop"] | None = None,
    epochs: int | None = None,
    settings: Settings = (),
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    start: Annotated[str | None, Parameter(name="--from")] = None,
    keep_head: Flag = False,
    freeze_below: int = 0,
    tune: Literal["all", "edges"] = "all",
    ensemble: int | None = None,
    folds: int | None = None,
    no_baseline: Flag = False,
    blend: Flag = False,
    resume: Flag = False,
    json: Flag = False,
) -> None:
    """Train a model, evaluate it and save it as an artifact.

    Args:
        what: A preset (`egt presets`), a run.yaml, or your own data: a .csv of SMILES, a .jsonl of graphs, a folder.
        target: Column(s) of your own data to predict, or patterns such as `NR-*`.
        task: Level to predict, if it does not follow from the target; `link` predicts missing edges, `pair`
            a matrix over all pairs of nodes. `pretrain`
            needs no target: it makes a model to start from (--from).
        smiles: Column of your own data that holds the SMILES, if its name does not say so; several are components of
            one graph, such as `--smiles solute solvent`.
        features: Numeric column(s) of your own data that describe a whole row and are given to the model, such as a
            temperature; or patterns such as `desc_*`.
        weight: Column of your own data that says what the labels of each row count in training: 2 counts twice, 0 not
            at all, an empty cell 1.
        standardize: Learn from the parent of each molecule of your own data, without salts, solvents and charges, or
            also from its canonical tautomer; predictions do the same. What changed stands in changes.csv of the run
            folder.
        replicates: Merge rows of the same molecule (and the same --features) into their mean or median label, for
            classes the most common one; `drop` leaves out molecules whose labels differ. They stand in changes.csv.
        epochs: Train for this many epochs at most (trainer.max_epochs).
        settings: Settings to change, as path=value (optimizer.lr=1e-3). For your own data also split=scaffold and
            overrides.KEY=VALUE (docs/data.md).
        out: The run folder; runs/NAME by default.
        start: Start from the weights of this artifact; its last linear map is re-initialized. Molecules start from the
            pre-trained model `molecules`, unless this is `none` or a setting changes the model.
        keep_head: With --from: keep the last linear map as well.
        freeze_below: With --from: leave the embeddings and the layers below this one unchanged.
        tune: With --from: `edges` trains the edge channel only, and keeps the head.
        ensemble: Train this many models with different seeds; predictions are their mean, with the spread (NAME_std).
        folds: Cross-validation: train this many models, each of which leaves out a different part of your own data.
        no_baseline: Do without the cheap baseline that is measured on the same rows after training.
        blend: Average the answers with those of a forest and a Gaussian process, which the artifact keeps (numbers and
            yes/no of molecules); validation chooses the weights. With --resume also after training.
        resume: Continue the run in the run folder.
        json: Print one JSON object as the last line.
    """
    import egt.api

    first = is_first()
    show_log(first)
    with Bars() as bars:
        run = egt.api.train(
            what,
            target,
            task=task,
            smiles=smiles,
            features=features,
            set=[
                *with_epochs(settings, epochs),
                *([f"overrides.row_weight={weight}"] if weight else []),
                *([f"overrides.standardize={standardize}"] if standardize else []),
                *([f"overrides.replicates={replicates}"] if replicates else []),
                *(["trainer.baseline=false"] if no_baseline else []),
                *(["trainer.blend=true"] if blend else []),
            ],
            out=out,
            start=start,
            keep_head=keep_head,
            freeze_below=freeze_below,
            tune=tune,
            ensemble=ensemble,
            folds=folds,
            resume=resume,
            watch=bars if first else None,
            show=(lambda schema: show_schema(what, schema)) if first else None,
        )
        if not run.is_first:
            return
        from egt.paper.report import write_run_page  # here: training does not wait for it

        with log_from("egt", logging.ERROR):  # the data is read once more, and has been warned of
            page = write_run_page(run.folder, watch=bars)
    _report(run, page, json)


def show_log(first: bool) -> None:
    """Show warnings, a line for each run of an ensemble, and one for each epoch where no terminal shows a bar.

    Only the first of several processes does.
    """
    logging.basicConfig(format="%(message)s", level=logging.WARNING if first else logging.ERROR)
    if first:
        logging.getLogger("egt.training.ensemble").setLevel(logging.INFO)
    logging.getLogger("egt.training.callbacks").setLevel(logging.NOTSET if sys.stderr.isatty() else logging.INFO)


def show_schema(what: str, schema: CustomSchema) -> None:
    """Print what was inferred about custom data, and how to change it."""
    options = {"": "", "level": "--task", "target": "--target", "overrides.graph_features": "--features"}
    rows = [(name, decision, options.get(key, f"--set {key}=...")) for name, decision, key in schema.rows()]
    print_table(f"{what}: inferred schema", ("what", "decision", "change it with"), rows, to_error=True)


def _report(run: Run, page: Path, json: bool) -> None:
    metrics, parameters = run.artifact.metrics, run.artifact.model.num_parameters()
    positive = run.artifact.config.task.positive_class
    if json:
        content = {
            "artifact": str(run.path),
            "report": str(page),
            "metrics": metrics,
            "epoch": run.epoch + 1,
            "epochs": len(run.history),
            "parameters": parameters,
            "metrics_by_target": run.artifact.data.get("metrics_by_target", {}),
            "unreadable_rows": dict(run.problems),
            "coverage": run.artifact.data.get("coverage"),
            "baseline": run.artifact.data.get("baseline"),
            "blend": run.artifact.data.get("blend"),
        }
        if positive:
            content["positive_class"] = positive
        if run.members:
            content |= {"members": len(run.members), "member_metrics": run.artifact.data["member_metrics"]}
        print_json(content)
        return
    by_target = run.artifact.data.get("metrics_by_target", {})
    baseline, blend = run.artifact.data.get("baseline"), run.artifact.data.get("blend")
    is_blend = run.artifact.config.trainer.blend
    beside = {"network": blend["network"]} if is_blend and blend is not None else {}
    beside |= {} if baseline is None else {baseline["name"]: baseline["metrics"]}
    rows = [
        (split, *row)
        for split, values in metrics.items()
        for row in metric_rows(values, positive, [each.get(split, {}) for each in beside.values()])
    ]
    columns = ("split", "metric", "blend" if is_blend else "value", *beside, "on")
    size = f"{parameters:,} parameters, weights of epoch {run.epoch + 1}"
    if run.members:
        size = f"{len(run.members)} models of {parameters:,} parameters"
    print_table(f"{run.artifact.config.name}: {size}", columns, rows)
    if blend is not None and is_blend:
        say(f"the network has {blend['share']:.0%} of the weight in the blend")
    elif blend is not None:
        again = f"egt train {shlex.quote(str(run.folder))} --resume --blend"
        suggest_blend(run.artifact.config.task, blend, again)
    print_members(run.artifact.data.get("member_metrics", {}))
    for split, targets in by_target.items():
        print_targets(f"{split}, each target", targets, positive)
    print_coverage(run.artifact.data.get("coverage"))
    trainer = run.artifact.config.trainer
    if not run.members and trainer.patience is not None and len(run.history) - 1 - run.epoch >= trainer.patience:
        say(
            f"stopped after {counted(len(run.history), 'epoch')}: {trainer.patience} without a better validation loss "
            "(--set trainer.patience=null trains to the end)"
        )
    bad = sum(run.problems.values())
    if bad:
        say(f"left out {counted(bad, 'row')} that could not be read")
    path = shlex.quote(str(run.path))
    following = f"egt predict {path} NEW_DATA -o out.csv"
    if "test" in metrics:
        following = f"egt evaluate {path}   or   {following}"
    if not run.artifact.config.task.answers:
        following = f"egt train DATA --target NAME --from {path}"
    say(f"wrote {run.path}\nreport: {page}\nnext: {following}")
