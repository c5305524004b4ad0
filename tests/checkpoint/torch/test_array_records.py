"""Numpy arrays in a torch file, which are read as tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from corpus_forms import archive, call, dictionary, name, shaped, tensor, text

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError

VALUES = np.arange(6).reshape(2, 3)
DTYPES = ["f8", "f4", "f2", "c16", "c8", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("order", "CF")
def test_arrays_are_tensors_of_the_same_values(saved, protocol, order):
    state = {code: np.array(VALUES, code, order=order) for code in DTYPES}
    state["empty"] = np.ones((0, 3), np.float32)
    state["scalar"] = np.array(2.5)
    with open_checkpoint(saved({"params": state}, pickle_protocol=protocol)) as checkpoint:
        assert checkpoint.keys == tuple(state)
        for key, array in state.items():
            read = checkpoint.read_key(key)
            assert read.shape == array.shape
            assert np.array_equal(read.numpy(), array)
            assert read.numpy().dtype == array.dtype


def test_other_arrays_and_scalars_are_kept_and_not_shown(saved):
    state = {
        "w": torch.ones(2),
        "object": np.array([None, {}]),
        "big-endian": np.ones(2, ">f4"),
        "text": np.array(["a"]),
        "scalar": np.float64(1),
    }
    with open_checkpoint(saved(state)) as checkpoint:
        assert checkpoint.keys == ("w",)


def test_a_single_array_is_one_parameter(saved):
    with open_checkpoint(saved(np.ones((2, 2), np.float32))) as checkpoint:
        assert checkpoint.read("weight").tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("shape", [(3,), (-1,), (2**62, 2**62), (0, 2**62), ("a",)])
def test_an_array_of_a_false_shape_is_not_a_tensor(tmp_path, shape):
    dtype = call("numpy.dtype", text("f8")) + b"(K\x03" + text("<") + b"NNNK\x00K\x00K\x00tb"
    made = call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), shaped(0), b"N")
    octets = call("_codecs.encode", text("\0" * 16), text("latin1"))
    sizes = b"(" + b"".join(text(n) if isinstance(n, str) else shaped(n)[1:-1] for n in shape)
    state = b"(K\x01" + sizes + b"t" + dtype + b"\x89" + octets + b"tb"
    with open_checkpoint(archive(dictionary(w=tensor(), a=made + state))(tmp_path)) as checkpoint:
        assert checkpoint.keys == ("w",)
    with pytest.raises(CheckpointError, match="no state dict"):
        open_checkpoint(archive(made + state)(tmp_path))
