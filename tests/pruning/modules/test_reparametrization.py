"""The pruned tensor is that of the present weights, also where the module is not called."""

import copy
import io
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils import prune as reference

from prune_gui import pruning


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False)[0]


class Tied(nn.Module):
    """Reads the weight of an embedding as a whole, and of a layer that it never calls."""

    def __init__(self):
        super().__init__()
        self.embedding, self.uncalled = nn.Embedding(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        embedded = self.embedding(x.argmax(-1))
        return functional.linear(self.uncalled.weight @ embedded.mT, self.embedding.weight.mT)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.inner = kind(8, 8, 2, batch_first=True)

    def forward(self, x):
        return self.inner(x)[0]


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


# By name, a network and the parameters to prune.
NETWORKS = {
    "attention": (Attention, ["inner.out_proj.weight", "inner.in_proj_weight"]),
    "encoder": (
        encoder,
        [
            "layers.0.self_attn.out_proj.weight",
            "layers.0.self_attn.in_proj_weight",
            "layers.1.linear1.weight",
            "layers.1.linear2.bias",
        ],
    ),
    "tied": (Tied, ["embedding.weight", "uncalled.weight"]),
    "LSTM": (lambda: Recurrent(nn.LSTM), ["inner.weight_hh_l0", "inner.weight_ih_l1"]),
    "GRU": (lambda: Recurrent(nn.GRU), ["inner.weight_ih_l0", "inner.bias_ih_l0"]),
    "linear": (lambda: nn.Sequential(nn.Linear(8, 8)), ["0.weight", "0.bias"]),
}


def pairs(model, names):
    for name in names:
        path, _, parameter = name.rpartition(".")
        yield model.get_submodule(path), parameter


def dense(build, model):
    """Return an unpruned network with the weights that a pruned one should use."""
    plain, state = build(), model.state_dict()
    kept = {
        name.removesuffix("_orig"): value * state.get(f"{name.removesuffix('_orig')}_mask", 1)
        for name, value in state.items()
        if not name.endswith("_mask")
    }
    plain.load_state_dict(kept)
    return plain.train(model.training)


def train(model, x, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def check(build, model, x):
    """Check the outputs in all modes against those of the unpruned network."""
    for training in (True, False):
        plain = dense(build, model.train(training))
        torch.testing.assert_close(model(x), plain(x))
        with torch.no_grad():
            torch.testing.assert_close(model(x), plain(x))
    model.train()


@pytest.fixture(params=NETWORKS)
def network(request):
    """Return a function that builds a network, a pruned one, what is pruned of it, and inputs."""
    build, names = NETWORKS[request.param]
    model = build()
    for module, name in pairs(model, names):
        pruning.l1_unstructured(module, name, 0.5)
    return build, model, names, torch.randn(2, 8, 8)


def test_a_pruned_network_trains_and_never_uses_old_weights(network):
    build, model, names, x = network
    before = [getattr(module, name).detach().clone() for module, name in pairs(model, names)]
    check(build, model, x)
    train(model, x)
    check(build, model, x)
    for (module, name), old in zip(pairs(model, names), before, strict=True):
        assert not torch.equal(getattr(module, name), old)
        getattr(module, f"{name}_orig").data.mul_(2)  # no version counter sees this
    check(build, model, x)


@pytest.mark.parametrize("assign", [False, True])
def test_a_loaded_state_is_used_at_once(network, assign):
    build, model, _, x = network
    state = {
        name: value.flip(0) if name.endswith("_mask") else value + 0.1
        for name, value in model.state_dict().items()
    }
    model.load_state_dict(state, assign=assign)
    check(build, model, x)
    train(model, x)
    check(build, model, x)


@pytest.mark.parametrize(
    "copy_of",
    [
        copy.deepcopy,
        lambda model: torch.load(saved(model), weights_only=False),
    ],
)
def test_a_copy_is_independent(network, copy_of):
    build, model, names, x = network
    train(model, x, 1)
    other = copy_of(model)
    torch.testing.assert_close(other(x), model(x))
    train(other, x)
    check(build, other, x)
    check(build, model, x)
    for (module, name), (own, _) in zip(pairs(other, names), pairs(model, names), strict=True):
        assert getattr(module, name) is not getattr(own, name)
        assert reference.is_pruned(module)
        assert type(module) is type(own)


def saved(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("package", [pruning, reference])
def test_removing_gives_the_module_its_class_and_parameter_back(network, package):
    build, model, names, x = network
    train(model, x)
    expected = dense(build, model)
    for module, name in pairs(model, names):
        package.remove(module, name)
    torch.testing.assert_close(model(x), expected(x))
    for one, other in zip(model.modules(), expected.modules(), strict=True):
        assert type(one) is type(other)
    assert model.state_dict().keys() == expected.state_dict().keys()
    train(model, x)
    for module in model.modules():
        for name, weight in zip(
            getattr(module, "_flat_weights_names", ()),
            getattr(module, "_flat_weights", ()),
            strict=True,
        ):
            assert weight is getattr(module, name)


def test_torch_prunes_what_was_pruned_here():
    layer = nn.Linear(4, 4)
    pruning.l1_unstructured(layer, "weight", 0.5)
    reference.l1_unstructured(layer, "weight", 0.5)
    layer(torch.ones(1, 4)).sum().backward()
    assert torch.equal(layer.weight != 0, layer.weight_mask == 1)
    assert layer.weight_mask.sum() == 4
    reference.remove(layer, "weight")
    assert type(layer) is nn.Linear


def test_a_pruned_network_is_compiled_and_called_functionally():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    pruning.l1_unstructured(model[0], "weight", 0.5)
    x = torch.randn(3, 4)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), model(x))
        train(compiled, x, 1)
    doubled = {name: 2 * tensor for name, tensor in model.named_parameters()}
    torch.testing.assert_close(torch.func.functional_call(model, doubled, x), 2 * model(x))


@pytest.mark.parametrize("first", ["pruned", "parametrized"])
@pytest.mark.parametrize("removed", ["pruning", "parametrization"])
def test_a_module_may_also_be_parametrized(first, removed):
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    if first == "pruned":
        pruning.l1_unstructured(layer, "bias", 2)
    parametrizations.weight_norm(layer, "weight")
    if first == "parametrized":
        pruning.l1_unstructured(layer, "bias", 2)
    for removal in (removed, {"pruning": "parametrization", "parametrization": "pruning"}[removed]):
        train(layer, x)
        assert not hasattr(layer, "bias_mask") or (layer.bias == 0).sum() == 2
        expected, bias = layer(x), layer.bias
        if removal == "pruning":
            pruning.remove(layer, "bias")
        else:
            parametrize.remove_parametrizations(layer, "weight")
        torch.testing.assert_close(layer.bias, bias)
        torch.testing.assert_close(layer(x), expected)
    assert {name for name, _ in layer.named_parameters()} == {"weight", "bias"}
    assert type(layer) is nn.Linear
    train(layer, x)


# On the device meta and with fake tensors

SCORES = torch.arange(6.0).view(3, 2)
# By name, what is done to a linear layer of shape (3, 2) by a package.
CALLS = {
    "identity": lambda by, m: by.identity(m, "weight"),
    "custom": lambda by, m: by.custom_from_mask(m, "weight", torch.ones_like(m.weight)),
    "custom with values": lambda by, m: by.custom_from_mask(m, "weight", SCORES > 2),
    "l1": lambda by, m: by.l1_unstructured(m, "weight", 0.5),
    "l1 of none": lambda by, m: by.l1_unstructured(m, "weight", 0),
    "l1 of all": lambda by, m: by.l1_unstructured(m, "weight", 6),
    "l1 of too many": lambda by, m: by.l1_unstructured(m, "weight", 7),
    "l1 of a bias": lambda by, m: by.l1_unstructured(m, "bias", 1),
    "l1 of scores": lambda by, m: by.l1_unstructured(m, "weight", 1, importance_scores=SCORES),
    "random": lambda by, m: by.random_unstructured(m, "weight", 2),
    "ln": lambda by, m: by.ln_structured(m, "weight", 1, 2, 0),
    "ln of infinite order": lambda by, m: by.ln_structured(m, "weight", 0.5, float("inf"), 1),
    "ln of too many": lambda by, m: by.ln_structured(m, "weight", 4, 2, 0),
    "random structured": lambda by, m: by.random_structured(m, "weight", 0.5, 0),
    "removed": lambda by, m: by.remove(by.l1_unstructured(m, "weight", 1), "weight"),
    "twice": lambda by, m: by.l1_unstructured(by.identity(m, "weight"), "weight", 1),
    "custom twice": lambda by, m: by.custom_from_mask(
        by.identity(m, "weight"), "weight", torch.ones_like(m.weight)
    ),
    "global": lambda by, m: by.global_unstructured(
        [(m, "weight"), (m, "bias")], by.L1Unstructured, amount=3
    ),
}


def outcome(package, call, mode, device, dtype):
    """Return the tensors of a pruned layer in words, or the error."""
    with mode():
        layer = nn.Linear(2, 3, device=device, dtype=dtype)
        try:
            CALLS[call](package, layer)
            layer(torch.ones(1, 2, device=device, dtype=dtype))
        except Exception as error:  # noqa: BLE001 - torch raises anything
            return error
        tensors = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
        tensors["weight"] = layer.weight
        assert package.is_pruned(layer) == reference.is_pruned(layer) == (call != "removed")
        return {
            name: (type(one), one.shape, one.dtype, one.device) for name, one in tensors.items()
        }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("mode", "device"),
    [
        (nullcontext, "meta"),
        (lambda: FakeTensorMode(allow_non_fake_inputs=True), "cpu"),
        (lambda: FakeTensorMode(allow_non_fake_inputs=True), "meta"),
    ],
    ids=["meta", "fake", "fake meta"],
)
@pytest.mark.parametrize("call", CALLS)
def test_a_layer_without_values_is_pruned_where_torch_prunes_it(call, mode, device, dtype):
    expected = outcome(reference, call, mode, device, dtype)
    found = outcome(pruning, call, mode, device, dtype)
    if isinstance(expected, Exception):
        assert isinstance(found, Exception) or call == "custom with values"
    else:
        assert found == expected


@pytest.mark.parametrize(
    "prune",
    [
        lambda layer: pruning.identity(layer, "weight"),
        lambda layer: pruning.ln_structured(layer, "weight", 1, n=2, dim=0),
        lambda layer: pruning.random_unstructured(layer, "weight", 0.5),
    ],
)
def test_loaded_tensors_take_the_place_of_those_on_meta(prune):
    source = nn.Linear(4, 3)
    pruning.l1_unstructured(source, "weight", 0.5)
    layer = nn.Linear(4, 3, device="meta")
    prune(layer)
    layer.load_state_dict(source.state_dict(), assign=True)
    x = torch.randn(2, 4)
    assert torch.equal(layer(x), source(x))
    layer(x).sum().backward()
    assert torch.equal(layer.weight_orig.grad != 0, layer.weight_mask == 1)
    assert torch.equal(pruning.remove(layer, "weight").weight, source.weight)


def test_the_values_of_a_mask_are_not_lost_on_meta():
    with pytest.raises(ValueError, match="parameter on meta has none"):
        pruning.custom_from_mask(nn.Linear(2, 3, device="meta"), "weight", SCORES > 2)


def test_the_class_of_a_pruned_module_looks_like_its_own():
    layer = nn.Linear(4, 3)
    text = repr(layer)
    pruning.l1_unstructured(layer, "weight", 0.5)
    pruning.l1_unstructured(layer, "bias", 1)
    assert isinstance(layer, nn.Linear)
    assert repr(layer) == text
    assert type(layer).__mro__[1] is nn.Linear
    pruning.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.bias is not layer.bias_orig


@pytest.mark.slow
def test_a_distributed_parameter_is_refused_in_one_line(tmp_path):
    from torch import distributed
    from torch.distributed.tensor import DeviceMesh, distribute_module

    distributed.init_process_group(
        "gloo", store=distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    try:
        layer = distribute_module(nn.Linear(4, 3), DeviceMesh("cpu", [0]))
        for prune in (pruning.identity, lambda *pair: pruning.l1_unstructured(*pair, 0.5)):
            with pytest.raises(TypeError, match=r"'weight' of .* is a DTensor, .* before it is"):
                prune(layer, "weight")
        assert not pruning.is_pruned(layer)
    finally:
        distributed.destroy_process_group()
