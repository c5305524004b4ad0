"""Products by oneDNN have the values, the gradients and the accuracy of those of torch."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from prune_gui.reconstruction import products
from prune_gui.reconstruction.products import fast_products, has_one_dnn


@pytest.fixture(autouse=True)
def _one_dnn(monkeypatch):
    """Leave products to oneDNN on every processor."""
    monkeypatch.setattr(products, "one_dnn_is_faster", has_one_dnn)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("function", [torch.mm, torch.matmul])
def test_products_are_as_accurate_as_those_of_torch(function, transposed):
    torch.manual_seed(0)
    first, second = torch.randn(150, 130), torch.randn(130, 140)
    first, second = (
        one.mT.contiguous().mT if is_transposed else one
        for one, is_transposed in zip((first, second), transposed, strict=True)
    )
    with fast_products():
        found = function(first, second)
        batched = torch.zeros(1, 150, 140).baddbmm_(first[None], second[None])
    expected = first.double() @ second.double()
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(batched[0], expected.float(), rtol=1e-5, atol=1e-4)


def test_products_with_repeated_rows_and_with_sparse_matrices():
    torch.manual_seed(0)
    repeated, second = torch.randn(1, 130).expand(150, 130), torch.randn(130, 140)
    with fast_products():
        found, of_sparse = repeated @ second, torch.eye(130).to_sparse() @ second
    torch.testing.assert_close(
        found, (repeated[:1] @ second).expand(150, 140), rtol=1e-5, atol=1e-4
    )
    torch.testing.assert_close(of_sparse, second)


@pytest.mark.parametrize("shape", [(300, 96), (3, 100, 96)])
def test_layers_have_the_same_outputs_and_gradients(shape):
    torch.manual_seed(0)
    layer, inputs = nn.Linear(96, 90), torch.randn(shape, requires_grad=True)
    parameters = (*layer.parameters(), inputs)
    expected = layer(inputs)
    gradients = torch.autograd.grad(expected.square().sum(), parameters)
    with fast_products():
        found = layer(inputs)
        found_gradients = torch.autograd.grad(found.square().sum(), parameters)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
    for one, other in zip(found_gradients, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


class FactorsOfOneDnn(TorchDispatchMode):
    """Records the second factors of products by oneDNN, transposed."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.mkldnn._linear_pointwise.default:
            self.found.append(args[1])
        return func(*args, **(kwargs or {}))


@pytest.mark.skipif(not has_one_dnn(), reason="this torch has no oneDNN")
def test_a_factor_that_is_a_part_of_a_matrix_is_copied():
    torch.manual_seed(0)
    first, whole = torch.randn(150, 130), torch.randn(130, 280)
    parts = whole[:, :140], whole[:, ::2], whole.mT[:140].mT, whole[:1, :140].expand(130, 140)
    with FactorsOfOneDnn() as factors, fast_products():
        found = [first @ part for part in parts]
    assert len(factors.found) == len(parts)
    assert all(one.mT.is_contiguous() or one.is_contiguous() for one in factors.found)
    for product, part in zip(found, parts, strict=True):
        torch.testing.assert_close(product, first @ part, rtol=1e-5, atol=1e-4)
