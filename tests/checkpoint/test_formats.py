"""A new file format is one record: everything else follows from it."""

from __future__ import annotations

import io
import json
import runpy
import zlib

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from prune_gui.checkpoint import formats, open_checkpoint
from prune_gui.checkpoint.base import FileCheckpoint
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.checkpoint.write.atomic import write_bytes
from prune_gui.checkpoint.write.content import WrittenFile
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve, sizes, verify
from prune_gui.recipe.script import python_script
from prune_gui.recipe.several_files import checkpoints_in

METADATA = "metadata"
MAGIC = b"TOY!"
W, V = np.arange(1, 13, dtype=np.float32).reshape(3, 4), np.ones(5, np.float16)
HALF = Recipe(steps=[{"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}])
PRUNED = [[0, 0, 0, 0], [0, 0, 7, 8], [9, 10, 11, 12]]


class ToyCheckpoint(FileCheckpoint):
    format = "toy"

    def __init__(self, source, _, surroundings):
        self.source = source
        self._arrays = arrays_in(source.path)
        metadata = json.loads(str(self._arrays.pop(METADATA, "{}")))
        raw = {key: RawTensor(a.shape, a.dtype.name) for key, a in self._arrays.items()}
        super().__init__(source.path, raw, metadata, surroundings=surroundings)

    def read_key(self, key):
        self.source.check()
        return torch.from_numpy(self._arrays[key])


def arrays_in(path):
    return dict(np.load(io.BytesIO(path.read_bytes().removeprefix(MAGIC))))


def write(path, content, monitor):
    octets = {each.key: b"".join(each.tensor.byte_chunks()) for each in content.writers}
    monitor.expect(content.nbytes)
    checksums = {key: zlib.crc32(values) for key, values in octets.items()}
    write_bytes(path, archive(content, octets, checksums))
    monitor.advance(content.nbytes)
    return WrittenFile(checksums)


def file_nbytes(content):
    zeros = {each.key: bytes(each.tensor.nbytes) for each in content.writers}
    return len(archive(content, zeros, None))


def archive(content, octets, checksums):
    arrays = {
        each.key: np.frombuffer(octets[each.key], each.tensor.dtype).reshape(each.tensor.shape)
        for each in content.writers
    }
    file = io.BytesIO()
    np.savez(file, **arrays, **{METADATA: np.array(json.dumps(content.texts(checksums)))})
    return MAGIC + file.getvalue()


TOY = FileFormat(
    name="toy",
    suffixes=(".toy",),
    shard_suffix=".toy",
    recognizes=lambda start, _: start.startswith(MAGIC),
    program="the toy",
    open=ToyCheckpoint,
    write=write,
    file_nbytes=file_nbytes,
    load_code=(
        "{{name: torch.from_numpy(a) for name, a in "
        "np.load(io.BytesIO(np.fromfile({path}, np.uint8)[4:].tobytes())).items()}}"
    ),
    load_import="import io\n\nimport numpy as np",
)


@pytest.fixture(autouse=True)
def toy_format(monkeypatch):
    monkeypatch.setattr(formats, "FORMATS", (TOY, *formats.FORMATS))


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.toy"
    octets = io.BytesIO()
    np.savez(octets, w=W, v=V)
    path.write_bytes(MAGIC + octets.getvalue())
    return path


def test_a_new_format_is_opened_pruned_written_and_opened_again(model, tmp_path):
    out = tmp_path / "out.toy"
    with open_checkpoint(model) as checkpoint:
        assert (checkpoint.format, checkpoint.keys) == ("toy", ("w", "v"))
        resolution = resolve(HALF, checkpoint)
        nbytes = sizes(resolution, out)["finalized"].nbytes
        export(resolution, out)
    assert out.stat().st_size == nbytes
    with open_checkpoint(out) as checkpoint:
        assert checkpoint.read("w").tolist() == PRUNED
        assert checkpoint.read("v").tolist() == V.tolist()
        assert "prune_gui.recipe" in checkpoint.metadata
    assert verify(out).problems == []
    assert verify(out).compared == 2


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".npz", ".toy"])
def test_a_new_format_is_converted_to_each_format(model, tmp_path, suffix):
    with open_checkpoint(model) as checkpoint:
        export(resolve(HALF, checkpoint), tmp_path / f"out{suffix}")
    with open_checkpoint(tmp_path / f"out{suffix}") as checkpoint:
        assert checkpoint.read("w").tolist() == PRUNED


def test_a_special_tensor_is_not_lost_in_a_new_format(tmp_path):
    torch.save({"w": torch.from_numpy(W), "s": torch.eye(3).to_sparse()}, tmp_path / "m.pt")
    with (
        open_checkpoint(tmp_path / "m.pt") as checkpoint,
        pytest.raises(CheckpointError, match=r"'s' \(sparse\) cannot be stored in out\.toy"),
    ):
        export(resolve(HALF, checkpoint), tmp_path / "out.toy")


def test_shards_of_a_new_format_are_written_and_found(model, tmp_path):
    out = tmp_path / "out"
    with open_checkpoint(model) as checkpoint:
        export(resolve(HALF, checkpoint), out, shard_size=48)
    assert sorted(path.name for path in out.iterdir()) == [
        "model-00001-of-00002.toy", "model-00002-of-00002.toy", "model.toy.index.json"
    ]  # fmt: skip
    with open_checkpoint(out) as checkpoint:
        assert checkpoint.format == "toy"
        assert checkpoint.read("w").tolist() == PRUNED
    assert checkpoints_in(out) == [out / "model.toy.index.json"]


def test_the_loader_and_the_script_read_a_new_format(model, tmp_path):
    with open_checkpoint(model) as checkpoint:
        resolution = resolve(HALF, checkpoint)
        export(resolution, tmp_path / "out.toy", form="reparametrized")
        script = python_script(resolution, tmp_path / "scripted.safetensors")
    assert "import numpy as np" in (tmp_path / "load_out_toy.py").read_text()
    (tmp_path / "script.py").write_text(script)
    runpy.run_path(str(tmp_path / "script.py"))
    assert load_file(tmp_path / "scripted.safetensors")["w"].tolist() == PRUNED


def test_messages_name_the_suffix_of_a_new_format(model, tmp_path):
    with open_checkpoint(model) as checkpoint, pytest.raises(CheckpointError, match=r"\.toy, \.sa"):
        export(resolve(HALF, checkpoint), tmp_path / "out.npy")
