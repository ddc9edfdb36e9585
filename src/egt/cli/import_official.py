"""`egt import-official`: the authors' published weights as an artifact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from egt.cli.output import Flag, print_json, say
from egt.errors import ConfigError
from egt.inference.artifact import save_artifact


def import_official(
    checkpoint: Path,
    *,
    output: Annotated[Path, Parameter(name=["--out", "-o"])],
    config: Path | None = None,
    activation: Literal["elu", "gelu", "relu", "silu"] | None = None,
    clip: str | None = None,
    scale_dot: bool | None = None,
    scale_degree: bool | None = None,
    task: Literal["regression", "binary"] = "regression",
    names: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True)] = None,
    new_head: int | None = None,
    attend_padding: Flag = False,
    json: Flag = False,
) -> None:
    """Import a checkpoint of the authors' PyTorch code; it is read without running anything inside it.

    Args:
        checkpoint: Their `model_state` file, or the folder that holds it.
        output: The artifact folder to write.
        config: Their config_input.yaml; the one beside the checkpoint is found by itself.
        activation: Of the feed-forward blocks, where the config does not say.
        clip: Range of the scaled dot product, as low,high, or `none`.
        scale_dot: Whether the dot product is divided by sqrt(d_k).
        scale_degree: Whether centrality scalers are used.
        task: What the outputs mean.
        names: Names of the outputs.
        new_head: Re-initialize the last linear map with this many outputs, for transfer learning.
        attend_padding: Repeat the authors' virtual nodes that attend padding.
        json: Print one JSON object instead.
    """
    from egt.paper import official

    settings = official.OfficialSettings.read(config) if config else official.find_settings(checkpoint)
    given: dict[str, Any] = {"activation": activation, "scale_dot_product": scale_dot, "scale_degree": scale_degree}
    settings = replace(settings, **{key: value for key, value in given.items() if value is not None})
    if clip is not None:
        settings = replace(settings, clip_logits_value=_range(clip))
    artifact = official.import_official(
        checkpoint, settings, task=task, names=names, new_head=new_head, attend_padding=attend_padding
    )
    save_artifact(artifact, output)
    parameters = artifact.model.num_parameters()
    if json:
        print_json({"artifact": str(output), "parameters": parameters})
    else:
        model = artifact.config.model
        say(f"imported {parameters:,} parameters: {model.num_layers} layers, {model.node_width}/{model.edge_width}")
        say(f"wrote {output}")


def _range(text: str) -> tuple[float, float] | None:
    if text.lower() == "none":
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--clip {text}: write it as low,high (for example -5,5) or none") from error
    return low, high
