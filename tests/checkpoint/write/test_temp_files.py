"""Temporary files are removed after a kill, and documents replace only files of their kind."""

import io
import os
import subprocess
import sys
import zipfile
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch

from prune_gui.checkpoint import TensorWriter, open_checkpoint
from prune_gui.checkpoint.sharded.writing import ShardsOutput
from prune_gui.checkpoint.torch.format import TORCH
from prune_gui.checkpoint.write import temp_files
from prune_gui.checkpoint.write.atomic import replacing_together
from prune_gui.checkpoint.write.documents import (
    DOCUMENT_SUFFIXES,
    PAGE_SUFFIXES,
    PICTURE_MAGICS,
    RECIPE_SUFFIXES,
    check_documents,
    document_path,
    write_documents,
)
from prune_gui.checkpoint.write.temp_files import (
    claimed,
    remove_abandoned,
    temporary,
    temporary_next_to,
)
from prune_gui.checkpoint.write.writing import FileOutput
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor


@pytest.fixture(params=[sys.platform, "win32"])
def platform(request, monkeypatch):
    monkeypatch.setattr(temp_files, "sys", SimpleNamespace(platform=request.param))
    return request.param


def number_of_a_process_that_ended() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    "target",
    [
        "model.safetensors",
        "model.pt",
        "shards",
        "llama-3.1 (copy)",
        "模型" * 40,
        "🦙" * 60,
        "a.b-1-2.c",
    ],
)
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_temporary_files_of_a_killed_run_are_removed_on_any_system(
    tmp_path, monkeypatch, platform, target, kind
):
    ended = number_of_a_process_that_ended()
    monkeypatch.setattr(temp_files.os, "getpid", lambda: ended)
    leftover = temporary_next_to(tmp_path / target)
    if kind == "file":
        leftover.write_bytes(b"half")
    else:
        leftover.mkdir()
        (leftover / "model-00001-of-00002.safetensors").write_bytes(b"half")
        (leftover / "within").mkdir()
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_of_a_running_process_are_kept_on_any_system(tmp_path, platform):
    file, folder = temporary_next_to(tmp_path / "m.pt"), temporary_next_to(tmp_path / "shards")
    file.write_bytes(b"half")
    folder.mkdir()
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"done")
    with claimed(file), claimed(folder):
        remove_abandoned(tmp_path)
        assert file.exists()
        assert list(folder.iterdir()) != []


def test_only_files_with_our_names_are_removed(tmp_path, platform):
    others = ["model.pt", "x.prune-gui-tmp", ".model.pt.12-ab.prune-gui-tmp.txt", ".hidden"]
    for name in others:
        (tmp_path / name).write_bytes(b"kept")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".link.0-0.prune-gui-tmp").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "kept").write_bytes(b"kept")
    remove_abandoned(tmp_path)
    assert {*others, "elsewhere"} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "elsewhere" / "kept").exists()


@pytest.mark.parametrize("target", ["new.safetensors", "new.pt", "shards"])
def test_temporary_files_of_each_kind_of_save_are_removed(tmp_path, monkeypatch, target):
    """The files that exist during a save are those that remain if it is killed."""
    path = tmp_path / "model.pt"
    torch.save({"a": torch.ones(2)}, path)
    names: list[str] = []

    def chunks():
        names.extend(path.name for path in tmp_path.iterdir())
        yield torch.ones(2)

    with open_checkpoint(path) as opened:
        entries = [TensorWriter("a", "float32", (2,), chunks)]
        given = {"path": tmp_path / target, "tensors": entries, "template": opened}
        if target == "shards":
            output = ShardsOutput(**given, source=opened, format=TORCH, shard_size=100)
        else:
            output = FileOutput(**given)
        output.write({}, Monitor())
    (leftover,) = set(names) - {"model.pt"}
    (tmp_path / leftover).write_bytes(b"half")
    remove_abandoned(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model.pt", target}


def create_file(path):
    path.write_bytes(b"")


@pytest.mark.skipif(sys.platform == "win32", reason="the number of the process is the mark there")
@pytest.mark.parametrize("create", [create_file, lambda path: path.mkdir()])
def test_a_temporary_file_that_is_removed_before_it_is_locked_is_created_again(
    tmp_path, monkeypatch, create
):
    opened, sweeps = temp_files.os.open, []

    def sweep_first(path, flags, **options):
        if not sweeps:
            sweeps.append(path)
            remove_abandoned(tmp_path)
            assert not sweeps[0].exists()
        return opened(path, flags, **options)

    monkeypatch.setattr(temp_files.os, "open", sweep_first)
    with temporary(tmp_path / "m.pt", create) as path:
        assert path.exists()
        assert path != sweeps[0]
        remove_abandoned(tmp_path)
        assert path.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="the number of the process is the mark there")
def test_a_temporary_file_that_another_process_has_locked_is_created_again(tmp_path):
    swept = []

    def create(path):
        path.write_bytes(b"")
        if not swept:
            swept.append(stack.enter_context(temp_files._abandoned(path)))

    with ExitStack() as stack, temporary(tmp_path / "m.pt", create) as path:
        assert swept
        assert list(tmp_path.iterdir()) == [path]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_pipe_with_the_name_of_a_temporary_file_does_not_block(tmp_path):
    os.mkfifo(tmp_path / ".m.pt.1-ab.prune-gui-tmp")
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_saves_into_one_folder_do_not_interfere(tmp_path):
    with (
        replacing_together({tmp_path / "a": 1}, overwrite=False) as [first],
        replacing_together({tmp_path / "b": 1}, overwrite=False) as [second],
    ):
        first.write_bytes(b"a")
        second.write_bytes(b"b")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


MANY_SAVES = """
import sys
from pathlib import Path
from prune_gui.checkpoint.write.atomic import replacing_together
folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    with replacing_together({folder / name: 1}, overwrite=True) as (draft,):
        draft.write_bytes(b"x" * number)
"""


@pytest.mark.slow
def test_many_processes_that_save_into_one_folder_never_fail(tmp_path):
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", MANY_SAVES, str(tmp_path), f"m{number}.pt", "300"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    errors = [run.communicate()[1] for run in runs]
    assert errors == [""] * 6
    assert {path.name for path in tmp_path.iterdir()} == {f"m{number}.pt" for number in range(6)}


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
