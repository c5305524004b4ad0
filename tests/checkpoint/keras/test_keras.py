"""Keras's files: values as h5py reads them, and copies in which only pruned values differ."""

import builtins
import io
import json
import re
import zipfile

import h5py
import numpy as np
import pytest
from applied import applied

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.keras import format as keras_format
from prune_gui.errors import CheckpointError
from prune_gui.isolated import processes
from prune_gui.recipe import Recipe, export, resolve, sizes, verify

GENERATOR = np.random.default_rng(0)
KERNEL = "layers/dense/vars/0"
ARRAYS = {
    KERNEL: GENERATOR.normal(size=(6, 8)).astype(np.float32),
    "layers/dense/vars/1": np.ones(8, np.float32),
    "layers/empty/vars/0": np.zeros((0, 3), np.float32),
    "layers/half/vars/0": GENERATOR.normal(size=(5,)).astype(np.float16),
    "optimizer/vars/0": np.array(3),
    "optimizer/vars/1": GENERATOR.normal(size=(6, 8)).astype(np.float32),
}
HALF = Recipe(
    steps=[{"method": "l1_unstructured", "targets": ["layers.dense.vars.0"], "amount": 0.5}]
)


def weights() -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, array in ARRAYS.items():
            file[name] = array
        file["layers/dense"].attrs["name"] = "dense"
        file.create_dataset("layers/zipped", data=np.ones((9, 9)), compression="gzip")
    return buffer.getvalue()


@pytest.fixture(params=["m.weights.h5", "m.keras"])
def model(request, tmp_path):
    path = tmp_path / request.param
    if path.suffix == ".h5":
        path.write_bytes(weights())
        return path
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", '{"keras_version": "3"}')
        archive.writestr("config.json", "{}" * 500, zipfile.ZIP_DEFLATED)
        archive.writestr("model.weights.h5", weights())
    return path


def hdf5_of(path) -> bytes:
    if path.suffix == ".h5":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return archive.read("model.weights.h5")


def test_a_copy_differs_in_the_pruned_values_alone(model, tmp_path):
    out = tmp_path / f"out{model.suffix}"
    with open_checkpoint(model) as checkpoint:
        assert [name for name in checkpoint.tensors if "optimizer" in name] == []
        assert checkpoint.tensors["layers.zipped"].not_prunable == "stored in chunks"
        read = checkpoint.read("layers.dense.vars.0").numpy()
        assert np.array_equal(read, ARRAYS[KERNEL])
        resolution = resolve(HALF, checkpoint)
        nbytes = sizes(resolution, out)["finalized"].nbytes
        export(resolution, out)
        mask = resolution.mask("layers.dense.vars.0").numpy()
    assert out.stat().st_size == nbytes
    before, after = hdf5_of(model), hdf5_of(out)
    with h5py.File(io.BytesIO(before)) as file:
        start = file[KERNEL].id.get_offset()
    stop = start + ARRAYS[KERNEL].nbytes
    assert after[:start] == before[:start]
    assert after[start:stop] == np.where(mask, ARRAYS[KERNEL], np.float32(0)).tobytes()
    assert after[stop : len(before)] == before[stop:]
    with h5py.File(io.BytesIO(after)) as file:
        assert np.array_equal(file["layers/zipped"], np.ones((9, 9)))
        assert (file[KERNEL][()] == 0).sum() == 24
    with open_checkpoint(out) as checkpoint:
        assert "prune_gui.recipe" in checkpoint.metadata
        export(resolve(HALF, checkpoint), tmp_path / f"again{model.suffix}")
    assert abs((tmp_path / f"again{model.suffix}").stat().st_size - nbytes) < 100
    assert verify(out).problems == []
    assert verify(out).compared == 5 - 1


def test_a_form_with_other_tensors_is_refused_and_saved_in_another_format(model, tmp_path):
    with applied(model, HALF) as resolution:
        with pytest.raises(CheckpointError, match=r"Save as \.safetensors or \.npz"):
            export(resolution, tmp_path / f"out{model.suffix}", form="reparametrized")
        with pytest.raises(CheckpointError, match=r"'layers\.zipped' \(stored in chunks\)"):
            export(resolution, tmp_path / "out.safetensors")
        export(resolution, tmp_path / "out.npz", form="masks")


def test_bfloat16_as_keras_stores_it_is_read(tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["w"] = np.array([0x3F80, 0xC000], np.uint16).view("V2")
        file["w"].attrs["dtype"] = "bfloat16"
    with open_checkpoint(tmp_path / "m.h5") as checkpoint:
        assert checkpoint.tensors["w"].dtype == "bfloat16"
        assert checkpoint.read("w").tolist() == [1.0, -2.0]


@pytest.mark.parametrize("damaged", ["model.weights.h5", "assets/vocabulary"])
def test_a_large_record_is_compared_with_its_checksum_before_it_is_used(tmp_path, damaged):
    path, text = tmp_path / "m.keras", b"a word " * 200_000
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assets/vocabulary", text)
        archive.writestr("model.weights.h5", weights())
    value = ARRAYS[KERNEL].tobytes() if damaged == "model.weights.h5" else text
    path.write_bytes(path.read_bytes().replace(value, value[:-2] + b"??"))
    says = f"{path.name} is a damaged zip archive .*{damaged}"
    with open_checkpoint(path) as checkpoint:
        resolution = resolve(HALF, checkpoint)
        if damaged == "model.weights.h5":
            for name in 2 * [*checkpoint.tensors][:2]:
                with pytest.raises(CheckpointError, match=says):
                    checkpoint.read(name)
        with pytest.raises(CheckpointError, match=says):
            export(resolution, tmp_path / "out.keras")
    assert [*tmp_path.iterdir()] == [path]
    [problem] = verify(path).problems
    assert re.search(says, problem.text)
    assert not problem.text.endswith(".")


def test_a_model_whose_library_is_missing_says_what_to_install(model, monkeypatch):
    monkeypatch.setattr(keras_format, "is_installed", lambda: False)
    with pytest.raises(CheckpointError, match=r"Install prune-gui\[keras\]"):
        open_checkpoint(model)


def test_a_crash_of_the_library_is_a_message(model, monkeypatch):
    monkeypatch.setattr(processes, "START_CODE", "import os; os.abort()")
    with pytest.raises(CheckpointError, match="the HDF5 library cannot read it"):
        open_checkpoint(model)


@pytest.mark.parametrize(
    "change",
    [
        *({"path": 3}, {"dtype": None}, {"contiguous": 1}, {"start": -1}, {"start": "0"}),
        *({"shape": shape} for shape in (3, [-1], [True], [[2]], ["a"], {})),
        *({"start": 1 << 70}, {"shape": [1 << 40, 1 << 40]}, {"start": 0, "shape": [10**9]}),
    ],
)
@pytest.mark.parametrize("model", ["m.keras"], indirect=True)
def test_a_forged_list_of_the_library_is_a_message(model, monkeypatch, change):
    dataset = {"path": "a", "shape": [2], "dtype": "<f4", "start": 0, "contiguous": True}
    for answer in ([dataset | change], {"a": 1}, [[]], 3, None):
        monkeypatch.setattr(processes, "START_CODE", f"print({json.dumps(answer)!r})")
        with pytest.raises(CheckpointError, match="Download the file again"):
            open_checkpoint(model)


def test_the_library_is_never_imported_by_the_program(model, monkeypatch):
    def no_h5py(name, *arguments, **options):
        assert not name.startswith("h5py")
        return plain_import(name, *arguments, **options)

    plain_import = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", no_h5py)
    open_checkpoint(model).close()
