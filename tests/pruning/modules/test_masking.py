"""Products of tensors and masks, small ones by torch and large ones by numpy."""

import math

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from prune_gui.pruning.modules import masking
from prune_gui.pruning.modules.masking import is_binary, keep, mask_like, mask_product

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int32,
)
SPECIAL = [math.nan, -math.nan, math.inf, -math.inf, -0.0, 0.0, -1.5, 2.0]


@pytest.fixture(autouse=True)
def every_size_is_large(monkeypatch):
    monkeypatch.setattr(masking, "LARGE_BYTES", 0)


def weights(dtype=torch.float32):
    values = SPECIAL if dtype.is_floating_point else range(8)
    return torch.tensor([*values] * 4, dtype=torch.float64).to(dtype).view(4, 8)


def mask(dtype=torch.float32):
    return (torch.arange(32) % 3 != 0).to(dtype).view(4, 8)


def bits(t):
    return t.detach().contiguous().view(torch.uint8).tolist()


@pytest.mark.parametrize("mask_dtype", ["same", torch.bool])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_tensors_are_masked_bit_by_bit_as_small_ones(dtype, mask_dtype, monkeypatch):
    flags = mask(dtype if mask_dtype == "same" else mask_dtype)
    large = keep(weights(dtype), flags), mask_product(mask(dtype), mask(torch.bool))
    made = mask_like(weights(dtype), mask(torch.bool))
    monkeypatch.setattr(masking, "LARGE_BYTES", 1 << 22)
    small = keep(weights(dtype), flags), mask_product(mask(dtype), mask(torch.bool))
    assert [bits(t) for t in large] == [bits(t) for t in small]
    assert bits(made) == bits(mask(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_negative_zero_in_a_mask_prunes_and_is_binary(dtype):
    flags = torch.tensor([-0.0, 1.0, 0.0], dtype=dtype)
    assert keep(torch.tensor([5.0, 6.0, 7.0], dtype=dtype), flags).tolist() == [0, 6, 0]
    assert is_binary(flags)
    assert not is_binary(torch.tensor([0.0, 1.0, math.nan], dtype=dtype))
    assert not is_binary(torch.tensor([0.0, -1.0], dtype=dtype))


def test_kept_channels_are_broadcast():
    expected = [[1, 1], [0, 0]]
    kept = torch.tensor([[True], [False]])
    assert mask_like(torch.ones(2, 2), kept).tolist() == expected
    assert mask_product(torch.ones(2, 2), kept).tolist() == expected


def test_only_kept_elements_have_gradients_and_second_derivatives():
    t = torch.arange(32.0, requires_grad=True)
    flags = mask().view(-1)
    [first] = torch.autograd.grad((keep(t, flags) ** 3).sum(), t, create_graph=True)
    [second] = torch.autograd.grad(first.sum(), t)
    assert torch.equal(first, 3 * t**2 * flags)
    assert torch.equal(second, 6 * t * flags)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_transforms_of_torch_func_are_supported():
    t, flags = torch.randn(3, 32), mask().view(-1)
    expected = torch.where(flags.bool(), t, 0)
    assert torch.equal(torch.func.vmap(keep, in_dims=(0, None))(t, flags), expected)
    assert torch.equal(torch.func.vmap(keep, in_dims=(1, 0), out_dims=1)(t, flags), expected)
    gradient = torch.func.vmap(torch.func.grad(lambda own: (keep(own, flags) ** 2).sum()))(t)
    assert torch.equal(gradient, 2 * expected)
    _, tangent = torch.func.jvp(lambda own: keep(own, flags), (t[0],), (t[1],))
    assert torch.equal(tangent, expected[1])


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("trace", [torch.jit.trace, lambda f, example: make_fx(f)(*example)])
def test_a_traced_product_depends_on_its_input(trace):
    flags = mask().view(-1)
    traced = trace(lambda t: keep(t, flags), (torch.ones(32),))
    assert torch.equal(traced(torch.full((32,), 2.0)), 2 * flags)
