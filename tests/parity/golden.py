"""The golden cases: outputs and gradients of the authors' codes, as this project's graphs and configurations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from torch import Tensor

from egt.config.run import RunConfig
from egt.config.run_data import preparation
from egt.data.encodings.encoding import Sample
from egt.graph import Graph
from egt.paper.official import OfficialSettings, official_config

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Golden:
    """One case: its description and its tensors."""

    about: dict[str, Any]
    tensors: dict[str, Tensor]

    @classmethod
    def read(cls, name: str) -> Golden:
        about = json.loads((FOLDER / f"{name}.json").read_text())
        return cls(about, safetensors.torch.load_file(FOLDER / f"{name}.safetensors"))

    def under(self, prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}

    def array(self, name: str) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = self.tensors[name].numpy()
        return array


def pytorch_config(case: Golden) -> RunConfig:
    """The run that a PyTorch case belongs to."""
    about = case.about["config"]
    settings = OfficialSettings(
        activation=about["activation"],
        clip_logits_value=tuple(about["clip_logits_value"]),
        scale_dot_product=about["scale_dot"],
        scale_degree=about["scale_degree"],
    )
    return official_config(case.under("param/"), settings)


def pytorch_samples(case: Golden, config: RunConfig) -> list[Sample]:
    """The graphs of a PyTorch case, prepared by us; only the SVD is theirs (its signs are arbitrary)."""
    prepare = preparation(config)
    samples = []
    for k, num_nodes in enumerate(case.about["num_nodes"]):
        graph = Graph(
            num_nodes=num_nodes,
            edge_index=case.array(f"raw/{k}/edges").T,
            node_categories=case.array(f"raw/{k}/node_features"),
            edge_categories=case.array(f"raw/{k}/edge_features"),
            id=str(k),
        )
        sample = prepare(graph)
        if "svd" in sample.node:
            official = case.array("input/svd_encodings")[k, :num_nodes]
            sample = Sample(graph, {"svd": np.concatenate([official[:, 0::2], official[:, 1::2]], 1)}, sample.pair)
        samples.append(sample)
    return samples
