"""Plain chains of layers, found from shapes and the order of the file."""

import warnings
from collections import OrderedDict, defaultdict
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slicing import assert_slicing_changes_nothing, randomize, shapes_of
from torch import nn

from prune_gui.architecture.chains import Chains, channel_groups
from prune_gui.architecture.channel_flow import ChannelFlow
from prune_gui.pruning.layouts import Member

NOTHING = Chains((), confirmed=False)
IMAGE = 8
CONVOLUTIONS = (None, nn.Conv1d, nn.Conv2d)
NORMS = (None, nn.BatchNorm1d, nn.BatchNorm2d)
ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.GELU, nn.Hardswish)


def sorted_by_name(shapes):
    """Return what a safetensors file lists, whose names are sorted."""
    return {name: shapes[name] for name in sorted(shapes)}


def signature(chains: Chains) -> dict[str, tuple[int, set[Member]]]:
    return {group.label: (group.size, set(group.members)) for group in chains.groups}


def linear_chain(*widths: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an MLP "0.weight", "0.bias", "2.weight", ..."""
    shapes = {}
    for index, (inputs, outputs) in enumerate(pairwise(widths)):
        shapes |= {f"{2 * index}.weight": (outputs, inputs), f"{2 * index}.bias": (outputs,)}
    return shapes


@st.composite
def chains(draw, *, named: bool = False) -> tuple[nn.Module, torch.Tensor, int]:
    """Return a random chain of layers, inputs for it, and how many groups it has."""
    dims = draw(st.integers(1, 2))
    channels = draw(st.integers(1, 3))
    inputs = torch.rand(3, channels, *[IMAGE] * dims, dtype=torch.float64)
    modules: list[tuple[str, nn.Module]] = []
    layers = 0

    def add(kind: str, number: int, module: nn.Module) -> None:
        modules.append((f"{kind}{number}" if named else str(len(modules)), module))

    for number in range(draw(st.integers(1, 4))):
        outputs = draw(st.integers(2, 7))
        bias = draw(st.booleans())
        if number and channels > 1 and not named and draw(st.booleans()):
            depthwise = CONVOLUTIONS[dims](channels, channels, 3, groups=channels, padding=1)
            add("conv", number, depthwise)
        add("conv", number, CONVOLUTIONS[dims](channels, outputs, 3, padding=1, bias=bias))
        if draw(st.booleans()):
            add("bn", number, NORMS[dims](outputs, affine=draw(st.booleans())))
        add("act", number, draw(st.sampled_from(ACTIVATIONS))())
        channels = outputs
        layers += 1
    side = draw(st.sampled_from([1, 2, IMAGE]))
    pool = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)[dims - 1]
    add("pool", 0, pool(side))
    add("flatten", 0, nn.Flatten())
    channels *= side**dims
    for number in range(draw(st.integers(1, 3))):
        outputs = draw(st.integers(2, 7))
        add("fc", number, nn.Linear(channels, outputs, bias=draw(st.booleans())))
        add("relu", number, draw(st.sampled_from(ACTIVATIONS))())
        channels = outputs
        layers += 1
    model = nn.Sequential(OrderedDict(modules)).to(torch.float64)
    return randomize(model, draw(st.integers(0, 99))), inputs, layers - 1


@settings(max_examples=25)
@given(chains(), st.sampled_from([dict, sorted_by_name]), st.integers(0, 99))
def test_a_chain_computes_the_same_without_the_pruned_channels(chain, arrange, seed):
    model, inputs, group_count = chain
    found = channel_groups(arrange(shapes_of(model)))
    assert not found.confirmed
    assert len(found.groups) == group_count
    assert_slicing_changes_nothing(model, found.groups, inputs, seed)


@given(chains(named=True))
def test_names_give_the_order_of_a_sorted_file_or_there_are_no_groups(chain):
    model, _, group_count = chain
    from_order = channel_groups(shapes_of(model))
    found = channel_groups(sorted_by_name(shapes_of(model)))
    assert found == NOTHING or signature(found) == signature(from_order)
    assert len(found.groups) in (0, group_count)


MODULES = (
    "0", "1", "2", "a.conv1", "a.bn1", "b.fc", "features.0", "features.1.conv.0", "layer1.0.conv1",
    "conv1", "bn1", "9" * 5000,
)  # fmt: skip
LEAVES = ("weight", "bias", "running_mean", "running_var")
TENSORS = st.dictionaries(
    st.builds("{}.{}".format, st.sampled_from(MODULES), st.sampled_from(LEAVES)),
    st.lists(st.sampled_from([0, 1, 2, 4]), max_size=4).map(tuple),
)


@given(TENSORS)
def test_any_shapes_give_groups_within_the_tensors(shapes):
    for group in channel_groups(shapes).groups:
        for member in group.members:
            assert group.size * member.width == shapes[member.name][member.dim]


AUTOENCODER = {
    "encoder.0.weight": (32, 64),
    "encoder.2.weight": (8, 32),
    "decoder.0.weight": (32, 8),
    "decoder.2.weight": (64, 32),
}


def test_a_sorted_file_with_several_possible_orders_has_no_groups():
    # Sorted by names the decoder comes first, and the widths fit as well.
    assert channel_groups(sorted_by_name(AUTOENCODER)) == NOTHING
    labels = [group.label for group in channel_groups(AUTOENCODER).groups]
    assert labels == ["encoder.0", "encoder.2", "decoder.0"]


def test_numbers_are_compared_by_value():
    shapes = linear_chain(4, *[8] * 7, 2)
    assert signature(channel_groups(sorted_by_name(shapes))) == signature(channel_groups(shapes))
    assert len(channel_groups(shapes).groups) == 7


def test_batch_norms_belong_to_the_layer_of_the_same_number():
    shapes = {
        "conv1.weight": (6, 1, 5, 5),
        "conv2.weight": (6, 6, 5, 5),
        "fc1.weight": (12, 96),
        "fc2.weight": (10, 12),
    } | {
        f"bn{number}.{leaf}": (6,) for number in (1, 2) for leaf in ("running_mean", "running_var")
    }
    found = signature(channel_groups(sorted_by_name(shapes)))
    assert set(found) == {"conv1", "conv2", "fc1"}
    assert Member("bn1.running_mean", 0, role="norm") in found["conv1"][1]
    assert Member("bn2.running_mean", 0, role="norm") in found["conv2"][1]
    before = {"conv0.weight": (4, 1, 3, 3), "conv1.weight": (6, 4, 3, 3), "fc.weight": (10, 6)}
    before |= {"bn1.running_mean": (4,), "bn1.running_var": (4,)}
    found = signature(channel_groups(sorted_by_name(before)))
    assert Member("bn1.running_mean", 0, role="norm") in found["conv0"][1]


SQUARE = {"0.weight": (8, 3, 3, 3), "4.weight": (6, 8, 3, 3), "6.weight": (2, 6, 1, 1)}
FLAT = {"conv1.weight": (8, 1, 5, 1), "conv2.weight": (6, 8, 5, 1)}
FREE = {
    "one layer": ({"weight": (4, 4), "bias": (4,)}, []),
    "two groups": (
        {"0.weight": (5, 3, 3, 3), "1.weight": (8, 5, 3, 3), "2.weight": (12, 4, 3, 3)}
        | {"3.weight": (7, 12, 3, 3), "4.weight": (2, 7)},
        ["0", "3"],
    ),
    "even kernels, which may be transposed": (SQUARE | {"2.weight": (8, 8, 4, 4)}, ["4"]),
    "odd kernels": (SQUARE | {"2.weight": (8, 8, 3, 3)}, ["0", "2", "4"]),
    "one layer that may have a shortcut": (
        {
            f"blocks.{i}.conv.weight": (*width, 3, 3)
            for i, width in enumerate(((8, 3), (8, 8), (6, 8), (5, 6)))
        },
        ["blocks.2.conv"],
    ),
    "flattened, perhaps in another order": (FLAT | {"fc.weight": (10, 24)}, ["conv1"]),
    "pooled": (FLAT | {"fc.weight": (10, 6)}, ["conv1", "conv2"]),
}


@pytest.mark.parametrize("case", FREE)
def test_channels_of_which_not_all_readers_are_certain_stay(case):
    shapes, labels = FREE[case]
    found = channel_groups({name: shapes[name] for name in sorted(shapes)})
    assert [group.label for group in found.groups] == labels


def test_channels_that_a_shortcut_may_add_to_stay():
    """A ResNet for CIFAR whose shortcuts pad with zeros and have no tensors."""
    shapes = {"conv1.weight": (16, 3, 3, 3)}
    for stage, (inputs, outputs) in enumerate(((16, 16), (16, 32)), start=1):
        for block in (0, 1):
            read = outputs if block else inputs
            shapes[f"layer{stage}.{block}.conv1.weight"] = (outputs, read, 3, 3)
            shapes[f"layer{stage}.{block}.conv2.weight"] = (outputs, outputs, 3, 3)
    shapes["linear.weight"] = (10, 32)
    for arrange in (dict, sorted_by_name):
        assert {group.label for group in channel_groups(arrange(shapes)).groups} <= {
            f"layer{stage}.{block}.conv1" for stage in (1, 2) for block in (0, 1)
        }
    assert len(channel_groups(shapes).groups) == 4


@pytest.mark.parametrize(
    "extra",
    [
        {"norm.weight": (8,)},
        {"norm.weight": (8,), "norm.bias": (8,)},
        {"rnn.weight_ih_l0": (8, 8)},
        {"scale": ()},
        {"skip.weight": (8, 8)},
        {"5.se.weight": (2, 2)},
        {"up1.weight": (2, 2)},
        {"attn.q_proj.weight": (8, 8)},
        {"2.running_var": (8,)},
        {"2.weight_mask": (8, 8)},
        {"empty.weight": (0, 8)},
    ],
)
def test_a_tensor_that_is_not_understood_leaves_no_groups(extra):
    shapes = linear_chain(4, 8, 8, 2)
    assert len(channel_groups(shapes).groups) == 2
    assert channel_groups(shapes | extra) == NOTHING


def test_a_very_long_chain_is_not_searched():
    assert channel_groups(linear_chain(*[8] * 2000)) == NOTHING
    letters = [f"m_{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(400)]
    any_order = {f"{name}.weight": (8, 8) for name in letters}
    assert channel_groups(sorted_by_name(any_order)) == NOTHING
    no_order = any_order | {"m_a.weight": (8, 8), "m_b.weight": (7, 7)}
    assert channel_groups(sorted_by_name(no_order)) == NOTHING
    longest = linear_chain(*[8] * 500)
    assert len(channel_groups(sorted_by_name(longest)).groups) == 498


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4, 6]), st.integers(1, 4)), min_size=1, max_size=3
    ),
    st.integers(0, 99),
)
def test_groups_of_convolutions_keep_equally_many_channels(layers, seed):
    channels, model = 12, nn.Sequential(nn.Conv2d(3, 12, 1))
    for groups, dozens in layers:
        model.extend([nn.Conv2d(channels, 12 * dozens, 3, groups=groups), nn.ReLU()])
        channels = 12 * dozens
    model.extend([nn.BatchNorm2d(channels), nn.Flatten(), nn.Linear(channels * 4, 2)])
    model = randomize(model.to(torch.float64), seed)
    flow, made = ChannelFlow(shapes_of(model)), None
    for path, module in model.named_children():
        made = flow.step(path, made) if list(module.parameters()) else made
    flow.fix(made)
    side = 2 + 2 * len(layers)
    inputs = torch.rand(2, 3, side, side, dtype=torch.float64)
    change, _ = assert_slicing_changes_nothing(model, flow.groups(), inputs, seed)
    assert (change > 0) == bool(flow.groups())


GROUP_COUNTS = {
    "alexnet": 7,
    "vgg11": 10,
    "vgg11_bn": 10,
    "vgg16": 15,
    "resnet18": 4 + 8,  # a group per stage, and the inner channels of each block
    "resnet34": 4 + 16,
    "resnet50": 1 + 4 + 2 * 16,  # the stem is in no stage
    "resnext50_32x4d": 1 + 4 + 2 * 16,
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_other_names_than_those_of_torchvision_leave_the_activation_unknown(vision):
    shapes = shapes_of(vision.VGG(vision.vgg.make_layers([4, "M", 6, "M"]), init_weights=False))
    found = channel_groups(
        {name: shape for name, shape in shapes.items() if "classifier" not in name}
    )
    assert found.groups
    assert all(reading.value is None for reading in found.readings.values())
