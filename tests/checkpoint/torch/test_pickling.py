"""Our pickles equal those of torch, for tensors with values and for blanks."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint.torch.writing import pickled

DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.uint8, torch.bool, torch.uint16),
)


def torchs_own(content: object) -> tuple[bytes, list[bytes]]:
    """Return the pickle and the storages that torch.save writes, in the order of their numbers."""
    file = io.BytesIO()
    torch.save(content, file)
    with zipfile.ZipFile(file) as archive:
        numbers = range(sum("/data/" in name for name in archive.namelist()))
        storages = [archive.read(f"archive/data/{number}") for number in numbers]
        return archive.read("archive/data.pkl"), storages


def octets(storage: torch.UntypedStorage) -> bytes:
    return bytes(storage.tolist())


tensors = st.builds(
    lambda dtype, shape: torch.arange(64).to(dtype)[: torch.Size(shape).numel()].reshape(shape),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=3),
)
nests = st.recursive(
    tensors | st.integers() | st.text(max_size=5) | st.floats() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(nests)
def test_nested_objects_are_pickled_as_torch_pickles_them(content):
    pickle, storages = pickled(content, ())
    assert (pickle, [octets(storage) for storage in storages]) == torchs_own(content)


@pytest.mark.filterwarnings("ignore:.*quantiz.*", "ignore:.*ypedStorage.*", "ignore:.*[Ss]parse")
def test_ties_views_and_special_tensors_are_pickled_as_torch_pickles_them():
    weight = torch.rand(4, 3)
    content = OrderedDict(
        weight=weight,
        tied=weight,
        turned=weight.T,
        part=weight[1:, ::2],
        parameter=torch.nn.Parameter(weight),
        conjugate=torch.ones(2, dtype=torch.complex64).conj(),
        sparse=torch.eye(3).to_sparse(),
        quantized=torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        meta=torch.ones(2, device="meta"),
        storage=torch.ones(3, dtype=torch.uint8).untyped_storage(),
    )
    content._metadata = {"": {"version": 1}}
    pickle, storages = pickled(content, ())
    assert pickle == torchs_own(content)[0]
    assert len(storages) == len(torchs_own(content)[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_blank_is_pickled_like_a_tensor_with_values(dtype):
    def content(device: str) -> dict[str, object]:
        state = {
            "a": torch.zeros(2, 3, dtype=dtype, device=device),
            "scalar": torch.zeros((), dtype=dtype, device=device),
            "empty": torch.zeros(0, 4, dtype=dtype, device=device),
        }
        return state | {"tied": state["a"]}

    blanks = content("meta")
    parameters = {"p": torch.nn.Parameter(blanks["a"], requires_grad=False)}
    pickle, storages = pickled(blanks | parameters, blanks.values())
    real = content("cpu")
    same = real | {"p": torch.nn.Parameter(real["a"], requires_grad=False)}
    assert pickle == torchs_own(same)[0]
    assert [storage.nbytes() for storage in storages] == list(map(len, torchs_own(same)[1]))


def test_a_meta_tensor_that_is_not_a_blank_stays_without_values():
    blank, other = torch.zeros(2, device="meta"), torch.zeros(2, device="meta")
    pickle, storages = pickled({"blank": blank, "other": other}, [blank])
    assert pickle == torchs_own({"blank": torch.zeros(2), "other": other})[0]
    assert len(storages) == 1
