"""Strides, paddings and activations of torchvision's convolutional networks, from module names.

No file contains them. A network whose names or kernels differ from torchvision's has none here. A
program may give the same names other strides, so figures that follow from these must say so.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from typing import Final, NamedTuple, cast

from pydantic import BaseModel

from prune_gui.plain_yaml import load_yaml
from prune_gui.resources import resource

Shapes = Mapping[str, tuple[int, ...]]


class Window(NamedTuple):
    """What a convolution or pooling reads along one dimension of an image, in pixels."""

    kernel: int
    stride: int
    padding: int

    def outputs(self, inputs: int) -> int:
        """Return the number of outputs: the formula of `torch.nn.Conv2d`, without dilation."""
        return (inputs + 2 * self.padding - self.kernel) // self.stride + 1


Windows = tuple[Window, ...]
"""What changes the size of the image from the input to the outputs of a layer, in this order.

Convolutions with a stride of 1 and half of the kernel as padding keep the size."""

HALVING: Final = Window(3, 2, 1)
"""Larger or smaller odd kernels with half of the kernel as padding make equally many outputs."""
WHOLE: Final = Window(1, sys.maxsize, 0)  # an average over the whole image, whatever its size
VGG_POOLING: Final = Window(2, 2, 0)
ALEXNET_POOLING: Final = Window(3, 2, 0)
VGG_SIDE, ALEXNET_SIDE = 7, 6  # the height and width of the image that the classifier reads
ALEXNET: Final[Mapping[int, tuple[int, Windows]]] = {
    0: (11, (Window(11, 4, 2),)),
    3: (5, (ALEXNET_POOLING,)),
    6: (3, (ALEXNET_POOLING,)),
    8: (3, ()),
    10: (3, ()),
}
"""By index: the kernel of each convolution, and what changes the size since the one before."""
FLAT_MODULE: Final = re.compile(r"features\.(\d{1,2})")
SQUEEZE_EXCITE: Final = ("fc1", "fc2")


class BlockFamily(BaseModel):
    """Networks of stages of blocks, as resources/networks/torchvision.yaml describes them."""

    layers: str
    stages: tuple[tuple[int, int], ...]
    others: dict[str, int]
    halvings: int
    classifier: str


@cache
def _families() -> tuple[BlockFamily, ...]:
    text = resource("networks", "torchvision.yaml").read_text(encoding="utf-8")
    content = cast("dict[str, list[object]]", load_yaml(text))
    return tuple(map(BlockFamily.model_validate, content["families"]))


def convolution_windows(weights: Shapes) -> dict[str, Windows]:
    """Return the windows of each convolution of torchvision; `weights` are in natural order."""
    kernels = {path: shape[2] for path, shape in weights.items() if len(shape) > 2}
    if any(weights[path][2:] != (kernel, kernel) for path, kernel in kernels.items()):
        return {}
    linear = {path.partition(".")[0] for path, shape in weights.items() if len(shape) == 2}
    features = [path for path in weights if path.startswith("features.")]
    indices = [match[1] for match in map(FLAT_MODULE.fullmatch, features) if match]
    if indices and len(indices) == len(features):
        return _flat_windows(weights, kernels, set(map(int, indices)))
    for family in _families():
        if linear == {family.classifier} and _is_of(family, kernels):
            return dict(_block_windows(family, kernels))
    return {}


def output_sizes(windows: Mapping[str, Windows], size: int) -> dict[str, int]:
    """Return the height and width of the outputs of each layer; empty if the image is too small."""
    sizes = {}
    for name, path in windows.items():
        outputs = size
        for window in path:
            outputs = window.outputs(outputs)
        if outputs < 1:
            return {}
        sizes[name] = outputs
    return sizes


def _flat_windows(
    weights: Shapes, kernels: Mapping[str, int], indices: set[int]
) -> dict[str, Windows]:
    """Return the windows of VGG or AlexNet.

    The columns of the classifier per channel show the size of the image before it.
    """
    is_alexnet = indices == ALEXNET.keys()
    layers, side = ALEXNET, ALEXNET_SIDE
    if not is_alexnet:
        side = VGG_SIDE
        layers = {
            layer[0]: (3, (VGG_POOLING,) if number and layer == stage[0] else ())
            for number, stage in enumerate(vgg_stages(indices))
            for layer in stage
        }
    if kernels != {f"features.{index}": kernel for index, (kernel, _) in layers.items()}:
        return {}
    columns = next((shape[1] for shape in weights.values() if len(shape) == 2), 0)
    if columns != side**2 * weights[f"features.{max(layers)}"][0]:
        return {}
    windows: Windows = ()
    result = {}
    for index, (_, added) in layers.items():
        windows = result[f"features.{index}"] = windows + added
    return result


def _is_of(family: BlockFamily, kernels: Mapping[str, int]) -> bool:
    """Return whether convolutions with these kernels are those of a family."""
    found: dict[int, set[int]] = {}
    for path, kernel in kernels.items():
        if match := re.fullmatch(family.layers, path):
            found.setdefault(int(match["stage"]), set()).add(kernel)
        elif path not in family.others:
            return False
    has_others = all(kernels.get(path) == kernel for path, kernel in family.others.items())
    larger = {stage: of_stage - {1} for stage, of_stage in found.items()}
    stages = {stage: {kernel} for stage, (kernel, _) in enumerate(family.stages, 1)}
    return has_others and larger == stages


def _block_windows(
    family: BlockFamily, kernels: Mapping[str, int]
) -> Iterator[tuple[str, Windows]]:
    windows, reduced_stage = (HALVING,) * family.halvings, 0
    for path, kernel in kernels.items():
        match = re.fullmatch(family.layers, path)
        stage = int(match["stage"]) if match else 0
        if kernel > 1 and stage > reduced_stage:
            reduced_stage = stage
            if family.stages[stage - 1][1] > 1:
                windows = (*windows, HALVING)
        if path.endswith(SQUEEZE_EXCITE):
            yield path, (WHOLE,)
        else:
            is_first = not match and not reduced_stage
            yield path, (HALVING,) if is_first else windows


RELU: Final = "relu"
VGG_STAGES: Final = ((1, 1, 2, 2, 2), (2, 2, 2, 2, 2), (2, 2, 3, 3, 3), (2, 2, 4, 4, 4))
"""The number of convolutions before each pooling in VGG 11, 13, 16 and 19."""
CLASSIFIERS: Final = ({0, 3, 6}, {1, 4, 6})
"""The indices of the linear layers of VGG and of AlexNet."""
MOBILENET_V2: Final = re.compile(
    r"features\.\d+\.[01]|(?P<block>features\.\d+\.conv)\.(?P<index>\d+)(?:\.[01])?"
)
EFFICIENTNET: Final = re.compile(
    r"features\.\d+\.[01]"
    r"|(?P<block>features\.\d+\.\d+\.block)\.(?P<index>\d+)\.(?:[01]|fc1|fc2)"
)
EFFICIENTNET_BLOCKS: Final = (16, 23, 26, 32)
"""The number of blocks of EfficientNet B0 to B4; others have another epsilon in batch norms."""
SQUEEZE_FUNCTIONS: Final = {"fc1": "silu", "fc2": "sigmoid"}


def activation_functions(modules: Sequence[str]) -> dict[str, str]:
    """Return the function after each layer with its norm, "" for none, by the last known module."""
    features = [path for path in modules if path.startswith("features")]
    if all(path.count(".") == 1 for path in features):
        return dict(_flat(features, modules))
    for names, function in ((MOBILENET_V2, "relu6"), (EFFICIENTNET, "silu")):
        matches = [match for match in map(names.fullmatch, features) if match]
        blocks: dict[str, set[str]] = defaultdict(set)
        for match in matches:
            if match["block"]:
                blocks[match["block"]].add(match["index"])
        is_known = names is MOBILENET_V2 or len(blocks) in EFFICIENTNET_BLOCKS
        if blocks and is_known and len(matches) == len(features):
            return dict(_of_blocks(matches, blocks, function))
    return {}


def vgg_stages(indices: Set[int]) -> list[list[range]]:
    """Return the layers, with their norms, before each pooling of a VGG; none of others."""
    for stages in VGG_STAGES:
        for modules in (1, 2):  # the convolution, and its batch norm
            start, found = 0, []
            for convolutions in stages:
                stop = start + convolutions * (modules + 1)  # after the last ReLU
                found.append([range(i, i + modules) for i in range(start, stop, modules + 1)])
                start = stop + 1  # after the pooling
            if indices == {index for stage in found for layer in stage for index in layer}:
                return found
    return []


def _flat(features: Sequence[str], modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the functions of VGG and AlexNet: each layer but the last is followed by ReLU."""
    indices = {int(path.rpartition(".")[2]) for path in features}
    layers = [layer[-1] for stage in vgg_stages(indices) for layer in stage]
    for last in sorted(indices) if indices == ALEXNET.keys() else layers:
        yield f"features.{last}", RELU
    classifier = {path.partition(".")[2] for path in modules if path.startswith("classifier")}
    for linear in CLASSIFIERS:
        if classifier == set(map(str, linear)):
            yield from ((f"classifier.{index}", RELU) for index in linear - {max(linear)})


def _of_blocks(
    matches: Sequence[re.Match[str]], blocks: dict[str, set[str]], function: str
) -> Iterator[tuple[str, str]]:
    for match in matches:
        path, block = match[0], match["block"]
        parent, _, leaf = path.rpartition(".")
        if leaf in SQUEEZE_FUNCTIONS:
            yield path, SQUEEZE_FUNCTIONS[leaf]
        elif block and leaf != "0" and int(match["index"]) == max(map(int, blocks[block])):
            yield path, ""
        elif leaf == "1" and parent != block:
            yield path, function
