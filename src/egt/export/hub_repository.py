"""An artifact or ensemble as a repository of a model hub: its files and a model card, `README.md` with a YAML head."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from egt.config.run import RunConfig
from egt.files import write_atomically
from egt.inference.artifact import (
    Artifact,
    EnsembleArtifact,
    member_name,
    save_artifact,
    save_ensemble,
    versions,
)

README = "README.md"
_USE = """```python
import egt

model = egt.load("hf://OWNER/{name}@COMMIT")
model.predict(...)  # {reads}
```

The files are weights (safetensors), configuration (YAML) and card (JSON) with checksums; nothing is unpickled.
"""

_LEVELS = {"graph": "whole graphs", "node": "nodes", "edge": "edges", "link": "links"}


def write_repository(artifact: Artifact | EnsembleArtifact, folder: Path, license: str = "") -> None:
    """Write an artifact, or an ensemble of them, and the model card; paths of this machine stay here.

    The folder is new, or holds an artifact. The license is spelled as the hub does ("mit"); "" leaves it out of the
    card.
    """
    public = [_without_paths(each) for each in artifact.members]
    about = ""
    if isinstance(artifact, EnsembleArtifact):
        about = _members_line(artifact)
        with tempfile.TemporaryDirectory() as draft:
            paths = [Path(draft, member_name(number)) for number in range(len(public))]
            for member, path in zip(public, paths, strict=True):
                save_artifact(member, path)
            save_ensemble(replace(artifact, members=tuple(public)), paths, folder)
    else:
        save_artifact(public[0], folder)
    with write_atomically(folder / README) as card:
        card.write_text(model_card(replace(public[0], metrics=artifact.metrics), license, about), encoding="utf-8")


def model_card(artifact: Artifact, license: str = "", about: str = "") -> str:
    """Return the text of the model card; `about` is a sentence more about what the model is."""
    config, task = artifact.config, artifact.config.task
    targets, level = _plain(", ".join(task.names)), _LEVELS[config.model.level]
    return "\n".join(
        [
            f"---\n{yaml.safe_dump(_head(artifact, license), sort_keys=False, allow_unicode=True)}---\n",
            f"# {_plain(config.name)}\n",
            f"An Edge-augmented Graph Transformer that predicts {targets} ({task.kind}) of {level}.{about}\n",
            "## Use\n",
            _USE.format(name=config.name, reads=_reads(config)),
            "## Metrics\n",
            _table(("split", "metric", "value"), *((*key, f"{value:.4g}") for *key, value in _numbers(artifact))),
            "## Data\n",
            _table(("fact", "value"), *_facts(artifact)),
            "## Model\n",
            _table(("setting", "value"), *_settings(artifact)),
            "Answers far from the training data are extrapolations; the metrics above say nothing about them.\n",
        ]
    )


def _members_line(ensemble: EnsembleArtifact) -> str:
    differ = "with other seeds" if ensemble.kind == "seeds" else "each trained without another part of the data"
    how = "" if ensemble.kind == "seeds" else ", each on the part that it left out"
    return (
        f" It is an ensemble: {len(ensemble.members)} models of one configuration, {differ}, whose answers are "
        f"averaged. The metrics are those of all together{how}."
    )


def _head(artifact: Artifact, license: str) -> dict[str, Any]:
    """Return the YAML head, in the words that the hub searches by."""
    config = artifact.config
    results = [
        {"type": metric, "name": f"{metric} ({split})", "value": float(value)}
        for split, metric, value in _numbers(artifact)
    ]
    about = {"task": {"type": "graph-ml"}, "dataset": {"name": _title(artifact), "type": "custom"}, "metrics": results}
    return {
        **({"license": license} if license else {}),
        "library_name": "egt-graph",
        "pipeline_tag": "graph-ml",
        "tags": ["egt", "graph-transformer", "graph-machine-learning", config.task.kind],
        **({"model-index": [{"name": config.name, "results": [about]}]} if results else {}),
    }


def _numbers(artifact: Artifact) -> list[tuple[str, str, float]]:
    return [
        (split, metric, value)
        for split, found in artifact.metrics.items()
        for metric, value in found.items()
        if not metric.startswith("num_") and math.isfinite(value)
    ]


def _title(artifact: Artifact) -> str:
    return str(artifact.data.get("card", {}).get("title", "unknown"))


def _facts(artifact: Artifact) -> list[tuple[str, str]]:
    card: Mapping[str, Any] = artifact.data.get("card", {})
    sizes = ", ".join(f"{split} {size}" for split, size in card.get("split_sizes", {}).items())
    facts = {
        "data": _title(artifact),
        "graphs": sizes,
        "license": card.get("license"),
        "citation": card.get("citation"),
    }
    return [(name, str(value)) for name, value in facts.items() if value]


def _settings(artifact: Artifact) -> list[tuple[str, str]]:
    model = artifact.config.model
    sizes = f"{model.num_layers}, {model.node_width}, {model.edge_width}, {model.num_heads}"
    return [
        ("parameters", f"{artifact.model.num_parameters():,}"),
        ("layers, node width, edge width, heads", sizes),
        ("inputs", ", ".join(each.kind for each in (*model.node_inputs, *model.pair_inputs))),
        ("readout", model.readout.kind),
        ("seed", str(artifact.config.seed)),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions().items())),
    ]


def _table(head: tuple[str, ...], *rows: tuple[str, ...]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(map(_plain, line))} |\n" for line in lines)


def _plain(text: str) -> str:
    """Return a name from the data as one line of Markdown that says it, whatever signs it has."""
    return re.sub(r"[\\`*\[\]<>|#]", r"\\\g<0>", " ".join(text.split()))


def _reads(config: RunConfig) -> str:
    schema = config.data.custom
    return "SMILES, a frame or a file" if schema is not None and schema.format == "molecules" else "graphs or a file"


def _without_paths(artifact: Artifact) -> Artifact:
    """Return the artifact with files by their names alone, in the configuration and in the card of its data."""
    config, card = artifact.config, dict(artifact.data.get("card", {}))
    for path in card.get("checksums", {}):
        card["title"] = str(card.get("title", "")).replace(path, Path(path).name)
    if card:
        card["checksums"] = {Path(path).name: found for path, found in card.get("checksums", {}).items()}
    config = config.replace(data={"source": Path(config.data.source).name})
    if config.start is not None:
        config = config.replace(start={"artifact": Path(config.start.artifact).name})
    return replace(artifact, config=config, data={**artifact.data, "card": card} if card else artifact.data)
