from __future__ import annotations

import pytest
import safetensors.torch
import torch

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import Cancelled, CheckpointError


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


@pytest.mark.parametrize("error", [RuntimeError("?"), KeyError("\ud800"), RecursionError()])
@pytest.mark.parametrize(
    "place",
    [
        "opening.recognized",
        "opening.look_around",
        "opening.find_component",
        "opening.read_index",
        "safetensors.format.read_header",
        "base.parameters",
        "base.module_types_around",
        "spans.MappedCheckpoint._tensor",
    ],
)
def test_what_no_parser_expects_is_a_refusal_and_logged(
    tmp_path, monkeypatch, caplog, place, error
):
    def fail(*_, **__):
        raise error

    path = tmp_path / "m.safetensors"
    safetensors.torch.save_file({"a": torch.ones(2)}, path)
    if "index" in place:
        path = tmp_path / "m.safetensors.index.json"
        path.write_text('{"weight_map": {"a": "m.safetensors"}}')
    with monkeypatch.context() as patch, pytest.raises(CheckpointError) as caught:  # noqa: PT012
        patch.setattr(f"prune_gui.checkpoint.{place}", fail)
        with open_checkpoint(path) as checkpoint:
            assert checkpoint.module_types
            checkpoint.read("a")
    assert f"{path.name} cannot be read: it is damaged, or of a form" in str(caught.value)
    assert caught.value.__cause__ is error
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.exc_info[1] is error


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), Cancelled()])
def test_what_is_no_fault_of_the_file_is_raised_unchanged(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "m.safetensors")
    monkeypatch.setattr("prune_gui.checkpoint.opening.recognized", fail)
    with pytest.raises(type(error)) as caught:
        open_checkpoint(tmp_path / "m.safetensors")
    assert caught.value is error
