"""Statistics of gradients against torch.autograd."""

from __future__ import annotations

import pytest
import torch
from recorded_networks import TiedNetwork, recorded
from torch import nn
from torch.nn.utils import prune


def gradients(model, loss_of, batches):
    """Return the gradients of each parameter, one for each batch."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    per_batch = [torch.autograd.grad(loss_of(batch), parameters) for batch in batches]
    return dict(zip(names, map(torch.stack, zip(*per_batch, strict=True)), strict=True))


def run(loss_of, batches):
    for batch in batches:  # without zero_grad: gradients accumulate in .grad
        loss_of(batch).backward()


@pytest.fixture
def tied():
    model = TiedNetwork()
    return model, lambda tokens: model(tokens).logsumexp(-1).sum()


BATCHES = [torch.tensor([1, 2]), torch.tensor([6, 6, 0]), torch.tensor([3])]


@pytest.mark.parametrize("statistic", ["fisher", "obd", "taylor"])
def test_scores_follow_the_formulas(statistic, tied, tmp_path):
    model, loss_of = tied
    g = gradients(model, loss_of, BATCHES)
    found = recorded(model, statistic, lambda: run(loss_of, BATCHES), tmp_path)
    assert set(found) == {"embed.weight", "body.weight", "body.bias"}
    for name, weight in model.named_parameters():
        w = weight.detach()
        expected = {
            "fisher": g[name].square().mean(0),
            "obd": g[name].square().mean(0) * w.square() / 2,
            "taylor": (g[name] * w).abs().mean(0),
        }
        torch.testing.assert_close(found[name], expected[statistic])


def test_a_convolution_and_a_norm_have_gradient_scores_too(tmp_path):
    model = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)).eval()
    batches = torch.randn(3, 2, 4, 5, 5)

    def loss_of(x):
        return model(x).square().sum()

    g = gradients(model, loss_of, batches)
    found = recorded(model, "fisher", lambda: run(loss_of, batches), tmp_path)
    assert set(found) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    for name, gradient in g.items():
        torch.testing.assert_close(found[name], gradient.square().mean(0))


def test_a_pass_that_does_not_reach_a_weight_counts_as_zero(tmp_path):
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    model, x = nn.ModuleList([first, second]), torch.ones(1, 2)

    def batches():
        first(x).sum().backward()
        (first(x) + second(x)).sum().backward()

    found = recorded(model, "fisher", batches, tmp_path)
    assert found["0.weight"].unique().tolist() == [1.0]
    assert found["1.weight"].unique().tolist() == [0.5]


def test_bfloat16_gradients_are_squared_in_float32(tmp_path):
    layer = nn.Linear(1, 1, bias=False).bfloat16()
    x = torch.tensor([[1.0078125]], dtype=torch.bfloat16)  # its square is no bfloat16 number
    found = recorded(layer, "fisher", lambda: layer(x).sum().backward(), tmp_path)
    assert found["weight"].item() == 1.0078125**2


def test_frozen_parameters_are_left_out(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    x = torch.ones(1, 2)
    found = recorded(model, "obd", lambda: model(x).sum().backward(), tmp_path)
    assert set(found) == {"1.weight", "1.bias"}


def test_sparse_gradients_are_recorded(tmp_path):
    layer = nn.Embedding(4, 2, sparse=True)
    tokens = torch.tensor([1, 1, 3])
    found = recorded(layer, "fisher", lambda: layer(tokens).sum().backward(), tmp_path)
    assert found["weight"].tolist() == [[0, 0], [4, 4], [0, 0], [1, 1]]


def test_parameters_of_torch_prune_have_their_plain_name(tmp_path):
    layer = nn.Linear(3, 3)
    prune.l1_unstructured(layer, "weight", 0.5)
    x = torch.randn(1, 3)
    found = recorded(layer, "fisher", lambda: layer(x).sum().backward(), tmp_path)
    assert set(found) == {"weight", "bias"}
    assert bool((found["weight"][layer.weight_mask == 0] == 0).all())
    found = recorded(layer, "activations", lambda: layer(x), tmp_path)
    torch.testing.assert_close(found["weight"], x[0].abs())
