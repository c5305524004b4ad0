"""Slices of tensors, computed span by span."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.recipe.compaction import slicing
from prune_gui.recipe.compaction.slicing import sliced, sliced_shape

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float64]


@st.composite
def cut_tensors(draw):
    """Draw a tensor and the kept channels of some of its dimensions."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    kept = {}
    for dim in draw(st.sets(st.integers(0, len(shape) - 1))):
        flags = draw(st.lists(st.booleans(), min_size=shape[dim], max_size=shape[dim]))
        if any(flags):
            kept[dim] = np.flatnonzero(flags)
    dtype = draw(st.sampled_from(DTYPES))
    return torch.arange(np.prod(shape)).reshape(shape).to(dtype), kept


@given(cut_tensors(), st.integers(1, 40), st.integers(1, 40), st.integers(0, 9), st.data())
def test_any_span_is_that_of_the_indexed_tensor(cut, row, batch, gap, data):
    tensor, kept = cut
    expected = tensor
    for dim, index in kept.items():
        raw = expected.contiguous().view(torch.uint8).reshape(*expected.shape, -1)
        picked = raw.index_select(dim, torch.from_numpy(index)).contiguous()
        expected = picked.view(tensor.dtype).reshape(picked.shape[:-1])
    assert sliced_shape(tuple(tensor.shape), kept) == tuple(expected.shape)
    start = data.draw(st.integers(0, expected.numel() - 1))
    stop = data.draw(st.integers(start + 1, expected.numel()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slicing, "MAX_ROW_ELEMENTS", row)
        patch.setattr(slicing, "BATCH_ELEMENTS", batch)
        patch.setattr(slicing, "MAX_GAP_ELEMENTS", gap)
        (values,) = sliced(tensor.reshape(-1), tuple(tensor.shape), kept, (), [(start, stop)])
    expected = expected.reshape(-1)[start:stop]
    assert values.dtype == tensor.dtype
    assert torch.equal(values.view(torch.uint8), expected.contiguous().view(torch.uint8))
