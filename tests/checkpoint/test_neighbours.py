"""A checkpoint opens quickly and in little memory, whatever files are beside it."""

from __future__ import annotations

import json
import os
import tracemalloc

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.sharded import index as shard_index
from prune_gui.checkpoint.sharded.index import index_with
from prune_gui.errors import CheckpointError

INDEX = "model.safetensors.index.json"
NEIGHBOURS = (INDEX, "config.json", "model_index.json")

posix_only = pytest.mark.skipif(os.name == "nt", reason="needs FIFOs and devices")


@pytest.fixture
def checkpoint(tmp_path):
    """Return the path of the only checkpoint in a folder."""
    path = tmp_path / "model" / "model.safetensors"
    path.parent.mkdir()
    save_file({"w": torch.ones(1)}, path)
    return path


@posix_only
@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("above", [False, True])
def test_a_fifo_beside_a_checkpoint_does_not_block_it(checkpoint, name, above):
    os.mkfifo((checkpoint.parent.parent if above else checkpoint.parent) / name)
    with open_checkpoint(checkpoint) as opened:
        assert list(opened.tensors) == ["w"]


@posix_only
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_device_beside_a_checkpoint_is_not_read(checkpoint, name):
    (checkpoint.parent / name).symlink_to("/dev/zero")
    with open_checkpoint(checkpoint) as opened:
        assert list(opened.tensors) == ["w"]


@posix_only
def test_an_index_that_is_a_fifo_is_refused_in_one_line(checkpoint):
    os.mkfifo(checkpoint.parent / INDEX)
    with pytest.raises(CheckpointError, match="not a regular file"):
        open_checkpoint(checkpoint.parent / INDEX)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_folder_with_the_name_of_a_neighbour_does_no_harm(checkpoint, name):
    (checkpoint.parent / name).mkdir()
    with open_checkpoint(checkpoint) as opened:
        assert list(opened.tensors) == ["w"]


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


def test_an_index_that_does_not_mention_the_file_is_not_parsed(checkpoint, monkeypatch):
    (checkpoint.parent / INDEX).write_text("[" + "[], " * 1000 + "0]")
    monkeypatch.setattr(shard_index, "_parse", lambda *_: pytest.fail("it was parsed"))
    with open_checkpoint(checkpoint) as opened:
        assert opened.warnings == ()


def test_an_index_of_another_format_is_not_read(checkpoint, monkeypatch):
    (checkpoint.parent / "model.bin.index.json").write_text("{}")
    monkeypatch.setattr(shard_index, "read_regular", lambda *_: pytest.fail("it was read"))
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
