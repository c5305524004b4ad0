"""The groups of channels of convolutional networks and plain chains of layers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from typing import Final

from prune_gui.architecture.blocks import ATTENTION_PROJECTIONS, natural_key, numbers, runs_before
from prune_gui.architecture.channel_flow import (
    STATISTICS,
    ChannelFlow,
    MisfitError,
    fits,
    is_counter,
    is_grouped,
)
from prune_gui.architecture.projections import projection
from prune_gui.architecture.torchvision_layers import (
    RELU,
    Windows,
    activation_functions,
    convolution_windows,
)
from prune_gui.architecture.unit_values import Reading
from prune_gui.pruning.layouts import CoupledGroup

Shapes = Mapping[str, tuple[int, ...]]

NO_CHAIN: Final = re.compile(
    r"shortcut|skip|resid|downsample|branch|identity|aux|attn|attention|squeeze|excit|\bse\b|gate"
    r"|highway|expert|lora|deconv|transpose|upsampl|upconv|up\d*\b",
    re.IGNORECASE,
)
"""Names of modules that do not simply follow the module before them, or transpose weights."""
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
MAX_MODULES: Final = 500  # a chain of more layers is not looked for
MAX_SEARCH_STEPS: Final = 5000


@dataclass(frozen=True, slots=True)
class Chains:
    """The groups of channels of a network.

    No file has activation functions, the epsilon of batch norms, strides and paddings: those of a
    `confirmed` family are torchvision's; other groups are likely from shapes and order alone.
    """

    groups: tuple[CoupledGroup, ...]
    confirmed: bool
    readings: Mapping[str, Reading] = field(default_factory=dict)
    windows: Mapping[str, Windows] = field(default_factory=dict)


def channel_groups(shapes: Shapes) -> Chains:
    """Find the channels that can only be removed together.

    VGG, AlexNet, ResNet, MobileNet and EfficientNet with torchvision's names are known. Any other
    network must be a chain of linear layers, convolutions and batch norms, and nothing else. The
    channels of the input and of the output are in no group.
    """
    family = recognized_family(shapes)
    if family is not None and family.groups:
        return family
    try:
        return Chains(_chain_groups(shapes), confirmed=False)
    except MisfitError:
        return Chains((), confirmed=False)


def _chain_groups(shapes: Shapes) -> tuple[CoupledGroup, ...]:
    """Return the groups of a plain chain.

    Channels are fixed where connections may have no tensor: at shortcuts around blocks, images that
    may be flattened in another order, grouped and transposed convolutions.
    """
    modules = _modules(shapes)
    weights = [f"{path}.weight" for path, module in modules.items() if not module.is_norm]
    # A file that is not sorted has the order in which the program made the layers.
    order = _only_order(modules) if weights == sorted(weights) else list(modules)
    layers = [path for path in order if not modules[path].is_norm]
    blocks = _blocks({path: modules[path].shape for path in layers})
    before = {path: modules[last].shape for last, path in pairwise(layers)}
    flow = ChannelFlow(shapes)
    channels: int | None = None
    block = ""
    for path in order:
        if channels is not None and path in blocks:
            last, shape = before[path], modules[path].shape
            # CREPE (Kim et al. 2018), of kernels that are not square, flattens in another order.
            is_flattened = len(shape) == 2 and shape[1] > last[0]
            if blocks[path] != block or (is_flattened and len(set(last[2:])) > 1):
                flow.fix(channels)
        block = blocks.get(path, block)
        channels = flow.step(path, channels)
    if channels is None:
        raise MisfitError
    flow.fix(channels)
    for path, shape in before.items():
        outputs, inputs, *kernel = layer = modules[path].shape
        # Inputs and outputs may be swapped if kernels are even, as those that upsample often are.
        is_even = outputs == inputs and any(kernel) and not any(size % 2 for size in kernel)
        if is_even or is_grouped(shape[0], layer):
            flow.fix_sizes({outputs, inputs, shape[0]})
    return flow.groups()


@dataclass(frozen=True, slots=True)
class _Module:
    shape: tuple[int, ...]
    is_norm: bool


def _modules(shapes: Shapes) -> dict[str, _Module]:
    leaves: dict[str, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for name, shape in shapes.items():
        if not is_counter(name):
            module, _, leaf = name.rpartition(".")
            leaves[module][leaf] = shape
    if len(leaves) > MAX_MODULES:
        raise MisfitError
    modules = {}
    for path, tensors in leaves.items():
        is_norm = STATISTICS[0] in tensors
        shape = tensors.get(STATISTICS[0] if is_norm else "weight", ())
        is_branch = projection(f"{path}.weight") in ATTENTION_PROJECTIONS or NO_CHAIN.search(path)
        is_shaped = len(shape) == 1 if is_norm else len(shape) > 1
        if not is_shaped or 0 in shape or is_branch:
            raise MisfitError(path)
        modules[path] = _Module(shape, is_norm)
    return modules


def _only_order(modules: Mapping[str, _Module]) -> list[str]:
    layers = _layers_of_norms(modules)
    norms = {layer: norm for norm, layer in layers.items()}
    free = {path: module for path, module in modules.items() if path not in layers}
    orders = list(islice(_orders(free), 2))
    places = [
        dim for dim in (0, 1)
        if all(modules[layer].shape[dim] == modules[norm].shape[0] for layer, norm in norms.items())
    ]  # fmt: skip
    if len(orders) != 1 or (norms and len(places) != 1):
        raise MisfitError
    found: list[str] = []
    for module in orders[0]:
        pair = (module, norms[module]) if module in norms else (module,)
        found += pair if places[0] == 0 else reversed(pair)
    return found


def _layers_of_norms(modules: Mapping[str, _Module]) -> dict[str, str]:
    """Return the layer of each norm of one parent, number and size, such as "conv1" of "bn1"."""
    norms: dict[object, list[str]] = defaultdict(list)
    layers: dict[object, list[str]] = defaultdict(list)
    for path, module in modules.items():
        parent, _, last = path.rpartition(".")
        for size in {module.shape[0]} if module.is_norm else set(module.shape[:2]):
            (norms if module.is_norm else layers)[parent, numbers(last), size].append(path)
    return {
        found[0]: layers[key][0]
        for key, found in norms.items()
        if len(found) == len(layers[key]) == 1
    }


def _orders(modules: Mapping[str, _Module]) -> Iterator[list[str]]:
    keys = {path: natural_key(path) for path in modules}
    earlier = {p: {q for q in keys if runs_before(keys[q], keys[p])} for p in keys}
    order: list[str] = []

    def next_modules() -> Iterator[str]:
        placed = set(order)
        last = next((modules[p].shape for p in reversed(order) if not modules[p].is_norm), None)
        for path, module in modules.items():
            if path not in placed and earlier[path] <= placed and _follows(last, module):
                yield path

    choices = [next_modules()]
    for _ in range(MAX_SEARCH_STEPS):
        if (path := next(choices[-1], None)) is not None:
            order.append(path)
            choices.append(next_modules())
        elif order:
            order.pop()
            choices.pop()
        else:
            return
        if len(order) == len(modules):
            yield list(order)
    raise MisfitError


def _follows(last: tuple[int, ...] | None, module: _Module) -> bool:
    if last is None:
        return not module.is_norm
    if module.is_norm:
        return module.shape == last[:1]
    return fits(last[0], len(last) - 2, module.shape)


def _blocks(layers: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Return the innermost numbered module with several layers, or one of equal sides, or ""."""
    counts = Counter(module for layer in layers for module in _numbered_modules(layer))
    return {
        layer: next(
            (m for m in _numbered_modules(layer) if counts[m] > 1 or shape[0] == shape[1]), ""
        )
        for layer, shape in layers.items()
    }


def _numbered_modules(layer: str) -> Iterator[str]:
    module = layer.rpartition(".")[0]
    while module:
        if module[-1].isdecimal():
            yield module
        module = module.rpartition(".")[0]


def recognized_family(shapes: Mapping[str, tuple[int, ...]]) -> Chains | None:
    """Return what is known of a network of a known family; None of any other network."""
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
        return Chains(groups, True, flow.readings, named)
    return None


def _resnet(flow: ChannelFlow, modules: list[str]) -> int:
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
    if module.endswith(EXCITE):
        return channels
    if module.endswith(SQUEEZE) and channels is not None:
        excite = module.removesuffix(SQUEEZE) + EXCITE
        squeezed = flow.layer(module, channels)
        flow.activate(squeezed, functions.get(module))
        scales = flow.layer(excite, squeezed)
        flow.activate(scales, functions.get(excite))
        channels = flow.add(channels, scales, "product")
        flow.activate(channels, "")
        return channels
    channels = flow.step(module, channels)
    if module in functions or module.startswith("classifier"):
        flow.activate(channels, functions.get(module))
    return channels
