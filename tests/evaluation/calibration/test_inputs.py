"""Statistics of layer inputs against sums by hand."""

from __future__ import annotations

import threading

import pytest
import torch
from recorded_networks import TiedNetwork, recorded
from torch import nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint
from transformers.pytorch_utils import Conv1D

import prune_gui


@pytest.mark.parametrize(
    ("layer", "shape", "axis"),
    [
        (nn.Linear(6, 3), (6,), -1),
        (nn.Linear(6, 3), (2, 5, 6), -1),
        (nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 9), -2),
        (nn.Conv2d(4, 6, 3, dilation=2, padding_mode="circular", padding=1), (2, 4, 9, 8), -3),
        (nn.Conv2d(4, 6, 3, padding="same"), (4, 9, 8), -3),  # without a batch dimension
        (nn.Conv3d(4, 6, 2), (2, 4, 5, 5, 5), -4),
    ],
)
def test_norms_are_those_of_the_input_channels(layer, shape, axis, tmp_path):
    x = torch.randn(shape)
    model = nn.ModuleList([layer, nn.Linear(3, 3)])  # of which the second does not run
    found = recorded(model, "activations", lambda: layer(x), tmp_path)
    assert list(found) == ["0.weight"]
    channels = x.movedim(axis, 0).reshape(shape[axis], -1)
    torch.testing.assert_close(found["0.weight"], channels.norm(dim=1))


@pytest.mark.parametrize(
    ("layer", "shape", "axis"),
    [
        (Conv1D(5, 4), (2, 3, 4), -1),
        (nn.ConvTranspose1d(4, 6, 3), (2, 4, 7), 1),
        (nn.ConvTranspose2d(4, 6, 3, groups=2), (2, 4, 7, 7), 1),
        (nn.Conv2d(6, 4, 3, groups=2), (2, 6, 8, 8), 1),
    ],
)
def test_channels_that_are_not_columns_of_the_weight_give_scores_of_its_shape(
    layer, shape, axis, tmp_path
):
    x = torch.randn(shape)
    found = recorded(layer, "activations", lambda: layer(x), tmp_path)["weight"]
    w = layer.weight.detach().abs()
    norms = x.movedim(axis, 0).reshape(shape[axis], -1).norm(dim=1)
    if isinstance(layer, nn.Conv2d):  # two rows for each group of three channels
        norms = norms.view(2, 3).repeat_interleave(2, 0)
    norms = norms.view(*norms.shape, *[1] * (w.dim() - norms.dim()))
    torch.testing.assert_close(found, w * norms)


@pytest.mark.parametrize(
    ("dtype", "value", "calls", "norm"),
    [(torch.bfloat16, 1.0, 9 * 1024, 192.0), (torch.float16, 6e4, 1, 119_994.6641)],
)
def test_small_dtypes_are_summed_in_higher_precision(dtype, value, calls, norm, tmp_path):
    layer, x = nn.Linear(2, 2).to(dtype), torch.full((4, 2), value, dtype=dtype)
    inputs = x.repeat(min(calls, 1024), 1)
    run = lambda: [layer(inputs) for _ in range(max(1, calls // 1024))]  # noqa: E731
    found = recorded(layer, "activations", run, tmp_path)["weight"]
    torch.testing.assert_close(found, torch.full((2,), norm), rtol=1e-4, atol=0)


def test_inputs_of_all_batches_and_calls_are_added_up(tmp_path):
    layer, x, y = nn.Linear(6, 6), torch.randn(5, 6), torch.randn(2, 6)

    def run():
        layer(layer(x))  # a shared module that runs twice
        layer(input=y)

    inputs = torch.cat([x, layer(x).detach(), y])
    norms = recorded(layer, "activations", run, tmp_path)["weight"]
    torch.testing.assert_close(norms, inputs.norm(dim=0))
    means = recorded(layer, "means", run, tmp_path)["weight"]
    torch.testing.assert_close(means, inputs.mean(0))


def test_rows_of_an_embedding_count_their_tokens(tmp_path):
    layer, tokens = nn.Embedding(5, 3), torch.tensor([[0, 3, 3], [3, 1, 0]])
    found = recorded(layer, "activations", lambda: layer(tokens), tmp_path)["weight"]
    roots = torch.tensor([2.0, 1.0, 0.0, 3.0, 0.0]).sqrt()
    torch.testing.assert_close(found, layer.weight.detach().abs() * roots[:, None])


def test_both_uses_of_a_tied_weight_count(tmp_path):
    model, tokens = TiedNetwork(), torch.tensor([1, 1, 4])
    found = recorded(model, "activations", lambda: model(tokens), tmp_path)
    counts = torch.bincount(tokens, minlength=7)
    hidden = model.body(model.embed(tokens)).detach()
    energy = counts[:, None] + hidden.square().sum(0)
    torch.testing.assert_close(
        found["embed.weight"], model.embed.weight.detach().abs() * energy.sqrt()
    )
    assert set(found) == {"embed.weight", "body.weight"}


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_repeated_forward_passes_of_activation_checkpointing_count_once(use_reentrant, tmp_path):
    layer, x = nn.Linear(3, 3), torch.randn(4, 3, requires_grad=True)

    def run():
        checkpoint(layer, x, use_reentrant=use_reentrant).sum().backward()

    found = recorded(layer, "activations", run, tmp_path)
    torch.testing.assert_close(found["weight"], x.detach().norm(dim=0))


def test_inference_mode_may_change_between_batches(tmp_path):
    layer, x = nn.Linear(3, 3), torch.randn(4, 3)

    def run():
        with torch.inference_mode():
            layer(x)
        layer(x).sum().backward()
        with torch.inference_mode():
            layer(x)

    found = recorded(layer, "activations", run, tmp_path)
    torch.testing.assert_close(found["weight"], (3**0.5 * x).norm(dim=0))


def test_threads_add_to_the_same_sums(tmp_path):
    layer, x = nn.Linear(3, 3), torch.randn(4, 3)

    def run():
        threads = [threading.Thread(target=lambda: [layer(x) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = recorded(layer, "activations", run, tmp_path)
    torch.testing.assert_close(found["weight"], (200**0.5 * x).norm(dim=0))


@pytest.mark.slow  # importing the compiler takes seconds
def test_compiled_modules_are_recorded_under_their_plain_names(tmp_path):
    inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model, x = torch.compile(inner, backend="eager"), torch.randn(4, 3)
    model(x)  # compiled before the recording
    found = recorded(model, "activations", lambda: model(x), tmp_path)
    torch.testing.assert_close(found["0.weight"], x.norm(dim=0))
    with torch._dynamo.config.patch(error_on_recompile=True):
        model(x)  # the compiled code is used again


def test_an_exception_in_the_block_removes_the_hooks_and_nothing_can_be_saved(tmp_path):
    layer, recordings = nn.Linear(3, 3), []

    def run():
        with prune_gui.record(layer, "activations", "obd") as recording:
            recordings.append(recording)
            layer(torch.randn(2, 3)).sum().backward()
            assert layer._forward_hooks
            assert layer.weight._backward_hooks
            layer(torch.randn(2, 4))

    with pytest.raises(RuntimeError):
        run()
    assert not layer._forward_hooks
    assert not layer.weight._backward_hooks
    with pytest.raises(prune_gui.PruneGuiError, match="ended with an error"):
        recordings[0].save(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layer", [nn.Linear(6, 3), nn.Conv2d(6, 3, 2), Conv1D(3, 6)])
def test_ria_adds_the_shares_of_row_and_column(layer, tmp_path):
    shape = (2, 6, 5, 5) if isinstance(layer, nn.Conv2d) else (5, 6)
    x = torch.randn(shape)
    with torch.no_grad():
        layer.weight[0] = 0
    found = recorded(layer, "ria", lambda: layer(x), tmp_path)["weight"]
    w = layer.weight.detach().abs()
    norms = x.movedim(-1 if x.dim() == 2 else 1, 0).reshape(6, -1).norm(dim=1)
    for index in ((1, 2), (2, 1), (0, 0)):
        row, column = index
        channel = row if isinstance(layer, Conv1D) else column
        parts = 0 if row == 0 else w[index] / w[row].sum() + w[index] / w[:, column].sum()
        expected = torch.as_tensor(parts * norms[channel].sqrt()).expand_as(w[index])
        torch.testing.assert_close(found[index], expected)


@pytest.mark.parametrize("chunk", [1, 1 << 24])
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(6, 3), (2, 5, 6)),
        (Conv1D(3, 6), (2, 5, 6)),
        (nn.Conv1d(6, 4, 3, stride=2, padding=1, dilation=2), (2, 6, 9)),
        (nn.Conv1d(6, 4, 3, padding="same", padding_mode="reflect"), (6, 9)),
        (nn.Conv2d(6, 4, (3, 2), stride=(1, 2), groups=2, padding=(2, 1)), (3, 6, 7, 8)),
        (nn.Conv2d(6, 6, 3, groups=6, padding_mode="circular", padding=1), (3, 6, 7, 8)),
        (nn.Conv3d(6, 4, 2, dilation=(1, 2, 1)), (2, 6, 4, 5, 3)),
    ],
)
def test_second_moments_give_the_squared_norm_of_the_output(
    layer, shape, chunk, tmp_path, monkeypatch
):
    monkeypatch.setattr("prune_gui.evaluation.calibration.layer_inputs.MAX_ELEMENTS", chunk)
    x = torch.randn(shape)
    layer.bias.data.zero_()
    h = recorded(layer, "second_moments", lambda: layer(x), tmp_path)["weight"]
    w = layer.weight.detach()
    w = w.T if isinstance(layer, Conv1D) else w.flatten(1)
    y = layer(x).detach()
    channel = {nn.Conv1d: -2, nn.Conv2d: -3, nn.Conv3d: -4}.get(type(layer), -1)
    groups = getattr(layer, "groups", 1)
    w, h = w.view(groups, -1, w.shape[1]), h.view(groups, *h.shape[-2:])
    products = (w @ h @ w.mT).diagonal(dim1=1, dim2=2).flatten()  # w X^T X w^T of each output
    outputs = y.movedim(channel, 0).flatten(1)
    torch.testing.assert_close(products, outputs.square().sum(1), rtol=1e-4, atol=1e-4)


def test_second_moments_are_those_of_the_inputs_under_autocast_too(tmp_path):
    layer, x = nn.Linear(3, 3), torch.full((1, 3), 1.0009765625)  # no bfloat16 number

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            layer(x)

    found = recorded(layer, "second_moments", run, tmp_path)["weight"]
    assert found.unique().tolist() == [1.0009765625**2]


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


def convolved() -> tuple[nn.Module, object, torch.Tensor]:
    model = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)).eval()
    return model, lambda x: model(x).square().sum(), torch.randn(3, 2, 4, 5, 5)


@pytest.mark.parametrize("statistic", ["fisher", "obd", "taylor"])
@pytest.mark.parametrize("kind", ["tied", "convolution and norm"])
def test_scores_follow_the_formulas(statistic, kind, tied, tmp_path):
    model, loss_of, batches = (*tied, BATCHES) if kind == "tied" else convolved()
    g = gradients(model, loss_of, batches)
    found = recorded(model, statistic, lambda: run(loss_of, batches), tmp_path)
    assert set(found) == {name for name, _ in model.named_parameters()}
    for name, weight in model.named_parameters():
        w = weight.detach()
        expected = {
            "fisher": g[name].square().mean(0),
            "obd": g[name].square().mean(0) * w.square() / 2,
            "taylor": (g[name] * w).abs().mean(0),
        }
        torch.testing.assert_close(found[name], expected[statistic])


def test_a_pass_that_does_not_reach_a_weight_counts_as_zero_and_no_pass_leaves_it_out(tmp_path):
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    frozen = nn.Linear(2, 2).requires_grad_(False)
    model, x = nn.ModuleList([first, second, frozen]), torch.ones(1, 2)

    def batches():
        first(x).sum().backward()
        (first(x) + second(x)).sum().backward()

    found = recorded(model, "fisher", batches, tmp_path)
    assert found["0.weight"].unique().tolist() == [1.0]
    assert found["1.weight"].unique().tolist() == [0.5]
    assert len(found) == 2
    layer = nn.Linear(1, 1, bias=False).bfloat16()
    x = torch.tensor([[1.0078125]], dtype=torch.bfloat16)  # its square is no bfloat16 number
    found = recorded(layer, "fisher", lambda: layer(x).sum().backward(), tmp_path)
    assert found["weight"].item() == 1.0078125**2


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
