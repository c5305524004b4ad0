import math
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from prune_gui import parallel
from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.pruning.norms import unit_norms
from prune_gui.pruning.norms.unit_norms import channel_norms, score_norms
from prune_gui.pruning.selection.scores import TensorScores

ORDERS = [0, 0.5, 1, 2, 3, -1, math.inf, -math.inf]
tensors = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=2, max_dims=4, max_side=6),
    elements=st.floats(0.125, 8, width=32) | st.floats(-8, -0.125, width=32),
).map(torch.from_numpy)


def everything(start, stop):
    return np.ones(stop - start, np.bool_)


def reference(t, n, dim):
    others = [d for d in range(t.dim()) if d != dim % t.dim()]
    return torch.linalg.vector_norm(t.double(), n, others)


@pytest.mark.parametrize("n", [*ORDERS, "fro", 0.3, 2.5, 6, -3])
@pytest.mark.parametrize("shape", [(4, 300), (4, 7), (300, 4), (3, 4, 5), (40, 3, 30)])
@pytest.mark.parametrize(
    ("dtype", "scales"),
    [
        (torch.float32, (1e-30, 1e-43, 1e-20, 1e30, 1e37, 1)),
        (torch.bfloat16, (1e-30, 1e-20, 1e30, 1)),
        (torch.float16, (1e-6, 1e3, 1)),
        (torch.float64, (1e-300, 1e-160, 1e160, 1e300, 1)),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_norms_of_tiny_and_huge_weights_neither_underflow_nor_overflow(
    n, shape, dtype, scales, masked
):
    for dim in range(len(shape)):
        along = [1] * len(shape)
        along[dim] = -1
        factors = torch.tensor(scales, dtype=torch.float64).repeat(shape[dim])[: shape[dim]]
        t = torch.rand(shape, dtype=torch.float64) + 0.5
        t = (t * factors.view(along)).to(dtype)
        t.select(dim, 1).zero_()  # its neighbours are computed again
        wide = t.double().movedim(dim, 0).flatten(1)
        largest = wide.abs().amax(1).clamp_min(5e-324)  # a power that float64 itself cannot hold
        p = 2 if n == "fro" else n
        relative = torch.linalg.vector_norm(wide / largest[:, None], p, 1)
        expected = relative * largest if n != 0 else relative
        if masked:
            found = score_norms(TensorScores.of(t), everything, n, dim)
        else:
            found = channel_norms(t, n, dim)
        expected = expected.to(found.dtype)  # a norm may be too large for it
        torch.testing.assert_close(found, expected, rtol=5e-6, atol=3e-45)


@given(tensors, st.sampled_from(ORDERS), st.integers(1, 40), st.data())
def test_the_size_of_the_spans_does_not_matter(t, n, span, data):
    dim = data.draw(st.integers(-t.dim(), t.dim() - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unit_norms, "MIN_SPAN_ELEMENTS", span)
        found = channel_norms(t, n, dim)
    torch.testing.assert_close(found.double(), reference(t, n, dim), rtol=1e-5, atol=0)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("chunk", [1, 1000, 1 << 20])
def test_threads_and_chunks_do_not_change_any_bit(monkeypatch, set_torch_threads, threads, chunk):
    t = torch.randn(40, 3, 60)
    monkeypatch.setattr(unit_norms, "MIN_SPAN_ELEMENTS", 500)
    cases = [(n, dim) for n in (*ORDERS, 2.5) for dim in range(3)]
    expected = [channel_norms(t, n, dim) for n, dim in cases]
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
    set_torch_threads(threads)
    found = [channel_norms(t, n, dim) for n, dim in cases]
    assert all(one.equal(other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("n", [*ORDERS, 2.5])
def test_pruned_elements_count_as_zero_to_the_last_bit(n):
    t = torch.randn(30, 20, 10, generator=torch.Generator().manual_seed(0))
    remaining_mask = torch.rand(t.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    t[~remaining_mask] = math.nan
    flat = remaining_mask.flatten().numpy()
    for dim in range(3):
        found = score_norms(TensorScores.of(t), lambda start, stop: flat[start:stop], n, dim)
        assert found.equal(channel_norms(t.where(remaining_mask, 0.0), n, dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("shape", [(3, 10_000), (700, 5), (5, 700), (1500, 2, 3), (9, 4, 3, 3)])
def test_every_dtype_and_shape_has_float32_accuracy(dtype, shape):
    t = torch.randn(shape).to(dtype)
    rtol = 1e-12 if dtype is torch.float64 else 1e-6
    for n in (*ORDERS, 2.5):
        for dim in range(t.dim()):
            found = channel_norms(t, n, dim)
            assert found.dtype == (torch.float64 if dtype is torch.float64 else torch.float32)
            torch.testing.assert_close(found.double(), reference(t, n, dim), rtol=rtol, atol=0)


def test_the_root_of_every_bfloat16_magnitude_has_float32_accuracy():
    every = torch.arange(-(1 << 15), 0, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    rows = every[:, None].expand(-1, 512).contiguous()  # long enough for every loop
    found = channel_norms(rows, 0.5, 0)
    expected = reference(rows, 0.5, 0).float()
    torch.testing.assert_close(found, expected, rtol=2**-20, atol=0, equal_nan=True)


def test_subnormal_elements_do_not_affect_normal_ones():
    t = torch.full((2, 512), 1e-39, dtype=torch.bfloat16)
    t[1, ::2] = 3.0
    torch.testing.assert_close(channel_norms(t, 0.5, 0).double(), reference(t, 0.5, 0))


@pytest.mark.parametrize("dim", [0, 1, 2, 3])
def test_transposed_and_channels_last_tensors_have_the_same_norms(dim):
    t = torch.randn(4, 6, 5, 3)
    last = t.to(memory_format=torch.channels_last)
    torch.testing.assert_close(channel_norms(last, 2, dim), channel_norms(t, 2, dim))
    swapped = t.transpose(0, dim)
    torch.testing.assert_close(channel_norms(swapped, 1, 0), channel_norms(t, 1, dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("n", [0.5, 1, 2, 2.5, 3, math.inf, -math.inf])
def test_only_channels_with_nan_have_a_nan_norm(dtype, n):
    t = torch.ones(3, 400, dtype=dtype)
    t[1, 2], t[2, 3] = -math.nan, -math.inf
    assert channel_norms(t, n, 0).isnan().tolist() == [False, True, False]
    assert channel_norms(t.mT, n, 1).isnan().tolist() == [False, True, False]
    assert channel_norms(t, n, 1).isnan().nonzero().tolist() == [[2]]


def test_norm_0_counts_non_finite_elements_and_norm_minus_inf_is_the_minimum():
    t = torch.tensor([[math.nan, 0.0, -math.inf], [math.inf, math.inf, math.inf]])
    assert channel_norms(t, 0, 0).tolist() == [2.0, 3.0]
    assert channel_norms(t, 0, 1).tolist() == [2.0, 1.0, 2.0]
    assert channel_norms(t[1:], -math.inf, 0).tolist() == [math.inf]
    assert channel_norms(t[:, 1:], -math.inf, 0).tolist() == [0.0, math.inf]


class Marked(torch.Tensor):
    """A tensor that only torch can read."""


@pytest.mark.parametrize("n", [*ORDERS, "fro"])
def test_a_subclass_of_tensor_is_left_to_torch(n):
    t = torch.randn(3, 4, 5).as_subclass(Marked)
    for dim in range(-1, 3):
        found = channel_norms(t, n, dim)
        assert type(found) is Marked
        torch.testing.assert_close(
            found.as_subclass(torch.Tensor), channel_norms(t.as_subclass(torch.Tensor), n, dim)
        )
    with pytest.raises(ValueError, match="not a norm"):
        channel_norms(t, math.nan, 0)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_nuc_equals_that_of_torch_where_a_channel_is_a_matrix(dim):
    t = torch.randn(3, 4, 5)
    others = [d for d in range(3) if d != dim % 3]
    torch.testing.assert_close(channel_norms(t, "nuc", dim), torch.norm(t, "nuc", dim=others))


def test_nuc_of_a_channel_with_nan_is_nan():
    t = torch.randn(3, 4, 5)
    t[1, 0, 0] = math.nan
    assert channel_norms(t, "nuc", 0).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("n", "shape", "says"),
    [
        *((n, (2, 2), "not a norm") for n in ("max", None, math.nan, True)),
        *(("nuc", shape, "'fro'") for shape in ((3,), (3, 4), (3, 4, 5, 6))),
    ],
)
def test_orders_without_a_norm_are_rejected(n, shape, says):
    with pytest.raises(ValueError, match=says):
        channel_norms(torch.ones(shape), n, 0)


def test_vectors_empty_channels_and_float8_have_norms():
    assert channel_norms(torch.tensor([-3.0, 0.0, 2.0]), 2, 0).tolist() == [3.0, 0.0, 2.0]
    assert channel_norms(torch.ones(3, 0), 2, 0).tolist() == [0.0, 0.0, 0.0]
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        t = torch.tensor([[3.0, -4.0], [6.0, 8.0]]).to(dtype)
        assert channel_norms(t, "fro", 0).tolist() == [5.0, 10.0]


@pytest.mark.parametrize("n", [2, "nuc"])
def test_progress_is_reported_and_cancelling_works(n):
    t, reported, cancel = torch.ones(4, 5, 6), [], threading.Event()
    channel_norms(t, n, 0, monitor=Monitor(lambda done, total: reported.append((done, total))))
    assert reported[-1] == (t.nbytes, t.nbytes)
    cancel.set()
    with pytest.raises(Cancelled):
        channel_norms(t, n, 0, monitor=Monitor(cancel=cancel))


def test_a_nuclear_norm_whose_copy_exceeds_the_memory_is_rejected(free_memory):
    scores, mask = TensorScores.of(torch.ones(2, 3, 4)), np.ones(24, np.bool_)
    free_memory(95)
    assert score_norms(scores, None, "nuc", 0).shape == (2,)  # without a copy
    with pytest.raises(ValueError, match=r"requires 96 bytes of memory, and only 95 bytes are"):
        score_norms(scores, lambda start, stop: mask[start:stop], "nuc", 0)
