"""The parts of a split GGUF are one checkpoint, in and out."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from gguf import GGUFReader
from gguf_files import ELEMENTS, TYPES, fields_in, tensors_in, write_gguf

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.opening import _reopened, address_of, reopen
from prune_gui.errors import CheckpointError
from prune_gui.evaluation.handover import write_checkpoint_in
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve, sizes, verify

HALF = Recipe(steps=[{"method": "l1_unstructured", "targets": ["blk.*.weight"], "amount": 0.5}])
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
    with open_checkpoint(parts) as checkpoint:
        resolution = resolve(HALF, checkpoint)
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
    with open_checkpoint(out) as again:
        export(resolve(HALF, again), out, overwrite=True)
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
    with open_checkpoint(three) as checkpoint:
        resolution = resolve(HALF, checkpoint)
        with pytest.raises(CheckpointError, match="parts are saved to a folder"):
            export(resolution, tmp_path / out, **options)
    assert not (tmp_path / out).exists()


def test_an_evaluator_gets_the_first_part(three, tmp_path):
    monitor = Monitor(None, None)
    with open_checkpoint(three) as checkpoint:
        pruned = write_checkpoint_in(tmp_path, resolve(HALF, checkpoint), monitor)
        same = write_checkpoint_in(tmp_path, resolve(Recipe(steps=[]), checkpoint), monitor)
    assert (pruned.name, same) == (FIRST, three / FIRST)
    assert len(list(pruned.parent.iterdir())) == 3
