import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.comparison.tensor_diff import Side, TensorDiff, Zeros, common_dtype, diff_tensors
from prune_gui.pruning.selection.scores import TensorScores

FLOATS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
]  # fmt: skip
OTHERS = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.complex64, torch.complex128]
ODD = [0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, 2.0**-9, 240.0]


@st.composite
def _two_alike(draw, dtypes):
    """Return two tensors of one size, with many equal elements, of random dtypes."""
    size = draw(st.integers(1, 40))
    values = draw(st.lists(st.sampled_from(ODD), min_size=size, max_size=size))
    others = [draw(st.sampled_from(ODD)) if draw(st.booleans()) else v for v in values]
    return tuple(
        torch.tensor(some, dtype=torch.float64).to(draw(st.sampled_from(dtypes)))
        for some in (values, others)
    )


def _tallied(a, b, mask_a=None, mask_b=None, chunk=1 << 20):
    sides = Side(TensorScores.of(a), mask_a), Side(TensorScores.of(b), mask_b)
    dtype, found = common_dtype(a.dtype, b.dtype), TensorDiff()
    for start in range(0, a.numel(), chunk):
        found += diff_tensors(*sides, dtype, (start, min(start + chunk, a.numel())))
    return found


def _fewest(zero, length):
    groups = zero[: len(zero) // length * length].reshape(-1, length)
    return int(groups.sum(1).min(initial=length))


@given(_two_alike(FLOATS), st.sampled_from([8, 16, 1 << 20]), st.data())
def test_the_sum_over_chunks_equals_the_diff_of_whole_tensors(pair, chunk, data):
    a, b = pair
    masks = [
        data.draw(st.none() | st.lists(st.booleans(), min_size=len(a), max_size=len(a)))
        for _ in range(2)
    ]
    masks = [mask if mask is None else torch.tensor(mask) for mask in masks]
    found = _tallied(a, b, *masks, chunk=chunk)
    x, y = (
        np.where(True if mask is None else mask, tensor.double(), 0.0)
        for tensor, mask in zip(pair, masks, strict=True)
    )
    both_nan = np.isnan(x) & np.isnan(y)
    same = (x == y) | both_nan
    finite = np.isfinite(x) & np.isfinite(y)
    other_bits = (
        ~same | (np.signbit(x) != np.signbit(y))
    ) & ~both_nan  # but for NaNs, any of which
    assert found.differing - found.same_number == np.count_nonzero(~same)
    assert found.differing >= np.count_nonzero(other_bits)
    assert found.differing <= np.count_nonzero(other_bits | both_nan)
    assert found.non_finite == np.count_nonzero(~same & ~finite)
    assert found.largest == np.abs(y[finite] - x[finite]).max(initial=0.0)
    zeros = [x == 0, y == 0]
    assert found.zeros == Zeros(
        *(int(zero.sum()) for zero in zeros),
        int((zeros[0] & zeros[1]).sum()),
        *((_fewest(zero, 4), _fewest(zero, 8)) for zero in zeros),
    )
    assert found.zeros.gained == np.count_nonzero(~zeros[0] & zeros[1])
    assert found.zeros.lost == np.count_nonzero(zeros[0] & ~zeros[1])
    either = np.count_nonzero(zeros[0] | zeros[1])
    assert found.zeros.iou == (found.zeros.both / either if either else 1.0)


@given(_two_alike([torch.float32]))
def test_swapping_the_tensors_swaps_the_sides(pair):
    one, other = _tallied(*pair), _tallied(*pair[::-1])
    assert (one.differing, one.largest, one.zeros.iou) == (
        other.differing, other.largest, other.zeros.iou,
    )  # fmt: skip
    assert (one.zeros.gained, one.zeros.lost) == (other.zeros.lost, other.zeros.gained)


@given(_two_alike(OTHERS).filter(lambda pair: pair[0].dtype == pair[1].dtype))
def test_elements_with_different_bytes_are_counted_for_other_dtypes(pair):
    a, b = (tensor.view(torch.uint8).reshape(len(tensor), -1) for tensor in pair)
    found = _tallied(*pair)
    assert found == TensorDiff(differing=int((a != b).any(1).sum()))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_tensor_does_not_differ_from_itself(dtype):
    values = torch.tensor([0.0, -0.0, 1.0, math.nan] * 4).to(dtype)
    found = _tallied(values, values)
    assert (found.differing, found.largest, found.zeros.lost, found.zeros.gained) == (0, 0.0, 0, 0)
    assert found.zeros.iou == 1.0


def test_nan_bits_and_signs_of_zero_differ_without_being_another_number():
    bits = torch.tensor([0x7FC00000, 0x7FC00001, 0, -(1 << 31)], dtype=torch.int32)
    a = bits.view(torch.float32)
    b = torch.tensor([math.nan, math.nan, -0.0, 1.0])
    found = _tallied(a, b)
    assert (found.differing, found.same_number, found.largest) == (3, 2, 1.0)


def test_dtypes_without_an_exact_common_dtype_are_not_widened():
    assert common_dtype(torch.int64, torch.float64) is None
    assert common_dtype(torch.uint64, torch.int64) is None
    assert common_dtype(torch.complex64, torch.float32) is None
    assert common_dtype(torch.bool, torch.float32) == torch.float64
    assert common_dtype(torch.int32, torch.int64) == torch.int64
    assert common_dtype(torch.float16, torch.bfloat16) == torch.float32
