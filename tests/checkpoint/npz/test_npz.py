"""`.npz` archives: read as numpy.load reads them, and written without touching anything else."""

import zipfile

import numpy as np
import pytest
import torch
from applied import applied, exported
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve, sizes, verify

GENERATOR = np.random.default_rng(0)
ARRAYS = {
    "enc/kernel": GENERATOR.normal(size=(6, 8)).astype(np.float32),
    "enc/transposed": GENERATOR.normal(size=(5, 4)).T,
    "cube": np.asfortranarray(GENERATOR.normal(size=(2, 3, 4)).astype(np.float16)),
    "step": np.array(7),
    "empty": np.zeros((0, 3), np.float32),
    "big": np.arange(3, dtype=">f4"),
    "labels": np.array(["a", "bc"]),
    "objects": np.array([None, 1], dtype=object),
    "complex": np.ones(2, np.complex64),
}
HALF = Recipe(steps=[{"method": "l1_unstructured", "targets": ["enc.*", "cube"], "amount": 0.5}])


@pytest.fixture(params=[np.savez, np.savez_compressed])
def model(request, tmp_path):
    path = tmp_path / "model.npz"
    request.param(path, **ARRAYS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", "not an array")
    return path


def test_values_are_those_of_numpy_and_names_form_a_tree(model):
    with open_checkpoint(model) as checkpoint:
        assert checkpoint.format == "npz"
        assert checkpoint.keys[:2] == ("enc.kernel", "enc.transposed")
        for name, array in ARRAYS.items():
            info = checkpoint.tensors[name.replace("/", ".")]
            if info.special is None:
                values = checkpoint.read(info.name)
                assert values.is_contiguous()
                assert values.numpy().dtype == array.dtype
                assert np.array_equal(values.numpy(), array)
        special = {name for name, info in checkpoint.tensors.items() if info.special}
    assert special == {"big", "labels", "objects"}


def test_a_finalized_archive_differs_in_the_pruned_values_alone(model, tmp_path):
    out = tmp_path / "out.npz"
    with applied(model, HALF) as resolution:
        export(resolution, out)
        masks = {name: resolution.mask(name).numpy() for name in resolution.layers}
    with np.load(out, allow_pickle=True) as written:
        assert written.files == [*ARRAYS, "readme.txt"]
        for name, array in ARRAYS.items():
            stored = written[name]
            kept = masks.get(name.replace("/", "."))
            expected = array if kept is None else np.where(kept, array, array.dtype.type(0))
            assert stored.dtype == array.dtype
            assert stored.flags.fnc == array.flags.fnc
            assert np.array_equal(stored, expected)
    entries = [zipfile.ZipFile(path).infolist() for path in (model, out)]
    assert [[(e.filename, e.compress_type, e.file_size) for e in each] for each in entries] == [
        [(e.filename, e.compress_type, e.file_size) for e in entries[0]]
    ] * 2
    assert zipfile.ZipFile(out).testzip() is None
    with open_checkpoint(out) as checkpoint:
        assert "prune_gui.recipe" in checkpoint.metadata
        assert checkpoint.warnings == ()
    assert verify(out).problems == []
    assert verify(out).compared == len(ARRAYS) - 3


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
def test_the_size_of_a_stored_archive_is_forecast_to_the_byte(tmp_path, form):
    np.savez(tmp_path / "m.npz", **ARRAYS)
    with applied(tmp_path / "m.npz", HALF) as resolution:
        nbytes = sizes(resolution, tmp_path / "out.npz")[form].nbytes
        export(resolution, tmp_path / "out.npz", form=form)
    assert (tmp_path / "out.npz").stat().st_size == nbytes


def test_names_with_slashes_stay_as_they_are_in_an_archive_of_another_format(tmp_path):
    save_file({"a/b": torch.ones(4, 4)}, tmp_path / "m.safetensors")
    recipe = Recipe(steps=[{"method": "l1_unstructured", "targets": ["a/b"], "amount": 0.5}])
    exported(tmp_path / "m.safetensors", tmp_path / "out.npz", recipe)
    assert np.load(tmp_path / "out.npz").files == ["a/b"]
    with open_checkpoint(tmp_path / "out.npz") as checkpoint:
        assert checkpoint.keys == ("a/b",)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"w": torch.ones(4), "b": torch.ones(2).bfloat16()}, "'b' has the dtype bfloat16"),
        ({"w": torch.ones(4), "a\0b": torch.ones(2)}, "a tensor named 'a.x00b'"),
    ],
)
def test_what_numpy_cannot_store_is_refused(tmp_path, state, says):
    torch.save(state, tmp_path / "m.pt")
    recipe = Recipe(steps=[{"method": "l1_unstructured", "targets": ["w"], "amount": 1}])
    with (
        open_checkpoint(tmp_path / "m.pt") as checkpoint,
        pytest.raises(CheckpointError, match=says),
    ):
        export(resolve(recipe, checkpoint), tmp_path / "out.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_array_is_refused_when_it_is_read(tmp_path, save):
    save(tmp_path / "m.npz", w=GENERATOR.normal(size=(50, 50)))
    octets = bytearray((tmp_path / "m.npz").read_bytes())
    octets[5000] ^= 1
    (tmp_path / "m.npz").write_bytes(octets)
    with open_checkpoint(tmp_path / "m.npz") as checkpoint:
        for read in (checkpoint.read, checkpoint.view):
            with pytest.raises(CheckpointError, match=r"w'? is damaged|CRC-32 for file 'w\.npy'"):
                read("w")
