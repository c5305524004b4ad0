from __future__ import annotations

import pytest
import safetensors.torch
import torch

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError


def test_the_content_decides_the_format_not_the_suffix(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "m.bin")
    torch.save({"a": torch.ones(2)}, tmp_path / "m.weights")
    with open_checkpoint(tmp_path / "m.bin") as one, open_checkpoint(tmp_path / "m.weights") as two:
        assert (one.format, two.format) == ("safetensors", "torch")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied. Check its name and perm"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (FileNotFoundError(2, "No such file"), "does not exist"),
    ],
)
def test_a_file_that_cannot_be_read_or_disappears_gives_a_clear_error(
    tmp_path, monkeypatch, error, words
):
    torch.save({"a": torch.ones(2)}, tmp_path / "m.pt")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("prune_gui.checkpoint.source.open_regular", fail)
    with pytest.raises(CheckpointError, match=words):
        open_checkpoint(tmp_path / "m.pt")


def test_a_file_that_is_deleted_after_opening_can_still_be_read(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "m.safetensors")
    torch.save({"a": torch.ones(2)}, tmp_path / "m.pt")
    for name in ("m.safetensors", "m.pt"):
        with open_checkpoint(tmp_path / name) as checkpoint:
            (tmp_path / name).unlink()
            assert checkpoint.read("a").tolist() == [1, 1]
