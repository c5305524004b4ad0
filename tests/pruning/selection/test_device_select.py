"""Selection on a device, by operators of torch and by Triton, compared with plain sorting.

The tensors are on the graphics card if there is one. Without one, they are on the CPU, and Triton's
interpreter runs its kernels.
"""

import importlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator

import pytest
import torch
from floats import ORDERED
from hypothesis import given, settings
from hypothesis import strategies as st

from prune_gui.pruning.selection import device_select
from prune_gui.pruning.selection.device_select import select_portably
from prune_gui.pruning.selection.keys import DeviceKeys, ranking_dtype

DEVICE = "cpu" if "TRITON_INTERPRET" in os.environ else "cuda"
KERNELS = "prune_gui.pruning.selection.triton_select"
SMALL_BLOCKS = {"BLOCK": 16, "ROUNDS": 2}
dtypes = st.sampled_from([*ORDERED, torch.float8_e4m3fnuz])
# Few distinct values, so that ties are common, and neighbours in the last bits of the mantissa.
NUMBERS = [0.0, -0.0, 0.5, -0.5, 1.0, 1 + 2**-23, 1 + 2**-52, 1.25, -3.0, 1e-3, 1e-40]
ODD = [float("inf"), -float("inf"), float("nan"), -float("nan")]
values = st.lists(st.sampled_from(NUMBERS + ODD) | st.floats(-4, 4), max_size=70)


@pytest.fixture(scope="module", params=["portable", pytest.param("triton", marks=pytest.mark.slow)])
def select(request) -> Iterator[Callable]:
    if request.param == "portable":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(device_select, "PART_ELEMENTS", 32)
            patch.setattr(device_select, "MAX_DIGIT_BITS", 6)
            yield select_portably
        return
    pytest.importorskip("triton")
    with pytest.MonkeyPatch.context() as patch:
        module = importlib.import_module(KERNELS)
        for name, value in SMALL_BLOCKS.items():
            patch.setattr(module, name, value)
        yield module.select


def kept_of(select, tensors, k, remaining=None, dtype=torch.bool, *, largest_first=False):
    """Return the concatenated masks of a selection; they and `remaining` are of `dtype`."""
    masks = remaining or [None] * len(tensors)
    every = deque(
        DeviceKeys.of(
            own.to(DEVICE),
            None if mask is None else mask.to(DEVICE, dtype),
            largest_first=largest_first,
        )
        for own, mask in zip(tensors, masks, strict=True)
    )
    found = list(select(every, k, dtype))
    assert [mask.shape for mask in found] == [own.shape for own in tensors]
    masks = torch.cat([mask.cpu().view(-1) for mask in found])
    assert masks.dtype == dtype
    assert torch.equal(masks, masks.bool().to(dtype))
    return masks.bool()


def expected(scores, k, remaining=None):
    """The definition: a stable sort of the absolute values, NaN above infinity."""
    magnitudes = scores.double().abs()
    kept = torch.ones(len(scores), dtype=torch.bool) if remaining is None else remaining.clone()
    order = magnitudes.sort(stable=True).indices
    kept[order[kept[order]][:k]] = False
    return kept


@settings(max_examples=40)
@given(st.lists(values, min_size=1, max_size=3), dtypes, st.booleans(), st.data())
def test_the_lowest_of_several_tensors_are_those_of_a_stable_sort(
    select, parts, dtype, is_pruned, data
):
    tensors = [torch.tensor(part, dtype=torch.float64).to(dtype) for part in parts]
    scores = torch.cat([own.double() for own in tensors])
    remaining = None
    if is_pruned:
        generator = torch.Generator().manual_seed(len(scores))
        remaining = torch.rand(len(scores), generator=generator) > 0.3
    count = len(scores) if remaining is None else int(remaining.sum())
    k = data.draw(st.integers(0, count))
    masks = None if remaining is None else list(remaining.split([len(own) for own in tensors]))
    shared = ranking_dtype({dtype})
    mask_dtype = data.draw(st.sampled_from([torch.bool, shared]))
    if shared.itemsize == 1:
        mask_dtype = torch.bool  # `remaining` of floats of a byte is boolean
    found = kept_of(select, [own.to(shared) for own in tensors], k, masks, mask_dtype)
    assert torch.equal(found, expected(scores, k, remaining))


def test_the_number_to_prune_may_depend_on_how_many_remain(select):
    scores, remaining = torch.randn(2, 300).bfloat16(), torch.rand(300) > 0.5
    every = torch.cat([torch.ones(300, dtype=torch.bool), remaining])
    found = kept_of(select, [*scores], lambda n: n // 2, [None, remaining], torch.bfloat16)
    assert torch.equal(found, expected(scores.view(-1), int(every.sum()) // 2, every))


@pytest.mark.parametrize("k", [0, 1, 150, 299, 300])
@pytest.mark.parametrize("dtype", ORDERED)
def test_equal_elements_are_pruned_in_their_order(select, dtype, k):
    found = kept_of(select, [torch.ones(10, 10).to(dtype), torch.ones(200).to(dtype)], k)
    assert found.tolist() == [False] * k + [True] * (300 - k)


def test_the_largest_first(select):
    drawn = torch.rand(500)
    drawn[::7] = drawn[0]
    drawn[3], drawn[5] = 0, 1
    found = kept_of(select, [drawn], 200, largest_first=True)
    assert torch.equal(found, expected(1 - drawn.double(), 200))


def test_scalars_and_views_are_accepted(select):
    found = kept_of(select, [torch.tensor(3.0), torch.arange(9.0)[1:]], 3)
    assert found.tolist() == [False] * 3 + [True] * 6


def test_blocks_of_the_usual_size(select, monkeypatch):
    monkeypatch.setattr(device_select, "PART_ELEMENTS", 1 << 16)
    monkeypatch.setattr(device_select, "MAX_DIGIT_BITS", 16)
    if kernels := sys.modules.get(KERNELS):
        monkeypatch.setattr(kernels, "BLOCK", 4096)
        monkeypatch.setattr(kernels, "ROUNDS", 16)
    scores = torch.randn(200_000).bfloat16()
    assert torch.equal(kept_of(select, [scores], 70_000), expected(scores, 70_000))


def test_a_device_on_which_triton_fails_uses_operators_of_torch(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, KERNELS, None)
    assert device_select.select_of.__wrapped__("cuda") is select_portably
    assert "Triton cannot be used" in caplog.text
    assert device_select.select_of.__wrapped__("mps") is select_portably


COMPILING = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from prune_gui.pruning.selection import triton_select as kernels

def compile(function, **constants):
    types = {"bits": BITS, "remaining": MASK, "size": "i64", "kept": BITS}
    names = function.arg_names
    signature = {
        name: "constexpr" if name in constants else types.get(name, "*i64") for name in names
    }
    values = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(function, signature, values, {})
    return "ptx" in triton.compile(source, GPUTarget("cuda", 90, 32)).asm

for BITS, MASK, width, flip in (("*i16", "*bf16", 15, 0), ("*i32", "*u8", 31, 0x3F800000)):
    keys = dict(MASKED=True, MAGNITUDE=(1 << width) - 1, HIGHEST=(1 << width) - 9, FLIP=flip)
    sizes = dict(BLOCK=kernels.BLOCK, ROUNDS=kernels.ROUNDS)
    for digit in kernels.digits_of(width):
        names = ("START", "EARLIER", "SHIFT", "BITS", "SPARSE")
        assert compile(kernels.count_digits, **keys, **dict(zip(names, digit)), **sizes)
        end = digit.start + 2 + (1 << digit.bits)
        assert compile(kernels.pick_last_digit, END=end, BITS=digit.bits)
    assert compile(kernels.mark_kept, **keys, ONE=0x3F80, BLOCK=kernels.BLOCK)
    assert compile(kernels.prune_ties, **keys, BLOCK=kernels.BLOCK)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_kernels_compile_without_a_card(tmp_path):
    pytest.importorskip("triton")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    program = tmp_path / "compiling.py"  # Triton reads the source of what it compiles
    program.write_text(COMPILING)
    subprocess.run([sys.executable, program], env=environment, check=True)
