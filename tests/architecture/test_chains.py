"""Plain chains of layers, found from shapes and the order of the file."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slicing import assert_slicing_changes_nothing, randomize, shapes_of
from torch import nn

from prune_gui.architecture.chains import Chains, channel_groups
from prune_gui.checkpoint import open_checkpoint
from prune_gui.pruning.layouts import Member
from prune_gui.resources import resource

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


def test_the_demo_network_is_a_chain():
    with open_checkpoint(resource("demo", "digits_cnn.safetensors")) as checkpoint:
        found = channel_groups({name: info.shape for name, info in checkpoint.tensors.items()})
    assert not found.confirmed
    assert [(group.space, group.label, group.size) for group in found.groups] == [
        ("channels", "features.conv1", 16),
        ("channels", "features.conv2", 32),
        ("channels", "features.conv3", 64),
        ("channels", "classifier.hidden", 64),
    ]
    assert found.groups[2].members == (
        Member("features.conv3.weight", 0, role="produces"),
        *(
            Member(f"features.bn3.{leaf}", 0, role="norm")
            for leaf in ("weight", "bias", "running_mean", "running_var")
        ),
        Member("classifier.hidden.weight", 1, width=16, role="consumes"),
    )


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


def test_batch_norms_may_come_before_their_layers():
    shapes = {"conv0.weight": (4, 1, 3, 3), "conv1.weight": (6, 4, 3, 3), "fc.weight": (10, 6)}
    shapes |= {"bn1.running_mean": (4,), "bn1.running_var": (4,)}
    found = signature(channel_groups(sorted_by_name(shapes)))
    assert Member("bn1.running_mean", 0, role="norm") in found["conv0"][1]


def test_channels_of_grouped_convolutions_stay():
    shapes = {
        "0.weight": (5, 3, 3, 3),
        "1.weight": (8, 5, 3, 3),
        "2.weight": (12, 4, 3, 3),  # two groups
        "3.weight": (7, 12, 3, 3),
        "4.weight": (2, 7),
    }
    assert [group.label for group in channel_groups(shapes).groups] == ["0", "3"]


def test_channels_around_what_may_be_a_transposed_convolution_stay():
    shapes = {"0.weight": (8, 3, 3, 3), "2.weight": (8, 8, 4, 4), "4.weight": (6, 8, 3, 3)}
    shapes["6.weight"] = (2, 6, 1, 1)
    assert [group.label for group in channel_groups(shapes).groups] == ["4"]
    shapes["2.weight"] = (8, 8, 3, 3)
    assert [group.label for group in channel_groups(shapes).groups] == ["0", "2", "4"]


def test_channels_around_one_layer_that_may_have_a_shortcut_stay():
    widths = ((8, 3), (8, 8), (6, 8), (5, 6))
    shapes = {f"blocks.{i}.conv.weight": (*width, 3, 3) for i, width in enumerate(widths)}
    assert [group.label for group in channel_groups(shapes).groups] == ["blocks.2.conv"]


def test_channels_that_may_be_flattened_in_another_order_stay():
    shapes = {"conv1.weight": (8, 1, 5, 1), "conv2.weight": (6, 8, 5, 1), "fc.weight": (10, 24)}
    assert [group.label for group in channel_groups(shapes).groups] == ["conv1"]
    pooled = shapes | {"fc.weight": (10, 6)}
    assert [group.label for group in channel_groups(pooled).groups] == ["conv1", "conv2"]


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


def test_one_layer_has_no_groups():
    assert channel_groups({"weight": (4, 4), "bias": (4,)}) == NOTHING
    assert channel_groups({}) == NOTHING
