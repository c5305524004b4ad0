from __future__ import annotations

import os
import zipfile

import pytest
import safetensors.torch
import torch

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError


def refusal(path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize("name", ["m.safetensors", "m.pt", "m.bin"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"\n <HTML>", "web page"),
        (b"GGUF\x03\0\0\0", "GGUF"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x1f\x8b\x08\0", "gzip"),
    ],
)
def test_what_takes_the_place_of_a_checkpoint_is_named(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    message = refusal(path)
    assert words in message
    assert name in message


def test_a_folder_a_missing_file_and_a_pipe_are_named(tmp_path):
    assert "is a folder" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path / "none.pt")
    assert "is not a path" in refusal("a\0b.pt")
    os.mkfifo(tmp_path / "pipe.pt")
    assert "is not a file" in refusal(tmp_path / "pipe.pt")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m.safetensors", "not a valid safetensors file"),
        ("m.pt", "not a checkpoint that torch.save wrote"),
        ("m.xyz", "not a checkpoint of a known format (.safetensors, .pt"),
    ],
)
def test_other_bytes_are_refused_by_what_the_suffix_promises(tmp_path, name, words):
    path = tmp_path / name
    path.write_bytes(b"nothing in particular" * 9)
    assert words in refusal(path)


def test_the_content_decides_not_the_suffix(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "m.bin")
    torch.save({"a": torch.ones(2)}, tmp_path / "m.weights")
    with open_checkpoint(tmp_path / "m.bin") as one, open_checkpoint(tmp_path / "m.weights") as two:
        assert (one.format, two.format) == ("safetensors", "torch")


def test_a_torch_file_named_safetensors_is_told_how_to_rename(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "m.safetensors")
    assert "Rename" in refusal(tmp_path / "m.safetensors")


def test_a_zip_archive_of_something_else_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("one/readme", "x")
        archive.writestr("two/readme", "x")
    assert "not one that torch.save wrote" in refusal(tmp_path / "m.pt")


def test_a_json_text_is_named(tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text('{"weight_map": {}}')
    assert "JSON" in refusal(path)
