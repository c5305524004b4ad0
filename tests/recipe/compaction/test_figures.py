"""The work of networks of torchvision, counted beside the networks themselves."""

from __future__ import annotations

import pytest
import torch
from slicing import random_units, shapes_of, sliced
from torch import nn

from prune_gui.architecture.chains import channel_groups
from prune_gui.architecture.torchvision_layers import output_sizes
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.recipe.compaction.network import Shaped, figures

pytestmark = pytest.mark.slow

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
    tensors = [Shaped(TensorInfo(name, shape, "float32"), shape) for name, shape in shapes.items()]
    return figures(tensors, {}, sizes).multiply_adds


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


def test_without_all_sizes_nothing_is_stated(vision):
    shapes = shapes_of(on_meta(vision, "resnet18"))
    sizes = output_sizes(channel_groups(shapes).windows, 224)
    sizes.pop("layer3.0.downsample.0.weight")
    assert stated(shapes, sizes) is None
