"""Constants of units without weights, which the next layers take over in the compact form."""

import json

import pytest
import torch
from applied import applied
from compact_networks import channels
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from transformers.activations import ACT2FN

from prune_gui.architecture.unit_values import Activation, BatchNorm, Bias, Pair
from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, verify
from prune_gui.recipe.compaction.folding import ACTIVATIONS, constants, unfolded_notes
from prune_gui.recipe.compaction.plan import compact_plan
from prune_gui.recipe.contents_note import constant_notes

HIDDEN, SIZE, LAYERS = 6, 8, 2
CONFIG = {"architectures": ["Opt"], "model_type": "opt", "ffn_dim": SIZE}
FC1, FC2 = "decoder.layers.{}.fc1.{}", "decoder.layers.{}.fc2.{}"
DEAD = {"method": "dead_units", "targets": ["*"]}
unit_sets = st.sets(st.integers(0, SIZE - 1), max_size=SIZE - 1)


class Block(nn.Module):
    """A feed-forward block with the names of OPT, and an attention that is not used."""

    def __init__(self, size: int, bias: bool) -> None:
        super().__init__()
        self.self_attn = nn.ModuleDict(
            {name: nn.Linear(2, 2, bias=False) for name in ("q_proj", "out_proj")}
        )
        self.fc1, self.fc2 = nn.Linear(HIDDEN, size), nn.Linear(size, HIDDEN, bias=bias)


class Network(nn.Module):
    def __init__(self, function: str, sizes: list[int], bias: bool = True) -> None:
        super().__init__()
        self.decoder = nn.ModuleDict({"layers": nn.ModuleList(Block(size, bias) for size in sizes)})
        self.function = ACT2FN[function]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.decoder["layers"]:
            x = x + block.fc2(self.function(block.fc1(x)))
        return x


def save_network(folder, function="gelu", dtype=torch.float32, bias=True, **config):
    """Save a network as Hugging Face does, and return its state dict."""
    torch.manual_seed(0)
    network = Network(function, [SIZE] * LAYERS, bias)
    state = {name: tensor.to(dtype) for name, tensor in network.state_dict().items()}
    folder.mkdir(exist_ok=True)
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    config = {**CONFIG, "activation_function": function, **config}
    (folder / "config.json").write_text(json.dumps(config))
    return state


def weightless(layer, units, bias=()):
    """Return steps that prune the weights of units, and the biases of some."""
    pruned = (("weight", units), ("bias", bias))
    return [channels(FC1.format(layer, leaf), 0, sorted(which)) for leaf, which in pruned if which]


def saved_forms(source, recipe, folder):
    """Write the finalized and the compact form; return their state dicts and the plan."""
    with applied(source, recipe) as resolution:
        export(resolution, folder / "masked.safetensors")
        export(resolution, folder / "compact", "compact")
        plan = compact_plan(resolution, Monitor())
    compact = load_file(folder / "compact" / "model.safetensors")
    return load_file(folder / "masked.safetensors"), compact, plan


def plan_of(source, steps, **options):
    with applied(source, Recipe(steps=steps, **options)) as resolution:
        return compact_plan(resolution, Monitor())


def run(state, function, x):
    sizes = [len(state[FC1.format(layer, "bias")]) for layer in range(LAYERS)]
    network = Network(function, sizes, FC2.format(0, "bias") in state)
    network.load_state_dict(state)
    return network(x)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["gelu", "gelu_new", "relu", "silu", "sigmoid", "tanh", "relu2"]),
    st.lists(unit_sets, min_size=LAYERS, max_size=LAYERS).filter(any),
    st.lists(unit_sets, min_size=LAYERS, max_size=LAYERS),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    st.booleans(),
    st.sampled_from([None, "first", "last"]),
)
def test_the_compact_form_computes_the_same_as_the_masked_one(
    tmp_path_factory, function, dead, unbiased, dtype, zeros_of_file, elements
):
    folder = tmp_path_factory.mktemp("f")
    state = save_network(folder / "in", function, dtype)
    steps = [step for i in range(LAYERS) for step in weightless(i, dead[i], unbiased[i])]
    some = {"method": "l1_unstructured", "targets": ["*.fc2.*"], "amount": 0.4}
    steps = [some] * (elements == "first") + [*steps, DEAD] + [some] * (elements == "last")
    if zeros_of_file:
        for layer in range(LAYERS):
            state[FC1.format(layer, "weight")][sorted(dead[layer])] = 0
        save_file(state, folder / "in" / "model.safetensors", {"format": "pt"})
        steps = [step for step in steps if "fc1.weight" not in step["targets"][0]]
    recipe = Recipe(start="zeros" if zeros_of_file else "dense", steps=steps)
    masked, compact, plan = saved_forms(folder / "in", recipe, folder)
    for layer in range(LAYERS):
        assert len(compact[FC1.format(layer, "bias")]) == SIZE - len(dead[layer])
    changed = {}
    for tensor in plan.folded:
        rounded = masked[tensor.name].double() + added(masked, plan, tensor.name, function)
        torch.testing.assert_close(compact[tensor.name], rounded.to(dtype), rtol=0.01, atol=1e-6)
        changed[tensor.name] = int((compact[tensor.name] != masked[tensor.name]).sum())
        assert changed[tensor.name] <= tensor.changed
    other = [name for name in masked if ".fc" not in name or "fc2.bias" in name]
    for name in set(other) - changed.keys():
        assert torch.equal(compact[name], masked[name])
    if dtype == torch.float32:
        x = torch.randn(5, HIDDEN)
        same = {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(run(compact, function, x), run(masked, function, x), **same)
    assert verify(folder / "compact").problems == []


def added(masked, plan, name, function):
    """Return what the removed units of a layer add, float64."""
    layer = name.split(".")[2]
    weight, bias = FC2.format(layer, "weight"), FC1.format(layer, "bias")
    [kept] = [tensor.kept[0] for tensor in plan.tensors if tensor.info.name == bias]
    removed = torch.tensor(sorted({*range(SIZE)} - {*kept.tolist()}))
    return masked[weight].double()[:, removed] @ ACT2FN[function](masked[bias].double()[removed])


def test_the_plan_and_the_file_say_what_changes(tmp_path):
    save_network(tmp_path / "in")
    steps = [*weightless(0, [1, 4], bias=[4]), *weightless(1, [2], bias=[7]), DEAD]
    with applied(tmp_path / "in", Recipe(steps=steps)) as resolution:
        notes = set(resolution.outcomes[-1].limits.values())
    assert {note.partition(",")[0] for note in notes} == {
        "1 unit has no weights and emits a constant"
    }
    _, _, plan = saved_forms(tmp_path / "in", Recipe(steps=steps), tmp_path)
    bias = FC2.format(0, "bias"), FC2.format(1, "bias")
    assert [(one.name, one.units, one.changed) for one in plan.folded] == [
        (bias[0], 1, HIDDEN),
        (bias[1], 1, HIDDEN),
    ]
    assert plan.unfolded == ()
    assert constant_notes(plan) == [
        f"2 parameters take over the constants of removed units: {bias[0]}, {bias[1]}."
    ]
    with safe_open(tmp_path / "compact" / "model.safetensors", "pt") as file:
        assert json.loads(file.metadata()["prune_gui.folded"]) == dict.fromkeys(bias, 1)


def test_without_the_field_or_the_step_units_that_emit_a_constant_stay(tmp_path):
    save_network(tmp_path / "in")
    whole = [*weightless(0, [1], bias=[1]), channels(FC2.format(0, "weight"), 1, [1])]
    steps = [*whole, *weightless(0, [3])]
    kept = {**DEAD, "fold_constants": False}
    elsewhere = {**DEAD, "targets": ["*.1.*"]}
    off = {**DEAD, "enabled": False}
    for last in ([], [kept], [elsewhere], [off]):
        plan = plan_of(tmp_path / "in", [*steps, *last])
        assert (plan.spaces[0].after, plan.folded, plan.unfolded) == (15, (), ())
    assert plan_of(tmp_path / "in", [*steps, DEAD]).spaces[0].after == 14


def test_one_unit_stays_if_all_units_of_a_layer_emit_a_constant(tmp_path):
    save_network(tmp_path / "in")
    recipe = Recipe(steps=[*weightless(0, range(SIZE), bias=[0]), DEAD])
    masked, compact, plan = saved_forms(tmp_path / "in", recipe, tmp_path)
    assert plan.spaces[0].after == 1 + SIZE
    [units] = plan.unfolded
    assert (units.reason, units.units) == ("the layer would keep too few units", 1)
    x = torch.randn(5, HIDDEN)
    torch.testing.assert_close(run(compact, "gelu", x), run(masked, "gelu", x))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"activation_function": None}, "the activation function is not known"),
        ({"activation_function": "xielu"}, "the activation function xielu is not supported"),
        ({"text_config": {"hidden_size": 1}}, "the activation function is not known"),
        ({"model_type": "opt2", "ffn_dim": 8}, "the activation function is not known"),
        ({"model_type": None}, "the activation function is not known"),
    ],
)
def test_units_stay_if_the_activation_function_is_not_certain(tmp_path, config, reason):
    save_network(tmp_path / "in", **config)
    whole = [*weightless(0, [1], bias=[1]), channels(FC2.format(0, "weight"), 1, [1])]
    plan = plan_of(tmp_path / "in", [*whole, *weightless(0, [3, 5]), *weightless(1, [2]), DEAD])
    assert plan.spaces[0].after == 15
    assert plan.folded == ()
    [units] = plan.unfolded
    assert (units.reason, units.units) == (reason, 3)
    assert units.example == "decoder.layers.0, unit 3"


def test_units_stay_if_the_next_layer_has_no_bias(tmp_path):
    save_network(tmp_path / "in", bias=False)
    with pytest.raises(RecipeError, match="neither a bias nor a batch norm"):
        plan_of(tmp_path / "in", [*weightless(0, [3]), DEAD])


def test_a_protected_bias_does_not_change(tmp_path):
    save_network(tmp_path / "in")
    steps = [*weightless("*", [3]), DEAD]
    plan = plan_of(tmp_path / "in", steps, protect=[FC2.format(0, "bias")])
    assert [tensor.name for tensor in plan.folded] == [FC2.format(1, "bias")]
    assert [units.reason for units in plan.unfolded] == ["the bias to change is protected"]


def test_a_bias_that_would_overflow_does_not_change(tmp_path):
    state = save_network(tmp_path / "in", "relu", torch.float16)
    state[FC1.format(0, "bias")][3] = state[FC2.format(0, "weight")][0, 3] = 6e4
    state[FC1.format(1, "bias")][3] = 1
    save_file(state, tmp_path / "in" / "model.safetensors", {"format": "pt"})
    plan = plan_of(tmp_path / "in", [*weightless("*", [3]), DEAD])
    assert [tensor.name for tensor in plan.folded] == [FC2.format(1, "bias")]
    assert [units.reason for units in plan.unfolded] == ["the result would not be finite"]


def test_a_bias_with_two_names_does_not_change(tmp_path):
    state = save_network(tmp_path / "in")
    state["head.bias"] = state[FC2.format(0, "bias")]
    (tmp_path / "in" / "model.safetensors").unlink()
    torch.save(state, tmp_path / "in" / "pytorch_model.bin")
    plan = plan_of(tmp_path / "in" / "pytorch_model.bin", [*weightless("*", [3]), DEAD])
    assert [tensor.name for tensor in plan.folded] == [FC2.format(1, "bias")]
    [note] = unfolded_notes(plan.unfolded)
    assert note == (
        "1 unit without weights emits a constant and stays, because a tensor is shared with other "
        "layers (decoder.layers.0, unit 3)."
    )


X = torch.linspace(-9, 9, 401, dtype=torch.float64)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_function_is_that_of_transformers_with_the_same_name(name):
    expected = ACT2FN[name](X)
    # The constant 0.7978845608 of gelu_fast has ten digits.
    torch.testing.assert_close(ACTIVATIONS[name](X), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("affine", [True, False])
def test_a_value_is_what_the_layers_compute_from_zeros(affine):
    norm = nn.BatchNorm2d(5, affine=affine).double().eval()
    state = norm.state_dict()
    for name in state.keys() - {"num_batches_tracked"}:
        state[name].uniform_(0.2, 2)
    state["scale"] = torch.randn(5, dtype=torch.float64)
    before = Bias("scale")
    scale_and_shift = ("weight", "bias") if affine else (None, None)
    normed = BatchNorm(before, *scale_and_shift, "running_mean", "running_var")
    value = Pair("product", Activation(Pair("sum", normed, before), "silu"), Bias("scale"))
    scale = state["scale"]
    expected = functional.silu(norm(scale[None, :, None, None])[0, :, 0, 0] + scale) * scale
    torch.testing.assert_close(constants(value, state.__getitem__, 5), expected)
    assert torch.equal(constants(Bias(None), state.__getitem__, 5), torch.zeros(5).double())
