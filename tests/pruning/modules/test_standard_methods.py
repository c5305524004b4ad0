"""The methods of the module API, and deliberate differences from torch.

Most tests run the same calls with `torch.nn.utils.prune` and with `prune_gui.pruning`.
"""

import copy
import math

import pytest
import torch
from pruned_layers import kept, layer_of, pruned_rows
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning

BOTH = (pruning, reference)
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
CALLS = {
    "l1": lambda by, layer, amount: by.l1_unstructured(layer, "weight", amount),
    "random": lambda by, layer, amount: by.random_unstructured(layer, "weight", amount),
    "global": lambda by, layer, amount: by.global_unstructured(
        [(layer, "weight")], by.L1Unstructured, amount=amount
    ),
    "ln": lambda by, layer, _: by.ln_structured(layer, "weight", 1, n=2, dim=1),
    "random structured": lambda by, layer, _: by.random_structured(layer, "weight", 1, dim=1),
}


def by_both(weights, call):
    """Return two layers of the same weights, pruned by our package and by torch."""
    layers = [layer_of(weights.clone()) for _ in BOTH]
    for package, layer in zip(BOTH, layers, strict=True):
        torch.manual_seed(0)
        call(package, layer)
    return layers


def test_of_equal_elements_the_lowest_flat_index_is_pruned_first():
    weights = torch.tensor([[-1.0, 1.0] * 500])
    ours, theirs = by_both(weights, lambda by, layer: CALLS["l1"](by, layer, 500))
    assert kept(ours) == [[0] * 500 + [1] * 500] != kept(theirs)
    pruning.l1_unstructured(ours, "weight", 100)
    assert kept(ours) == [[0] * 600 + [1] * 400]


def test_of_equal_channels_the_lowest_index_is_pruned_first():
    ours, theirs = by_both(
        torch.ones(8, 2), lambda by, layer: by.ln_structured(layer, "weight", 3, n=2, dim=0)
    )
    assert pruned_rows(ours) == [0, 1, 2] != pruned_rows(theirs)
    assert len(pruned_rows(theirs)) == 3


def test_of_equal_elements_those_of_the_earlier_parameter_are_pruned_first():
    def pruned_of_each(package):
        layers = [layer_of(torch.ones(1, 500)) for _ in range(2)]
        pairs = [(layer, "weight") for layer in layers]
        package.global_unstructured(pairs, package.L1Unstructured, amount=500)
        return [kept(layer)[0].count(0) for layer in layers]

    assert pruned_of_each(pruning) == [500, 0] != pruned_of_each(reference)


def test_remove_sets_plus_zero_where_torch_leaves_minus_zero_and_nan():
    def prune(package, layer):
        reference.custom_from_mask(layer, "weight", torch.tensor([[0, 0, 1]]))
        package.remove(layer, "weight")

    ours, theirs = by_both(torch.tensor([[-1.0, math.nan, -3.0]]), prune)
    assert ours.weight.tolist() == [[0, 0, -3]]
    assert ours.weight.signbit().tolist() == [[False, False, True]]
    assert theirs.weight.signbit()[0, 0]
    assert theirs.weight[0, 1].isnan()


@pytest.mark.parametrize("call", ["l1", "global"])
def test_a_step_ranks_the_parameter_and_not_the_stale_attribute(call):
    def prune(package, layer):
        package.l1_unstructured(layer, "weight", 1)
        with torch.no_grad():
            layer.weight_orig.copy_(torch.tensor([[4.0, 1.0, 3.0, 2.0]]))
        CALLS[call](package, layer, 1)

    ours, theirs = by_both(torch.tensor([[2.0, 1.0, 3.0, 4.0]]), prune)
    assert (kept(ours), kept(theirs)) == ([[1, 0, 1, 0]], [[0, 0, 1, 1]])


@pytest.mark.parametrize("stacked", [False, True])
def test_the_mask_has_the_dtype_of_the_parameter_not_of_the_scores(stacked):
    def prune(package, layer):
        if stacked:
            package.identity(layer, "weight")
        scores = torch.rand(3, 4, dtype=torch.float64)
        package.ln_structured(layer, "weight", 1, n=2, dim=0, importance_scores=scores)

    ours, theirs = by_both(torch.rand(3, 4), prune)
    assert (ours.weight_mask.dtype, theirs.weight_mask.dtype) == (torch.float32, torch.float64)


def test_bfloat16_norms_do_not_coincide():
    weights = torch.randn(1000, 64).bfloat16()
    ours, theirs = by_both(
        weights, lambda by, layer: by.ln_structured(layer, "weight", 500, n=2, dim=0)
    )
    assert ours.weight.dtype == ours.weight_mask.dtype == torch.bfloat16
    assert reference._compute_norm(weights, 2, 0).unique().numel() < 100
    assert pruning._compute_norm(weights, 2, 0).unique().numel() > 950
    exact = weights.double().norm(dim=1)
    assert pruned_rows(ours) == sorted(exact.argsort()[:500].tolist()) != pruned_rows(theirs)


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_float8_parameters_can_be_pruned(call, dtype):
    ours, theirs = (layer_of(torch.ones(2, 3).to(dtype)) for _ in BOTH)
    call(pruning, ours, 2)
    call(pruning, ours, 2)
    assert ours.weight.dtype == ours.weight_mask.dtype == dtype
    assert kept(ours)[0].count(0) + kept(ours)[1].count(0) == 4
    with pytest.raises(NotImplementedError, match="Float8"):
        call(reference, theirs, 2)


def test_random_pruning_of_half_precision_equals_that_of_float32():
    def prune(package, layer):
        package.random_unstructured(layer, "weight", 500)

    expected, _ = by_both(torch.ones(1, 5000), prune)
    ours, theirs = by_both(torch.ones(1, 5000, dtype=torch.bfloat16), prune)
    assert kept(ours) == kept(expected) != kept(theirs)


def test_a_parameter_listed_twice_counts_once():
    def prune(package, layer):
        package.global_unstructured([(layer, "weight")] * 2, package.L1Unstructured, amount=2)

    ours, theirs = by_both(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), prune)
    assert (kept(ours), kept(theirs)) == ([[0, 0, 1, 1]], [[0, 1, 1, 1]])
    hooks = [hook for layer in (ours, theirs) for hook in layer._forward_pre_hooks.values()]
    assert [isinstance(hook, reference.PruningContainer) for hook in hooks] == [False, True]


def tied_layers(values):
    encoder, decoder = layer_of(values), layer_of(torch.ones(1))
    decoder.weight = encoder.weight
    return encoder, decoder


def test_a_tied_parameter_counts_once():
    for package, expected in ((pruning, [0, 0, 1]), (reference, [0, 1, 1])):
        encoder, decoder = tied_layers(torch.tensor([[1.0, 2.0, 3.0]]))
        other = layer_of(torch.tensor([[2.5]]))
        pairs = [(layer, "weight") for layer in (encoder, other, decoder)]
        package.global_unstructured(pairs, package.L1Unstructured, amount=2)
        assert kept(encoder) == kept(decoder) == [expected]
        assert kept(other) == [[1]]


@pytest.mark.parametrize("package", BOTH)
def test_a_tied_parameter_has_one_mask_and_stays_tied_after_remove(package):
    encoder, decoder = tied_layers(torch.ones(1, 50))
    pairs = [(encoder, "weight"), (decoder, "weight")]
    package.global_unstructured(pairs, package.RandomUnstructured, amount=25)
    assert torch.equal(encoder.weight_mask, decoder.weight_mask) == (package is pruning)
    before = decoder.weight.detach().clone()
    package.remove(encoder, "weight")
    for hook in decoder._forward_pre_hooks.values():
        hook(decoder, ())
    assert torch.equal(decoder.weight, before) == (package is pruning)
    package.remove(decoder, "weight")
    assert decoder.weight is encoder.weight


@pytest.mark.parametrize("layout", ["transposed", "channels_last"])
@pytest.mark.parametrize("call", ["l1", "random", "global"])
def test_transposed_and_channels_last_parameters_can_be_pruned(call, layout):
    if layout == "transposed":
        layer = layer_of(torch.randn(4, 3).T)
    else:
        layer = nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="view"):
        CALLS[call](reference, copy.deepcopy(layer), 0.25)
    straight, stride = layer_of(layer.weight.detach().contiguous()), layer.weight.stride()
    for module in (layer, straight):
        torch.manual_seed(0)
        CALLS[call](pruning, module, 0.25)
        CALLS[call](pruning, module, 0.25)
        pruning.ln_structured(module, "weight", 1, 2, dim=1)
    assert torch.equal(layer.weight_mask, straight.weight_mask)
    assert layer.weight.stride() == layer.weight_mask.stride() == stride
    assert torch.equal(pruning.remove(layer, "weight").weight, straight.weight)
    assert layer.weight.stride() == stride


def test_integers_and_complex_numbers_rank_by_absolute_value():
    mask = pruning.L1Unstructured(2).compute_mask(torch.tensor([-3, 1, 2, -1]), torch.ones(4))
    assert mask.tolist() == [1, 0, 1, 0]
    t = torch.tensor([3 + 4j, 0 + 6j, 1 + 1j])
    assert pruning.L1Unstructured(2).compute_mask(t, torch.ones(3)).tolist() == [0, 1, 0]


def test_the_custom_mask_is_copied():
    mask = torch.tensor([1.0, 0.0, 1.0])
    layer = pruning.custom_from_mask(nn.Linear(4, 3), "bias", mask)
    mask.zero_()
    assert layer.bias_mask.tolist() == [1, 0, 1]


def test_pruned_elements_do_not_contribute_to_the_norm_of_their_channel():
    scores = torch.tensor([[100.0, 1.0], [3.0, 3.0]])
    for package, expected in ((pruning, [0]), (reference, [1])):
        layer = layer_of(torch.ones(2, 2))
        package.custom_from_mask(layer, "weight", torch.tensor([[0, 1], [1, 1]]))
        package.ln_structured(layer, "weight", 1, n=2, dim=0, importance_scores=scores)
        assert pruned_rows(layer) == expected


def test_exactly_the_amount_of_channels_is_pruned_at_random():
    def counts(package):
        found = set()
        for seed in range(10):
            layer = layer_of(torch.ones(1000, 2))
            torch.manual_seed(seed)
            package.random_structured(layer, "weight", 500, 0)
            found.add(len(pruned_rows(layer)))
        return found

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert counts(pruning) == {500}
        assert max(counts(reference)) > 500
    finally:
        torch.set_default_dtype(default)
