"""Opening, quickly and in little memory, whatever is raised and whatever files are beside."""

from __future__ import annotations

import json
import os
import tracemalloc

import pytest
import safetensors.torch
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.sharded import index as shard_index
from prune_gui.checkpoint.sharded.index import index_with
from prune_gui.errors import Cancelled, CheckpointError

INDEX = "model.safetensors.index.json"
NEIGHBOURS = (INDEX, "config.json", "model_index.json")
posix_only = pytest.mark.skipif(os.name == "nt", reason="needs FIFOs and devices")
HARMLESS = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
}


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


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model" / "model.safetensors"
    path.parent.mkdir()
    save_file({"w": torch.ones(1)}, path)
    return path


@posix_only
@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("kind", HARMLESS)
def test_what_is_no_file_beside_a_checkpoint_is_not_read(checkpoint, name, above, kind):
    HARMLESS[kind]((checkpoint.parent.parent if above else checkpoint.parent) / name)
    with open_checkpoint(checkpoint) as opened:
        assert list(opened.tensors) == ["w"]


@posix_only
def test_an_index_that_is_a_fifo_is_refused_in_one_line(checkpoint):
    os.mkfifo(checkpoint.parent / INDEX)
    with pytest.raises(CheckpointError, match="not a regular file"):
        open_checkpoint(checkpoint.parent / INDEX)


def test_a_huge_neighbour_takes_little_memory(checkpoint):
    for name in NEIGHBOURS:
        with (checkpoint.parent / name).open("wb") as file:
            file.truncate(1 << 30)
    tracemalloc.start()
    try:
        with open_checkpoint(checkpoint) as opened:
            assert list(opened.tensors) == ["w"]
        assert tracemalloc.get_traced_memory()[1] < 2 * shard_index.MAX_INDEX_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "content", "forbidden"),
    [(INDEX, f"[{'[], ' * 1000}0]", "_parse"), ("model.bin.index.json", "{}", "read_regular")],
    ids=["does not mention the file", "of another format"],
)
def test_an_index_of_other_files_is_not_parsed(checkpoint, monkeypatch, name, content, forbidden):
    (checkpoint.parent / name).write_text(content)
    monkeypatch.setattr(shard_index, forbidden, lambda *_: pytest.fail("it was used"))
    assert index_with(checkpoint) is None


def test_only_the_first_few_indexes_are_read(checkpoint, monkeypatch):
    for number in range(100):
        (checkpoint.parent / f"{number:02}.safetensors.index.json").write_text("{}")
    read = []
    monkeypatch.setattr(shard_index, "read_regular", lambda path, _: read.append(path) or b"{}")
    assert index_with(checkpoint) is None
    assert len(read) == shard_index.MAX_INDEXES_READ


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_index_that_lists_a_file_is_found_in_either_spelling(checkpoint, ascii_only):
    shard = checkpoint.rename(checkpoint.with_name("模型.safetensors"))
    index = checkpoint.parent / INDEX
    content = json.dumps({"weight_map": {"w": shard.name}}, ensure_ascii=ascii_only)
    index.write_text(content, encoding="utf-8")
    found = index_with(shard)
    assert found is not None
    assert found.path == index


def test_an_index_with_too_many_lists_is_refused_before_it_is_parsed(checkpoint):
    index = checkpoint.parent / INDEX
    index.write_bytes(b"[" + b"[]," * shard_index.MAX_BRACKETS + b"0]")
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="too many lists"):
            open_checkpoint(index)
        assert tracemalloc.get_traced_memory()[1] < 3 * shard_index.MAX_INDEX_BYTES
    finally:
        tracemalloc.stop()
