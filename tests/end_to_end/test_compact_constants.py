"""Compact checkpoints without units that emit a constant, as transformers and torchvision run them.

The outputs must be those of the model with the weights of the finalized form.
"""

import shutil
import warnings

import pytest
import torch
from applied import applied
from compact_models import script
from safetensors.torch import load_file, save_file
from slicing import randomize, shapes_of
from transformer_families import load_model, outputs, save_model

from prune_gui import Recipe, export, open_checkpoint
from prune_gui.architecture.chains import channel_groups
from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.monitor import Monitor
from prune_gui.recipe import verify
from prune_gui.recipe.compaction.plan import compact_plan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
DEAD = {"method": "dead_units", "targets": ["*"]}
SAME = {"rtol": 1e-4, "atol": 1e-5}
UNITS = [0, 3, 5]
FAMILIES = (
    *("bert", "roberta", "distilbert", "deberta-v2", "convbert", "vit", "gpt2", "gpt-neox", "opt"),
    *("phi", "starcoder2", "wav2vec2", "whisper", "bart", "llama"),
)
PADDED = "a convolution that reads them may pad its input with zeros"
UNKNOWN = "the activation function is not known"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_transformer_computes_the_same_without_constants(family, tmp_path):
    save_model(family, tmp_path / "in")
    plan = save_forms(tmp_path, family)
    layers = {group.label for group in ffn_groups(tmp_path / "in")}
    assert len(plan.folded) == len(layers)
    assert plan.unfolded == ()
    assert {tensor.changed for tensor in plan.folded} == {16}
    assert sum(space.before - space.after for space in plan.spaces) == 3 * len(layers)
    masked, original = (load_model(family, tmp_path / name) for name in ("masked", "in"))
    expected = outputs(masked)
    assert not torch.allclose(outputs(original), expected, rtol=1e-3, atol=1e-3)
    found = outputs(load_compact(family, tmp_path / "compact"))
    torch.testing.assert_close(found, expected, **SAME)
    assert verify(tmp_path / "compact").problems == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_transformer_of_half_precision_differs_by_the_rounding_of_its_biases(dtype, tmp_path):
    save_model("bert", tmp_path / "in", dtype=dtype)
    plan = save_forms(tmp_path, "bert")
    state, masked = (
        load_file(tmp_path / name / "model.safetensors") for name in ("compact", "masked")
    )
    for tensor in plan.folded:
        path = tensor.name.removesuffix("output.dense.bias")
        constants = torch.nn.functional.gelu(masked[f"{path}intermediate.dense.bias"].double())
        columns = masked[f"{path}output.dense.weight"].double()[:, UNITS]
        exact = masked[tensor.name].double() + columns @ constants[UNITS]
        assert torch.equal(state[tensor.name], exact.to(getattr(torch, dtype)))
        masked[tensor.name] = state[tensor.name] - columns @ constants[UNITS]
    expected = load_model("bert", tmp_path / "masked").double()
    for name, parameter in expected.named_parameters():
        parameter.data = masked[name].double()
    found = outputs(load_compact("bert", tmp_path / "compact").double())
    torch.testing.assert_close(found, outputs(expected), **SAME)


@pytest.mark.parametrize("family", ["t5", "gemma", "phi3"])
def test_units_without_biases_emit_no_constant(family, tmp_path):
    save_model(family, tmp_path / "in")
    plan = save_forms(tmp_path, family)
    assert (plan.folded, plan.unfolded) == ((), ())
    masked = outputs(load_model(family, tmp_path / "masked"))
    found = outputs(load_compact(family, tmp_path / "compact"))
    torch.testing.assert_close(found, masked, **SAME)


def ffn_groups(folder):
    with open_checkpoint(folder) as checkpoint:
        names = [name for name in spaces(checkpoint) if name.endswith("ffn")]
        return [group for name in names for group in coupled_groups(checkpoint, name)]


def save_forms(folder, family):
    """Prune the weights of some units; write both forms and return the plan of the compact one."""
    members = {
        (one.name, one.dim, one.offset // one.width)
        for group in ffn_groups(folder / "in")
        for one in group.members
        if one.role == "produces"
    }
    steps = [
        {
            "method": "channels",
            "targets": [name],
            "dim": dim,
            "channels": [offset + unit for unit in UNITS],
        }
        for name, dim, offset in sorted(members)
    ]
    shutil.copytree(folder / "in", folder / "masked")
    with applied(folder / "in", Recipe(steps=[*steps, DEAD])) as resolution:
        export(resolution, folder / "masked" / "model.safetensors", overwrite=True)
        export(resolution, folder / "compact", "compact")
        return compact_plan(resolution, Monitor())


def load_compact(family, folder):
    """Load a compact form, with its loader script if it has one."""
    has_script = list(folder.glob("load_*.py"))
    return script(folder).load() if has_script else load_model(family, folder)


def vgg(models, *, batch_norm):
    """Return a VGG 11 with few channels."""
    plan = [4, "M", 6, "M", 8, 8, "M", 8, 8, "M", 8, 8, "M"]
    model = models.VGG(models.vgg.make_layers(plan, batch_norm=batch_norm), init_weights=False)
    sizes = (8 * 49, 20, 16, 5)
    for index, inputs, outputs_ in zip((0, 3, 6), sizes, sizes[1:], strict=False):
        model.classifier[index] = torch.nn.Linear(inputs, outputs_)
    return model


NETWORKS = {
    # The last convolution and both hidden layers; the readers of the others have padding.
    "vgg": (lambda models: vgg(models, batch_norm=False), 3, {PADDED}),
    "vgg_bn": (lambda models: vgg(models, batch_norm=True), 3, {PADDED}),
    # No group has only readers without padding.
    "resnet18": (lambda models: models.resnet18(), 0, {PADDED}),
    # The stem, of which conv1 and the shortcut read; four last convolutions; four stages, of which
    # three are read by two layers and the last one by one.
    "bottlenecks": (
        lambda models: models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1]), 2 + 4 + 7, {PADDED},
    ),
    # 17 expansions, three stages without any shortcut, and the last convolution.
    "mobilenet_v2": (lambda models: models.mobilenet_v2(width_mult=0.5), None, {UNKNOWN}),
    "efficientnet_b0": (lambda models: models.efficientnet_b0(), None, {UNKNOWN}),
    "mobilenet_v3_small": (lambda models: models.mobilenet_v3_small(), 0, {UNKNOWN}),
}  # fmt: skip
"""By name: the network, the number of changed tensors, and the reasons why units stay."""


@pytest.mark.parametrize("name", NETWORKS)
def test_a_convolutional_network_computes_the_same_without_constants(vision, name, tmp_path):
    build, changed, reasons = NETWORKS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = randomize(build(vision).double(), seed=1)
    groups = channel_groups(shapes_of(model)).groups
    state = model.state_dict()
    for group in groups:
        for member in group.members:
            if member.role == "produces":
                state[member.name][1:3] = 0
    for tensor_name, tensor in state.items():  # every constant is above 0
        if tensor_name.endswith(("bias", "running_mean")):
            tensor.copy_(tensor.abs() * (1 if tensor_name.endswith("bias") else -1))
    # One unit is pruned as a whole, so that there is always something to remove.
    for member in groups[0].members:
        state[member.name].movedim(member.dim, 0)[member.width : 2 * member.width] = 0
    save_file(state, tmp_path / "in.safetensors")
    model.load_state_dict(state)
    images = torch.rand(2, 3, 64, 64).double()
    with applied(tmp_path / "in.safetensors", Recipe(start="zeros", steps=[DEAD])) as resolution:
        export(resolution, tmp_path / "masked.safetensors")
        export(resolution, tmp_path / "compact.safetensors", "compact")
        plan = compact_plan(resolution, Monitor())
    assert {units.reason for units in plan.unfolded} == reasons
    if changed is None:
        assert {tensor.name.rpartition(".")[2] for tensor in plan.folded} >= {"running_mean"}
        assert len(plan.folded) > 15
    else:
        assert len(plan.folded) == changed
    masked = load_file(tmp_path / "masked.safetensors")
    model.load_state_dict(masked)
    with torch.no_grad():
        expected = model(images)
        small = script(tmp_path).load(model)
        torch.testing.assert_close(small(images), expected, **SAME)
    assert verify(tmp_path / "compact.safetensors").problems == []
