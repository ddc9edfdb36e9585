"""`egt presets`: what models there are."""

from __future__ import annotations

import sys
from typing import Any

from egt.cli.output import Flag, print_json, print_table
from egt.config.load import write_config
from egt.errors import ConfigError
from egt.inference.artifact import pretrained_cards, pretrained_names
from egt.paper.presets import forms, names, plus_names, preset


def presets(action: str = "list", name: str | None = None, *, json: Flag = False) -> None:
    """List the models of the paper and those that come trained, or show one as the YAML that `egt train` reads.

    Args:
        action: `list`, or `show` followed by a name.
        name: A preset, e.g. zinc-500k or pattern-500k-simple.
        json: Print one JSON object instead.
    """
    if action == "show" and name is not None:
        run = preset(name)
        if json:
            print_json(run.model_dump(mode="json"))
        else:
            sys.stdout.write(write_config(run))
    elif action == "list" and name is None:
        if json:
            print_json({"presets": names(), "plus": plus_names(), "forms": forms(), "pretrained": pretrained_names()})
            return
        columns = ("name", "layers", "widths d_h/d_e", "heads")
        print_table("Presets", columns, [_sizes(each) for each in names()])
        print_table("Presets beyond the paper (docs/egt_plus.md)", columns, [_sizes(each) for each in plus_names()])
        if cards := pretrained_cards():
            columns = ("name", "parameters", "data", "measured")
            print_table("Trained models in the package", columns, [_describe(*item) for item in cards.items()])
        print_table("Forms of any preset", ("added to the name", "change"), [(f"-{k}", v) for k, v in forms().items()])
    else:
        raise ConfigError("use `egt presets`, or `egt presets show NAME`")


def _sizes(name: str) -> tuple[str, str, str, str]:
    model = preset(name).model
    return name, str(model.num_layers), f"{model.node_width}/{model.edge_width}", str(model.num_heads)


def _describe(name: str, card: dict[str, Any]) -> tuple[str, str, str, str]:
    """Describe a model of the package by the card of its artifact."""
    scores = card["metrics"].get("test") or card["metrics"].get("val", {})
    measured = ", ".join(f"{metric} {value:.4g}" for metric, value in scores.items() if not metric.startswith("num_"))
    return name, f"{card.get('parameters', 0):,}", card["data"].get("card", {}).get("title", ""), measured
