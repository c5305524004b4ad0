"""Families of convolutional networks whose connections the names of the modules tell.

The names are torchvision's. A connection that only some members of a family have is assumed where
the shapes allow it: sets of channels that are merged without need are larger than they have to be,
but pruning them is never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Final

from prune_gui.architecture.channel_flow import ChannelFlow, MisfitError, is_counter
from prune_gui.architecture.natural_order import natural_key
from prune_gui.pruning.coupling import CoupledGroup

RESNET_START: Final = re.compile(r"(|.*\.)layer1\.0\.conv1\.weight")
RESNET_BLOCK: Final = re.compile(r"(layer\d+\.\d+)\..*")
SHORTCUTS: Final = ("downsample", "shortcut")
CLASSIFIER: Final = re.compile(r"(?:fc|linear|classifier)(?:\.\d+)*")

SEQUENTIAL_START: Final = re.compile(r"(|.*\.)features\.0(?:\.0)?\.weight")
SEQUENTIAL_MODULE: Final = re.compile(
    r"(?P<block>features(?:\.\d+)+\.(?:conv|block))(?:\.\d+)+(?:\.fc[12])?"
    r"|features(?:\.\d+)+"
    r"|classifier(?:\.\d+)*"
)
"""Modules of VGG, AlexNet, MobileNet and EfficientNet; a block may have a shortcut around it."""
SQUEEZE, EXCITE = ".fc1", ".fc2"


def family_groups(shapes: Mapping[str, tuple[int, ...]]) -> tuple[CoupledGroup, ...]:
    """Return the groups of channels of a network of a known family; empty if it is of none.

    Args:
        shapes: the shape of each tensor by name.
    """
    for start, follow in ((RESNET_START, _resnet), (SEQUENTIAL_START, _sequential)):
        match = next(filter(None, map(start.fullmatch, shapes)), None)
        if match is None or len(shapes[match[0]]) != 4:
            continue
        prefix = match[1]
        names = [name[len(prefix) :] for name in shapes if name.startswith(prefix)]
        modules = {name.rpartition(".")[0] for name in names if not is_counter(name)}
        flow = ChannelFlow(shapes, prefix)
        try:
            flow.fix(follow(flow, sorted(modules, key=natural_key)))
            return flow.groups()
        except MisfitError:
            continue
    return ()


def _resnet(flow: ChannelFlow, modules: list[str]) -> int:
    """Follow the channels of a ResNet, ResNeXt or Wide ResNet, and return its outputs."""
    known = set(modules)
    channels = flow.norm("bn1", flow.layer("conv1"))
    blocks = [match[1] for match in map(RESNET_BLOCK.fullmatch, modules) if match]
    for block in dict.fromkeys(blocks):
        shortcut = inner = channels
        for number in (1, 2, 3):
            if f"{block}.conv{number}" in known:
                inner = flow.layer(f"{block}.conv{number}", inner)
                inner = flow.norm(f"{block}.bn{number}", inner)
        for name in SHORTCUTS:
            if f"{block}.{name}.0" in known:
                shortcut = flow.layer(f"{block}.{name}.0", shortcut)
                shortcut = flow.norm(f"{block}.{name}.1", shortcut)
        channels = flow.add(shortcut, inner)
    for module in filter(CLASSIFIER.fullmatch, modules):
        channels = flow.step(module, channels)
    return channels


def _sequential(flow: ChannelFlow, modules: list[str]) -> int:
    """Follow the channels of a sequence of layers and of blocks of layers; return its outputs."""
    matches = [match for match in map(SEQUENTIAL_MODULE.fullmatch, modules) if match]
    # The classifier comes first in the order of the names, but runs last.
    matches.sort(key=lambda match: match[0].startswith("classifier"))
    channels: int | None = None
    for block, found in groupby(matches, lambda match: match["block"]):
        inputs = channels
        for match in found:
            channels = _step(flow, match[0], channels)
        if block and inputs is not None and channels is not None:
            channels = flow.add_if_equal(inputs, channels)
    if channels is None:
        raise MisfitError
    return channels


def _step(flow: ChannelFlow, module: str, channels: int | None) -> int | None:
    """Follow channels through a layer, a batch norm, or both layers of a squeeze-excite module."""
    if module.endswith(SQUEEZE) and channels is not None:
        scales = flow.layer(module.removesuffix(SQUEEZE) + EXCITE, flow.layer(module, channels))
        return flow.add(channels, scales)
    return channels if module.endswith(EXCITE) else flow.step(module, channels)
