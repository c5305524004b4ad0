"""Files of flax.serialization: arrays as msgpack unpacks them, and copies with pruned values."""

import msgpack
import numpy as np
import pytest
from applied import applied
from corpus_flax import array, array_of

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, sizes, verify

GENERATOR = np.random.default_rng(0)
KERNEL = GENERATOR.normal(size=(6, 8)).astype(np.float32)
BIG = GENERATOR.normal(size=(20, 30))
TREE = {
    "step": 70_000,
    "params": {
        "Dense_0": {"kernel": array_of(KERNEL), "bias": array_of(np.zeros(8, np.float32))},
        "big": {
            "__msgpack_chunked_array__": True,
            "shape": {"0": 20, "1": 30},
            "chunks": {"0": array_of(BIG.ravel()[:400]), "1": array_of(BIG.ravel()[400:])},
        },
        "half": array((2,), "bfloat16", b"\x80\x3f\x00\xc0"),
        "scale": array((), "float32", np.float32(2).tobytes(), code=3),
    },
    "opt_state": {"mu": array_of(np.ones(4))},
    "other": [None, -1.5, True, "text", msgpack.ExtType(2, msgpack.packb((1.0, 2.0)))],
}
STEP = {"method": "l1_unstructured", "targets": ["params.*kernel", "params.big"], "amount": 0.5}
HALF = Recipe(steps=[STEP])


@pytest.fixture
def model(tmp_path):
    (tmp_path / "flax_model.msgpack").write_bytes(msgpack.packb(TREE))
    return tmp_path / "flax_model.msgpack"


def values_in(packed) -> np.ndarray:
    shape, dtype, octets = msgpack.unpackb(packed.data)
    return np.frombuffer(octets, dtype).reshape(shape)


def test_arrays_of_the_model_are_read_and_other_values_left_out(model):
    with open_checkpoint(model.parent) as checkpoint:
        assert checkpoint.keys == tuple(
            f"params.{name}" for name in ("Dense_0.kernel", "Dense_0.bias", "big", "half", "scale")
        )
        assert np.array_equal(checkpoint.read("params.Dense_0.kernel").numpy(), KERNEL)
        assert np.array_equal(checkpoint.read("params.big").numpy(), BIG)
        assert checkpoint.read("params.half").tolist() == [1.0, -2.0]
        assert checkpoint.read("params.scale").shape == ()


def test_a_copy_differs_in_the_pruned_values_alone(model, tmp_path):
    out = tmp_path / "out.msgpack"
    with applied(model, HALF) as resolution:
        assert sizes(resolution, out)["finalized"].nbytes == model.stat().st_size
        export(resolution, out)
        kernel, big = (resolution.mask(f"params.{n}").numpy() for n in ("Dense_0.kernel", "big"))
    assert out.stat().st_size == model.stat().st_size
    tree = msgpack.unpackb(out.read_bytes())
    params = tree["params"]
    assert np.array_equal(
        values_in(params["Dense_0"].pop("kernel")), np.where(kernel, KERNEL, np.float32(0))
    )
    chunks = params["big"].pop("chunks")
    written = np.concatenate([values_in(chunks["0"]), values_in(chunks["1"])])
    assert np.array_equal(written.reshape(20, 30), np.where(big, BIG, 0))
    expected = msgpack.unpackb(model.read_bytes())
    del expected["params"]["Dense_0"]["kernel"], expected["params"]["big"]["chunks"]
    assert tree == expected
    assert verify(out).problems == []


@pytest.mark.parametrize("form", ["reparametrized", "masks"])
def test_a_form_with_other_tensors_is_refused(model, tmp_path, form):
    with applied(model, HALF) as resolution:
        with pytest.raises(CheckpointError, match=r"Save as \.safetensors or \.npz"):
            export(resolution, tmp_path / "out.msgpack", form=form)
        export(resolution, tmp_path / "out.safetensors", form=form)
