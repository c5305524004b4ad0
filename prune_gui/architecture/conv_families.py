"""Families of convolutional networks whose connections the names of the modules tell.

The names are torchvision's. A connection that only some members of a family have is assumed where
the shapes allow it: sets of channels that are merged without need are larger than they have to be,
but pruning them is never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Final, NamedTuple

from prune_gui.architecture.channel_flow import ChannelFlow, MisfitError, is_counter
from prune_gui.architecture.conv_activations import RELU, activation_functions
from prune_gui.architecture.conv_windows import Windows, convolution_windows
from prune_gui.architecture.natural_order import natural_key
from prune_gui.architecture.unit_values import Product, Reading
from prune_gui.pruning.layouts import CoupledGroup

RESNET_START: Final = re.compile(r"(|.*\.)layer1\.0\.conv1\.weight")
RESNET_BLOCK: Final = re.compile(r"(layer\d+\.\d+)\..*")
SHORTCUTS: Final = ("downsample", "shortcut")
CLASSIFIER: Final = re.compile(r"(?:fc|linear|classifier)(?:\.\d+)*")

SEQUENTIAL_START: Final = re.compile(r"(|.*\.)features\.0(?:\.0)?\.weight")
SEQUENTIAL_MODULE: Final = re.compile(
    r"(?P<block>features(?:\.\d{1,9})+\.(?:conv|block))(?:\.\d{1,9})+(?:\.fc[12])?"
    r"|features(?:\.\d{1,9})+"
    r"|classifier(?:\.\d{1,9})*"
)
"""Modules of VGG, AlexNet, MobileNet and EfficientNet; a block may have a shortcut around it.

The length of numbers is limited because `int` refuses more than 4300 digits."""
SQUEEZE, EXCITE = ".fc1", ".fc2"


class Family(NamedTuple):
    """What is known of a network of a family.

    Activation functions, the epsilon of batch norms, strides and paddings are those of torchvision;
    they are in no file.

    Attributes:
        groups: the groups of channels.
        readings: how layers read the channels, by the name of their weight.
        windows: the windows of convolutions, by the name of their weight; empty if not known.
    """

    groups: tuple[CoupledGroup, ...]
    readings: Mapping[str, Reading]
    windows: Mapping[str, Windows]


def recognized_family(shapes: Mapping[str, tuple[int, ...]]) -> Family | None:
    """Return what is known of a network of a known family; None of any other network.

    Args:
        shapes: the shape of each tensor by name.
    """
    for start, follow in ((RESNET_START, _resnet), (SEQUENTIAL_START, _sequential)):
        match = next(filter(None, map(start.fullmatch, shapes)), None)
        if match is None or len(shapes[match[0]]) != 4:
            continue
        prefix = match[1]
        names = [name[len(prefix) :] for name in shapes if name.startswith(prefix)]
        found = {name.rpartition(".")[0] for name in names if not is_counter(name)}
        modules = sorted(found, key=natural_key)
        flow = ChannelFlow(shapes, prefix)
        try:
            flow.fix(follow(flow, modules))
            groups = flow.groups()
        except MisfitError:
            continue
        weights = {path: shapes.get(f"{prefix}{path}.weight", ()) for path in modules}
        windows = convolution_windows(weights)
        named = {f"{prefix}{path}.weight": windows[path] for path in windows}
        return Family(groups, flow.readings, named)
    return None


def _resnet(flow: ChannelFlow, modules: list[str]) -> int:
    """Follow the channels of a ResNet, ResNeXt or Wide ResNet, and return its outputs."""
    known = set(modules)
    channels = flow.norm("bn1", flow.layer("conv1"))
    flow.activate(channels, RELU)
    blocks = [match[1] for match in map(RESNET_BLOCK.fullmatch, modules) if match]
    for block in dict.fromkeys(blocks):
        shortcut = inner = channels
        numbers = [number for number in (1, 2, 3) if f"{block}.conv{number}" in known]
        for number in numbers:
            inner = flow.layer(f"{block}.conv{number}", inner)
            inner = flow.norm(f"{block}.bn{number}", inner)
            flow.activate(inner, "" if number == numbers[-1] else RELU)
        for name in SHORTCUTS:
            if f"{block}.{name}.0" in known:
                shortcut = flow.layer(f"{block}.{name}.0", shortcut)
                shortcut = flow.norm(f"{block}.{name}.1", shortcut)
                flow.activate(shortcut, "")
        channels = flow.add(shortcut, inner)
        flow.activate(channels, RELU)
    for module in filter(CLASSIFIER.fullmatch, modules):
        channels = flow.step(module, channels)
        flow.activate(channels, None)
    return channels


def _sequential(flow: ChannelFlow, modules: list[str]) -> int:
    """Follow the channels of a sequence of layers and of blocks of layers; return its outputs."""
    matches = [match for match in map(SEQUENTIAL_MODULE.fullmatch, modules) if match]
    # The classifier comes first in the order of the names, but runs last.
    matches.sort(key=lambda match: match[0].startswith("classifier"))
    functions = activation_functions([match[0] for match in matches])
    channels: int | None = None
    for block, found in groupby(matches, lambda match: match["block"]):
        inputs = channels
        for match in found:
            channels = _step(flow, match[0], channels, functions)
        if block and inputs is not None and channels is not None:
            channels = flow.add_if_equal(inputs, channels)
    if channels is None:
        raise MisfitError
    return channels


def _step(
    flow: ChannelFlow, module: str, channels: int | None, functions: Mapping[str, str]
) -> int | None:
    """Follow channels through a layer, a batch norm, or both layers of a squeeze-excite module."""
    if module.endswith(EXCITE):
        return channels
    if module.endswith(SQUEEZE) and channels is not None:
        excite = module.removesuffix(SQUEEZE) + EXCITE
        squeezed = flow.layer(module, channels)
        flow.activate(squeezed, functions.get(module))
        scales = flow.layer(excite, squeezed)
        flow.activate(scales, functions.get(excite))
        channels = flow.add(channels, scales, Product)
        flow.activate(channels, "")
        return channels
    channels = flow.step(module, channels)
    if module in functions or module.startswith("classifier"):
        flow.activate(channels, functions.get(module))
    return channels
