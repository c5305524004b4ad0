"""Finalized GGUF files are read by the package gguf: only pruned elements differ."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from gguf_files import ELEMENTS, TYPES, VALUES, fields_in, tensors_in, write_gguf
from safetensors.torch import load_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve, sizes, verify
from prune_gui.recipe.script import python_script

HALF = Recipe(steps=[{"method": "l1_unstructured", "targets": ["blk.*.weight"], "amount": 0.5}])
PLAIN = {name: kind for name, kind in TYPES.items() if not kind.startswith("Q")}


@pytest.fixture(params=[32, 128])
def model(request, tmp_path):
    return write_gguf(tmp_path / "m.gguf", alignment=request.param)


@pytest.fixture
def plain(tmp_path):
    return write_gguf(tmp_path / "plain.gguf", PLAIN)


def test_a_finalized_file_has_zeros_where_pruned_and_is_otherwise_the_same(model, tmp_path):
    out = tmp_path / "out.gguf"
    with open_checkpoint(model) as checkpoint:
        resolution = resolve(HALF, checkpoint)
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


def test_a_file_of_ours_is_pruned_again(plain, tmp_path):
    path = plain
    for number in (1, 2):
        with open_checkpoint(path) as checkpoint:
            path = tmp_path / f"out{number}.gguf"
            export(resolve(HALF, checkpoint), path)
    keys = [key for key, *_ in fields_in(path)]
    assert len(keys) == len(set(keys))
    assert verify(path).problems == []


def test_a_file_that_nothing_is_pruned_in_keeps_its_data_section(model, tmp_path):
    out = tmp_path / "out.gguf"
    with open_checkpoint(model) as checkpoint:
        start = min(checkpoint.gguf_header.header.spans.values())[0][0]
        data = model.read_bytes()[start:]
        export(resolve(Recipe(steps=[]), checkpoint), out)
    assert out.read_bytes().endswith(data)


@pytest.mark.parametrize("form", ["reparametrized", "masks"])
def test_other_forms_are_saved_as_safetensors_or_torch_files(plain, tmp_path, form):
    with open_checkpoint(plain) as checkpoint:
        resolution = resolve(HALF, checkpoint)
        with pytest.raises(CheckpointError, match=r"save as \.safetensors or \.pt"):
            export(resolution, tmp_path / "out.gguf", form=form)
        for suffix in (".safetensors", ".pt"):
            export(resolution, tmp_path / f"out{suffix}", form=form)
            with open_checkpoint(tmp_path / f"out{suffix}") as written:
                assert len(written.tensors) == len(PLAIN)
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_quantized_tensors_are_refused_by_other_formats(model, tmp_path, suffix):
    with open_checkpoint(model) as checkpoint:
        resolution = resolve(HALF, checkpoint)
        with pytest.raises(CheckpointError, match=r"'token_embd.weight' \(Q8_0\).*as \.gguf"):
            export(resolution, tmp_path / f"out{suffix}")


def test_other_checkpoints_and_shards_are_not_saved_as_gguf(plain, tmp_path):
    with open_checkpoint(plain) as checkpoint:
        resolution = resolve(HALF, checkpoint)
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
    with open_checkpoint(plain) as checkpoint:
        resolution = resolve(HALF, checkpoint)
        export(resolution, out)
        script = python_script(resolution, tmp_path / "scripted.safetensors")
    (tmp_path / "script.py").write_text(script)
    runpy.run_path(str(tmp_path / "script.py"))
    exported, scripted = load_file(out), load_file(tmp_path / "scripted.safetensors")
    assert exported.keys() == scripted.keys()
    for name, values in exported.items():
        assert values.shape == VALUES.shape
        assert values.equal(scripted[name])
