"""Strides and paddings are known only where names and kernels are torchvision's.

That they are right is tested in `tests/recipe/compaction/test_plan.py`.
"""

import pytest
import torch
from slicing import shapes_of

from prune_gui.architecture.chains import channel_groups
from prune_gui.architecture.torchvision_layers import Window, output_sizes

ALEXNET = {
    "features.0.weight": (4, 3, 11, 11),
    "features.3.weight": (5, 4, 5, 5),
    "features.6.weight": (6, 5, 3, 3),
    "features.8.weight": (7, 6, 3, 3),
    "features.10.weight": (8, 7, 3, 3),
    "classifier.1.weight": (9, 8 * 36),
    "classifier.4.weight": (10, 9),
    "classifier.6.weight": (2, 10),
}


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.Conv2d(1, 1, 11, 4, 2, device="meta"),
        torch.nn.MaxPool2d(3, 2),
        torch.nn.Conv2d(1, 1, 5, 2, 2, device="meta"),
    ],
)
def test_a_window_has_as_many_outputs_as_a_layer_of_torch(layer):
    kernel, stride, padding = (
        value if isinstance(value, int) else value[0]
        for value in (layer.kernel_size, layer.stride, layer.padding)
    )
    for size in range(11, 40):
        outputs = layer(torch.empty(1, 1, size, size, device="meta")).shape[2]
        assert Window(kernel, stride, padding).outputs(size) == outputs


def test_an_image_that_is_too_small_has_no_sizes():
    windows = channel_groups(ALEXNET).windows
    assert list(output_sizes(windows, 63).values()) == [15, 7, 3, 3, 3]
    assert output_sizes(windows, 30) == {}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("features.3.weight", (5, 4, 3, 3)),  # another kernel
        ("features.8.weight", (7, 6, 3, 1)),
        ("classifier.1.weight", (9, 8)),  # what networks for smaller images have
    ],
)
def test_other_shapes_than_those_of_alexnet_have_no_windows(name, shape):
    assert len(channel_groups(ALEXNET).windows) == 5
    found = channel_groups(ALEXNET | {name: shape})
    assert (found.confirmed, found.windows) == (True, {})


def test_numbers_of_any_length_in_names_are_no_network():
    huge = f"features.{'1' * 5000}.weight"
    assert not channel_groups(ALEXNET | {huge: (8, 8, 3, 3)}).confirmed


def without(shapes, *modules):
    return {name: shapes[name] for name in shapes if not name.startswith(modules)}


def small_images(vision):
    """ResNet for CIFAR: the first convolution is 3 x 3, and its stride 1."""
    model = vision.resnet18()
    model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
    return shapes_of(model)


def other_blocks(vision):
    """MobileNetV2 with stages of other numbers of blocks."""
    settings = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 2]]
    return shapes_of(vision.MobileNetV2(inverted_residual_setting=settings))


def other_kernels(vision):
    """EfficientNet B0 with 7 x 7 kernels instead of 5 x 5."""
    return {
        name: (*shape[:2], 7, 7) if shape[2:] == (5, 5) else shape
        for name, shape in shapes_of(vision.efficientnet_b0()).items()
    }


UNCERTAIN = {
    "small images": small_images,
    "other blocks": other_blocks,
    "other kernels": other_kernels,
    # Backbones of detectors and segmentation often have dilated stages instead of strides.
    "no classifier": lambda vision: without(shapes_of(vision.resnet18()), "fc"),
    "no MobileNet classifier": lambda v: without(shapes_of(v.mobilenet_v2()), "classifier"),
    "one stage less": lambda vision: {
        **without(shapes_of(vision.resnet18()), "layer4"),
        "fc.weight": (1000, 256),
    },
    "other pooling": lambda v: {
        name.replace("features.28", "features.29"): shape
        for name, shape in shapes_of(v.vgg16(init_weights=False)).items()
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("case", UNCERTAIN)
def test_a_network_that_may_have_other_strides_has_no_windows(vision, case):
    with torch.device("meta"):
        shapes = UNCERTAIN[case](vision)
    found = channel_groups(shapes)
    assert found.confirmed
    assert found.windows == {}


@pytest.mark.slow
def test_the_windows_depend_neither_on_a_prefix_nor_on_the_number_of_classes(vision):
    with torch.device("meta"):
        shapes = shapes_of(vision.resnet18())
    windows = channel_groups(shapes).windows
    renamed = {f"module.{name}": shapes[name] for name in sorted(shapes)}
    renamed["module.fc.1.weight"] = (7, renamed.pop("module.fc.weight")[1])
    renamed["module.fc.1.bias"] = (7,)
    del renamed["module.fc.bias"]
    found = channel_groups(renamed).windows
    assert found == {f"module.{name}": windows[name] for name in windows}
