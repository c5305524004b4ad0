"""Unpickling, compared with torch.load; arrays of numpy are tensors."""

import struct
from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch
from corpus_forms import (
    LEGACY,
    archive,
    call,
    compress,
    dictionary,
    legacy,
    long,
    name,
    shaped,
    storage,
    tensor,
    text,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same_values import same
from system_faults import raising

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.errors import CheckpointError

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*quantiz.*", "ignore:.*ypedStorage.*", "ignore:.*[Ss]parse"
)


SHARED = torch.arange(12.0)
CONTENTS = {
    "plain": {"w": torch.randn(3, 4), "n": 3, "f": 0.5, "t": True, "none": None, "s": "text"},
    "python": {
        "w": torch.ones(2),
        "tuple": (1, (2, "x"), [3.5, {"a": b"bytes"}]),
        "set": {1, "a", (2, 3)},
        "bytes": bytearray(b"\x00\xff"),
        "complex": 1 - 2j,
        "counter": Counter("abca"),
        "ordered": OrderedDict([("b", 1), (2, "c"), ((1, 2), None)]),
        "large": 1 << 200,
        "nan": float("nan"),
        "size": torch.Size([2, 3]),
        "device": torch.device("cuda", 1),
        "dtype": torch.bfloat16,
        "layout": [torch.float8_e5m2, torch.int64],
        "unicode": "é漢\ud800",
    },
    "views": {"a": SHARED, "b": SHARED[3:7], "c": SHARED.reshape(3, 4).t(), "d": SHARED[::5]},
    "dtypes": {
        str(dtype): torch.ones(3).to(dtype)
        for dtype in (torch.float64, torch.float16, torch.int8, torch.bool, torch.complex64)
    },
    "parameters": {"p": torch.nn.Parameter(torch.ones(2)), "g": torch.ones(2, requires_grad=True)},
    "storages": {"w": torch.ones(3), "beside": [torch.arange(3.0)._typed_storage()]},
    "module": torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).state_dict(),
}


def quantized() -> dict[str, torch.Tensor]:
    return {
        "w": torch.ones(1),
        "q": torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
        "c": torch.quantize_per_channel(
            torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.quint8
        ),
    }


ONLY_ZIP = {
    "newer": {"w": torch.ones(3).to(torch.float8_e5m2), "u": torch.ones(3).to(torch.uint16)},
    "special": {
        "w": torch.ones(1),
        "coo": torch.eye(3).to_sparse(),
        "meta": torch.ones(2, 3, device="meta").t(),
        "untyped": torch.ones(2).untyped_storage(),
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
        "neg": torch.ones(2, dtype=torch.complex64).conj().imag,
        "marked": torch.nn.Parameter(torch.ones(2)),
    },
}
ONLY_ZIP["special"]["marked"].tensor_parallel = True


@pytest.mark.parametrize("form", ["zip", "legacy", "deflated"])
@pytest.mark.parametrize("name", [*CONTENTS, *ONLY_ZIP, "quantized", "sparse rows"])
def test_every_kind_of_content_is_built_as_torch_builds_it(saved, name, form):
    if form == "legacy" and name in (*ONLY_ZIP, "sparse rows"):
        pytest.skip("torch cannot write it in this form")
    contents = CONTENTS | ONLY_ZIP
    if name == "quantized":
        contents[name] = quantized()
    elif name == "sparse rows":
        contents[name] = {"w": torch.ones(1), "csr": torch.eye(3).to_sparse_csr()}
    path = saved(contents[name], **(LEGACY if form == "legacy" else {}))
    if form == "deflated":
        compress(path)
    expected = torch.load(path, weights_only=True, map_location="cpu")
    with open_checkpoint(path) as checkpoint:
        assert isinstance(checkpoint, TorchCheckpoint)
        assert same(checkpoint.content, expected)
        if name == "views":
            pointers = {
                tensor.untyped_storage().data_ptr() for tensor in checkpoint.content.values()
            }
            assert len(pointers) == 1


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(min_size=1, max_size=5),
    st.complex_numbers(),
)
KEYS = st.one_of(st.text(max_size=4), st.integers(), st.tuples(st.integers(), st.text(max_size=2)))
NESTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
    ),
    max_leaves=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(NESTS)
def test_nested_plain_values_are_built_as_torch_builds_them(saved, content):
    path = saved({"w": torch.ones(1), "nest": content})
    with open_checkpoint(path) as checkpoint:
        assert same(checkpoint.content, torch.load(path, weights_only=True))


class Call:
    """What is pickled as a call that `torch.load` fails to make."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


VIEW = (torch.ones(2)._typed_storage(), 0, (2,), (1,))


@pytest.mark.parametrize(
    "call",
    [
        Call(torch._utils._rebuild_tensor, *VIEW, False),
        Call(torch._utils._rebuild_tensor_v2, *VIEW),
        Call(torch._utils._rebuild_tensor_v2, *VIEW, False),
        Call(torch._utils._rebuild_tensor_v2, *VIEW, 1, OrderedDict()),
        Call(torch._utils._rebuild_tensor_v2, *VIEW, False, OrderedDict(), None, None),
        Call(torch._utils._rebuild_parameter, torch.ones(1), True),
        Call(torch._utils._rebuild_parameter, torch.ones(1), (), OrderedDict()),
        Call(torch.nn.Parameter, torch.ones(1), True, OrderedDict()),
        Call(torch._utils._rebuild_meta_tensor_no_storage, torch.float32, (1,), (1,)),
    ],
    ids=lambda call: f"{call.call[0].__name__} {len(call.call[1])}",
)
def test_a_call_with_other_arguments_than_torch_takes_is_refused(saved, call):
    path = saved({"w": torch.ones(1), "beside": call})
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever torch raises
        torch.load(path, weights_only=True)
    with pytest.raises(CheckpointError, match=r"in a way torch does not write|impossible shape"):
        open_checkpoint(path)


def test_the_unpickler_of_torch_is_never_called(saved, monkeypatch):
    paths = [saved({"w": torch.ones(2)}), saved({"w": torch.ones(2)}, "legacy.pt", **LEGACY)]
    fail = raising(AssertionError("torch unpickles"))
    monkeypatch.setattr(torch, "load", fail)
    monkeypatch.setattr(torch._weights_only_unpickler, "Unpickler", fail)
    for path in paths:
        with open_checkpoint(path) as checkpoint:
            assert checkpoint.read("w").tolist() == [1, 1]


def test_a_part_of_a_legacy_storage_shares_its_values(tmp_path):
    whole = storage()[:-2]
    part = whole + b"(" + text("v") + long(1) + long(2) + b"ttQ"
    path = legacy(
        dictionary(a=tensor(), b=tensor(part, shape=shaped(2))),
        data=struct.pack("<q4f", 4, 1, 2, 3, 4),
    )(tmp_path)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.read("b").tolist() == [2, 3]
        checkpoint.content["a"][1] = 9
        assert checkpoint.content["b"][0] == 9


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
