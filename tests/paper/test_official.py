"""`import-official`: the authors' checkpoints in, and everything that is not one refused by name."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from egt.cli.main import main
from egt.data.batching.batch import collate
from egt.errors import ArtifactError, ConfigError, EgtError
from egt.inference.artifact import load_artifact, save_artifact
from egt.paper.official import OfficialSettings, find_settings, import_official
from tests.parity.golden import Golden, pytorch_config, pytorch_samples

CASE = "o1_full_vn4_degree_svd"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A model folder as the authors' training script leaves it."""
    folder = tmp_path / "egt"
    (folder / "checkpoint").mkdir(parents=True)
    torch.save(Golden.read(CASE).under("param/"), folder / "checkpoint" / "model_state")
    (folder / "config_input.yaml").write_text(yaml.safe_dump({"scheme": "pcqm4mv2", "attn_dropout": 0.3}))
    return folder


def rewrite(folder: Path, change: dict[str, Any]) -> Path:
    file = folder / "checkpoint" / "model_state"
    weights = {name: t for name, t in torch.load(file, weights_only=True).items() if change.get(name, 0) is not None}
    torch.save(weights | {name: tensor for name, tensor in change.items() if tensor is not None}, file)
    return folder


def test_imported_weights_give_the_official_output(checkpoint: Path, tmp_path: Path) -> None:
    case = Golden.read(CASE)
    artifact = import_official(checkpoint)
    assert artifact.config.model.attention_dropout == 0.3  # read from config_input.yaml
    assert artifact.model.num_parameters() == case.about["num_params"]
    save_artifact(artifact, tmp_path / "artifact")
    model = load_artifact(tmp_path / "artifact").model
    output = model(collate(pytorch_samples(case, pytorch_config(case)), "packed"))
    torch.testing.assert_close(output, case.tensors["output_unpadded"], rtol=0, atol=1e-5)


def test_their_padding_can_be_kept(checkpoint: Path) -> None:
    case = Golden.read(CASE)
    model = import_official(checkpoint, attend_padding=True).model
    output = model(collate(pytorch_samples(case, pytorch_config(case)), "padded"))
    torch.testing.assert_close(output, case.tensors["output"], rtol=0, atol=1e-5)


def test_padding_cannot_be_attended_on_the_packed_layout(checkpoint: Path) -> None:
    case = Golden.read(CASE)
    model = import_official(checkpoint, attend_padding=True).model
    with pytest.raises(ConfigError, match="padded"):
        model(collate(pytorch_samples(case, pytorch_config(case)), "packed"))


def test_a_new_head_is_new_and_the_rest_is_theirs(checkpoint: Path) -> None:
    theirs, ours = import_official(checkpoint), import_official(checkpoint, new_head=5, task="binary")
    assert ours.config.task.num_outputs == 5
    old, new = theirs.model.state_dict(), ours.model.state_dict()
    assert new["head.linears.2.weight"].shape == (5, 16)
    assert all(torch.equal(old[name], new[name]) for name in old if not name.startswith("head.linears.2"))


def test_a_new_head_of_the_same_size_is_new_too(checkpoint: Path) -> None:
    theirs, ours = import_official(checkpoint), import_official(checkpoint, new_head=1)
    assert not torch.equal(theirs.model.head.last.weight, ours.model.head.last.weight)


def test_wrong_checkpoints_name_the_tensor(checkpoint: Path) -> None:
    missing = "EGT_layers.1.lin_QKV.weight"
    with pytest.raises(ArtifactError, match=r"layers\.1\.qkv\.weight"):
        import_official(rewrite(checkpoint, {missing: None}))


def test_misshapen_tensors_are_named(checkpoint: Path) -> None:
    change = {"EGT_layers.1.lin_O_h.weight": torch.zeros(3, 3)}
    with pytest.raises(ArtifactError, match=r"layers\.1\.O_h\.weight.*\(3, 3\)"):
        import_official(rewrite(checkpoint, change))


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("EGT_layers.1.lin_QKV.weight", torch.zeros(())),
        ("EGT_layers.1.lin_O_h.weight", torch.zeros(16)),
        ("EGT_layers.1.lin_E.weight", torch.zeros(1, 1).expand(4, 8)),
        ("nodef_embed.weight", torch.zeros(1).expand(400_000_000)),
        ("nodef_embed.weight", torch.zeros(1153, 0)),
        ("nodef_embed.weight", torch.zeros(1, 1_000_000)),
        ("featm_embed.weight", torch.zeros(8)),
        ("dist_embed.weight", torch.zeros(0, 8)),
        ("svd_embed.weight", torch.zeros(16, 16).to_sparse()),
        ("final_ln_h.bias", torch.zeros(16, dtype=torch.complex64)),
        ("EGT_layers.99999999.lin_E.weight", torch.zeros(4, 8)),
    ],
)
def test_tensors_that_no_layer_can_have_are_refused(checkpoint: Path, name: str, tensor: torch.Tensor) -> None:
    with pytest.raises(EgtError):
        import_official(rewrite(checkpoint, {name: tensor}))


@pytest.mark.parametrize(
    "settings",
    [
        {"activation": True},
        {"activation": ["elu"]},
        {"attn_maskout": "high"},
        {"attn_dropout": 2},
        {"clip_logits_value": [1, 2, 3]},
        {"clip_logits_value": [2, 1]},
        {"clip_logits_value": 5},
        {"scale_degree": {"a": 1}},
    ],
)
def test_settings_of_wrong_types_are_refused(checkpoint: Path, settings: dict[str, Any]) -> None:
    (checkpoint / "config_input.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(ConfigError):
        import_official(checkpoint)


def test_foreign_tensors_are_named(checkpoint: Path) -> None:
    with pytest.raises(ArtifactError, match=r"backbone\.weight"):
        import_official(rewrite(checkpoint, {"backbone.weight": torch.zeros(1)}))


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    torch.save({"encoder.weight": torch.zeros(2)}, tmp_path / "model_state")
    with pytest.raises(ArtifactError, match="checkpoint"):
        import_official(tmp_path)


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    witness = tmp_path / "witness"

    class Malicious:
        def __reduce__(self) -> Any:
            return (Path.touch, (witness,))

    (tmp_path / "model_state").write_bytes(pickle.dumps({"a": Malicious()}))
    torch.save({"a": Malicious()}, tmp_path / "other")
    for file in (tmp_path / "model_state", tmp_path / "other"):
        with pytest.raises(ArtifactError, match=r"not safe|not a readable"):
            import_official(file)
    assert not witness.exists()


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04broken"])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model_state").write_bytes(content)
    with pytest.raises(ArtifactError, match="model_state"):
        import_official(tmp_path)


def test_settings_are_found_beside_the_checkpoint(checkpoint: Path) -> None:
    (checkpoint / "config_input.yaml").write_text(
        yaml.safe_dump({"activation": "gelu", "clip_logits_value": [-3, 3], "scale_degree": False, "batch_size": 4})
    )
    settings = find_settings(checkpoint)
    assert settings == OfficialSettings(activation="gelu", clip_logits_value=(-3, 3), scale_degree=False)
    model = import_official(checkpoint).config.model
    assert (model.activation, model.clip, model.gate) == ("gelu", (-3, 3), "sigmoid")


def test_command(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "artifact"
    words = ["import-official", str(checkpoint), "-o", str(out), "--clip=-2,2", "--no-scale-degree", "--new-head", "2"]
    with pytest.raises(SystemExit) as done:
        main([*words, "--names", "a", "b", "--task", "binary"])
    assert done.value.code == 0
    config = load_artifact(out).config
    assert config.model.clip == (-2.0, 2.0)
    assert config.model.gate == "sigmoid"
    assert config.task.names == ("a", "b")
    assert "imported" in capsys.readouterr().err


def test_command_errors_are_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["import-official", str(tmp_path / "none"), "-o", str(tmp_path / "out")])
    assert done.value.code == 2
    message = capsys.readouterr().err.strip()
    assert message.startswith("error:")
    assert "no checkpoint there" in message
    assert len(message.splitlines()) == 1
    assert not (tmp_path / "out").exists()
