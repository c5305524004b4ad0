"""The functions of the module API, for one parameter and for several together."""

import gc
import weakref

import pytest
import torch
from system_faults import raising
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning


def layers(*values):
    made = []
    for value in values:
        layer = nn.Linear(1, 1, bias=False)
        layer.weight = nn.Parameter(torch.tensor(value))
        made.append(layer)
    return made


def weights(modules):
    return [(module, "weight") for module in modules]


def masks(modules):
    return [module.weight_mask.tolist() for module in modules]


def prune(parameters, amount, **kwargs):
    pruning.global_unstructured(parameters, pruning.L1Unstructured, amount=amount, **kwargs)


def test_a_generator_of_parameters_is_accepted_unlike_in_torch():
    both = layers([[1.0, 2.0]], [[3.0, 4.0]])
    prune((pair for pair in weights(both)), 3)
    assert masks(both) == [[[0, 0]], [[0, 1]]]
    theirs = layers([[1.0, 2.0]], [[3.0, 4.0]])
    with pytest.raises(ValueError, match="non-empty"):
        reference.global_unstructured(
            (pair for pair in weights(theirs)), reference.L1Unstructured, amount=3
        )


def test_differing_masks_of_a_shared_parameter_are_combined():
    encoder, decoder = layers([[1.0, 2.0, 3.0, 4.0]], [[0.0]])
    decoder.weight = encoder.weight
    pruning.custom_from_mask(encoder, "weight", torch.tensor([[1, 1, 0, 1]]))
    pruning.custom_from_mask(decoder, "weight", torch.tensor([[1, 1, 1, 0]]))
    prune(weights([encoder, decoder]), 0.5)
    assert masks([encoder, decoder]) == [[[0, 1, 0, 0]]] * 2


def test_scores_can_be_given_under_any_alias_of_a_shared_parameter():
    encoder, decoder, other = layers([[1.0, 2.0]], [[0.0]], [[1.5]])
    decoder.weight = encoder.weight
    scores = {(decoder, "weight"): torch.tensor([[9.0, 0.5]])}
    prune(weights([encoder, decoder, other]), 1, importance_scores=scores)
    assert masks([encoder, decoder, other]) == [[[1, 0]], [[1, 0]], [[1]]]


def test_different_dtypes_and_memory_formats_compare_by_value():
    one, two = layers([[1.0, 4.0], [3.0, 6.0]], [[0.0]])
    one.weight = nn.Parameter(one.weight.detach().half().T)
    two.weight = nn.Parameter(torch.tensor([[2.0, 5.0]], dtype=torch.bfloat16))
    prune(weights([one, two]), 3)
    assert masks([one, two]) == [[[0, 0], [1, 1]], [[0, 1]]]
    assert one.weight_mask.dtype == torch.float16
    assert two.weight_mask.dtype == torch.bfloat16


def test_a_failing_call_leaves_all_modules_unchanged():
    one, two = layers([[1.0, 2.0]], [[3.0, 4.0]])
    none = nn.Linear(2, 2, bias=False)
    prune(weights([two]), 1)
    for parameters, amount, scores in (
        ([(one, "weight"), (two, "weight")], 4, None),
        ([(one, "weight"), (none, "bias")], 1, None),
        ([(one, "weight"), (two, "weight")], 1, {(two, "weight"): torch.ones(3)}),
    ):
        with pytest.raises((ValueError, AssertionError)):
            prune(parameters, amount, importance_scores=scores)
        assert not pruning.is_pruned(one)
        assert masks([two]) == [[[0, 1]]]
        assert len(two._forward_pre_hooks) == 1


def test_a_failure_while_masks_are_stored_leaves_all_modules_unchanged(monkeypatch):
    one, two = layers([[1.0, 2.0]], [[3.0, 4.0]])
    monkeypatch.setattr(two, "register_forward_pre_hook", raising(MemoryError()))
    with pytest.raises(MemoryError):
        prune(weights([one, two]), 1)
    assert not pruning.is_pruned(one)
    assert isinstance(one.weight, nn.Parameter)
    assert list(two.state_dict()) == ["weight"]


def test_a_failure_restores_the_weight_list_of_a_recurrent_module(monkeypatch):
    lstm, [other] = nn.LSTM(4, 3), layers([[1.0, 2.0]])
    x = torch.randn(2, 1, 4)
    before = lstm(x)[0]

    monkeypatch.setattr(other, "register_forward_pre_hook", raising(MemoryError()))
    with pytest.raises(MemoryError):
        prune([(lstm, "weight_ih_l0"), (other, "weight")], 0.5)
    assert lstm._flat_weights[0] is lstm.weight_ih_l0
    assert torch.equal(lstm(x)[0], before)


@pytest.mark.parametrize(
    ("parameters", "method", "scores", "error"),
    [
        (None, pruning.L1Unstructured, None, TypeError),
        ([], pruning.L1Unstructured, None, ValueError),
        ([(nn.Linear(2, 2), "weight")], pruning.L1Unstructured, [1], TypeError),
        ([(nn.Linear(2, 2), "weight")], pruning.RandomStructured, None, TypeError),
    ],
)
def test_invalid_arguments_are_refused(parameters, method, scores, error):
    with pytest.raises(error):
        pruning.global_unstructured(parameters, method, importance_scores=scores, amount=1)


LAYER = nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        (LAYER.parameters(), "a Parameter in a generator"),
        (LAYER.named_parameters(), r"a tuple of \(str, Parameter\) in a generator"),
        (LAYER.state_dict(), "a str in a OrderedDict"),
        (LAYER, "a Linear"),
        (nn.Sequential(LAYER), "a Sequential"),
        (LAYER.weight, "a Parameter"),
        ("weight", "a str"),
        (7, "a int"),
        ([LAYER], "a Linear in a list"),
        ([(LAYER, "weight"), ("bias", LAYER)], r"a tuple of \(str, Linear\) in a list"),
        ([(LAYER,)], r"a tuple of \(Linear\) in a list"),
        ((LAYER, "weight"), "a Linear in a tuple"),
    ],
)
def test_what_is_no_pair_of_module_and_name_is_refused_with_an_example(parameters, found):
    before = dict(LAYER.named_parameters())
    with pytest.raises(TypeError, match=rf'\[\(model\.fc1, "weight"\).*there is {found}\.'):
        pruning.global_unstructured(parameters, pruning.L1Unstructured, amount=1)
    assert dict(LAYER.named_parameters()) == before


def test_a_method_written_for_torch_is_accepted():
    class First(reference.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def __init__(self, amount):
            self.amount = amount

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask[: self.amount] = 0
            return mask

    both = layers([[1.0, 2.0]], [[3.0, 4.0]])
    pruning.global_unstructured(weights(both), First, amount=3)
    assert masks(both) == [[[0, 0]], [[0, 1]]]


def test_no_hook_references_the_mask_of_all_parameters():
    def held(package):
        both = layers([[1.0] * 50], [[2.0] * 50])
        package.global_unstructured(weights(both), package.L1Unstructured, amount=10)
        [hook] = both[0]._forward_pre_hooks.values()
        return hook.mask.untyped_storage().nbytes() / hook.mask.element_size()

    assert held(pruning) == 50
    assert held(reference) == 100


def test_a_deleted_module_is_freed():
    [layer] = layers([[1.0, 2.0]])
    prune(weights([layer]), 1)
    gone = weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None


def test_a_failing_remove_leaves_the_module_unchanged():
    class Stubborn(reference.Identity):
        def remove(self, module):
            del module._buffers["weight_mask"]
            raise RuntimeError("no")

    layer = nn.Linear(4, 3)
    Stubborn.apply(layer, "weight")
    with pytest.raises(RuntimeError, match="no"):
        pruning.remove(layer, "weight")
    assert "weight_mask" in layer.state_dict()


def test_a_failing_remove_does_not_change_the_weights():
    class Frozen(nn.Linear):
        def __setattr__(self, name, value):
            if name == "weight" and vars(self).get("frozen"):
                raise RuntimeError("frozen")
            super().__setattr__(name, value)

    layer = pruning.l1_unstructured(Frozen(4, 3), "weight", 5)
    before = layer.weight_orig.detach().clone()
    layer.frozen = True
    with pytest.raises(RuntimeError, match="frozen"):
        pruning.remove(layer, "weight")
    assert torch.equal(layer.weight_orig, before)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert pruning.is_pruned(layer)


def test_every_function_returns_its_module():
    layer = nn.Linear(6, 5)
    assert pruning.identity(layer, "weight") is layer
    assert pruning.random_unstructured(layer, "weight", 1) is layer
    assert pruning.l1_unstructured(layer, "weight", 1) is layer
    assert pruning.random_structured(layer, "weight", 1, 0) is layer
    assert pruning.ln_structured(layer, "weight", 1, 2, 0) is layer
    assert pruning.custom_from_mask(layer, "weight", torch.ones(5, 6)) is layer
    assert pruning.remove(layer, "weight") is layer


def test_remove_of_an_unpruned_parameter_is_an_error():
    layer = pruning.identity(nn.Linear(4, 3), "weight")
    with pytest.raises(ValueError, match="'bias'"):
        pruning.remove(layer, "bias")
