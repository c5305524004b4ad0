"""What the compact form is planned to contain, and what is refused."""

import re
from dataclasses import replace

import pytest
import torch
from compact_networks import (
    CONFIG,
    Mlp,
    blocks_group,
    channels,
    ffn_architecture,
    ffn_group,
    neurons,
    resolved,
    saved_mlp,
)
from slicing import random_units, shapes_of, sliced
from torch import nn

from prune_gui.architecture.chains import channel_groups
from prune_gui.architecture.tables import SpaceRule
from prune_gui.architecture.torchvision_layers import output_sizes
from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.recipe import OutputPath, export
from prune_gui.recipe.compaction.network import Architecture, figures
from prune_gui.recipe.compaction.plan import planned
from prune_gui.recipe.contents_note import loading_note, plan_note

LAYERS = SpaceRule.model_validate({"title": "layers", "config": [{"field": "n_layers"}]})
SECOND_LAYER = [channels("layers.1.*", 0, range(6)), channels("layers.1.up.*", 0, range(8))]


@pytest.fixture
def plan_of(tmp_path):
    saved_mlp(tmp_path)

    def plan(steps, architecture=None, **options):
        with open_checkpoint(tmp_path) as checkpoint:
            resolution = resolved(checkpoint, steps)
            architecture = architecture or ffn_architecture(config=CONFIG)
            return planned(resolution, architecture, Monitor(), **options)

    return plan


def test_shapes_config_and_figures_are_those_of_the_smaller_network(plan_of):
    plan = plan_of(neurons("*", [0, 3, 5]))
    small = Mlp(widths=(5, 5, 5)).state_dict()
    assert {tensor.info.name: tensor.shape for tensor in plan.tensors} == {
        name: tuple(value.shape) for name, value in small.items()
    }
    assert plan.config == {**CONFIG, "intermediate_size": 5}
    assert plan.after.parameters == sum(value.numel() for value in small.values())
    assert plan.after.nbytes == 4 * plan.after.parameters
    assert plan.before.multiply_adds == 3 * 2 * 6 * 8
    assert plan.after.multiply_adds == 3 * 2 * 6 * 5
    assert (plan.needs_loader, plan.problems) == (False, ())
    [units] = plan.spaces
    assert (units.before, units.after, units.uniform) == (24, 15, True)


def test_different_widths_need_the_loader_script_and_leave_the_config(plan_of):
    plan = plan_of(neurons(1, [0]))
    assert plan.needs_loader
    assert not plan.problems
    assert plan.config == CONFIG


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (CONFIG, "that is saved with it loads it."),
        ({**CONFIG, "auto_map": {"AutoModel": "code.Mlp"}}, "which your code builds: load(model)."),
        (None, "which your code builds: load(model)."),
    ],
)
def test_the_note_tells_whether_the_script_builds_the_network(plan_of, config, expected):
    plan = plan_of(neurons(1, [0]), ffn_architecture(config=config))
    assert loading_note(plan).endswith(expected)


def test_the_note_names_the_file_as_from_pretrained_looks_for_it(plan_of):
    plan = plan_of(neurons("*", [0]))
    found = [loading_note(plan, name=name) for name in ("model.safetensors", "a.safetensors")]
    assert found == [
        "from_pretrained loads the folder.",
        "from_pretrained loads the folder if a.safetensors is called model.safetensors.",
    ]


def test_different_numbers_of_units_of_several_channels_load_nowhere(plan_of):
    rules = ffn_architecture().spaces
    architecture = Architecture(rules, tuple(ffn_group(i, 4, 2) for i in range(3)), {}, {}, CONFIG)
    plan = plan_of(neurons(1, [0, 1]), architecture)
    assert "different numbers" in plan.problems[0]


def test_removed_blocks_do_not_count_for_the_width(plan_of):
    ffn = ffn_architecture()
    spaces, groups = {**ffn.spaces, "layers": LAYERS}, (*ffn.groups, blocks_group(3))
    both = Architecture(spaces, groups, {}, {}, {**CONFIG, "n_layers": 3})
    plan = plan_of([*SECOND_LAYER, *neurons(0, [7]), *neurons(2, [4])], both)
    assert plan.config == {**CONFIG, "n_layers": 2, "intermediate_size": 7}
    assert plan.removed == tuple(
        f"layers.1.{leaf}" for leaf in ("down.bias", "down.weight", "up.bias", "up.weight")
    )
    assert plan.problems == ()
    keys = {key for tensor in plan.tensors for key in tensor.keys if "2" in key[1]}
    assert ("layers.1.up.weight", "layers.2.up.weight") in keys


def test_only_widths_that_remain_need_the_loader_script(plan_of):
    ffn = ffn_architecture()
    # No field of config.json says the widths of the neurons.
    spaces = {"ffn": ffn.spaces["ffn"].model_copy(update={"config": ()}), "layers": LAYERS}
    groups = (*ffn.groups, blocks_group(3))
    both = Architecture(spaces, groups, {}, {}, {"n_layers": 3})
    plan = plan_of(SECOND_LAYER, both)
    assert (plan.needs_loader, plan.config, plan.problems) == (False, {"n_layers": 2}, ())
    assert plan_of([*SECOND_LAYER, *neurons(0, [7])], both).needs_loader


def test_removing_all_blocks_is_a_problem(plan_of):
    architecture = Architecture({"layers": LAYERS}, (blocks_group(3),), {}, {}, {"n_layers": 3})
    everything = [channels("*.down.*", 0, range(6)), channels("*.up.*", 0, range(8))]
    assert plan_of(everything, architecture).problems == (
        "All layers would be removed. Prune fewer.",
    )


@pytest.mark.parametrize(
    ("gone", "rules", "message"),
    [
        (range(8), {}, r"0 of 8 FFN neurons would remain, at least 1 must"),
        (range(6), {"minimum": "per_token"}, r"2 of 8 .* at least 3 must"),
        ([0], {"runs": "halves"}, r"each of 2 runs of FFN neurons must keep equally many"),
        ([0, 1, 4], {"runs": "halves"}, r"each of 2 runs"),
    ],
)
def test_numbers_that_no_program_loads_are_problems(tmp_path, gone, rules, message):
    saved_mlp(tmp_path)
    known = ffn_architecture(config=CONFIG, **rules)
    architecture = Architecture(
        known.spaces, known.groups, {"per_token": ("3",), "halves": ("2",)}, {}, CONFIG
    )
    with open_checkpoint(tmp_path) as checkpoint:
        plan = planned(resolved(checkpoint, neurons("*", gone)), architecture, Monitor())
    assert re.search(message, plan.problems[0])


def test_units_that_can_only_be_masked_stay_unless_that_is_allowed(plan_of):
    architecture = ffn_architecture(loadable=False)
    with pytest.raises(RecipeError, match="FFN neurons: no known program loads fewer"):
        plan_of(neurons("*", [1]), architecture)
    with pytest.raises(RecipeError, match="is pruned in all of its tensors"):
        plan_of([], architecture)
    plan = plan_of(neurons("*", [1]), architecture, allow_unloadable=True)
    assert plan.spaces[0].after == 21
    assert "no known program loads fewer" in plan.problems[0]


def test_blocks_that_can_only_be_masked_are_refused_before_the_units_in_them(plan_of):
    known = ffn_architecture(config=CONFIG)
    layers = SpaceRule(title="layers", loadable=False)
    spaces, groups = {**known.spaces, "layers": layers}, (*known.groups, blocks_group(3))
    architecture = Architecture(spaces, groups, {}, {}, CONFIG)
    with pytest.raises(RecipeError, match="layers: no known program loads fewer"):
        plan_of(SECOND_LAYER, architecture)


def test_experts_of_a_layer_have_one_width_for_the_loader_script(plan_of):
    known = ffn_architecture(config=CONFIG)
    uneven = [*neurons("*", [1]), *neurons(0, [2])]
    assert plan_of(uneven, known).needs_loader
    assert not plan_of(uneven, known).problems
    names = ("layers.0.up.weight", "layers.1.up.weight", "layers.2.up.weight")
    members = tuple(Member(name, None, i) for i, name in enumerate(names))
    experts = CoupledGroup("experts", "layers", 3, members)
    spaces = {**known.spaces, "experts": SpaceRule(title="experts")}
    architecture = Architecture(spaces, (*known.groups, experts), {}, {}, CONFIG)
    (problem,) = plan_of(uneven, architecture).problems
    assert "would keep different numbers" in problem


def test_experts_count_by_the_share_that_processes_a_token(on_disk):
    state = {"gate": torch.randn(4, 6), "up": torch.randn(4, 5, 6), "down": torch.randn(4, 6, 5)}
    rule = SpaceRule.model_validate({"title": "experts", "members": [{"name": "up"}]})
    group = CoupledGroup("experts", "moe", 4, tuple(Member(name, 0) for name in state))
    architecture = Architecture({"experts": rule}, (group,), {}, {"num_experts_per_tok": 1})
    resolution = resolved(on_disk(state), [channels("*", 0, [0, 2])])
    plan = planned(resolution, architecture, Monitor())
    assert plan.before.multiply_adds == 4 * 6 + 2 * 5 * 6
    assert plan.after.multiply_adds == 2 * 6 + 2 * 5 * 6


def test_the_work_of_convolutions_of_unknown_strides_is_not_stated(on_disk, tmp_path):
    state = {"conv.weight": torch.randn(4, 3, 3, 3), "next.weight": torch.randn(2, 4)}
    checkpoint = on_disk(state)
    members = (Member("conv.weight", 0), Member("next.weight", 1))
    group = CoupledGroup("ffn", "conv", 4, members)
    architecture = Architecture(ffn_architecture().spaces, (group,))
    steps = [channels("conv.weight", 0, [1]), channels("next.weight", 1, [1])]
    plan = planned(resolved(checkpoint, steps), architecture, Monitor())
    note = plan_note(plan, OutputPath.of(checkpoint, tmp_path / "out.safetensors"))
    assert plan.before.multiply_adds is None
    assert plan.image_size is None
    assert "multiply-adds" not in note


def test_the_note_states_the_work_per_token_or_per_image(plan_of, tmp_path):
    with open_checkpoint(tmp_path) as checkpoint:
        target = OutputPath.of(checkpoint, tmp_path / "out.safetensors")
    plan = plan_of(neurons("*", [0, 3, 5]))
    work = " Needs 180 of 288 multiply-adds per"
    assert f"{work} token. " in plan_note(plan, target)
    note = plan_note(replace(plan, image_size=96), target)
    assert f"{work} image of 96 x 96, with the strides of torchvision's networks. " in note


def test_a_training_checkpoint_is_refused_in_one_line(on_disk, tmp_path):
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 6)).sum().backward()
    optimizer.step()
    training = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    resolution = resolved(on_disk(training, "t.pt"), neurons("*", [1]))
    with pytest.raises(CheckpointError, match=r"optimizer states.*Save its state dict alone"):
        export(resolution, tmp_path / "out.pt", "compact")
    assert [path.name for path in tmp_path.iterdir()] == ["t.pt"]


NETWORKS = (
    "alexnet",
    *(f"vgg{layers}{norm}" for layers in (11, 13, 16, 19) for norm in ("", "_bn")),
    *(f"resnet{layers}" for layers in (18, 34, 50, 101, 152)),
    *("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"),
    *("wide_resnet50_2", "wide_resnet101_2"),
    *("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large"),
    *(f"efficientnet_b{i}" for i in range(8)),
    *(f"efficientnet_v2_{size}" for size in "sml"),
)
SIZES = (224, 193)


def on_meta(vision, name: str) -> nn.Module:
    options = {"init_weights": False} if name.startswith("vgg") else {}
    with torch.device("meta"):
        return vision.get_model(name, weights=None, **options).eval()


def counted(model: nn.Module, size: int) -> int:
    """Return the multiply-adds of a forward pass of one image."""
    total = 0

    def count(module, _inputs, outputs):
        nonlocal total
        positions = outputs[0, 0].numel() if isinstance(module, nn.Conv2d) else 1
        total += module.weight.numel() * positions

    layers = [one for one in model.modules() if isinstance(one, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    model(torch.empty(1, 3, size, size, device="meta"))
    for hook in hooks:
        hook.remove()
    return total


def stated(shapes: dict[str, tuple[int, ...]], sizes: dict[str, int]) -> int | None:
    tensors = [(TensorInfo(name, shape, "float32"), shape) for name, shape in shapes.items()]
    return figures(tensors, {}, sizes).multiply_adds


@pytest.mark.slow
@pytest.mark.very_slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_multiply_adds_are_those_of_torchvision_before_and_after_pruning(vision, name):
    model = on_meta(vision, name)
    shapes = shapes_of(model)
    found = channel_groups(shapes)
    small = sliced(model, found.groups, random_units(found.groups, seed=0))
    for size in SIZES:
        sizes = output_sizes(found.windows, size)
        dense, pruned = counted(model, size), counted(small, size)
        assert stated(shapes, sizes) == dense
        assert stated(shapes_of(small), sizes) == pruned < dense
    assert channel_groups(shapes_of(small)).windows == found.windows


@pytest.mark.slow
def test_without_all_sizes_nothing_is_stated(vision):
    shapes = shapes_of(on_meta(vision, "resnet18"))
    sizes = output_sizes(channel_groups(shapes).windows, 224)
    sizes.pop("layer3.0.downsample.0.weight")
    assert stated(shapes, sizes) is None
