"""Fuzz targets: functions that take any bytes and fail if these are handled wrongly.

A file may be refused, in one line. A file that opens must have the values that the reference
libraries, safetensors and torch, read.
"""

import hashlib
import io
import json
import os
import re
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgpack
import numpy as np
import safetensors
import safetensors.torch
import torch
from flax_reference import leaves_of_flax
from gguf import GGUFReader
from gguf_files import write_gguf
from same_values import same

from prune_gui.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from prune_gui.checkpoint.sharded.index import read_index
from prune_gui.errors import CheckpointError, JobError, PruneGuiError, RecipeError
from prune_gui.pruning.predicates.unit_cuts import PrunedUnits
from prune_gui.pruning.selection.histogram_cache import DigitHistogram
from prune_gui.pruning.selection.radix_select import Cut, RowCuts
from prune_gui.pruning.selection.row_column_scores import BlockSums
from prune_gui.recipe import Recipe
from prune_gui.recipe.selector import patterns_in, select
from prune_gui.recipe.shares import DIGEST_BYTES, MAGIC, Share, read_share, write_share

MAX_MESSAGE_CHARS = 1000
"""The limit for a refusal, including lines of Python for the user to run."""
STRICTER = re.compile("appears more than once|impossible shape|nested too deeply")
"""Messages for safetensors files that the reference library reads."""
SHARE_START = len(MAGIC) + DIGEST_BYTES
INFOS = (TensorInfo("encoder.layer.0.weight", (4, 3), "float32"), TensorInfo("b", (2,), "int8"))


class Target(NamedTuple):
    """A fuzz target."""

    run: Callable[[bytes], None]  # raises if the bytes are handled wrongly
    seeds: Callable[[], list[bytes]]  # valid inputs to start from


@contextmanager
def file_of(octets: bytes, name: str) -> Iterator[Path]:
    """Yield the path of a file with these bytes, in memory if the system supports it."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        path = Path(folder, name)
        path.write_bytes(octets)
        yield path


@contextmanager
def opened(octets: bytes, name: str) -> Iterator[tuple[Path, Checkpoint | None]]:
    """Yield the path of a file with these bytes, and the open file; None if it is refused."""
    with file_of(octets, name) as path, ExitStack() as stack:
        checkpoint = None
        try:
            checkpoint = stack.enter_context(open_checkpoint(path))
        except CheckpointError as error:
            check_refusal(error)
        yield path, checkpoint


@contextmanager
def refused(kind: type[PruneGuiError] = CheckpointError) -> Iterator[None]:
    """Check the refusal with which a block may end."""
    try:
        yield
    except kind as error:
        check_refusal(error)


def check_refusal(error: PruneGuiError) -> None:
    message = str(error)
    first, *code = message.split("\n")
    assert first.isprintable(), message
    assert len(message) < MAX_MESSAGE_CHARS, message
    assert not code or all(line.startswith("    ") for line in code), message


def header(octets: bytes) -> None:
    """Open a safetensors file; if it opens, compare it with safetensors.

    It opens if safetensors reads it, unless it is ambiguous or torch has no such shape.
    """
    try:
        reference = dict(safetensors.deserialize(octets))
    except safetensors.SafetensorError:
        reference = None
    with file_of(octets, "m.safetensors") as path:
        try:
            checkpoint = open_checkpoint(path)
        except CheckpointError as error:
            check_refusal(error)
            is_stricter = STRICTER.search(str(error)) is not None
            assert reference is None or is_stricter
            return
        with checkpoint:
            if checkpoint.format != "safetensors":  # its bytes are a file of another format
                assert reference is None
                return
            if reference is None:  # for a value of a field that neither of the two uses
                assert any("does not define" in remark for remark in checkpoint.warnings)
                return
            assert checkpoint.raw.keys() == reference.keys()
            for key, expected in reference.items():
                assert list(checkpoint.raw[key].shape) == expected["shape"], key
                try:
                    read = checkpoint.read_key(key)
                except CheckpointError as error:  # a dtype that this torch does not know
                    check_refusal(error)
                    continue
                assert read.reshape(-1).view(torch.uint8).numpy().tobytes() == expected["data"]


def gguf_file(octets: bytes) -> None:
    """Open a GGUF file; if it opens, compare it with the package gguf."""
    with opened(octets, "m.gguf") as (path, checkpoint):
        if checkpoint is None or checkpoint.format != "gguf":
            return
        tensors = GGUFReader(path).tensors
        assert list(checkpoint.keys) == [tensor.name for tensor in tensors]
        for tensor in tensors:
            raw = checkpoint.raw[tensor.name]
            assert list(raw.shape) == tensor.shape.tolist()[::-1], tensor.name
            read = checkpoint.read_key(tensor.name)
            assert read.reshape(-1).view(torch.uint8).numpy().tobytes() == tensor.data.tobytes()


def archive(octets: bytes) -> None:
    """Open an archive; if it opens, compare it with torch, and what is compressed with zipfile."""
    torch_file(octets)
    with opened(octets, "m.pt") as (path, checkpoint):
        if checkpoint is not None and checkpoint.format == "torch":
            with zipfile.ZipFile(path) as records:
                for entry in records.infolist():
                    if entry.compress_type == zipfile.ZIP_DEFLATED:
                        records.read(entry)


def torch_file(octets: bytes) -> None:
    """Open a torch file; if it opens, compare it with torch, unless that needs its code."""
    with opened(octets, "m.pt") as (_, checkpoint):
        if checkpoint is None or checkpoint.format != "torch":
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for key in checkpoint.keys:
                checkpoint.read_key(key)
            try:
                expected = torch.load(io.BytesIO(octets), weights_only=True, map_location="cpu")
            except Exception:
                if checkpoint.loads_without_code:
                    raise
                return
            assert checkpoint.loads_without_code
            assert same(checkpoint.content, expected)  # type: ignore[attr-defined]


def pickle(octets: bytes) -> None:
    """Open a valid archive with these bytes as the pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        target.writestr("m/data.pkl", octets)
        target.writestr("m/byteorder", "little")
        target.writestr("m/data/0", bytes(range(24)))  # the size that the seed claims
        target.writestr("m/data/1", bytes(range(4)))
        target.writestr("m/version", "3\n")
    torch_file(buffer.getvalue())


def npz(octets: bytes) -> None:
    """Open an archive of NumPy; compare the values that are read with NumPy."""
    with opened(octets, "m.npz") as (path, checkpoint):
        if checkpoint is None or checkpoint.format != "npz":
            return
        for key in checkpoint.keys:
            try:
                read = checkpoint.read_key(key).numpy()
            except CheckpointError as error:
                check_refusal(error)
                continue
            member = checkpoint.members[key].entry.filename  # type: ignore[attr-defined]
            with zipfile.ZipFile(path) as plain, plain.open(member) as file:
                try:
                    expected = np.lib.format.read_array(file)
                except zipfile.BadZipFile:  # mapped values are not compared with the checksum
                    continue
            assert read.dtype == expected.dtype
            assert read.tobytes() == expected.tobytes()


def flax(octets: bytes) -> None:
    """Open a msgpack file; if it opens, compare it with what flax reads."""
    with opened(octets, "m.msgpack") as (_, checkpoint):
        if checkpoint is None or checkpoint.format != "flax":
            return
        expected = dict(leaves_of_flax(octets))
        for key, raw in checkpoint.raw.items():
            if raw.special is None:
                read = checkpoint.read_key(key)
                assert any(
                    read.shape == values.shape
                    and read.reshape(-1).view(torch.uint8).numpy().tobytes() == values.tobytes()
                    for path, values in expected.items()
                    if ".".join(path).replace("/", ".") == key.replace("/", ".")
                ), key


def config(octets: bytes) -> None:
    """Open a checkpoint beside a config.json, and as a model of a pipeline."""
    with file_of(octets, "config.json") as path:
        (path.parent / "model_index.json").write_bytes(octets)
        safetensors.torch.save_file(CONFIGURED, path.parent / "m.safetensors")
        for opened_as in (path.parent / "m.safetensors", path.parent):
            with refused(), open_checkpoint(opened_as) as checkpoint:
                assert checkpoint.description.isprintable()
                assert checkpoint.module_types
                assert all(type(size) is int for size in checkpoint.hf_config.values())


def index(octets: bytes) -> None:
    """Read an index of shards."""
    with file_of(octets, "m.safetensors.index.json") as path, refused():
        for shard in read_index(path).shards:
            assert Path(shard).name == shard
            assert os.sep not in shard


def recipe(octets: bytes) -> None:
    """Read a recipe; if it is accepted, it is the same after writing and reading it again."""
    read = None
    with refused(RecipeError):
        read = Recipe.from_yaml(octets.decode("utf-8", "replace"))
    assert read is None or Recipe.from_yaml(read.to_yaml()) == read


def conditions(octets: bytes) -> None:
    """Parse a line of targets and select parameters with it."""
    with refused(RecipeError):
        select(patterns_in(octets.decode("utf-8", "replace")), INFOS)


def _saved(**options: object) -> bytes:
    state = {"w": torch.ones(2, 3), "p": torch.nn.Parameter(torch.ones(1)), "n": (1, "x", None)}
    octets = io.BytesIO()
    torch.save({"state": state, "views": [state["w"][:1], state["w"].t()]}, octets, **options)
    return octets.getvalue()


def _pickles() -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(_saved())) as archive:
        return [archive.read("archive/data.pkl")]


def _deflated() -> bytes:
    octets = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(_saved())) as plain,
        zipfile.ZipFile(octets, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in plain.namelist():
            target.writestr(name, plain.read(name))
    return octets.getvalue()


def _archives_of_numpy() -> list[bytes]:
    arrays = {"w": np.ones((2, 3), np.float32), "a/t": np.asfortranarray(np.eye(3)), "n": 3}
    files = io.BytesIO(), io.BytesIO()
    np.savez(files[0], **arrays)
    np.savez_compressed(files[1], **arrays)
    return [file.getvalue() for file in files]


def _files_of_flax() -> list[bytes]:
    array = msgpack.ExtType(1, msgpack.packb(((2, 1), "float32", bytes(8))))
    parts = {"__msgpack_chunked_array__": True, "shape": {"0": 2}, "chunks": {"0": array}}
    return [msgpack.packb({"params": {"w": array, "big": parts}, "step": 3, "x": [None, 1.5]})]


def _headers() -> list[bytes]:
    tensors = {"a": torch.ones(2, 3), "b": torch.ones(4).to(torch.bfloat16), "c": torch.ones(0)}
    return [
        safetensors.torch.save(tensors, {"format": "pt"}),
        safetensors.torch.save({"x": torch.ones(3).bool()}),
        _with_further_fields(),
    ]


def share(octets: bytes) -> None:
    """Check the file of a share, with a digest that fits, as an attacker writes it."""
    read = None
    with file_of(MAGIC + hashlib.sha256(octets).digest() + octets, "share") as path:
        with refused(JobError):
            read = read_share(path)
        if read is not None:
            write_share(path, read)
            assert repr(read_share(path)) == repr(read)


def _with_further_fields() -> bytes:
    entry = {"dtype": "I8", "shape": [2], "data_offsets": [0, 2], "x": {"y": [-0.5, 1e9, True]}}
    text = json.dumps({"a": entry, "b": ["U8", [1], [2, 3]]}).encode()
    return len(text).to_bytes(8, "little") + text + b"abc"


def _gguf_files() -> list[bytes]:
    with file_of(b"", "m.gguf") as path:
        return [write_gguf(path).read_bytes(), write_gguf(path, {}, 8).read_bytes()]


def _recipes() -> list[bytes]:
    folder = Path(__file__).parents[2] / "resources" / "recipes"
    return [path.read_bytes() for path in sorted(folder.glob("*.yaml"))]


def _indexes() -> list[bytes]:
    text = {"metadata": {"total_size": 8}, "weight_map": {"a": "m-1-of-1.safetensors"}}
    return [json.dumps(text).encode()]


CONFIGURED = {"model.layers.0.mlp.up_proj.weight": torch.ones(4, 2)}
CONFIGS = (
    {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "intermediate_size": 4},
    {"model_type": "x", "text_config": {"model_type": "llama", "hidden_size": 2}},
    {"_class_name": "Pipeline", "unet": ["diffusers", "UNet2DConditionModel"], "_x": [None, None]},
)


def _shares() -> list[bytes]:
    counts = np.arange(1, 4)
    histogram = DigitHistogram.sum([DigitHistogram.of(counts)], keep=True)
    results = [
        *(Cut(3, -1, 2), (1, histogram), (slice(0, 3), counts / 2), None),
        *(RowCuts(counts.astype(np.uint32), counts), PrunedUnits(counts > 1, counts / 2, counts)),
        BlockSums(counts / 1, counts, counts / 1, 4),
    ]
    with file_of(b"", "share") as path:
        write_share(path, Share(7, results, 9))
        return [path.read_bytes()[SHARE_START:]]


LINES = [b"encoder.*.weight, !*norm*", b"type:Linear dims>1 size>=1M sparsity<50%", b"[!a]? b"]

TARGETS = {
    "header": Target(header, _headers),
    "gguf": Target(gguf_file, _gguf_files),
    "archive": Target(archive, lambda: [_saved(), _deflated()]),
    "legacy": Target(torch_file, lambda: [_saved(_use_new_zipfile_serialization=False)]),
    "pickle": Target(pickle, _pickles),
    "npz": Target(npz, _archives_of_numpy),
    "flax": Target(flax, _files_of_flax),
    "config": Target(config, lambda: [json.dumps(each).encode() for each in CONFIGS]),
    "index": Target(index, _indexes),
    "recipe": Target(recipe, _recipes),
    "conditions": Target(conditions, lambda: list(LINES)),
    "share": Target(share, _shares),
}
