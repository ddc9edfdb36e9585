"""The authors' PyTorch checkpoints as our artifacts.

Their state_dict differs from ours in names and in the order of some channels: heads are interleaved in QKV and O_h
(channel c of head t at c * H + t; ours t * d_k + c), and the SVD columns alternate u_1, v_1, u_2, ... (ours: all u,
then all v).
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import safetensors
import safetensors.torch
import torch
from pydantic import ConfigDict, Field, FiniteFloat, ValidationError
from pydantic.dataclasses import dataclass
from torch import Tensor

from egt.assemble import build_model, weight_shapes
from egt.config.run import FrozenEdgesConfig, ModelConfig, RandomMaskingConfig, ResidualEdgesConfig, RunConfig
from egt.errors import ArtifactError, ConfigError
from egt.files import check_tensors, exists, parse_yaml
from egt.inference.artifact import Artifact, check_shapes, load_weights, shapes_of
from egt.paper.presets import preset
from egt.parts.inputs import Distance, EdgeCategories, NodeCategories, Svd
from egt.parts.readouts import MeanPool, VirtualNodes
from egt.parts.tasks.classification import Binary
from egt.parts.tasks.regression import Regression
from egt.parts.tasks.task import TaskPart

Weights = Mapping[str, Tensor]
_Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=ConfigDict(strict=True))
class OfficialSettings:
    """Settings that a state_dict does not show; the defaults are those of the authors' code."""

    activation: str = "elu"
    clip_logits_value: tuple[FiniteFloat, FiniteFloat] | None = (-5.0, 5.0)
    scale_dot_product: bool = True
    scale_degree: bool = True
    attn_dropout: _Share = 0.0
    attn_maskout: _Share = 0.0

    @classmethod
    def read(cls, path: Path) -> OfficialSettings:
        """From the authors' `config_input.yaml`; keys that do not concern the model are left aside."""
        try:
            content = parse_yaml(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read as YAML ({' '.join(str(error).split())})") from error
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: is not a mapping of settings, as the authors' config_input.yaml is")
        known = {key: content[key] for key in cls.__dataclass_fields__ if key in content}
        clip = known.get("clip_logits_value")
        if isinstance(clip, list):
            known["clip_logits_value"] = tuple(clip)
        try:
            return cls(**known)
        except ValidationError as error:
            wrong = error.errors()[0]
            raise ConfigError(f"{path}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from error


def import_official(
    checkpoint: Path,
    settings: OfficialSettings | None = None,
    *,
    task: Literal["regression", "binary"] = "regression",
    names: tuple[str, ...] | None = None,
    new_head: int | None = None,
    attend_padding: bool = False,
) -> Artifact:
    """Return an artifact from the authors' weights.

    Args:
        checkpoint: Their `model_state` file, the folder that holds it, or the same tensors as safetensors.
        settings: Settings that weights do not show; None reads `config_input.yaml` beside them, or takes the defaults.
        task: The meaning of the outputs.
        names: The names of the outputs.
        new_head: Re-initialize the last linear map with this many outputs, as the paper's transfer learning does.
        attend_padding: Keep the authors' virtual nodes that attend padding (padded layout).
    """
    file = _find_file(checkpoint)
    weights = read_weights(file)
    config = official_config(weights, settings or find_settings(checkpoint), task=task, names=names, new_head=new_head)
    if attend_padding:
        config = with_padding_attended(config)
    converted = convert(weights, config, str(file))
    last = "-" if new_head is None else f"head.linears.{len(config.model.head_ratios)}."
    expected = weight_shapes(config)
    own = {name: shape for name, shape in expected.items() if name.startswith(last)}
    check_shapes(expected, shapes_of(converted) | own, str(file))  # before memory is taken
    model = build_model(config)
    converted |= {name: tensor for name, tensor in model.state_dict().items() if name in own}
    load_weights(model, converted, str(file))
    return Artifact(config, model.eval(), notes=f"weights imported from the authors' PyTorch checkpoint {file.name}")


def find_settings(checkpoint: Path) -> OfficialSettings:
    """Read the `config_input.yaml` beside a checkpoint or one folder above it; the defaults without one."""
    file = _find_file(checkpoint)
    places = [folder / "config_input.yaml" for folder in (file.parent, file.parent.parent)]
    found = next((place for place in places if place.is_file()), None)
    return OfficialSettings() if found is None else OfficialSettings.read(found)


def with_padding_attended(config: RunConfig) -> RunConfig:
    """Return the run with the authors' padding behavior of virtual nodes, on the layout where padding exists."""
    readout = config.model.readout
    if not readout.added_nodes():
        return config
    readout = readout.model_copy(update={"attend_padding": True})
    return config.replace(model={"readout": readout}, data={"layout": "padded"})


def read_weights(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a state_dict, from safetensors or a torch file; a pickle is never run."""
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
        check_tensors(content, file)
    except pickle.UnpicklingError as error:
        raise ArtifactError(
            f"{file}: holds more than plain tensors, and running what is inside is not safe; "
            "give the authors' `model_state` file (a plain state_dict)"
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, LookupError, safetensors.SafetensorError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ArtifactError(f"{file}: is not a readable checkpoint ({reason})") from error
    if not isinstance(content, dict) or not all(_is_plain(value) for value in content.values()):
        raise ArtifactError(f"{file}: is not a state_dict (a mapping of names to tensors of numbers)")
    return {str(name).removeprefix("module."): tensor for name, tensor in content.items()}


def _is_plain(value: Any) -> bool:
    is_numbers = isinstance(value, Tensor) and value.is_floating_point() and value.layout == torch.strided
    return is_numbers and value.device.type == "cpu" and not value.is_quantized


def official_config(
    weights: Weights,
    settings: OfficialSettings,
    *,
    task: Literal["regression", "binary"] = "regression",
    names: tuple[str, ...] | None = None,
    new_head: int | None = None,
) -> RunConfig:
    """Return the run that these weights belong to: sizes from the tensors' shapes, the rest from the settings."""
    shape = _Shapes(weights)
    num_outputs = new_head or shape.of(f"mlp_layers.{shape.num_linears - 1}.weight")[0]
    names = names or tuple(f"target_{k}" for k in range(num_outputs))
    if len(names) != num_outputs:
        raise ConfigError(f"{len(names)} names were given for {num_outputs} outputs")
    simple = shape.num_layers > 1 and "EGT_layers.0.lin_O_e.weight" not in weights
    edge_ffn = (
        1.0 if simple or shape.num_layers == 1 else shape.of("EGT_layers.0.lin_W_e_1.weight")[0] / shape.edge_width
    )
    svd = (Svd(rank=shape.of("svd_embed.weight")[1] // 2),) if "svd_embed.weight" in weights else ()
    virtual = shape.of("vn_layer.vn_node_embeddings")[0] if "vn_layer.vn_node_embeddings" in weights else 0
    hidden = [shape.of(f"mlp_layers.{k}.weight")[0] / shape.node_width for k in range(shape.num_linears - 1)]
    activation: Any = settings.activation.lower()
    try:
        model = ModelConfig(
            num_layers=shape.num_layers,
            node_width=shape.node_width,
            edge_width=shape.edge_width,
            num_heads=shape.of("EGT_layers.0.lin_E.weight")[0],
            node_inputs=(NodeCategories(sizes=(128,) * 9), *svd),
            pair_inputs=(
                Distance(max_hops=shape.of("dist_embed.weight")[0] - 2),
                EdgeCategories(sizes=(8,) * 3, absent="zero"),
            ),
            edges=FrozenEdgesConfig(normalize=True) if simple else ResidualEdgesConfig(),
            gate="centrality" if settings.scale_degree else "sigmoid",
            readout=VirtualNodes(num_virtual=virtual) if virtual else MeanPool(),
            head_ratios=tuple(hidden),
            node_ffn_multiplier=shape.of("EGT_layers.0.lin_W_h_1.weight")[0] / shape.node_width,
            edge_ffn_multiplier=edge_ffn,
            activation=activation,
            clip=settings.clip_logits_value,
            scale_dot=settings.scale_dot_product,
            masking=RandomMaskingConfig(probability=settings.attn_maskout, gates=False),
            attention_dropout=settings.attn_dropout,
        )
    except ValidationError as error:
        raise ConfigError(f"these weights and settings make no model: {error.errors()[0]['msg']}") from error
    meaning: TaskPart = Binary(names=names) if task == "binary" else Regression(names=names)
    return preset("pcqm4mv2-small").model_copy(update={"name": "official", "model": model, "task": meaning})


def convert(weights: Weights, config: RunConfig, where: str = "state_dict") -> dict[str, Tensor]:
    """Return the authors' tensors under our names and in our channel order.

    Tensors that nothing in our model reads (the edge update behind the last layer) are left out; any other name that
    does not belong to an EGT is an error.
    """
    heads, width = config.model.num_heads, config.model.node_width
    head_major = torch.arange(width).view(-1, heads).T.reshape(-1)  # ours t * d_k + c <- theirs c * H + t
    read = weight_shapes(config)
    converted: dict[str, Tensor] = {}
    strange: list[str] = []
    for name, tensor in weights.items():
        ours = _our_name(name)
        if ours is None:
            strange.append(name)
        elif ours in read:
            fits = tensor.shape == read[ours]
            converted[ours] = _reorder(ours, tensor, head_major) if fits else tensor
    if strange:
        raise ArtifactError(f"{where}: holds tensors that are not part of an EGT: {', '.join(strange[:8])}")
    return converted


_LAYER = {
    "mha_ln_h": "norm_h",
    "mha_ln_e": "pairs.logits.norm_e",
    "lin_E": "pairs.logits.E",
    "lin_QKV": "qkv",
    "lin_G": "pairs.gate.G",
    "lin_O_h": "O_h",
    "ffn_ln_h": "ffn.norm",
    "lin_W_h_1": "ffn.W1",
    "lin_W_h_2": "ffn.W2",
    "lin_O_e": "pairs.edges.O_e",
    "ffn_ln_e": "pairs.edges.ffn.norm",
    "lin_W_e_1": "pairs.edges.ffn.W1",
    "lin_W_e_2": "pairs.edges.ffn.W2",
}

_OUTSIDE = {
    "nodef_embed": "embed.node_terms.0.categories.table",
    "svd_embed": "embed.node_terms.1.W_enc",
    "dist_embed": "embed.pair_terms.0.table",
    "featm_embed": "embed.pair_terms.1.categories.table",
    "final_ln_h": "readout.norm",
}

_WHOLE = {"vn_layer.vn_node_embeddings": "readout.nodes", "vn_layer.vn_edge_embeddings": "readout.edges"}


def _our_name(name: str) -> str | None:
    if name in _WHOLE:
        return _WHOLE[name]
    prefix, _, kind = name.rpartition(".")
    if layer := re.fullmatch(r"EGT_layers\.(\d+)\.(\w+)", prefix):
        return f"layers.{layer[1]}.{_LAYER[layer[2]]}.{kind}" if layer[2] in _LAYER else None
    if linear := re.fullmatch(r"mlp_layers\.(\d+)", prefix):
        return f"head.linears.{linear[1]}.{kind}"
    return f"{_OUTSIDE[prefix]}.{kind}" if prefix in _OUTSIDE else None


def _reorder(ours: str, tensor: Tensor, head_major: Tensor) -> Tensor:
    if re.search(r"\.qkv\.", ours):
        return tensor.view(3, len(head_major), *tensor.shape[1:])[:, head_major].flatten(0, 1)
    if ours.endswith(".O_h.weight"):
        return tensor[:, head_major]
    if ours.endswith(".W_enc.weight"):
        return torch.cat([tensor[:, 0::2], tensor[:, 1::2]], dim=1)
    return tensor


class _Shapes:
    """The sizes in a checkpoint, from the shapes of its tensors; a missing tensor is named."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        layers = [int(found[1]) for name in weights if (found := re.match(r"EGT_layers\.(\d+)\.", name))]
        linears = [int(found[1]) for name in weights if (found := re.match(r"mlp_layers\.(\d+)\.", name))]
        if not layers or not linears:
            raise ArtifactError("this is not a checkpoint of the authors' EGT: it has no EGT_layers.* and mlp_layers.*")
        self.num_layers, self.num_linears = len({*layers}), len({*linears})  # a missing one is found by its tensors
        self.node_width = self.of("nodef_embed.weight")[1]
        self.edge_width = self.of("featm_embed.weight")[1]

    def of(self, name: str) -> tuple[int, ...]:
        if name not in self.weights:
            raise ArtifactError(f"the checkpoint has no tensor {name}; it is incomplete or not an EGT")
        shape = tuple(self.weights[name].shape)
        if len(shape) != 2 or 0 in shape:
            raise ArtifactError(f"the checkpoint has a tensor {name} of the shape {shape}; it must be a matrix")
        return shape


def _find_file(checkpoint: Path) -> Path:
    places = [checkpoint, checkpoint / "model_state", checkpoint / "checkpoint" / "model_state"]
    for place in places:
        if exists(place) and place.is_file():
            return place
    raise ArtifactError(f"{checkpoint}: no checkpoint there; give the authors' `model_state` file or its folder")
