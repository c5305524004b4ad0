"""The base class: its reparametrization and hook, failing calls, containers; masked products."""

import math
import weakref

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import prune as reference

from prune_gui import pruning
from prune_gui.pruning.modules import masking
from prune_gui.pruning.modules.masking import is_binary, keep, mask_like


class Failing(pruning.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        default_mask.zero_()
        raise RuntimeError("no mask today")


class Constant(pruning.BasePruningMethod):
    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return self.mask


class FailingLate(Constant):
    def apply_mask(self, module):
        raise RuntimeError("cannot apply")


def state(module):
    """Return all that a call could change, by identity and by value."""
    return (
        {name: (id(p), p.detach().clone()) for name, p in module.named_parameters()},
        {name: (id(b), b.clone()) for name, b in module.named_buffers()},
        list(module._forward_pre_hooks.items()),
        sorted(vars(module)),
        [len(hook) for hook in module._forward_pre_hooks.values() if hasattr(hook, "__len__")],
    )


def assert_unchanged(module, before):
    torch.testing.assert_close(state(module)[:2], before[:2], rtol=0, atol=0, equal_nan=True)
    assert state(module)[2:] == before[2:]


def test_only_kept_elements_have_gradients_even_beside_nan():
    layer = nn.Linear(3, 1, bias=False)
    layer.weight = nn.Parameter(torch.tensor([[math.nan, 2.0, 3.0]]))
    pruning.custom_from_mask(layer, "weight", torch.tensor([[0, 1, 1]]))
    layer(torch.tensor([[5.0, 6.0, 7.0]])).sum().backward()
    assert layer.weight_orig.grad.tolist() == [[0.0, 6.0, 7.0]]


def called(function, name, *arguments, **scores):
    """Return a call of one of our functions, for one parameter of a layer."""
    return lambda layer: getattr(pruning, function)(layer, name, *arguments, **scores)


FAILING = [
    (lambda layer: Failing.apply(layer, "weight"), RuntimeError, "no mask today"),
    (lambda layer: Constant.apply(layer, "weight", torch.ones(3)), ValueError, "shape"),
    (lambda layer: Constant.apply(layer, "weight", torch.full((3, 4), 0.5)), ValueError, "0 and 1"),
    (called("l1_unstructured", "weight", 1000), ValueError, "1000 units"),
    (called("l1_unstructured", "weight", math.nan), ValueError, "amount=nan"),
    (called("ln_structured", "weight", 1, 2, 2), IndexError, "dim=2"),
    (called("ln_structured", "weight", 1, 2, -3), IndexError, "dim=-3"),
    (called("random_structured", "weight", 1, -3), IndexError, "dim=-3"),
    (called("ln_structured", "weight", 1, "nuc", 0), ValueError, "3 dimensions"),
    (called("ln_structured", "bias", 1, 2, 0), ValueError, "no channels"),
    (called("random_structured", "bias", 1, 0), ValueError, "no channels"),
    (called("custom_from_mask", "weight", torch.ones(4, 3)), AssertionError, "shape"),
    (called("custom_from_mask", "bias", [1, 0, 1]), TypeError, "list"),
    *(
        (called("custom_from_mask", "bias", torch.tensor([1.0, odd, 0.0])), ValueError, "0 and 1")
        for odd in (0.5, -1.0, 2.0, math.nan, math.inf)
    ),
    *(
        (called("l1_unstructured", "weight", 1, importance_scores=scores), AssertionError, "scores")
        for scores in (torch.ones(4, 3), torch.ones(3))
    ),
    (called("identity", "nothing"), AttributeError, "nothing"),
    (called("identity", "none"), ValueError, "'none'"),
    (called("identity", "buffer"), TypeError, "'buffer'"),
    (called("identity", "first"), KeyError, "first_orig"),
    (called("identity", "second"), KeyError, "second_mask"),
]


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize(("call", "error", "says"), FAILING)
def test_a_failing_call_leaves_the_module_unchanged(call, error, says, times):
    layer = nn.Linear(4, 3)
    layer.register_parameter("none", None)
    layer.register_buffer("buffer", torch.ones(3))
    layer.first, layer.first_orig = nn.Parameter(torch.ones(3)), "mine"
    layer.second, layer.second_mask = nn.Parameter(torch.ones(3)), "mine"
    for _ in range(times):
        pruning.l1_unstructured(layer, "weight", 2)
        pruning.identity(layer, "bias")
    before = state(layer)
    with pytest.raises(error, match=says):
        call(layer)
    assert_unchanged(layer, before)


def test_a_mask_that_cannot_be_applied_leaves_the_module_unchanged():
    layer = nn.Linear(4, 3)
    before = state(layer)
    with pytest.raises(RuntimeError, match="cannot apply"):
        FailingLate.apply(layer, "weight", torch.zeros(3, 4))
    assert_unchanged(layer, before)


def test_a_method_that_has_pruned_nothing_raises_a_clear_error():
    method = pruning.L1Unstructured(1)
    for call in (method.apply_mask, method.remove):
        with pytest.raises(AssertionError, match="L1Unstructured"):
            call(nn.Linear(2, 2))


def test_prune_returns_a_pruned_copy_of_any_tensor():
    t = torch.tensor([-1.0, 2.0, -math.inf, 0.5])
    pruned = pruning.L1Unstructured(2).prune(t, default_mask=torch.tensor([1, 1, 0, 1]))
    assert pruned.tolist() == [0.0, 2.0, 0.0, 0.0]
    assert not pruned.signbit().any()
    with pytest.raises(ValueError, match="0 and 1"):
        pruning.Identity().prune(t, default_mask=torch.full((4,), 0.5))
    with pytest.raises(AssertionError, match="importance_scores"):
        pruning.L1Unstructured(1).prune(t, importance_scores=torch.ones(3))


class Recording(pruning.BasePruningMethod):
    """Records the tensor that it gets, and prunes nothing."""

    def __init__(self, pruning_type):
        self.PRUNING_TYPE = pruning_type
        self.dim = 0

    def compute_mask(self, t, default_mask):
        self.shown = t.clone()
        return default_mask


def stacked(*methods, name="weight"):
    for method in methods:
        method._tensor_name = name
    return pruning.PruningContainer(*methods)


def test_the_pruned_tensor_of_an_earlier_step_is_freed():
    layer = pruning.l1_unstructured(nn.Linear(4, 3), "weight", 1)
    earlier = weakref.ref(layer.weight)
    pruning.l1_unstructured(layer, "weight", 1)
    assert earlier() is None


@pytest.mark.parametrize(
    ("pruning_type", "shown"),
    [
        ("unstructured", [3.0, 4.0, 5.0]),
        ("structured", [[3.0, 4.0], [5.0, 6.0]]),
        ("global", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    ],
)
def test_a_method_gets_the_part_that_its_pruning_type_selects(pruning_type, shown):
    t = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    mask = torch.tensor([[0, 0], [1, 1], [1, 0]])
    method = Recording(pruning_type)
    found = stacked(method).compute_mask(t, mask)
    assert method.shown.tolist() == shown
    assert torch.equal(found, mask.float())


def test_the_mask_of_the_earlier_methods_is_not_changed():
    mask = torch.ones(2, 3)
    stacked(pruning.L1Unstructured(2)).compute_mask(torch.randn(2, 3), mask)
    assert torch.equal(mask, torch.ones(2, 3))


def test_unknown_pruning_types_and_missing_dimensions_are_errors():
    t = torch.ones(2, 3)
    with pytest.raises(ValueError, match="'odd'"):
        stacked(Recording("odd")).compute_mask(t, t)
    method = Recording("structured")
    for dim in (2, -3):
        method.dim = dim
        with pytest.raises(IndexError, match=str(dim)):
            stacked(method).compute_mask(t, t)
    del method.dim
    with pytest.raises(AttributeError, match="dim"):
        stacked(method).compute_mask(t, t)


def test_a_container_takes_only_methods_of_one_parameter():
    container = stacked(pruning.Identity())
    other = pruning.Identity()
    other._tensor_name = "bias"
    with pytest.raises(ValueError, match="'bias'"):
        container.add_pruning_method(other)
    for thing in (None, 10, "ugh"):
        with pytest.raises(TypeError, match="not a pruning method"):
            container.add_pruning_method(thing)


@pytest.mark.parametrize("times", [1, 2])
def test_modules_pruned_by_torch_can_be_pruned_further(times):
    layer = nn.Linear(4, 3)
    for _ in range(times):
        reference.l1_unstructured(layer, "weight", 2)
    assert pruning.is_pruned(layer)
    pruning.l1_unstructured(layer, "weight", 3)
    [hook] = layer._forward_pre_hooks.values()
    assert type(hook) is pruning.PruningContainer
    assert len(hook) == times + 1
    assert hook[1:] == tuple(hook)[1:]
    assert int((layer.weight_mask == 0).sum()) == 2 * times + 3
    pruning.remove(layer, "weight")
    assert not pruning.is_pruned(layer)


def test_two_hooks_on_one_parameter_are_refused():
    layer = pruning.identity(nn.Linear(4, 3), "weight")
    [hook] = layer._forward_pre_hooks.values()
    layer.register_forward_pre_hook(hook)
    with pytest.raises(AssertionError, match="PruningContainer"):
        pruning.identity(layer, "weight")


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
def test_tensors_are_masked_bit_by_bit(dtype, mask_dtype, monkeypatch):
    flags = mask(dtype if mask_dtype == "same" else mask_dtype)
    kept = keep(weights(dtype), flags)
    assert bits(kept) == bits(weights(dtype).where(flags.bool(), torch.zeros((), dtype=dtype)))
    large = mask_like(weights(dtype), mask(torch.bool))
    monkeypatch.setattr(masking, "LARGE_BYTES", 1 << 22)
    small = mask_like(weights(dtype), mask(torch.bool))
    assert bits(large) == bits(small) == bits(mask(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_negative_zero_in_a_mask_prunes_and_is_binary(dtype):
    flags = torch.tensor([-0.0, 1.0, 0.0], dtype=dtype)
    assert keep(torch.tensor([5.0, 6.0, 7.0], dtype=dtype), flags).tolist() == [0, 6, 0]
    assert is_binary(flags)
    assert not is_binary(torch.tensor([0.0, 1.0, math.nan], dtype=dtype))
    assert not is_binary(torch.tensor([0.0, -1.0], dtype=dtype))


def test_kept_channels_are_broadcast():
    kept = torch.tensor([[True], [False]])
    assert mask_like(torch.ones(2, 2), kept).tolist() == [[1, 1], [0, 0]]


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
