"""GGUF files and their parts open as the package gguf reads them; copies keep all other values."""

import runpy
import shutil

import numpy as np
import pytest
import torch
from applied import applied, exported
from gguf import GGUFReader
from gguf.constants import GGML_QUANT_SIZES
from gguf_files import ELEMENTS, TYPES, VALUES, fields_in, tensors_in, write_gguf
from safetensors.torch import load_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.opening import _reopened, address_of, reopen
from prune_gui.checkpoint.tensor_info import QUANTIZED_TYPES, TENSOR_TYPES
from prune_gui.errors import CheckpointError
from prune_gui.evaluation.handover import write_checkpoint_in
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve, sizes, verify
from prune_gui.recipe.script import python_script

HALF = Recipe(steps=[{"method": "l1_unstructured", "targets": ["blk.*.weight"], "amount": 0.5}])
PLAIN = {name: kind for name, kind in TYPES.items() if not kind.startswith("Q")}
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@pytest.fixture(params=[32, 128])
def model(request, tmp_path):
    return write_gguf(tmp_path / "m.gguf", alignment=request.param)


@pytest.fixture
def plain(tmp_path):
    return write_gguf(tmp_path / "plain.gguf", PLAIN)


def test_a_finalized_file_has_zeros_where_pruned_and_is_otherwise_the_same(model, tmp_path):
    out = tmp_path / "out.gguf"
    with applied(model, HALF) as resolution:
        assert set(resolution.layers) == PLAIN.keys()
        nbytes = sizes(resolution, out)["finalized"].nbytes
        export(resolution, out)
        masks = {name: resolution.mask(name).numpy().ravel() for name in resolution.layers}
    assert out.stat().st_size == nbytes
    before, after = tensors_in(model), tensors_in(out)
    assert list(after) == list(before)
    for name, (kind, dims, octets) in before.items():
        if name in masks:
            octets = (np.frombuffer(octets, ELEMENTS[kind]) * masks[name]).tobytes()
        assert after[name] == (kind, dims, octets)
    fields = fields_in(model)
    assert fields_in(out)[: len(fields)] == fields
    assert all(key.startswith("prune_gui.") for key, *_ in fields_in(out)[len(fields) :])
    assert (verify(out).problems, verify(out).compared) == ([], len(TYPES))


def test_a_file_that_nothing_is_pruned_in_keeps_its_data_section(model, tmp_path):
    out = tmp_path / "out.gguf"
    with open_checkpoint(model) as checkpoint:
        start = min(checkpoint.spans.values())[0][0]
        data = model.read_bytes()[start:]
        export(resolve(Recipe(steps=[]), checkpoint), out)
    assert out.read_bytes().endswith(data)


@pytest.mark.parametrize("form", ["reparametrized", "masks"])
def test_other_forms_are_saved_as_safetensors_or_torch_files(plain, tmp_path, form):
    with applied(plain, HALF) as resolution:
        with pytest.raises(CheckpointError, match=r"save as \.safetensors or \.pt"):
            export(resolution, tmp_path / "out.gguf", form=form)
        for suffix in (".safetensors", ".pt"):
            export(resolution, tmp_path / f"out{suffix}", form=form)
            with open_checkpoint(tmp_path / f"out{suffix}") as written:
                assert len(written.tensors) == len(PLAIN)
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_quantized_tensors_are_refused_by_other_formats(model, tmp_path, suffix):
    with pytest.raises(CheckpointError, match=r"'token_embd.weight' \(Q8_0\).*as \.gguf"):
        exported(model, tmp_path / f"out{suffix}", HALF)


def test_other_checkpoints_and_shards_are_not_saved_as_gguf(plain, tmp_path):
    with applied(plain, HALF) as resolution:
        export(resolution, tmp_path / "out.safetensors")
        with pytest.raises(CheckpointError, match="divided into files as the input"):
            export(resolution, tmp_path / "out", shard_size=1000)
    with (
        open_checkpoint(tmp_path / "out.safetensors") as checkpoint,
        pytest.raises(CheckpointError, match="of a GGUF file"),
    ):
        export(resolve(HALF, checkpoint), tmp_path / "out.gguf")


def test_the_script_reads_the_same_values(plain, tmp_path):
    out = tmp_path / "out.safetensors"
    with applied(plain, HALF) as resolution:
        export(resolution, out)
        script = python_script(resolution, tmp_path / "scripted.safetensors")
    (tmp_path / "script.py").write_text(script)
    runpy.run_path(str(tmp_path / "script.py"))
    exported, scripted = load_file(out), load_file(tmp_path / "scripted.safetensors")
    assert exported.keys() == scripted.keys()
    for name, values in exported.items():
        assert values.shape == VALUES.shape
        assert values.equal(scripted[name])


def test_the_types_are_those_of_ggml():
    for kind, block in GGML_QUANT_SIZES.items():
        dtype, *own_sizes = TENSOR_TYPES[kind]
        assert tuple(own_sizes) == block
        assert dtype == kind.name or dtype not in QUANTIZED_TYPES


@pytest.mark.parametrize("alignment", [32, 8, 128])
def test_a_file_opens_with_the_shapes_of_torch_and_the_bytes_of_gguf(tmp_path, alignment):
    path = write_gguf(tmp_path / "m.gguf", alignment=alignment)
    with open_checkpoint(path) as checkpoint:
        assert (checkpoint.format, checkpoint.keys) == ("gguf", tuple(TYPES))
        for name, (kind, dims, octets) in tensors_in(path).items():
            info = checkpoint.tensors[name]
            assert (info.shape, dims) == ((8, 64), [64, 8])
            assert (info.dtype, info.nbytes) == (DTYPES.get(kind, kind), len(octets))
            assert info.not_prunable == ("quantized" if kind.startswith("Q") else None)
            values = checkpoint.read(name)
            assert values.reshape(-1).view(torch.uint8).numpy().tobytes() == octets
            with checkpoint.stored_reader() as read:
                assert b"".join(map(bytes, read(name))) == octets
        assert torch.equal(checkpoint.read("blk.1.attn_q.weight"), torch.from_numpy(VALUES))
        texts = {"general.name": "A model", "n.int8": "7", "n.float64": "0.1", "n.bool": "true"}
        assert texts.items() <= checkpoint.metadata.items()
        assert "tokenizer.ggml.tokens" not in checkpoint.metadata
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64}
        assert checkpoint.hf_config == heads


def test_bytes_after_the_tensors_give_a_remark(tmp_path):
    path = write_gguf(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes() + bytes(100))
    with open_checkpoint(path) as checkpoint:
        [remark] = checkpoint.warnings
        assert "100 bytes after its tensors" in remark


FIRST, SECOND, THIRD = (f"m-{i:05}-of-00003.gguf" for i in (1, 2, 3))


@pytest.fixture(params=[False, True], ids=["tensors", "metadata alone"])
def parts(request, tmp_path):
    """Return a folder with three parts or more, of which the first may have no tensors."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_gguf(folder / "m.gguf", split_max_tensors=2, small_first_shard=request.param)
    return folder


@pytest.fixture
def three(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_gguf(folder / "m.gguf", split_max_tensors=2)
    return folder


def all_tensors(folder):
    return {
        name: each
        for path in sorted(folder.glob("*.gguf"))
        for name, each in tensors_in(path).items()
    }


def test_any_part_and_the_folder_open_all_parts(parts):
    paths = sorted(parts.iterdir())
    for path in (parts, *paths):
        with open_checkpoint(path) as checkpoint:
            assert list(checkpoint.tensors) == list(TYPES)
            assert (checkpoint.path, checkpoint.files) == (paths[0], tuple(paths))
            assert checkpoint.warnings == ()
            assert checkpoint.hf_config["num_attention_heads"] == 4
            assert checkpoint.metadata["general.name"] == "A model"
            assert not any(key.startswith("split.") for key in checkpoint.metadata)


def test_a_finalized_copy_has_the_same_parts(parts, tmp_path):
    out = tmp_path / "out"
    with applied(parts, HALF) as resolution:
        nbytes = sizes(resolution, out)["finalized"].nbytes
        export(resolution, out)
        masks = {name: resolution.mask(name).numpy().ravel() for name in resolution.layers}
    assert sorted(path.name for path in out.iterdir()) == sorted(
        path.name for path in parts.iterdir()
    )
    assert sum(path.stat().st_size for path in out.iterdir()) == nbytes
    for path in parts.iterdir():
        fields = fields_in(path)
        assert fields_in(out / path.name)[: len(fields)] == fields
        assert list(tensors_in(out / path.name)) == list(tensors_in(path))
    written = all_tensors(out)
    for name, (kind, dims, octets) in all_tensors(parts).items():
        if name in masks:
            octets = (np.frombuffer(octets, ELEMENTS[kind]) * masks[name]).tobytes()
        assert written[name] == (kind, dims, octets)
    assert (verify(out).problems, verify(out).compared) == ([], len(TYPES))
    exported(out, out, HALF, overwrite=True)
    assert {path.name for path in out.iterdir()} == {path.name for path in parts.iterdir()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / SECOND).unlink(), f"{SECOND}, one of 3 parts of a split file"),
        (lambda folder: (folder / FIRST).unlink(), f"{FIRST}, one of 3 parts of a split file"),
        (lambda folder: (folder / THIRD).rename(folder / "x.gguf"), "several checkpoints"),
        (lambda folder: shutil.copy(folder / FIRST, folder / SECOND), "is not part 2 of 3"),
        (lambda folder: write_gguf(folder / SECOND), "is not part 2 of 3"),
        (lambda folder: replace_number(folder / FIRST, 5, 6), "and declare 5"),
        (lambda folder: rename_all(folder, "of-00003", "of-00004"), "00003.gguf"),
    ],
)  # fmt: skip
def test_missing_and_inconsistent_parts_are_refused_in_one_line(three, change, words):
    change(three)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(three)
    message = str(caught.value)
    assert words in message
    assert len(message.splitlines()) == 1


def replace_number(path, new, old):
    field = GGUFReader(path).fields["split.tensors.count"]
    assert field.contents() == old
    octets = bytearray(path.read_bytes())
    octets[(start := field.offset + sum(part.nbytes for part in field.parts[:-1])) : start + 4] = (
        new.to_bytes(4, "little")
    )
    path.write_bytes(octets)


def rename_all(folder, old, new):
    for path in list(folder.iterdir()):
        path.rename(path.with_name(path.name.replace(old, new)))


def test_another_process_opens_a_part_alone(three):
    with open_checkpoint(three) as checkpoint, checkpoint.open_shard(SECOND) as part:
        again = reopen(*address_of(part))
        assert (again.path, again.keys) == (three / SECOND, part.keys)
    again.close()
    _reopened.cache_clear()


def test_a_part_too_many_is_named(three):
    shutil.copy(three / THIRD, three / "m-00004-of-00003.gguf")
    with open_checkpoint(three / SECOND) as checkpoint:
        [warning] = checkpoint.warnings
    assert warning.endswith("neither opened nor copied: m-00004-of-00003.gguf.")


@pytest.mark.parametrize(
    ("out", "options"),
    [("one.gguf", {}), ("out", {"shard_size": 1000}), ("out", {"form": "masks"})],
)
def test_another_division_or_form_is_refused_in_one_line(three, tmp_path, out, options):
    with pytest.raises(CheckpointError, match="parts are saved to a folder"):
        exported(three, tmp_path / out, HALF, **options)
    assert not (tmp_path / out).exists()


def test_an_evaluator_gets_the_first_part(three, tmp_path):
    monitor = Monitor(None, None)
    with open_checkpoint(three) as checkpoint:
        pruned = write_checkpoint_in(tmp_path, resolve(HALF, checkpoint), monitor)
        same = write_checkpoint_in(tmp_path, resolve(Recipe(steps=[]), checkpoint), monitor)
    assert (pruned.name, same) == (FIRST, three / FIRST)
    assert len(list(pruned.parent.iterdir())) == 3
