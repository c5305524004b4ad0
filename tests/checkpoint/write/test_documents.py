"""Documents replace documents, and never a checkpoint."""

import io
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
import safetensors.torch
import torch

from prune_gui.checkpoint.write.documents import (
    DOCUMENT_SUFFIXES,
    PAGE_SUFFIXES,
    PICTURE_MAGICS,
    RECIPE_SUFFIXES,
    check_documents,
    document_path,
    write_documents,
)
from prune_gui.errors import CheckpointError


@pytest.mark.parametrize(
    ("name", "suffixes", "expected"),
    [
        ("a.yaml", RECIPE_SUFFIXES, "a.yaml"),
        ("a.YML", RECIPE_SUFFIXES, "a.YML"),
        ("a", RECIPE_SUFFIXES, "a.yaml"),
        ("a", PAGE_SUFFIXES, "a.html"),
        ("a.safetensors", RECIPE_SUFFIXES, None),
        ("a.yaml.pt", RECIPE_SUFFIXES, None),
        ("model.safetensors.index.json", RECIPE_SUFFIXES, None),
        ("a.yaml", PAGE_SUFFIXES, None),
        ("folder", RECIPE_SUFFIXES, None),
    ],
)
def test_a_document_has_a_suffix_of_its_kind(tmp_path, name, suffixes, expected):
    (tmp_path / "folder").mkdir()
    if expected is None:
        with pytest.raises(CheckpointError, match=r"must end in one of|is a folder"):
            document_path(tmp_path / name, suffixes)
    else:
        assert document_path(tmp_path / name, suffixes) == tmp_path / expected


def archive(name: str) -> bytes:
    with closing(io.BytesIO()) as file:
        with zipfile.ZipFile(file, "w") as records:
            records.writestr(name, "")
        return file.getvalue()


def saved(*, new: bool) -> bytes:
    with closing(io.BytesIO()) as file:
        torch.save({"w": torch.ones(3)}, file, _use_new_zipfile_serialization=new)
        return file.getvalue()


BINARY = {
    "safetensors": safetensors.torch.save({"w": torch.ones(3)}),
    "torch": saved(new=True),
    "legacy torch": saved(new=False),
    "pickle": b"\x80\x04}.",
    "pickle of protocol 0": b"(dp0\n.",
    "GGUF": b"GGUF\3\1",
    "npz": archive("w.npy"),
    "keras": archive("model.weights.h5"),
    "HDF5": b"\x89HDF\r\n\x1a\n",
    "msgpack": b"\x81\xa1w\xc7",
    "npy": b"\x93NUMPY\x01\x00v\x00",
    "ONNX": b"\x08\x07\x12\x07pytorch\x00",
}


@pytest.mark.parametrize("document", ["a.yaml", "a.html", "a.csv", "a.png"])
@pytest.mark.parametrize("content", BINARY)
def test_no_document_replaces_a_checkpoint_whatever_its_name(tmp_path, content, document):
    target = tmp_path / document
    target.write_bytes(BINARY[content])
    _refused(target)
    assert target.read_bytes() == BINARY[content]


def test_no_document_replaces_an_index_through_a_link(tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {}}')
    link = tmp_path / "a.yaml"
    link.symlink_to(index)
    _refused(link)
    assert index.read_text() == '{"weight_map": {}}'


def _refused(target: Path) -> None:
    for act in (
        lambda: write_documents({target: b"new"}),
        lambda: check_documents([target]),
        lambda: check_documents([target], overwrite=False),
    ):
        with pytest.raises(CheckpointError, match="it is a checkpoint or another binary file"):
            act()


@pytest.mark.parametrize("old", [None, b"", b"version: 1\n", "größer\n".encode(), *PICTURE_MAGICS])
@pytest.mark.parametrize("suffix", DOCUMENT_SUFFIXES)
def test_a_document_is_replaced_as_a_whole_or_not_at_all(tmp_path, suffix, old):
    target = tmp_path / f"a{suffix}"
    if old is not None:
        target.write_bytes(old)
    write_documents({target: b"new"})
    assert target.read_bytes() == b"new"
    with pytest.raises(CheckpointError, match="already exists"):
        write_documents({tmp_path / "b.csv": b"newer", target: b"newer"}, overwrite=False)
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_other_suffixes_are_refused_where_documents_are_written(tmp_path):
    with pytest.raises(CheckpointError, match="must end in one of"):
        write_documents({tmp_path / "a.safetensors": b"new"})
    assert not any(tmp_path.iterdir())
