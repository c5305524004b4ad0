"""The channels of known families: removing them changes nothing that zeros do not change."""

from __future__ import annotations

import warnings
from collections import defaultdict

import pytest
import torch
from slicing import assert_slicing_changes_nothing, randomize, shapes_of
from torch import nn

from prune_gui.architecture.chains import channel_groups

pytestmark = pytest.mark.slow

GROUP_COUNTS = {
    "alexnet": 7,
    "vgg11": 10,
    "vgg11_bn": 10,
    "vgg16": 15,
    "resnet18": 4 + 8,  # a group per stage, and the inner channels of each block
    "resnet34": 4 + 16,
    "resnet50": 1 + 4 + 2 * 16,  # the stem is in no stage
    "resnext50_32x4d": 1 + 4,  # the inner channels belong to grouped convolutions
    "mobilenet_v2": 1 + 7 + 16 + 1,  # stem, stages, expansions, last convolution
    "mobilenet_v3_small": 26,
    "mobilenet_v3_large": 30,
    "efficientnet_b0": 1 + 7 + 15 + 16 + 1,  # with the channels of 16 squeezes
}


def build(vision, name: str) -> torch.nn.Module:
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = vision.get_model(name, weights=None)
    size = sum(tensor.numel() for tensor in model.parameters())
    model = model.to_empty(device="cpu").to(torch.float64 if size < 5e7 else torch.float32)
    return randomize(model, seed=1)


def images(model: torch.nn.Module) -> torch.Tensor:
    dtype = next(model.parameters()).dtype
    return torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(2), dtype=dtype)


@pytest.mark.parametrize("name", GROUP_COUNTS)
def test_a_known_family_computes_the_same_without_the_pruned_channels(vision, name):
    model = build(vision, name)
    found = channel_groups(shapes_of(model))
    assert found.confirmed
    assert len(found.groups) == GROUP_COUNTS[name]
    assert len({group.label for group in found.groups}) == len(found.groups)
    change, small = assert_slicing_changes_nothing(model, found.groups, images(model))
    assert change > 1e-3
    assert channel_groups(shapes_of(small)).confirmed


@pytest.mark.parametrize(
    ("name", "attribute"), [("resnet18", "fc"), ("mobilenet_v2", "classifier")]
)
def test_the_classifier_may_be_replaced(vision, name, attribute):
    model = build(vision, name)
    width = model.fc.in_features if attribute == "fc" else model.last_channel
    head = nn.Sequential(
        nn.Linear(width, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Sequential(nn.Linear(24, 5))
    )
    setattr(model, attribute, randomize(head.to(torch.float64), seed=3))
    found = channel_groups(shapes_of(model))
    assert found.confirmed
    assert len(found.groups) == GROUP_COUNTS[name] + 1
    assert_slicing_changes_nothing(model, found.groups, images(model))


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18", "vgg11_bn"])
@pytest.mark.parametrize("prefix", ["module.", "model.backbone."])
def test_the_groups_depend_neither_on_the_order_of_the_file_nor_on_a_prefix(vision, name, prefix):
    shapes = shapes_of(build(vision, name))
    sorted_shapes = {prefix + name: shapes[name] for name in sorted(shapes)}
    assert [
        (prefix + group.label, group.size, len(group.members))
        for group in channel_groups(shapes).groups
    ] == [
        (group.label, group.size, len(group.members))
        for group in channel_groups(sorted_shapes).groups
    ]


def test_the_older_names_of_mobilenet_v2_give_the_same_groups(vision):
    """Blocks were "conv.0", "conv.1", "conv.3", ...: convolution, norm and activation in turn."""
    shapes = shapes_of(build(vision, "mobilenet_v2"))
    renamed: dict[str, tuple[int, ...]] = {}
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for name, shape in shapes.items():
        block, conv, leaf = name.partition(".conv.")
        if conv:
            module, _, leaf = leaf.rpartition(".")
            index = counts[block].setdefault(module, len(counts[block]))
            name = f"{block}.conv.{3 * (index // 2) + index % 2}.{leaf}"
        renamed[name] = shape
    assert "features.2.conv.7.running_mean" in renamed
    found = channel_groups(renamed)
    assert found.confirmed
    assert [(group.size, len(group.members)) for group in found.groups] == [
        (group.size, len(group.members)) for group in channel_groups(shapes).groups
    ]


@pytest.mark.parametrize(
    "name",
    [
        "convnext_tiny", "densenet121", "fcn_resnet50", "googlenet", "inception_v3", "r3d_18",
        "regnet_y_400mf", "retinanet_resnet50_fpn", "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t",
        "vit_b_16",
    ],
)  # fmt: skip
@pytest.mark.parametrize("arrange", [list, sorted])
def test_a_network_that_is_not_understood_has_no_groups(vision, name, arrange):
    backbone = {"weights_backbone": None} if name.startswith(("fcn", "retinanet")) else {}
    device = "cpu" if name.startswith("regnet") else "meta"  # regnet computes with its widths
    with warnings.catch_warnings(), torch.device(device):
        warnings.simplefilter("ignore")
        shapes = shapes_of(vision.get_model(name, weights=None, **backbone))
    found = channel_groups({name: shapes[name] for name in arrange(shapes)})
    assert found.groups == ()


def test_a_network_with_shortcuts_that_no_tensor_shows_loses_only_inner_channels(vision):
    model = build(vision, "mnasnet0_5")
    found = channel_groups(shapes_of(model))
    assert not found.confirmed
    assert len(found.groups) == 18
    assert_slicing_changes_nothing(model, found.groups, images(model))


READINGS = {
    "alexnet": (7, 3),  # the classifier; all convolutions but the first may have padding
    "vgg19_bn": (18, 3),
    "resnet18": (20, 4),  # three shortcuts and the classifier
    "mobilenet_v2": (25, 25),  # where a block adds its input is not certain
    "mobilenet_v3_small": (0, 0),
    "efficientnet_b5": (0, 0),  # its batch norms have another epsilon than those of b0
    "efficientnet_v2_s": (0, 0),
}
"""By name: the layers that read known values, and those of them that can take constants over."""


@pytest.mark.parametrize("name", READINGS)
def test_what_layers_read_is_known_where_torchvision_leaves_no_doubt(vision, name):
    options = {"init_weights": False} if "vgg" in name else {}
    with torch.device("meta"):
        found = channel_groups(shapes_of(vision.get_model(name, weights=None, **options)))
    readers = {one.name for group in found.groups for one in group.members}
    known = [
        reading
        for name, reading in found.readings.items()
        if name in readers and reading.value is not None
    ]
    without_padding = [reading for reading in known if not reading.padded]
    assert (len(known), len(without_padding)) == READINGS[name]
    assert all(reading.bias or reading.mean for reading in without_padding)


def test_other_names_than_those_of_torchvision_leave_the_activation_unknown(vision):
    shapes = shapes_of(vision.VGG(vision.vgg.make_layers([4, "M", 6, "M"]), init_weights=False))
    found = channel_groups(
        {name: shape for name, shape in shapes.items() if "classifier" not in name}
    )
    assert found.groups
    assert all(reading.value is None for reading in found.readings.values())
